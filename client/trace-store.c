/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/debuginfod.h"
#include "client/decode-cache.h"
#include "client/format.h"
#include "client/local-decode.h"
#include "client/served-files.h"
#include "client/trace-identity.h"
#include "client/trace-store.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/store/format.h"

enum { REGS_MAX = 1 << 20, MISSING_SECONDS = 600 };

struct trace_store {
	struct client *client;
	struct local_decode decode;
	struct decode_cache cache;
	char key[DIGEST_TEXT];
	char identity[DIGEST_TEXT]; /* of the input's files, before they were read */
	struct decode_cache_entry entry;
	json_object *about;
};

static void trace_store_done(struct trace_store *t)
{
	decode_cache_entry_done(&t->cache, &t->entry);
	decode_cache_close(&t->cache);
	local_decode_done(&t->decode);
	json_object_put(t->about);
}

/* Prints once why traces are decoded each time. */
static void report_cache(const char *path, int rc)
{
	static bool reported;

	if (reported)
		return;
	reported = true;
	if (rc == -EINVAL)
		client_error("CSIGHT_CACHE_MAX: '%s' is not a size such as 500M; decoding without a cache",
			     esc(getenv("CSIGHT_CACHE_MAX")));
	else if (rc == -ENOENT)
		client_error("neither XDG_CACHE_HOME nor HOME is an absolute path; decoding without a cache");
	else
		client_error("cannot use the cache %s: %s; decoding without it", esc(path),
			     rc == -EPERM ? "it belongs to another user, or others may write to it" : strerror(-rc));
}

static int add_regs(struct digest *d, const char *path)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = io_read_file(AT_FDCWD, path, REGS_MAX, &text, &size);

	if (rc < 0)
		return rc;
	digest_add(d, &size, sizeof(size));
	digest_add(d, text, size);
	return 0;
}

/* A decoder of another build may have another result. */
static int add_decoder(struct digest *d)
{
	char path[PATH_MAX], text[128];
	struct stat st;
	int rc = path_helper("csight-decode", PKGLIBEXECDIR, path, sizeof(path));

	if (rc == 0 && stat(path, &st) < 0)
		rc = -errno;
	if (rc < 0)
		return rc;
	snprintf(text, sizeof(text), "%d %jx %jx %jx %jx.%lx", STORE_VERSION, (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino, (uintmax_t)st.st_size, (uintmax_t)st.st_mtim.tv_sec,
		 (unsigned long)st.st_mtim.tv_nsec);
	digest_add_text(d, text);
	return 0;
}

static void add_options(struct digest *d, const struct trace_options *o)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	digest_add_text(d, o->buffer ? "buffer" : "");
	digest_add_text(d, o->buffer ? o->buffer : "");
	digest_add_text(d, urls ? urls : "");
	for (size_t i = 0; i < o->n_dirs; i++) {
		_cleanup_free_ char *whole = realpath(o->dirs[i], NULL);

		digest_add_text(d, whole ? whole : o->dirs[i]);
	}
}

/* Determines the key. The contents are only read if the index does not have their digest. */
static int make_key(struct trace_store *t)
{
	char contents[DIGEST_TEXT], after[DIGEST_TEXT];
	struct digest d;
	bool settled, still;
	int rc = trace_identity_files(&t->decode, t->identity, &settled);

	if (rc < 0)
		return rc;
	rc = decode_cache_contents(&t->cache, t->identity, contents);
	if (rc < 0) {
		rc = trace_identity_contents(&t->decode, contents);
		if (rc == 0)
			rc = trace_identity_files(&t->decode, after, &still);
		if (rc == 0 && strcmp(after, t->identity) != 0)
			rc = -EBUSY;
		if (rc == 0 && settled)
			decode_cache_set_contents(&t->cache, t->identity, contents);
	}
	if (rc < 0)
		return rc;
	digest_begin(&d);
	digest_add_text(&d, contents);
	digest_add_text(&d, t->decode.file.type);
	rc = t->decode.file.regs ? add_regs(&d, t->decode.file.regs) : 0;
	if (rc == 0)
		rc = add_decoder(&d);
	if (rc < 0)
		return rc;
	add_options(&d, &t->client->trace);
	digest_end(&d, t->key);
	return 0;
}

/* True if a decode would read the same files besides the input as the one whose store is kept. */
static bool files_unchanged(struct trace_store *t)
{
	json_object *served;
	int64_t time = 0;

	if (json_get(t->about, "served", json_type_array, &served) < 0 || json_get_i64(t->about, "time", &time) < 0)
		return false;
	/* Like debuginfod, asks the servers again after some time for files that they lacked. */
	if (debuginfod_wanted() && served_files_any_missing(served) &&
	    llabs((int64_t)(now_ns(CLOCK_REALTIME) / 1000000000u) - time) > MISSING_SECONDS)
		return false;
	return served_files_unchanged(served, &t->decode.file.finder);
}

/* Returns true with the store that the cache has. */
static bool find_in_cache(struct trace_store *t, int *ret_fd, struct store **ret)
{
	_cleanup_close_ int fd = -1;
	int rc = decode_cache_find(&t->cache, t->key, &fd, &t->about);

	if (rc == -ENOENT)
		return false;
	if (rc == 0 && files_unchanged(t) && store_open(fd, ret) == 0) {
		*ret_fd = TAKE_FD(fd);
		return true;
	}
	decode_cache_remove(&t->cache, t->key);
	json_object_put(t->about);
	t->about = NULL;
	return false;
}

/* Copies a member of the result, an array. */
static void keep_member(json_object *about, json_object *result, const char *name)
{
	json_object *list;

	if (result && json_get(result, name, json_type_array, &list) == 0)
		json_add(about, name, json_object_get(list));
}

static int decode(struct trace_store *t)
{
	int rc;

	t->about = json_object_new_object();
	t->decode.served = json_object_new_array();
	if (t->cache.dir >= 0 && decode_cache_begin(&t->cache, &t->entry) < 0)
		decode_cache_close(&t->cache);
	if (t->entry.store < 0)
		t->entry.store = io_temporary();
	if (t->entry.store < 0 || !t->decode.served) {
		client_error("cannot create a temporary file: %s", strerror(t->entry.store < 0 ? errno : ENOMEM));
		json_object_put(t->decode.served);
		t->decode.served = NULL;
		return STATUS_FAILED;
	}
	rc = local_decode_to(&t->decode, "store", t->entry.store);
	json_add(t->about, "served", TAKE_PTR(t->decode.served));
	keep_member(t->about, t->decode.file.result, "images");
	keep_member(t->about, t->decode.file.result, "warnings");
	return rc;
}

/* Adds the store to the cache, unless the input changed while it was read. */
static void keep_store(struct trace_store *t, const char *name)
{
	char identity[DIGEST_TEXT];
	struct stat st = { 0 };
	bool settled;
	int rc;

	if (t->cache.dir < 0 || trace_identity_files(&t->decode, identity, &settled) < 0 ||
	    strcmp(identity, t->identity) != 0)
		return;
	json_add_u64(t->about, "time", now_ns(CLOCK_REALTIME) / 1000000000u);
	rc = decode_cache_commit(&t->cache, &t->entry, t->key, t->about);
	if (rc == -EFBIG && fstat(t->entry.store, &st) == 0)
		client_error("the decode of %s has %s, more than the cache may hold (%s): the next use decodes it "
			     "again; CSIGHT_CACHE_MAX sets the limit",
			     esc(name), format_size((uint64_t)st.st_size), format_size(t->cache.max));
	else if (rc < 0)
		client_error("cannot keep the decode of %s: %s", esc(name), strerror(-rc));
}

static int open_store(struct trace_store *t, const char *name, int *ret_fd, struct store **ret)
{
	int rc = decode(t);

	if (rc != STATUS_OK)
		return rc;
	keep_store(t, name);
	rc = store_open(t->entry.store, ret);
	if (rc < 0) {
		client_error("cannot read the decode of %s: %s", esc(name), strerror(-rc));
		return STATUS_FAILED;
	}
	*ret_fd = TAKE_FD(t->entry.store);
	return STATUS_OK;
}

int trace_store_open(struct client *c, const char *name, int *ret_fd, struct store **ret)
{
	_cleanup_(trace_store_done) struct trace_store t = { .client = c,
							     .decode = { LOCAL_DECODE_NONE, .client = c },
							     .cache = DECODE_CACHE_NONE,
							     .entry = DECODE_CACHE_ENTRY_NONE };
	char path[PATH_MAX];
	int rc;

	local_decode_set_options(&t.decode, &c->trace);
	rc = local_decode_open_input(&t.decode, name);
	if (rc != STATUS_OK)
		return rc;
	/* The files of a bundle have no identity: they are copied for each decode. */
	rc = t.decode.file.finder.bundle ? 0 : decode_cache_open(&t.cache, path);
	if (rc < 0)
		report_cache(path, rc);
	/* An input that cannot be identified is decoded each time; the decoder reports what is wrong with it. */
	if (t.cache.dir >= 0 && make_key(&t) < 0)
		decode_cache_close(&t.cache);
	rc = t.cache.dir >= 0 && find_in_cache(&t, ret_fd, ret) ? STATUS_OK : open_store(&t, name, ret_fd, ret);
	if (rc == STATUS_OK && !c->quiet) {
		local_decode_print_missing(t.about);
		local_decode_print_warnings(t.about);
	}
	return rc;
}
