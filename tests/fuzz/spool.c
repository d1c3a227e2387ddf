/* SPDX-License-Identifier: MIT */
/*
 * daemon/spool.c, spool-room.c, directory-tree.c, snapshot.c: a directory of the spool, as csightd finds it when it
 * starts and while it runs. The input is a list of texts, each terminated by NUL: the name of a snapshot, its
 * snapshot.json and its state.json, and then commands (the table below). After each command the books balance, nothing
 * outside of the spool has changed, and what is listed is well-formed. At the end the state of the first snapshot is
 * written again, and reads as the same.
 */
#include "config.h"

#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/directory-tree.h"
#include "daemon/spool.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/fuzz/fuzz.h"

/* Bytes that one file or one claim has at most: csightd claims no more. */
#define BYTES_MAX (1ull << 40)

/* What is outside of the spool: a valid snapshot.json. */
#define LINKED "{\"pid\":7,\"uid\":1,\"gid\":1,\"name\":\"p\",\"time\":5,\"blind\":6}"

enum { CLAIMS = 8, NUMBERS = 3, NAME_SIZE = 200, COMMANDS_MAX = 64, SNAPSHOTS_MAX = 16 };

static struct event_base *base;
static struct workqueue *queue;
/* top/spool is the spool, top/outside is where links of it lead. */
static char top_path[] = "/dev/shm/csight-fuzz-XXXXXX", spool_dir[sizeof(top_path) + 8];
static int top;

/* What one input has. */
static struct {
	struct ledger *ledger;
	struct spool *spool; /* while it is open */
	uint64_t total, own, reserve;
	uint64_t keep_free, max_age;
	int at; /* the directory that commands are about */
	struct spool_claim claims[CLAIMS];
	unsigned made;
	unsigned works;   /* removals and changes of kept snapshots that are not done */
	bool spares_kept; /* what happens now removes no snapshot that is kept */
} the;

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ret->most[k] = k == LEDGER_SPOOL ? the.own : LEDGER_UNLIMITED;
}

static void on_changed(void *data, const struct snapshot *s, enum snapshot_change change)
{
	if (change != SNAPSHOT_REMOVED)
		return;
	fuzz_require(s->removed && !spool_find(the.spool, s->id));
	fuzz_require(!the.spares_kept || !s->kept);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return ftw->level ? remove(path) : 0;
}

static void remove_dir(void)
{
	nftw(top_path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	rmdir(top_path);
}

static void write_text(int at, const char *name, const char *text)
{
	_cleanup_close_ int fd =
	    openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd >= 0)
		fuzz_require(io_write(fd, text, strlen(text)) == 0);
}

static void begin(void)
{
	if (base)
		return;
	base = event_base_new();
	log_setup("fuzz", LOG_EMERG);
	fuzz_require(base && mkdtemp(top_path) && workqueue_new(base, "spool", 0, &queue) == 0);
	atexit(remove_dir);
	snprintf(spool_dir, sizeof(spool_dir), "%s/spool", top_path);
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fuzz_require(top >= 0 && mkdirat(top, "outside", 0700) == 0);
	write_text(top, "outside/snapshot.json", LINKED);
}

/* What links lead to is as it was. */
static void check_outside(void)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t size;

	fuzz_require(io_read_file(top, "outside/snapshot.json", sizeof(LINKED), &text, &size) == 0);
	fuzz_require(strcmp(text, LINKED) == 0);
	fuzz_require(fstatat(top, "outside/state.json", &st, 0) < 0 && fstatat(top, "outside/kept", &st, 0) < 0);
}

static void on_barrier(struct work *w)
{
	the.works--;
}

static void run_barrier(struct work *w)
{
}

/* Waits until all works of the queue are done. */
static void drain(void)
{
	struct work barrier = { .run = run_barrier, .done = on_barrier };

	the.works++;
	workqueue_submit(queue, &barrier);
	while (the.works)
		event_base_loop(base, EVLOOP_ONCE);
}

/* All that is charged belongs to a snapshot of the list, or to a claim. */
static void check_books(void)
{
	uint64_t bytes = 0, pending = 0, unwritten = 0, waiting = 0, stored = 0, last = 0, number = 0;
	const struct snapshot *s;

	if (!the.spool)
		return;
	TAILQ_FOREACH (s, spool_list(the.spool), link) {
		fuzz_require(s->name && strlen(s->id) < SNAPSHOT_ID_SIZE && s->time >= last && s->number > number);
		fuzz_require(s->state == SNAPSHOT_QUEUED || s->state == SNAPSHOT_READY || s->state == SNAPSHOT_RAW);
		fuzz_require(!s->removed && s->uid != (uid_t)-1 && s->owner != (uid_t)-1 && s->gid != (gid_t)-1);
		fuzz_require(s->pid > 0 && json_array_size(s->missing) <= SNAPSHOT_MISSING_MAX + 1);
		bytes += s->claim.bytes.amount;
		pending += s->claim.pending.amount;
		unwritten += s->claim.unwritten;
		waiting += s->waiting.amount;
		stored += s->stored.amount;
		last = s->time;
		number = s->number;
	}
	for (size_t i = 0; i < CLAIMS; i++) {
		bytes += the.claims[i].bytes.amount;
		pending += the.claims[i].pending.amount;
		unwritten += the.claims[i].unwritten;
	}
	fuzz_require(ledger_sum(the.ledger, LEDGER_SPOOL) == bytes &&
		     ledger_sum(the.ledger, LEDGER_PENDING) == pending);
	fuzz_require(ledger_sum(the.ledger, LEDGER_STORED) == stored);
	fuzz_require(ledger_sum(the.ledger, LEDGER_WAITING) == waiting);
	fuzz_require(spool_unwritten(the.spool) == unwritten && spool_leaving(the.spool, (uid_t)-1) == 0);
}

static void on_freed(void *data)
{
	fuzz_require(data == &the);
}

static int open_spool(struct spool **ret)
{
	return spool_new(&(struct spool_options){ .path = spool_dir,
						  .keep_free = the.keep_free,
						  .max_age = the.max_age,
						  .queue = queue,
						  .ledger = the.ledger,
						  .base = base,
						  .changed = on_changed },
			 ret);
}

/* Nothing incomplete is left that can be removed. */
static void check_incomplete(void)
{
	_cleanup_closedir_ DIR *dir = opendir(spool_dir);
	const struct dirent *e;

	while (dir && (e = readdir(dir))) {
		const char *id = strncmp(e->d_name, "tmp-", 4) == 0 ? e->d_name + 4 : "-";

		if (*id != '-' && strlen(id) < SNAPSHOT_ID_SIZE && !id[strspn(id, "0123456789abcdef-T")])
			fuzz_require(directory_tree_remove(spool_fd(the.spool), e->d_name) < 0);
	}
}

/* A snapshot is a directory of the spool. */
static void check_opened(void)
{
	const struct snapshot *s;
	struct spool *other;
	struct stat st;

	TAILQ_FOREACH (s, spool_list(the.spool), link)
		fuzz_require(fstatat(spool_fd(the.spool), s->id, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode));
	fuzz_require(strcmp(spool_path(the.spool), spool_dir) == 0 && !spool_find(the.spool, "none"));
	check_incomplete();
	fuzz_require(open_spool(&other) == -EBUSY);
}

static void close_spool(void)
{
	for (size_t i = 0; i < CLAIMS; i++)
		spool_room_return(&the.claims[i]);
	drain();
	check_books();
	the.spool = spool_free(the.spool);
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		fuzz_require(ledger_sum(the.ledger, k) == 0);
}

static void set_totals(struct ledger_total totals[LEDGER_KINDS])
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		totals[k] = (struct ledger_total){ .most = LEDGER_UNLIMITED };
	totals[LEDGER_SPOOL] = (struct ledger_total){ .most = the.total, .reserve = the.reserve };
	totals[LEDGER_PENDING] = (struct ledger_total){ .most = the.total, .reserve = the.reserve, .divided = true };
}

static void reopen(void)
{
	int rc;

	if (the.spool)
		close_spool();
	rc = open_spool(&the.spool);
	/* A directory that others can write to, or no directory. */
	fuzz_require(rc == 0 || rc == -EPERM || rc == -ENOTDIR);
	if (rc < 0)
		return;
	spool_watch(the.spool, on_freed, &the);
	check_opened();
}

static bool is_name(const char *name)
{
	return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '/') &&
	       strlen(name) < NAME_SIZE;
}

/* Opens the directory of a path beneath the.at, without following links. Returns the last name, or NULL. */
static const char *open_parent(const char *path, int *ret)
{
	char name[NAME_SIZE];
	const char *slash;
	int at = dup(the.at);

	for (; (slash = strchr(path, '/')); path = slash + 1) {
		int next;

		snprintf(name, sizeof(name), "%.*s", (int)(slash - path), path);
		next = is_name(name) ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
		close(at);
		if (next < 0)
			return NULL;
		at = next;
	}
	*ret = at;
	if (is_name(path))
		return path;
	closep(ret);
	return NULL;
}

/* A command: what it changes in the directory, and what it asks the spool for. n: the numbers before its text. */
struct command {
	char key;
	unsigned numbers;
	void (*run)(const uint64_t *n, const char *text);
	bool asks; /* only while the spool is open */
};

static void enter(const uint64_t *n, const char *name)
{
	int fd = openat(top, "spool", O_RDONLY | O_DIRECTORY | O_CLOEXEC), in;

	if (fd >= 0 && is_name(name) && ++the.made <= SNAPSHOTS_MAX) {
		mkdirat(fd, name, 0700);
		in = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		fd = in;
	}
	if (fd < 0)
		return;
	closep(&the.at);
	the.at = fd;
}

static void put_snapshot(const uint64_t *n, const char *text)
{
	write_text(the.at, "snapshot.json", text);
}

static void put_state(const uint64_t *n, const char *text)
{
	write_text(the.at, "state.json", text);
}

static void put_file(const uint64_t *n, const char *path)
{
	_cleanup_close_ int parent = -1, fd = -1;
	const char *name = open_parent(path, &parent);

	fd = name ? openat(parent, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600) : -1;
	if (fd >= 0 && ftruncate(fd, (off_t)n[0]) < 0)
		fuzz_require(errno == EINVAL);
}

static void put_directory(const uint64_t *n, const char *path)
{
	_cleanup_close_ int parent = -1;
	const char *name = open_parent(path, &parent);

	if (name)
		mkdirat(parent, name, 0700);
}

static void put_link(const uint64_t *n, const char *path)
{
	_cleanup_close_ int parent = -1;
	const char *name = open_parent(path, &parent);
	char target[sizeof(top_path) + 24];

	snprintf(target, sizeof(target), "%s/outside%s", top_path, n[0] ? "/snapshot.json" : "");
	if (name)
		fuzz_require(symlinkat(target, parent, name) == 0 || errno == EEXIST || errno == ENOENT);
}

static void put_fifo(const uint64_t *n, const char *path)
{
	_cleanup_close_ int parent = -1;
	const char *name = open_parent(path, &parent);

	if (name)
		mkfifoat(parent, name, 0600);
}

/* Removes an entry with all that it has, as another process might. */
static void take_away(const uint64_t *n, const char *path)
{
	_cleanup_close_ int parent = -1;
	const char *name = open_parent(path, &parent);

	if (name && unlinkat(parent, name, 0) < 0)
		directory_tree_remove(parent, name);
}

/* The spool itself: another mode, or a file in its place. */
static void change_spool(const uint64_t *n, const char *text)
{
	if (n[0] < 07777)
		fchmodat(top, "spool", (mode_t)n[0] | 0700, 0);
	else if (unlinkat(top, "spool", AT_REMOVEDIR) == 0)
		write_text(top, "spool", "");
}

static void set_limits(const uint64_t *n, const char *text)
{
	struct ledger_total totals[LEDGER_KINDS];

	the.total = n[0];
	the.own = n[1];
	the.reserve = n[2];
	set_totals(totals);
	ledger_set_totals(the.ledger, totals);
}

static void open_again(const uint64_t *n, const char *text)
{
	reopen();
}

/* Claims, and again when what was removed for it is gone. */
static void claim(const uint64_t *n, const char *text)
{
	struct spool_refusal why = { 0 };
	struct spool_claim *c = NULL;
	uid_t uid = (uid_t)n[0];
	int rc = -EAGAIN;

	for (size_t i = 0; i < CLAIMS && !c; i++)
		c = the.claims[i].spool ? NULL : &the.claims[i];
	if (!c || uid == (uid_t)-1)
		return;
	for (unsigned i = 0; i <= SNAPSHOTS_MAX && rc == -EAGAIN; i++) {
		rc = spool_room_claim(the.spool, uid, n[1], c, &why);
		if (rc == -EAGAIN)
			drain();
	}
	fuzz_require(rc == 0 || ((rc == -EDQUOT || rc == -ENOSPC) && *why.reason.text));
	if (rc < 0)
		return;
	fuzz_require(c->unwritten == n[1] && c->bytes.amount == n[1] && ledger_uid(&c->bytes) == uid);
	/* No bytes are granted beyond a limit as well. */
	fuzz_require(!n[1] || ledger_sum(the.ledger, LEDGER_SPOOL) <= ledger_most(the.ledger, uid, LEDGER_SPOOL));
	fuzz_require(!n[1] || ledger_used(the.ledger, uid, LEDGER_SPOOL) <= the.own);
	fuzz_require(spool_room_free(the.spool, uid) <= the.own);
}

static void resize(const uint64_t *n, const char *text)
{
	struct spool_claim *c = &the.claims[n[0] % CLAIMS];
	uint64_t rest = c->bytes.amount - c->unwritten, before = c->bytes.amount;
	struct spool_refusal why = { 0 };
	int rc = spool_room_resize(c, n[1], &why);

	if (c->spool)
		fuzz_require(c->bytes.amount == (rc == 0 ? rest + n[1] : before));
	fuzz_require(rc == 0 || rc == -EAGAIN || *why.reason.text);
}

static void settle(const uint64_t *n, const char *text)
{
	struct spool_claim *c = &the.claims[n[0] % CLAIMS];

	spool_room_settle(c, n[1]);
	fuzz_require(!c->spool || (c->bytes.amount == n[1] && !c->unwritten));
}

static void rest(const uint64_t *n, const char *text)
{
	struct spool_claim *c = &the.claims[n[0] % CLAIMS];

	spool_room_rest(c);
	fuzz_require(!c->pending.amount);
}

static void give_back(const uint64_t *n, const char *text)
{
	spool_room_return(&the.claims[n[0] % CLAIMS]);
}

static struct snapshot *find_nth(uint64_t n)
{
	struct snapshot *s;

	TAILQ_FOREACH (s, spool_list(the.spool), link)
		if (n-- == 0)
			break;
	return s;
}

static bool is_there(const char *id)
{
	struct stat st;

	return fstatat(spool_fd(the.spool), id, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static char removing[SNAPSHOT_ID_SIZE];

static void on_removed(int rc, pid_t pid, void *data)
{
	fuzz_require(pid > 0 && (rc < 0 || !is_there(removing)));
	the.works--;
}

static void remove_nth(const uint64_t *n, const char *text)
{
	struct snapshot *s = find_nth(n[0]);
	const struct spool_removal removal = { .done = on_removed };

	if (!s)
		return;
	strcpy(removing, s->id);
	the.works++;
	spool_remove(the.spool, s, &removal);
	fuzz_require(!spool_find(the.spool, removing));
}

static bool keeping, kept_before;
static char keeping_id[SNAPSHOT_ID_SIZE];

static void on_kept(int rc, const struct snapshot *snapshot, void *data)
{
	char path[SNAPSHOT_ID_SIZE + 16];
	const struct snapshot *s = spool_find(the.spool, keeping_id);

	the.works--;
	snprintf(path, sizeof(path), "%s/%s", keeping_id, SNAPSHOT_KEPT_FILE);
	fuzz_require(!s || s->kept == (rc == 0 ? keeping : kept_before));
	fuzz_require(rc < 0 || is_there(path) == keeping);
}

static void keep_nth(const uint64_t *n, const char *text)
{
	struct snapshot *s = find_nth(n[0]);

	if (!s)
		return;
	strcpy(keeping_id, s->id);
	kept_before = s->kept;
	keeping = n[1] & 1;
	the.works++;
	spool_keep(the.spool, s, keeping, on_kept, NULL);
}

/* The decode of a snapshot ends, as a job ends it. */
static void decode_nth(const uint64_t *n, const char *text)
{
	struct snapshot *s = find_nth(n[0]);

	if (!s || s->state != SNAPSHOT_QUEUED)
		return;
	snapshot_set_reason(s, "%s", text);
	snapshot_move(s, SNAPSHOT_DECODING);
	snapshot_move(s, n[1] & 1 ? SNAPSHOT_RAW : SNAPSHOT_READY);
	ledger_return(&s->waiting);
	spool_room_rest(&s->claim);
	spool_report(the.spool, s, SNAPSHOT_SETTLED);
	fuzz_require(!s->claim.pending.amount);
}

static void drop_oldest(const uint64_t *n, const char *text)
{
	spool_room_drop_oldest(the.spool, (uid_t)n[0]);
}

static void vacuum(const uint64_t *n, const char *text)
{
	spool_room_vacuum(the.spool, find_nth(n[0]));
}

static void age(const uint64_t *n, const char *text)
{
	the.keep_free = n[0];
	the.max_age = MIN(n[1], UINT32_MAX);
	spool_limit(the.spool, the.keep_free, the.max_age);
	fuzz_require(spool_options(the.spool)->keep_free == n[0]);
}

static void drop_trace(const uint64_t *n, const char *text)
{
	spool_drop_shared_traces(the.spool, n[0]);
	fuzz_require(spool_leaving(the.spool, (uid_t)-1) <= ledger_sum(the.ledger, LEDGER_SPOOL));
}

static void look(const uint64_t *n, const char *text)
{
	bool writing = spool_room_writing(the.spool, (uid_t)n[0]);

	fuzz_require(!writing || spool_unwritten(the.spool));
}

/* A snapshot that is on the way to the spool takes the first claim. It is complete, or dropped, or being written. */
static void insert(const uint64_t *n, const char *text)
{
	struct snapshot *s;

	if (!the.claims[0].spool || ++the.made > SNAPSHOTS_MAX || !(s = snapshot_new()))
		return;
	/* A directory of the input may have such a name. */
	for (unsigned i = the.made; !*s->id || spool_find(the.spool, s->id); i += SNAPSHOTS_MAX)
		snprintf(s->id, sizeof(s->id), "20270101T000000-%06x", i);
	s->name = strdup("new");
	s->pid = 1;
	s->owner = s->uid = ledger_uid(&the.claims[0].bytes);
	s->time = INT64_MAX;
	s->state = SNAPSHOT_QUEUED;
	s->claim = the.claims[0];
	the.claims[0] = (struct spool_claim){ 0 };
	spool_insert(the.spool, s);
	if (n[0] == 0)
		spool_room_settle(&s->claim, n[1]);
	else if (n[0] == 1)
		spool_drop(the.spool, s);
	snapshot_unref(s);
}

static const struct command commands[] = {
	{ '@', 0, enter },
	{ '=', 0, put_snapshot },
	{ '+', 0, put_state },
	{ 'f', 1, put_file },
	{ 'd', 0, put_directory },
	{ 'l', 1, put_link },
	{ 'p', 0, put_fifo },
	{ '-', 0, take_away },
	{ 'm', 1, change_spool },
	{ 'L', 3, set_limits },
	{ 'O', 0, open_again },
	{ 'c', 2, claim, true },
	{ 'r', 2, resize, true },
	{ 's', 2, settle, true },
	{ 'e', 1, rest, true },
	{ 'u', 1, give_back, true },
	{ 'x', 1, remove_nth, true },
	{ 'k', 2, keep_nth, true },
	{ 'y', 2, decode_nth, true },
	{ 'o', 1, drop_oldest, true },
	{ 'v', 1, vacuum, true },
	{ 'a', 2, age, true },
	{ 'z', 0, drop_trace, true },
	{ '?', 1, look, true },
	{ 'i', 2, insert, true },
};

/* Parses a command's numbers, each followed by a blank. Returns the text after them. */
static const char *parse_numbers(const char *text, unsigned numbers, uint64_t ret[NUMBERS])
{
	for (unsigned i = 0; i < numbers; i++) {
		char *end;

		ret[i] = MIN(strtoull(text, &end, 10), BYTES_MAX);
		text = *end == ' ' ? end + 1 : end;
	}
	return text;
}

static void run_command(const char *text)
{
	uint64_t n[NUMBERS] = { 0 };

	for (size_t i = 0; i < ELEMENTS(commands); i++) {
		const struct command *c = &commands[i];

		if (c->key != text[0] || (c->asks && !the.spool))
			continue;
		the.spares_kept = c->run == drop_oldest || c->run == age;
		text = parse_numbers(text + 1, c->numbers, n);
		c->run(n, text);
		drain();
		check_books();
		check_outside();
		return;
	}
}

/* Writes the state of a snapshot again, and compares what is read then. */
static void check_again(const char *id)
{
	const struct snapshot *a = the.spool ? spool_find(the.spool, id) : NULL;
	_cleanup_free_ char *text = NULL, *again = NULL;
	_cleanup_json_ json_object *decode = NULL;
	int rc;

	if (!a)
		return;
	decode = snapshot_decode(a);
	fuzz_require(!a->decode || decode);
	text = snapshot_state_text(a, a->state);
	fuzz_require(text && strstr(text, snapshot_state_str(a->state)));
	rc = snapshot_write_state(spool_fd(the.spool), id, text);
	reopen();
	a = rc == 0 && the.spool ? spool_find(the.spool, id) : NULL;
	again = a ? snapshot_state_text(a, a->state) : NULL;
	fuzz_require(!a || (again && strcmp(text, again) == 0));
}

/* Returns the next text, which the caller frees. */
static char *take(const char **at, size_t *size)
{
	const char *nul = memchr(*at, 0, *size);
	size_t n = nul ? (size_t)(nul - *at) : *size, whole = n + (nul != NULL);
	char *text = strndup(*at, n);

	fuzz_require(text != NULL);
	*at += whole;
	*size -= whole;
	return text;
}

static void begin_input(void)
{
	struct ledger_options o = { .limits = limits_of };

	the.total = the.own = LEDGER_UNLIMITED;
	the.reserve = the.keep_free = the.max_age = 0;
	the.made = 0;
	the.at = -1;
	set_totals(o.totals);
	fuzz_require(mkdirat(top, "spool", 0700) == 0 && ledger_new(&o, &the.ledger) == 0);
	enter(NULL, "");
}

static void end_input(void)
{
	if (the.spool)
		close_spool();
	the.ledger = ledger_free(the.ledger);
	closep(&the.at);
	check_outside();
	nftw(spool_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	fuzz_require(unlinkat(top, "spool", AT_REMOVEDIR) == 0 || unlinkat(top, "spool", 0) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data;
	char *name = take(&at, &size), *snapshot = take(&at, &size), *state = take(&at, &size);
	unsigned fds;

	begin();
	fds = fuzz_count_fds();
	begin_input();
	if (is_name(name)) {
		enter(NULL, name);
		if (snapshot[0])
			put_snapshot(NULL, snapshot);
		if (state[0])
			put_state(NULL, state);
	}
	for (unsigned i = 0; size && i < COMMANDS_MAX; i++) {
		_cleanup_free_ char *command = take(&at, &size);

		run_command(command);
	}
	if (!the.spool)
		reopen();
	check_books();
	check_again(name);
	end_input();
	fuzz_require(fuzz_count_fds() == fds);
	free(name);
	free(snapshot);
	free(state);
	return 0;
}

#define ID "20260101T000000-abcdef"
#define OWNED(uid, time) "{\"pid\":7,\"uid\":" uid ",\"gid\":1000,\"name\":\"p\",\"time\":" time ",\"blind\":6}\0"
#define READY "{\"state\":\"ready\",\"attempts\":1}\0"

#define ALSO(number, uid, time) "@20260101T000000-00000" number "\0=" OWNED(uid, time)
#define SHARED "{\"pid\":7,\"uid\":1000,\"gid\":1000,\"name\":\"p\",\"time\":5,\"blind\":6,\"shared\":true}\0"

/* Five snapshots of two users, one of which is kept and one of which waits for its decode. */
#define FIRST ID "\0" OWNED("1000", "1") READY "f20000 trace.perf.data\0"
#define SECOND ALSO("2", "1001", "5") "+" READY "f10000 store\0"
#define THIRD ALSO("3", "1000", "3") "+" READY "f30000 store\0f0 kept\0"
#define FOURTH ALSO("4", "1000", "4") "f5000 trace.perf.data\0"
#define FIFTH ALSO("5", "1000", "2") "+{\"state\":\"raw\"}\0f8000 trace.perf.data\0"
#define FIVE FIRST SECOND THIRD FOURTH FIFTH

#define SEED(text)                                   \
	do {                                         \
		static const char bytes[] = text;    \
		fuzz_seed(bytes, sizeof(bytes) - 1); \
	} while (0)

static void seed_texts(void)
{
	SEED(ID "\0{\"pid\":7,\"uid\":1000,\"gid\":1000,\"name\":\"prog\",\"time\":5,\"blind\":6,\"shared\":true,"
		"\"threads\":[{}],\"missing\":[\"this\",\"that\"],\"ended\":{\"text\":\"exited with status 0\"}}\0"
		"{\"state\":\"ready\",\"attempts\":1,\"decode\":{\"functions\":7,\"bytes\":[1,2]}}");
	SEED(ID "\0{\"pid\":7,\"uid\":1000,\"gid\":1000,\"name\":\"\\u001b\",\"time\":5,\"blind\":6}\0"
		"{\"state\":\"raw\",\"attempts\":2,\"reason\":\"csight-decode: killed by SIGKILL\"}");
	SEED(ID "\0" OWNED("1000", "5"));
	SEED("tmp-" ID "\0{}");
	/* All that a snapshot may say of itself. */
	SEED(ID "\0{\"pid\":7,\"uid\":1000,\"gid\":1000,\"owner\":0,\"name\":\"p\",\"time\":5,\"blind\":6,"
		"\"unrecorded\":9,\"why\":\"a reason\",\"labels\":[{\"name\":\"a\",\"value\":\"b\"},{\"name\":\"a\","
		"\"value\":\"c\"}],\"last\":7,\"missing\":[5,\"x\"],\"trigger\":{\"condition\":\"crash\"}}\0"
		"{\"state\":\"ready\",\"attempts\":5000,\"decode\":{\"ended\":{\"text\":\"by SIGSEGV\"}}}");
	/* Numbers that are no user, group or process. */
	SEED(ID "\0" OWNED("4294967295", "5"));
	SEED(ID "\0" OWNED("4294968296", "5"));
	SEED(ID "\0" OWNED("-1", "5"));
	SEED(ID "\0{\"pid\":0,\"uid\":1,\"gid\":1,\"name\":\"p\",\"time\":5,\"blind\":6}\0");
	SEED(ID "\0{\"pid\":4294967303,\"uid\":1,\"gid\":1,\"name\":\"p\",\"time\":5,\"blind\":6}\0");
	SEED(ID "\0{\"pid\":7,\"uid\":1,\"gid\":-1,\"name\":\"p\",\"time\":5,\"blind\":6}\0");
	SEED(ID "\0{\"pid\":7,\"uid\":1,\"gid\":1,\"owner\":4294967296,\"name\":\"p\",\"time\":5,\"blind\":6}\0");
	/* Damaged and truncated files. */
	SEED(ID "\0{\"pid\":7,\"uid\":10");
	SEED(ID "\0{\"pid\":7}\0{}");
	SEED(ID "\0" OWNED("1000", "5") "{\"state\":\"rea");
	SEED(ID "\0" OWNED("1000", "5") "{\"state\":\"copying\"}");
}

/* snapshot: the whole snapshot.json, or NULL: before begins that. */
static void seed_long(const char *snapshot, const char *before, const char *text, unsigned n, const char *after)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_add(&b, ID, sizeof(ID));
	if (snapshot)
		buf_add(&b, snapshot, strlen(snapshot) + 1);
	buf_printf(&b, "%s", before);
	for (unsigned i = 0; i < n; i++)
		buf_printf(&b, "%s", text);
	buf_printf(&b, "%s", after);
	fuzz_require(buf_error(&b) == 0);
	fuzz_seed(b.data, b.size);
}

static void seed_limits(void)
{
	static const char start[] =
	    "{\"pid\":7,\"uid\":1,\"gid\":1,\"name\":\"p\",\"time\":5,\"blind\":6,\"missing\":[\"\"";

	seed_long(NULL, start, ",\"text\"", 80, "]}");
	seed_long(NULL, start,
		  ",\"a text of some length, of which there are more than its limit for their bytes allows, "
		  "as the shorter ones do not show: they end at another limit, the one for their number, "
		  "which is reached far earlier than this one would be, and that one is not for the sum of "
		  "their bytes, which this one is\"",
		  70, "]}");
	/* A reason that is too long, and ends within a character. */
	seed_long(OWNED("1", "5"), "{\"state\":\"raw\",\"reason\":\"x", "\u20ac", 700, "\"}");
}

/* What else may be found in the spool in place of files and directories. */
static void seed_entries(void)
{
	/* Files, fifos, links and trees with the names of snapshots. */
	SEED("\0\0\0@\0f5 20260101T000000-000001\0p20260101T000000-000002\0l0 20260101T000000-000003\0"
	     "l1 20260101T000000-000004\0d20260101T000000-000005\0f1 targets.json\0ftmp-\0O\0");
	SEED(ID "\0\0\0p snapshot.json\0psnapshot.json\0O\0");
	SEED(ID "\0\0\0l1 snapshot.json\0O\0");
	SEED(ID "\0\0\0dsnapshot.json\0O\0");
	SEED(ID "\0\0\0f100000000 snapshot.json\0O\0");
	SEED(ID "\0" OWNED("1", "5") "\0l1 state.json\0O\0");
	SEED(ID "\0" OWNED("1", "5") "\0dstate.json\0O\0");
	/* In place of the temporary file of a write. */
	SEED(ID "\0" OWNED("1", "5") READY "pstate.json.tmp\0");
	SEED(ID "\0" OWNED("1", "5") READY "l1 state.json.tmp\0");
	SEED(ID "\0" OWNED("1", "5") READY "dstate.json.tmp\0");
	SEED(ID "\0" OWNED("1", "5") READY "f9 state.json.tmp\0");
	SEED(ID "\0" OWNED("1", "5") "\0l1 kept\0dkept\0O\0k0 0\0k0 1\0x0\0");
	SEED(ID "\0" OWNED("1", "5") READY "da\0da/b\0f9 a/b/file\0l0 a/link\0pa/fifo\0O\0x0\0");
	/* Trees that are deeper than those that csightd makes. */
	SEED(ID "\0" OWNED("1", "5") READY "da\0da/b\0da/b/c\0da/b/c/d\0da/b/c/d/e\0f7 a/b/c/d/e/f\0O\0x0\0O\0");
	SEED("tmp-" ID "\0\0\0da\0da/b\0da/b/c\0da/b/c/d\0da/b/c/d/e\0l0 a/x\0O\0");
	SEED("tmp-" ID "\0\0\0da\0f8 a/x\0l0 a/y\0l1 z\0O\0");
	SEED(ID "\0\0\0f5 store\0da\0l0 a/y\0O\0");
	/* A link that took the place of a snapshot while csightd ran, and what is in the way of a removal. */
	SEED(ID "\0" OWNED("1", "5") READY "O\0@\0-" ID "\0l0 " ID "\0k0 1\0k0 0\0x0\0O\0");
	SEED(ID "\0" OWNED("1", "5") READY "O\0@\0dtmp-" ID "\0f5 tmp-" ID "/file\0x0\0O\0");
	SEED(ID "\0" OWNED("1", "5") READY "O\0@\0-" ID "\0k0 1\0x0\0O\0");
	/* Of the spool itself. */
	SEED(ID "\0" OWNED("1", "5") READY "m511 \0O\0");
	SEED("\0\0\0m9999 \0O\0");
	SEED("-1\0\0\0@Z\0@-2\0@0123456789012345678901234567890123456789\0=" OWNED("1", "5") "O\0");
}

static void seed_room(void)
{
	/* Claims: of one's own limit, of the machine's, and of the disk. */
	SEED(FIVE "L1000000 1000000 0 \0O\0c1001 900000 \0c1001 400000 \0?1001 \0r0 950000 \0r0 1000000 \0r0 10 \0s0 "
		  "5000 \0e0 \0u0 \0s5 9 \0r5 9 \0");
	SEED(FIVE "L1000000 50000 0 \0O\0c1000 40000 \0c1000 60000 \0c1001 1000 \0");
	SEED(FIVE "L80000 80000 1000 \0O\0c1001 30000 \0c1002 10000 \0r0 70000 \0v\0");
	SEED(FIVE "L80000 80000 0 \0O\0c1002 30000 \0c1003 20000 \0c0 10000 \0o1000 \0o1000 \0o1000 \0");
	SEED(FIVE "O\0a1099511627776 0 \0c1000 5000 \0v\0");
	SEED(FIVE "O\0a0 1 \0O\0");
	SEED(FIVE "O\0y3 0 \0y0 0 \0y4 1 a reason\0v0 \0o1000 \0k0 1 \0a0 1 \0x0 \0x0 \0");
	SEED(FIVE "L20000 20000 0 \0O\0v1 \0v\0");
	SEED(FIVE "O\0c1000 5000 \0i0 4000 \0c1000 5000 \0i1 \0c1001 5000 \0i2 \0?1001 \0L9000 9000 0 \0v\0");
	/* The trace of a snapshot that holds others' control flow goes first. */
	SEED(ID "\0" SHARED READY "f20000 trace.perf.data\0L25000 25000 0 \0O\0c1001 10000 \0z\0");
	SEED(ID "\0" SHARED READY "f20000 store\0O\0z\0f9 trace.perf.data\0z\0");
	SEED(ID "\0" SHARED READY "dtrace.perf.data\0f20000 store\0L9000 9000 0 \0O\0v \0");
}

void fuzz_seeds(void)
{
	seed_texts();
	seed_limits();
	seed_entries();
	seed_room();
}
