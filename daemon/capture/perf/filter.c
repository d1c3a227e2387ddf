/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/capture/perf/filter.h"
#include "daemon/capture/perf/perf-event.h"
#include "daemon/capture/process/address-space.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/util.h"

struct filter {
	struct address_space_of of;
	struct buf text;
	int fds[FILTER_PARTS_MAX];
	size_t n_fds;
	struct filter_point points[FILTER_PARTS_MAX];
	size_t n_points;
};

struct code_mapping {
	uint64_t start, end, offset;
};

/* Finds the executable mapping of this file that has an offset, or any. The kernel escapes newlines in names. */
static int find_mapping(pid_t pid, const char *file, uint64_t offset, struct code_mapping *ret)
{
	bool any = false;
	_cleanup_fclose_ FILE *maps = NULL;
	_cleanup_free_ char *line = NULL;
	char path[64];
	size_t room = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((n = getline(&line, &room, maps)) > 0) {
		struct code_mapping m;
		char prot[5];
		int name = 0;

		line[n - 1] = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*u %n", &m.start, &m.end, prot,
			   &m.offset, &name) != 4 ||
		    !name || prot[2] != 'x' || strcmp(line + name, file) != 0)
			continue;
		*ret = m;
		any = true;
		if (offset >= m.offset && offset - m.offset < m.end - m.start)
			break;
	}
	return any ? 0 : -ENOENT;
}

/* Opens the mapped file, which may differ from the file that has its name now, without access to its file system. */
static int open_mapped(pid_t pid, const char *file, const struct code_mapping *m, int *ret)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, m->start, m->end);
	*ret = open(path, O_PATH | O_CLOEXEC);
	return *ret < 0 ? -errno : 0;
}

static bool is_number(const char *text, const char *end)
{
	char *past;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	strtoull(text, &past, 0);
	return !errno && past == end;
}

/* True if [at, end) is START/SIZE (range) or ADDRESS. */
static bool is_place(const char *at, const char *end, bool range)
{
	const char *slash = memchr(at, '/', (size_t)(end - at));

	return range ? slash && is_number(at, slash) && is_number(slash + 1, end) : !slash && is_number(at, end);
}

static int add_part(struct filter *f, pid_t pid, const char *verb, const char *place, struct reason *why)
{
	bool range = strcmp(verb, "filter") == 0;
	struct code_mapping m = { 0 };
	const char *end, *file;
	uint64_t address;
	char text[64];
	int fd = -1, rc;

	if (!range && strcmp(verb, "start") != 0 && strcmp(verb, "stop") != 0)
		return reason_set(why, -EINVAL, "an address filter must begin with filter, start or stop, not \"%s\"",
				  esc(verb));
	if (!place)
		return reason_set(why, -EINVAL, "address filter \"%s\" requires %s", verb,
				  range ? "START/SIZE" : "an address");
	file = strchr(place, '@');
	end = file ? file : place + strlen(place);
	if (!is_place(place, end, range))
		return reason_set(why, -EINVAL, "address filter \"%s\" requires %s, not \"%s\"", verb,
				  range ? "START/SIZE" : "an address", esc(place));
	if (f->n_fds == FILTER_PARTS_MAX)
		return reason_set(why, -EINVAL, "there are more than %d address filters", FILTER_PARTS_MAX);
	snprintf(text, sizeof(text), "%s%s %.*s", f->n_fds ? "," : "", verb, (int)(end - place), place);
	buf_add(&f->text, text, strlen(text));
	f->fds[f->n_fds++] = -1;
	address = strtoull(place, NULL, 0);
	rc = file ? find_mapping(pid, file + 1, address, &m) : 0;
	if (!range)
		f->points[f->n_points++] =
		    (struct filter_point){ strcmp(verb, "start") == 0, address - m.offset + m.start };
	if (!file)
		return 0;
	if (rc == 0)
		rc = open_mapped(pid, file + 1, &m, &fd);
	if (rc == -ENOENT)
		return reason_set(why, rc, "the process has not mapped code of %s", esc(file + 1));
	if (rc < 0)
		return reason_set(why, rc, "searching the mappings of the process for %s: %s", esc(file + 1),
				  strerror(-rc));
	f->fds[f->n_fds - 1] = fd;
	snprintf(text, sizeof(text), "@/proc/self/fd/%d", fd);
	buf_add(&f->text, text, strlen(text));
	return 0;
}

static int parse_filter(struct filter *f, pid_t pid, char *text, struct reason *why)
{
	char *rest = text, *part;
	int rc = 0;

	while (rc == 0 && (part = strsep(&rest, ",\n"))) {
		char *verb, *place;

		part += strspn(part, " ");
		for (size_t n = strlen(part); n && part[n - 1] == ' ';)
			part[--n] = 0;
		place = part;
		verb = strsep(&place, " ");
		if (place)
			place += strspn(place, " ");
		if (*verb)
			rc = add_part(f, pid, verb, place, why);
	}
	if (rc == 0 && !f->n_fds)
		rc = reason_set(why, -EINVAL, "the address filter is empty");
	if (rc == 0) {
		buf_add(&f->text, "", 1);
		rc = buf_error(&f->text);
	}
	return rc;
}

/* A filter that is being made, or set: the call may be given up. */
struct filter_call {
	struct filter *filter;
	pid_t pid;
	char *text;
	int event;
	struct reason why;
	int rc;
};

static void run_parse(void *data)
{
	struct filter_call *c = data;

	c->rc = parse_filter(c->filter, c->pid, c->text, &c->why);
}

static void drop_call(void *data)
{
	struct filter_call *c = data;

	filter_free(c->filter);
	free(c->text);
	closep(&c->event);
	free(c);
}

static void run_apply(void *data)
{
	struct filter_call *c = data;

	c->rc = perf_event_control(c->event, PERF_EVENT_IOC_SET_FILTER, (unsigned long)c->text);
}

/* Returns the result of a call. *c becomes NULL if it was given up. */
static int call_apart(struct filter_call **c, struct address_space_of of, void (*run)(void *data), struct reason *why)
{
	const struct address_space_call call = { run, drop_call, *c };
	int rc = address_space_call(of, &call);

	if (rc == 0) {
		*why = (*c)->why;
		return (*c)->rc;
	}
	if (rc == -ETIMEDOUT)
		*c = NULL;
	return address_space_explain(rc, why);
}

int filter_new(const struct process_of *of, const char *text, struct filter **ret, struct reason *why)
{
	const struct address_space_of whose = { of->account, of->pid };
	struct filter_call *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	*c = (struct filter_call){
		.filter = calloc(1, sizeof(*c->filter)), .pid = of->pid, .text = strdup(text), .event = -1
	};
	rc = c->filter && c->text ? call_apart(&c, whose, run_parse, why) : -ENOMEM;
	if (rc == 0) {
		*ret = TAKE_PTR(c->filter);
		(*ret)->of = whose;
	}
	if (c)
		drop_call(c);
	return rc;
}

int filter_apply(const struct filter *f, int event)
{
	struct filter_call *c = calloc(1, sizeof(*c));
	struct reason why;
	int rc;

	if (!c)
		return -ENOMEM;
	*c = (struct filter_call){ .text = strdup(filter_text(f)), .event = fcntl(event, F_DUPFD_CLOEXEC, 0) };
	rc = c->text && c->event >= 0 ? call_apart(&c, f->of, run_apply, &why) : -ENOMEM;
	if (c)
		drop_call(c);
	return rc;
}

struct filter *filter_free(struct filter *f)
{
	if (!f)
		return NULL;
	for (size_t n = 0; n < f->n_fds; n++)
		closep(&f->fds[n]);
	buf_done(&f->text);
	free(f);
	return NULL;
}

size_t filter_count_points(const char *text)
{
	size_t n = 0;

	while (*(text += strspn(text, " ,\n"))) {
		if (strncmp(text, "start ", 6) != 0 && strncmp(text, "stop ", 5) != 0)
			return 0;
		text += strcspn(text, ",\n");
		n++;
	}
	return n;
}

size_t filter_points(const struct filter *f, const struct filter_point **ret)
{
	*ret = f->points;
	return f->n_points == f->n_fds ? f->n_points : 0;
}

const char *filter_text(const struct filter *f)
{
	return (const char *)f->text.data;
}
