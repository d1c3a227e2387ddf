/* SPDX-License-Identifier: MIT */
/* daemon/capture/perf/filter.c: valid address filters are converted for the kernel, and all others are refused. */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/capture/perf/filter.h"
#include "lib/base/util.h"
#include "tests/unit.h"

static struct reason why;

static int make(const char *text, struct filter **ret)
{
	*ret = NULL;
	why.text[0] = 0;
	return filter_new(&(struct process_of){ getpid(), -1, getuid() }, text, ret, &why);
}

static void test_words(void)
{
	static const struct {
		const char *text, *want;
	} good[] = {
		{ "filter 0x1000/0x200", "filter 0x1000/0x200" },
		{ "start 4096,stop 0x2000", "start 4096,stop 0x2000" },
		{ "  start 1 ,, stop   2\n", "start 1,stop 2" },
	};
	static const char *const bad[] = {
		"",
		",",
		"filter",
		"filter 0x1000",
		"filter 0x1000/",
		"filter /1",
		"filter 1/2/3",
		"filter -1/2",
		"start 1/2",
		"start",
		"stop x",
		"trace 1/2",
		"filter 99999999999999999999/1",
		"filter 1/2 3",
		"filter 1/2@",
		"filter 1/2@/no/such/file",
		"start 1@[vdso]x",
		"start 1,start 1,start 1,start 1,start 1,start 1,start 1,start 1,start 1",
	};
	struct filter *f;

	for (size_t i = 0; i < ELEMENTS(good); i++) {
		CHECK_EQ(make(good[i].text, &f), 0);
		if (f)
			CHECK_STR(filter_text(f), good[i].want);
		filter_free(f);
	}
	for (size_t i = 0; i < ELEMENTS(bad); i++) {
		CHECK(make(bad[i], &f) < 0 && !f);
		CHECK(why.text[0]);
	}
}

static void test_points(void)
{
	const struct filter_point *points;
	struct filter *f;

	CHECK_EQ(filter_count_points("start 4096, stop 0x2000@/bin/a b\nstop 1,"), 3);
	CHECK_EQ(filter_count_points("start 4096,filter 1/2"), 0);
	CHECK_EQ(filter_count_points(""), 0);
	CHECK_EQ(make("start 4096,stop 0x2000", &f), 0);
	CHECK_EQ(filter_points(f, &points), 2);
	CHECK(points[0].starts && points[0].address == 4096 && !points[1].starts && points[1].address == 0x2000);
	filter_free(f);
	CHECK_EQ(make("start 4096,filter 1/2", &f), 0);
	CHECK_EQ(filter_points(f, &points), 0);
	filter_free(f);
}

/* The filter refers to the mapped file, also after another file has taken its name. */
static void test_file(void)
{
	char path[] = "/tmp/csight-unit-filter-XXXXXX", text[128], *at;
	_cleanup_close_ int fd = mkstemp(path);
	struct stat mapped, captured;
	const struct filter_point *points;
	struct filter *f;
	void *code, *more;
	int rc;

	CHECK_EQ(ftruncate(fd, 4096), 0);
	code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	CHECK(code != MAP_FAILED);
	CHECK_EQ(fstat(fd, &mapped), 0);
	/* An offset in the file is at the address where that part is mapped. */
	CHECK_EQ(ftruncate(fd, 8192), 0);
	more = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096);
	snprintf(text, sizeof(text), "start 0x10@%s,stop 0x1020@%s", path, path);
	if (make(text, &f) == 0) {
		CHECK_EQ(filter_points(f, &points), 2);
		CHECK_EQ(points[0].address, (uint64_t)(uintptr_t)code + 0x10);
		CHECK_EQ(points[1].address, (uint64_t)(uintptr_t)more + 0x20);
	}
	filter_free(f);
	munmap(more, 4096);
	snprintf(text, sizeof(text), "filter 0x10/0x20@%s,start 5", path);
	rc = make(text, &f);
	if (rc == -EPERM || rc == -EACCES) {
		unit_skip("the mapped file", "/proc/PID/map_files wants more rights");
		goto out;
	}
	CHECK_EQ(rc, 0);
	if (f) {
		at = strstr(filter_text(f), "@/proc/self/fd/");
		CHECK(at && strstr(at, ",start 5"));
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(at ? at + 1 : "", ","), at ? at + 1 : "");
		CHECK(stat(text, &captured) == 0 && captured.st_ino == mapped.st_ino &&
		      captured.st_dev == mapped.st_dev);
	}
	filter_free(f);
	/* After the file was deleted, its name no longer identifies the mapping. */
	unlink(path);
	snprintf(text, sizeof(text), "filter 0x10/0x20@%s", path);
	CHECK_EQ(make(text, &f), -ENOENT);
	/* A mapping that is not executable does not count. */
	CHECK_EQ(mprotect(code, 4096, PROT_READ), 0);
	CHECK_EQ(make(text, &f), -ENOENT);
out:
	munmap(code, 4096);
	unlink(path);
}

int main(void)
{
	test_words();
	test_points();
	test_file();
	return unit_end();
}
