/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/capture/perf/perf-event.h"
#include "daemon/capture/perf/watch-places.h"
#include "daemon/capture/process/address-space.h"
#include "daemon/capture/process/proc-file.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

/* Above are kernel addresses, where a breakpoint would be inserted with this daemon's rights. */
#define USER_END (1ull << 55)

struct mapped_code {
	uint64_t start, end, offset, inode;
	uint32_t major, minor;
};

struct mapped_codes {
	struct mapped_code *list;
	size_t n, room;
};

void watch_specs_done(struct watch_specs *s)
{
	free(s->list);
	*s = (struct watch_specs){ 0 };
}

static int add_spec(struct watch_specs *s, const struct watch_spec *spec)
{
	int rc = array_reserve(s->list, s->n, &s->room);

	if (rc == 0)
		s->list[s->n++] = *spec;
	return rc;
}

/* Reads the executable mappings. */
static int read_maps(pid_t pid, struct mapped_codes *ret)
{
	_cleanup_fclose_ FILE *maps = NULL;
	_cleanup_free_ char *line = NULL;
	char path[64];
	size_t room = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	while (getline(&line, &room, maps) > 0) {
		struct mapped_code m;
		char prot[5];

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64, &m.start,
			   &m.end, prot, &m.offset, &m.major, &m.minor, &m.inode) != 7 ||
		    prot[2] != 'x' || m.end > USER_END)
			continue;
		if (array_reserve(ret->list, ret->n, &ret->room) < 0)
			return -ENOMEM;
		ret->list[ret->n++] = m;
	}
	return 0;
}

/* A file of a file system in user space answers no question here: what the kernel knows must do. */
static int check_file(pid_t pid, const struct mapped_code *m, struct reason *why)
{
	struct statx st;
	char path[96];

	if (!m->inode)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, m->start, m->end);
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_MODE | STATX_INO, &st) < 0)
		return reason_set(why, -errno, "reading the mode of a file that the process has mapped: %s",
				  strerror(errno));
	if (st.stx_ino != m->inode || st.stx_mode & (S_ISUID | S_ISGID))
		return reason_set(why, -EACCES,
				  "the code is of a program that runs with other rights than its caller's");
	return 0;
}

/* True if the mapping holds a place of the watch; *ret: its address. */
static bool holds(const struct mapped_code *m, const struct emu_watch *w, uint64_t place, uint64_t *ret)
{
	if (w->inode && (m->inode != w->inode || m->major != w->major || m->minor != w->minor))
		return false;
	*ret = w->inode ? m->start + (place - m->offset) : place;
	return w->inode ? place >= m->offset && place - m->offset < m->end - m->start
			: place >= m->start && place < m->end;
}

struct place_search {
	pid_t pid;
	struct mapped_codes maps;
	struct watch_specs *ret;
	struct reason *why;
};

static int add_place(struct place_search *s, const struct emu_watch *w, uint64_t place, struct watch_spec spec)
{
	bool found = false;
	int rc = 0;

	for (size_t i = 0; i < s->maps.n && rc == 0; i++) {
		if (!holds(&s->maps.list[i], w, place, &spec.config))
			continue;
		found = true;
		spec.breakpoint = true;
		rc = spec.config % 4 ? reason_set(s->why, -EINVAL, "0x%" PRIx64 " is not the address of an instruction",
						  spec.config)
				     : check_file(s->pid, &s->maps.list[i], s->why);
		if (rc == 0)
			rc = add_spec(s->ret, &spec);
	}
	if (rc == 0 && !found)
		return reason_set(s->why, -ENOENT, "the process has mapped no code at %s 0x%" PRIx64 "%s",
				  w->inode ? "offset" : "address", place, w->inode ? " of that file" : "");
	return rc;
}

/* Where each call passes once. */
static uint64_t entry_of(const struct emu_watch *w, const struct capture_watch_ends *ends)
{
	return ends->go ? ends->go : w->place;
}

static int add_function(struct place_search *s, const struct emu_watch *w, const struct capture_watch_ends *ends,
			uint32_t slot)
{
	struct watch_spec spec = { .slot = slot, .role = WATCH_ENTER, .go = w->kind == EMU_WATCH_GO_CALL };
	int rc;

	if (!ends->n)
		return reason_set(s->why, -EOPNOTSUPP,
				  "the instructions at which the function ends are unknown, and trace units cannot "
				  "watch how long it takes without them");
	rc = add_place(s, w, entry_of(w, ends), spec);
	spec.role = WATCH_LEAVE;
	for (unsigned i = 0; i < ends->n && rc == 0; i++)
		rc = add_place(s, w, ends->places[i], spec);
	return rc;
}

static int add_tracepoint(struct place_search *s, struct watch_spec spec, const char *name)
{
	int rc = perf_event_tracepoint(name, &spec.config, s->why);

	return rc < 0 ? rc : add_spec(s->ret, &spec);
}

static int add_syscall(struct place_search *s, const struct emu_watch *w, uint32_t slot)
{
	struct watch_spec spec = { .slot = slot, .role = WATCH_ENTER };
	int rc;

	snprintf(spec.filter, sizeof(spec.filter), "id == %" PRIu64, w->place);
	rc = add_tracepoint(s, spec, "raw_syscalls/sys_enter");
	spec.role = WATCH_LEAVE;
	return rc < 0 ? rc : add_tracepoint(s, spec, "raw_syscalls/sys_exit");
}

/* True if the default action of the signal does not end the program. */
static bool survives(uint64_t number)
{
	return number == SIGCHLD || number == SIGCONT || number == SIGWINCH || number == SIGURG || number == SIGSTOP ||
	       number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* The tracepoint also reports signals that are ignored (sa_handler 1), or have no effect by default (0). */
static int add_signal(struct place_search *s, const struct emu_watch *w, uint32_t slot)
{
	struct watch_spec spec = { .slot = slot, .role = WATCH_REACHED };
	int rc = 0;

	/* A process that ends has each of its threads die of SIGKILL, as the tracepoint reports it. */
	if (w->place == SIGKILL)
		return reason_set(s->why, -EOPNOTSUPP,
				  "the kernel does not report a SIGKILL apart from how threads end; use --crash");
	snprintf(spec.filter, sizeof(spec.filter), "sig == %" PRIu64 " && sa_handler > 1", w->place);
	rc = add_tracepoint(s, spec, "signal/signal_deliver");
	if (rc < 0 || survives(w->place))
		return rc;
	spec.role = WATCH_ENDS;
	snprintf(spec.filter, sizeof(spec.filter), "sig == %" PRIu64 " && sa_handler == 0", w->place);
	return add_tracepoint(s, spec, "signal/signal_deliver");
}

/* Adds what distinguishes hits from those that are reported again. Without tracepoints, these count twice. */
static int add_handlers(struct place_search *s, uint32_t slot)
{
	struct watch_spec spec = { .slot = slot, .role = WATCH_HANDLER, .filter = "sa_handler > 1" };
	struct reason ignored = { "" }, *why = s->why;
	int rc;

	s->why = &ignored;
	rc = add_tracepoint(s, spec, "signal/signal_deliver");
	s->why = why;
	return rc == -EOPNOTSUPP ? 0 : rc;
}

static int add_watch(struct place_search *s, const struct capture_watch_list *list, uint32_t slot)
{
	const struct emu_watch *w = &list->watches[slot];
	int rc;

	/* The registers at its beginning are those of a call. */
	if (list->ends[slot].loops)
		return reason_set(s->why, -EOPNOTSUPP,
				  "the function jumps to its own beginning, which a breakpoint cannot distinguish from "
				  "a call; use --address");
	switch (w->kind) {
	case EMU_WATCH_POINT:
		rc = add_place(s, w, entry_of(w, &list->ends[slot]),
			       (struct watch_spec){ .slot = slot, .role = WATCH_REACHED });
		return rc < 0 ? rc : add_handlers(s, slot);
	case EMU_WATCH_CALL:
	case EMU_WATCH_GO_CALL:
		rc = add_function(s, w, &list->ends[slot], slot);
		return rc < 0 ? rc : add_handlers(s, slot);
	case EMU_WATCH_SYSCALL:
		return add_syscall(s, w, slot);
	case EMU_WATCH_SIGNAL:
		return add_signal(s, w, slot);
	case EMU_WATCH_OFF_CPU:
		return add_spec(s->ret, &(struct watch_spec){ .slot = slot, .role = WATCH_SWITCH });
	default:
		return 0;
	}
}

/* A search, which may be given up. */
struct place_call {
	pid_t pid;
	struct capture_watch_list list;
	uint32_t slot;
	struct watch_specs specs;
	struct reason why;
	int rc;
};

static void run_search(void *data)
{
	struct place_call *c = data;
	struct place_search s = { .pid = c->pid, .ret = &c->specs, .why = &c->why };

	c->rc = read_maps(c->pid, &s.maps);
	if (c->rc == 0)
		c->rc = add_watch(&s, &c->list, c->slot);
	free(s.maps.list);
}

static void drop_search(void *data)
{
	struct place_call *c = data;

	watch_specs_done(&c->specs);
	free(c);
}

int watch_places_find(const struct process_of *of, const struct capture_watch_list *list, uint32_t slot,
		      struct watch_specs *ret, struct reason *why)
{
	struct place_call *c = calloc(1, sizeof(*c));
	const struct address_space_call call = { run_search, drop_search, c };
	int rc;

	if (!c)
		return -ENOMEM;
	*c = (struct place_call){ .pid = of->pid, .list = *list, .slot = slot, .specs = *ret };
	*ret = (struct watch_specs){ 0 };
	rc = address_space_call((struct address_space_of){ of->account, of->pid }, &call);
	if (rc == -ETIMEDOUT)
		return address_space_explain(rc, why);
	if (rc == 0) {
		rc = c->rc;
		*why = c->why;
		*ret = c->specs;
		c->specs = (struct watch_specs){ 0 };
	} else {
		rc = address_space_explain(rc, why);
	}
	drop_search(c);
	return rc;
}
