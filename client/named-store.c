/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/format.h"
#include "client/group.h"
#include "client/named-store.h"
#include "client/trace-store.h"
#include "client/unnamed.h"
#include "lib/base/duration.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/local/bundle.h"
#include "lib/perfdata/format.h"
#include "lib/store/format.h"

bool named_store_is_path(const char *name)
{
	return strchr(name, '/') || strncmp(name, GROUP_PREFIX, strlen(GROUP_PREFIX)) == 0 || access(name, F_OK) == 0;
}

/*
 * Opens a file, which may be a store, or the file "store" of a directory. Returns a descriptor, or negative errno:
 * -ENOENT for a directory without a store.
 */
static int open_store_file(const char *name, bool *ret_directory)
{
	_cleanup_close_ int at = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (at < 0 || fstat(at, &st) < 0)
		return -errno;
	*ret_directory = S_ISDIR(st.st_mode);
	if (S_ISDIR(st.st_mode)) {
		int fd = openat(at, "store", O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		return fd < 0 ? -errno : fd;
	}
	return TAKE_FD(at);
}

static int report_unknown_file(const char *name)
{
	client_error(
	    "%s is neither a store nor a trace (a perf.data file or a snapshot directory); bare trace requires "
	    "--regs FILE",
	    esc(name));
	return STATUS_FAILED;
}

static bool is_perf_data(uint64_t magic)
{
	return le64toh(magic) == PD_MAGIC || le64toh(magic) == __builtin_bswap64(PD_MAGIC);
}

bool named_store_reads(const struct client *c, int fd)
{
	struct {
		uint64_t magic, size;
	} head;
	uint8_t features[PD_FEAT_AUXTRACE / 8 + 1];

	if (trace_options_given(&c->trace))
		return true;
	if (io_pread(fd, &head, sizeof(head), 0) != sizeof(head))
		return false;
	if (le64toh(head.magic) == STORE_MAGIC || bundle_is(fd))
		return true;
	/*
	 * If perf wrote the perf.data to a file, its header shows whether it has trace; of one written to a pipe, the
	 * decode finds out.
	 */
	if (le64toh(head.magic) == PD_MAGIC && le64toh(head.size) == PD_HEADER_SIZE &&
	    io_pread(fd, features, sizeof(features), PD_HEADER_FEATURES) == sizeof(features))
		return features[PD_FEAT_AUXTRACE / 8] & 1 << PD_FEAT_AUXTRACE % 8;
	return is_perf_data(head.magic);
}

/* Returns an exit status, or -ENOENT: the bundle has a trace. */
static int open_bundled_store(const char *name, int fd, int *ret)
{
	int store = bundle_open(fd, "store");

	if (store == -ENOENT)
		return store;
	if (store < 0) {
		client_error("cannot read the bundle %s: %s", esc(name), strerror(-store));
		return STATUS_FAILED;
	}
	*ret = store;
	return STATUS_OK;
}

/* Opens the store of a file or directory, or decodes it if it is a trace. */
static int open_named_file(struct client *c, const char *name, struct named_store *ret)
{
	bool directory = false;
	_cleanup_close_ int fd = open_store_file(name, &directory);
	uint64_t magic = 0;
	int rc;

	/* If the user gives options of a decode, a snapshot directory is decoded again. */
	if (directory && (fd == -ENOENT || trace_options_given(&c->trace)))
		return trace_store_open(c, name, &ret->fd, &ret->store);
	if (fd < 0) {
		client_error("cannot open %s: %s", esc(name), strerror(-fd));
		return fd == -ENOENT ? STATUS_NOT_FOUND : fd == -EACCES ? STATUS_DENIED : STATUS_FAILED;
	}
	if (io_pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && le64toh(magic) == STORE_MAGIC) {
		if (trace_options_given(&c->trace))
			return client_usage(c, "%s is a store: --images, --buffer and --regs apply to traces",
					    esc(name));
		ret->fd = TAKE_FD(fd);
		return STATUS_OK;
	}
	if (bundle_is(fd) && (rc = open_bundled_store(name, fd, &ret->fd)) != -ENOENT)
		return rc;
	if (!c->trace.regs && !is_perf_data(magic) && !bundle_is(fd))
		return report_unknown_file(name);
	return trace_store_open(c, name, &ret->fd, &ret->store);
}

int named_store_check_options(struct client *c, const char *name)
{
	return trace_options_given(&c->trace)
		   ? client_usage(c, "%s is a snapshot of the daemon: --images, --buffer and --regs apply to files",
				  esc(name))
		   : 0;
}

static int open_snapshot_store(struct client *c, const char *name, struct named_store *ret)
{
	int rc = client_connect(c);

	if (rc == 0)
		rc = client_find(c, name, &ret->snapshot);
	if (rc != 0)
		return rc;
	rc = csight_open_file(c->daemon, csight_text(ret->snapshot, "id"), "store", &ret->fd);
	return rc < 0 ? client_daemon_failed(c, rc) : STATUS_OK;
}

/* Opens the store in fd in place of the present one. */
static int replace_store(struct named_store *ret, int *fd)
{
	struct store *store;
	int rc = store_open(*fd, &store);

	if (rc < 0)
		return rc;
	store_close(ret->store);
	ret->store = store;
	close(ret->fd);
	ret->fd = TAKE_FD(*fd);
	return 0;
}

/* Copies the intact part of a truncated or damaged store into a temporary store, and opens that. */
static int recover_store(const char *name, struct named_store *ret)
{
	_cleanup_close_ int fd = io_temporary();
	uint64_t end = 0;
	struct stat st;
	int rc;

	if (fd < 0 || fstat(ret->fd, &st) < 0)
		return -errno;
	rc = store_recover(ret->fd, fd, &end);
	if (rc == 0)
		rc = replace_store(ret, &fd);
	if (rc < 0)
		return rc;
	client_error("the store of %s is truncated or damaged: using the first %ju of %ju bytes", esc(name),
		     (uintmax_t)end, (uintmax_t)st.st_size);
	return 0;
}

/* Replaces the store by another one that is made of it, such as its physical view. */
static int make_copy(struct named_store *ret, int (*make)(const struct store *s, int to))
{
	_cleanup_close_ int fd = io_temporary();
	int rc = fd < 0 ? fd : make(ret->store, fd);

	return rc < 0 ? rc : replace_store(ret, &fd);
}

/* Replaces the store by one with the names that can be found now. */
static void name_functions(struct client *c, const char *name, struct named_store *s)
{
	_cleanup_close_ int fd = unnamed_rename(c, name, s->fd, s->store);

	if (fd >= 0)
		replace_store(s, &fd);
}

static int report_version(const char *name, uint32_t version)
{
	client_error("cannot read the store of %s: its format has version %u, and this csight reads versions %d to %d: "
		     "use %s, or decode the trace again",
		     esc(name), version, STORE_OLDEST, STORE_VERSION,
		     version > STORE_VERSION ? "a newer csight" : "an older csight");
	return STATUS_FAILED;
}

/* Determines the version of the store, before it is replaced, and prints what an older one lacks. */
static void note_version(const char *name, struct named_store *s)
{
	if (store_read_version(s->fd, &s->version) < 0 || s->version == STORE_VERSION)
		return;
	client_error(
	    "the store of %s has version %u of the format, and this csight writes version %d: the time in which "
	    "threads did not run is unknown in it, tail calls replace their callers, and each piece of an "
	    "inlined function counts as a call; a new decode of the trace has them",
	    esc(name), s->version, STORE_VERSION);
}

int named_store_read(struct client *c, const char *name, struct named_store *ret)
{
	struct stat st;
	int rc = ret->store ? 0 : store_open(ret->fd, &ret->store);

	/* csightd empties the files of a snapshot that it removes. */
	if (rc == -EBADMSG && ret->snapshot && fstat(ret->fd, &st) == 0 && st.st_size == 0)
		rc = -ESTALE;
	if (rc == 0 || rc == -ENODATA)
		note_version(name, ret);
	if (rc == -ENODATA)
		rc = recover_store(name, ret);
	if (rc == 0)
		name_functions(c, name, ret);
	if (rc == 0 && ret->redacted)
		rc = make_copy(ret, store_redact);
	if (rc == 0 && ret->physical)
		rc = make_copy(ret, store_physical);
	if (rc == 0 && !ret->suffixes)
		rc = store_merge_clones(ret->store);
	if (rc == 0 && !c->json)
		ret->names = named_store_names(c, ret->store, NULL);
	if (rc == 0)
		return STATUS_OK;
	if (rc == -EPROTONOSUPPORT && store_read_version(ret->fd, &ret->version) == 0)
		return report_version(name, ret->version);
	client_error("cannot read the store of %s: %s", esc(name),
		     rc == -EBADMSG   ? "it is not a store (csight decode --to store -o FILE makes one from a trace)"
		     : rc == -ENODATA ? "it is truncated or damaged so early that nothing is usable"
				      : client_read_problem(-rc));
	return STATUS_FAILED;
}

int named_store_open(struct client *c, const char *name, struct named_store *ret)
{
	bool group = strncmp(name, GROUP_PREFIX, strlen(GROUP_PREFIX)) == 0;
	int rc;

	if (!group && named_store_is_path(name)) {
		rc = open_named_file(c, name, ret);
	} else {
		rc = named_store_check_options(c, name);
		if (rc == 0)
			rc = group ? group_open_store(c, name, &ret->fd) : open_snapshot_store(c, name, ret);
	}
	return rc == STATUS_OK ? named_store_read(c, name, ret) : rc;
}

struct names *named_store_names(const struct client *c, const struct store *a, const struct store *b)
{
	struct names *n = names_new(c->full_names);

	if (n && names_add_store(n, a) == 0 && (!b || names_add_store(n, b) == 0) && names_finish(n) == 0)
		return n;
	return names_free(n);
}

const char *named_store_name(const struct named_store *s, const struct store_function *f)
{
	return names_short(s->names, f->name);
}

void named_store_close(struct named_store *s)
{
	names_free(s->names);
	store_close(s->store);
	closep(&s->fd);
	csight_object_free(s->snapshot);
}

uint64_t named_store_since_start(const struct store *s, uint64_t time)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < store_threads(s); i++)
		if (store_thread(s, i)->events)
			first = MIN(first, store_thread(s, i)->first);
	return time - MIN(time, first);
}

bool named_store_has_waits(const struct named_store *s)
{
	return s->version >= STORE_VERSION && store_has_waits(s->store);
}

bool named_store_is_emulated(const struct store *s)
{
	const char *source = store_meta(s, "source");

	return source && strcmp(source, "emu") == 0;
}

/* Returns the largest error bound of all threads; 0: unknown. */
static uint64_t find_time_bounds(const struct store *s, uint64_t *ret_first, uint64_t *ret_last)
{
	uint64_t bound = 0;

	*ret_first = UINT64_MAX;
	*ret_last = 0;
	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		if (!t->events)
			continue;
		*ret_first = MIN(*ret_first, t->first);
		*ret_last = MAX(*ret_last, t->last);
		bound = MAX(bound, t->bound);
	}
	return bound;
}

void named_store_print_times(FILE *to, const struct store *s)
{
	const char *clock = store_meta(s, "clock");
	uint64_t first, last, bound = find_time_bounds(s, &first, &last);
	char error[DURATION_ERROR_SIZE];

	if (first > last)
		return;
	if (clock && strcmp(clock, "counter") == 0) {
		fprintf(to,
			"from tick %ju of the trace's counter, for %ju ticks: their length is unknown, and they are "
			"printed as ns\n",
			(uintmax_t)first, (uintmax_t)(last - first));
		return;
	}
	if (store_realtime(s, first))
		fprintf(to, "from %s", format_time_exact(store_realtime(s, first)));
	else
		fprintf(to, "from %ju ns%s", (uintmax_t)first,
			!clock                          ? ""
			: strcmp(clock, "perf") == 0    ? " of the perf clock"
			: strcmp(clock, "virtual") == 0 ? " of the emulator's virtual clock"
							: " of CLOCK_MONOTONIC");
	fprintf(to, ", for %s", format_duration_within(last - first, bound == UINT64_MAX ? bound : 0));
	if (store_meta_number(s, "window"))
		fprintf(to, "; of the last %s before it was taken", format_duration(store_meta_number(s, "window")));
	if (store_meta_number(s, "unrecorded"))
		fprintf(to, "; it ran for %s before it was recorded",
			format_duration(store_meta_number(s, "unrecorded")));
	fprintf(to, "%s\n", duration_error_text(bound, error));
}

void named_store_add_times(const struct store *s, json_object *to)
{
	const char *clock = store_meta(s, "clock");
	uint64_t first, last, bound = find_time_bounds(s, &first, &last);

	if (clock)
		json_add_bytes(to, "clock", clock);
	if (first > last)
		return;
	json_add_u64(to, "first", first);
	json_add_u64(to, "last", last);
	if (store_realtime(s, first))
		json_add_u64(to, "realtime", store_realtime(s, first));
	if (store_meta_number(s, "window"))
		json_add_u64(to, "window", store_meta_number(s, "window"));
	if (store_meta_number(s, "unrecorded"))
		json_add_u64(to, "unrecorded", store_meta_number(s, "unrecorded"));
	if (bound)
		json_add_u64(to, "bound", bound);
}
