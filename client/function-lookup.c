/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/function-lookup.h"
#include "client/line-lookup.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/code/demangle.h"
#include "lib/code/elf.h"
#include "lib/code/symbols.h"
#include "lib/decoder/decoder.h"
#include "lib/store/store.h"

/* The result that the child process writes to its parent. */
struct lookup_result {
	int rc;
	size_t n;      /* of all that were found */
	uint64_t next; /* of a line: the next one with code */
	struct function_place all[FUNCTION_PLACES_MAX];
};

/* Drops the privileges of root. Processes of other users keep their rights. */
static int drop_privileges(void)
{
	uid_t uid;
	gid_t gid;

	decoder_user("", &uid, &gid);
	if (uid != (uid_t)-1 &&
	    (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int parse_file(int fd, const char *name, struct function_place *ret)
{
	_cleanup_(symbols_freep) struct symbols *symbols = NULL;
	struct symbols_at at;
	int rc = symbols_load(fd, &symbols);

	if (rc < 0)
		return rc == -ENOENT ? -EIO : rc;
	rc = symbols_named(symbols, name, &at);
	if (rc < 0)
		return rc;
	*ret = (struct function_place){ .start = at.start, .end = at.end };
	return 0;
}

/* Marks the functions that are between two symbols of the Go linker. */
static void mark_go(int fd, struct lookup_result *result)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	uint64_t begin, end, at, left;

	if (elf_open(fd, &e) < 0 || elf_symbol_value(e, "runtime.text", &begin) < 0 ||
	    elf_symbol_value(e, "runtime.etext", &end) < 0 || elf_offset(e, begin, &at, &left) < 0)
		return;
	for (size_t i = 0; i < MIN(result->n, FUNCTION_PLACES_MAX); i++)
		result->all[i].go = result->all[i].start >= at && result->all[i].start - at < end - begin;
}

/* Finds the functions of which a name matches a pattern, each once. */
static int parse_all(int fd, const char *pattern, struct lookup_result *ret)
{
	_cleanup_(symbols_freep) struct symbols *symbols = NULL;
	struct symbols_at at;
	int rc = symbols_load(fd, &symbols);

	if (rc < 0)
		return rc == -ENOENT ? -EIO : rc;
	for (uint64_t offset = 0;; offset = at.end) {
		_cleanup_free_ char *name = NULL;

		symbols_find(symbols, offset, &at);
		if (at.known && at.name && !at.plt && at.start == at.function) {
			struct function_place *p = &ret->all[MIN(ret->n, FUNCTION_PLACES_MAX - 1)];

			name = demangle_symbol(at.name);
			if (!name)
				return -ENOMEM;
			if (store_name_matches(name, pattern) || strcmp(at.name, pattern) == 0) {
				*p = (struct function_place){ .start = at.start, .end = at.function_end };
				snprintf(p->name, sizeof(p->name), "%s", name);
				ret->n++;
			}
		}
		if (at.end == UINT64_MAX || at.end <= offset)
			break;
	}
	mark_go(fd, ret);
	return 0;
}

enum lookup_kind { LOOKUP_ONE, LOOKUP_ALL, LOOKUP_LINE };

static int parse(int fd, const char *name, enum lookup_kind kind, struct lookup_result *ret)
{
	if (kind == LOOKUP_LINE)
		return line_lookup(fd, name, ret->all, &ret->n, &ret->next);
	return kind == LOOKUP_ALL ? parse_all(fd, name, ret) : parse_file(fd, name, &ret->all[0]);
}

/* Parses the file in a child process. name: what the parser looks for. */
static int look_up(int fd, const char *name, enum lookup_kind kind, struct lookup_result *ret)
{
	_cleanup_close_ int from = -1, to = -1;
	struct lookup_result result = { 0 };
	int ends[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	from = ends[0];
	to = ends[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		result.rc = drop_privileges();
		if (result.rc == 0)
			result.rc = parse(fd, name, kind, &result);
		_exit(io_write(to, &result, sizeof(result)) < 0);
	}
	closep(&to);
	n = io_read(from, &result, sizeof(result));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (n != (ssize_t)sizeof(result) || !WIFEXITED(status))
		return -EFAULT;
	*ret = result;
	return MIN(result.rc, 0);
}

int function_lookup(int fd, const char *name, struct function_place *ret)
{
	struct lookup_result result = { 0 };
	int rc = look_up(fd, name, LOOKUP_ONE, &result);

	if (rc == 0)
		*ret = result.all[0];
	return rc;
}

int function_lookup_all(int fd, const char *pattern, struct function_place *ret, size_t *ret_n)
{
	struct lookup_result result = { 0 };
	int rc = look_up(fd, pattern, LOOKUP_ALL, &result);

	if (rc < 0)
		return rc;
	*ret_n = MIN(result.n, (size_t)FUNCTION_PLACES_MAX);
	memcpy(ret, result.all, *ret_n * sizeof(*ret));
	return 0;
}

int function_lookup_line(int fd, const char *line, struct function_place *ret, size_t *ret_n, uint64_t *ret_next)
{
	struct lookup_result result = { 0 };
	int rc = look_up(fd, line, LOOKUP_LINE, &result);

	if (rc < 0)
		return rc;
	*ret_n = result.n;
	*ret_next = result.next;
	memcpy(ret, result.all, MIN(result.n, (size_t)FUNCTION_PLACES_MAX) * sizeof(*ret));
	return 0;
}
