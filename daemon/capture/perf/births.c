#include "config.h"

#include <dirent.h>

#include "daemon/capture/perf/births.h"
#include "lib/base/util.h"

enum { BUCKETS = 4096, ENDED_MAX = 64 };

struct birth {
	struct birth *next;
	struct tasks tasks;
};

struct births {
	struct birth *buckets[BUCKETS];
	uint64_t since;
};

int births_new(struct births **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static void clear(struct births *b)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		while (b->buckets[i]) {
			struct birth *one = b->buckets[i];

			b->buckets[i] = one->next;
			tasks_done(&one->tasks);
			free(one);
		}
}

struct births *births_free(struct births *b)
{
	if (!b)
		return NULL;
	clear(b);
	free(b);
	return NULL;
}

static struct birth **find(struct births *b, uint32_t pid)
{
	struct birth **at = &b->buckets[pid % BUCKETS];

	while (*at && (*at)->tasks.pid != pid)
		at = &(*at)->next;
	return at;
}

/* To where find() found nothing. */
static bool add(struct birth **at, uint32_t pid)
{
	*at = calloc(1, sizeof(**at));
	if (*at)
		tasks_init(&(*at)->tasks, pid);
	return *at != NULL;
}

void births_reset(struct births *b, uint64_t now)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	struct dirent *e;

	clear(b);
	b->since = now;
	while (proc && (e = readdir(proc))) {
		uint32_t pid = (uint32_t)strtoul(e->d_name, NULL, 10);

		if (pid && !*find(b, pid))
			add(find(b, pid), pid);
	}
}

static void drop(struct birth **at)
{
	struct birth *one = *at;

	*at = one->next;
	tasks_done(&one->tasks);
	free(one);
}

void births_record(struct births *b, uint32_t pid, const struct pevent_record *r)
{
	struct birth **at = find(b, pid);

	bool new = !*at;

	if (new && !add(at, pid))
		return;
	tasks_fold(&(*at)->tasks, r);
	tasks_limit(&(*at)->tasks, ENDED_MAX);
	/* Of one that is not known only its birth, or what it executes, says since when it is what it is. */
	if ((*at)->tasks.ended || (new && !(*at)->tasks.since))
		drop(at);
}

uint64_t births_take(struct births *b, uint32_t pid, struct tasks *ret)
{
	struct birth **at = find(b, pid);

	if (!*at) {
		tasks_init(ret, pid);
		return 0;
	}
	*ret = (*at)->tasks;
	(*at)->tasks = (struct tasks){ 0 };
	drop(at);
	tasks_checked(ret);
	/* Whose its old numbers are now nobody looked after. */
	tasks_missed(ret, 0);
	return MAX(b->since, ret->since);
}

void births_give(struct births *b, struct tasks *t)
{
	struct birth **at = find(b, t->pid);

	tasks_disown(t, 0);
	if (!*at && !t->ended && (*at = calloc(1, sizeof(**at)))) {
		(*at)->tasks = *t;
		*t = (struct tasks){ 0 };
	}
	tasks_done(t);
}
