/* SPDX-License-Identifier: MIT */
/* lib/code/region-map.c: functions, and code without names, by address and time. */
#include <string.h>

#include "lib/base/util.h"
#include "lib/code/region-map.h"
#include "tests/code/symbol-list.h"
#include "tests/unit.h"

/* Regions: overlapping mappings by time, nested symbols, code without names. */
static void test_regions(void)
{
	const struct symbol list[] = { { 0x100, 0x200, "outer" },
				       { 0x140, 0x150, "inner" },
				       { 0x300, 0, "open" },
				       { 0x400, 0x410, "_ZN3foo3barEi" } };
	const struct symbol other[] = { { 0x100, 0x200, "later" } };
	struct symbols *a, *c;
	struct region_mapping first = { .addr = 0x10000, .len = 0x1000, .path = "/lib/a.so", .time = 10 };
	struct region_mapping second = { .addr = 0x10000, .len = 0x1000, .path = "/lib/b.so", .time = 50 };
	const struct region *outer, *unknown;
	struct region_map *m;
	struct region_hit hit;

	symbols_from_list(list, ELEMENTS(list), &a);
	symbols_from_list(other, ELEMENTS(other), &c);
	first.symbols = a;
	second.symbols = c;
	region_map_new(&m);
	region_map_add(m, &second);
	region_map_add(m, &first);
	region_map_find(m, 0x10100, 20, &hit);
	outer = hit.region;
	CHECK_STR(outer->name, "outer");
	CHECK_EQ(outer->start, 0x10100);
	region_map_find(m, 0x10144, 20, &hit);
	CHECK_STR(hit.region->name, "inner");
	region_map_find(m, 0x10160, 20, &hit);
	CHECK(hit.region == outer);
	CHECK(!region_hit_holds(&hit, 0x10144, 20) && !region_hit_holds(&hit, 0x10160, 50));
	region_map_find(m, 0x10160, 50, &hit);
	CHECK_STR(hit.region->name, "later");
	region_map_find(m, 0x10160, 1, &hit);
	CHECK(hit.region == outer);
	region_map_find(m, 0x10260, 20, &hit);
	CHECK_STR(hit.region->name, "[a.so+0x200]");
	CHECK_EQ(hit.region->kind, REGION_UNNAMED);
	region_map_find(m, 0x103f0, 20, &hit);
	CHECK_STR(hit.region->name, "open");
	region_map_find(m, 0x10404, 20, &hit);
	CHECK_STR(hit.region->name, "foo::bar(int)");
	region_map_find(m, 0x20000, 20, &hit);
	unknown = hit.region;
	region_map_find(m, 0x30000, 90, &hit);
	CHECK(hit.region == unknown && unknown->kind == REGION_UNKNOWN);
	region_map_free(m);
	symbols_free(a);
	symbols_free(c);
}

/* Code in memory, whatever the kernel calls that, has the names of a perf map; code in files has not. */
static void test_memory(void)
{
	static const struct {
		const char *path, *build_id, *named, *unnamed;
	} cases[] = {
		{ "", NULL, "compiled", "[anon]" },
		{ "//anon", NULL, "compiled", "[anon]" },
		{ "/memfd:doublemapper (deleted)", NULL, "compiled", "[memfd:doublemapper (deleted)]" },
		{ "/dev/zero (deleted)", NULL, "compiled", "[zero (deleted)]" },
		{ "/SYSV00000000 (deleted)", NULL, "compiled", "[SYSV00000000 (deleted)]" },
		{ "[anon:v8]", NULL, "compiled", "[anon:v8]" },
		{ "/memfd:program (deleted)", "01", "[memfd:program (deleted)]", "[memfd:program (deleted)]" },
		{ "/tmp/library.so (deleted)", NULL, "[library.so (deleted)]", "[library.so (deleted)]" },
		{ "[vdso]", NULL, "[vdso]", "[vdso]" },
	};
	const struct symbol list[] = { { 0x10100, 0x10200, "compiled" } };
	struct symbols *names;

	CHECK_EQ(symbols_from_list(list, ELEMENTS(list), &names), 0);
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct region_mapping m = { .addr = 0x10000,
					    .len = 0x1000,
					    .offset = 0x3000,
					    .path = cases[i].path,
					    .build_id = cases[i].build_id };
		bool memory = strcmp(cases[i].named, "compiled") == 0;
		struct region_map *map;
		struct region_hit hit;

		region_map_new(&map);
		region_map_set_names(map, NULL, names);
		CHECK_EQ(region_map_add(map, &m), 0);
		CHECK_EQ(region_map_find(map, 0x10180, 0, &hit), 0);
		CHECK_STR(hit.region->name, cases[i].named);
		CHECK_EQ(hit.region->kind, memory ? REGION_FUNCTION : REGION_UNNAMED);
		CHECK_EQ(hit.region->start, memory ? 0x10100 : 0x10000);
		CHECK_STR(hit.region->image, cases[i].path);
		CHECK_EQ(region_map_find(map, 0x10400, 0, &hit), 0);
		CHECK_STR(hit.region->name, cases[i].unnamed);
		CHECK_EQ(hit.region->kind, memory ? REGION_ANON : REGION_UNNAMED);
		region_map_free(map);
	}
	symbols_free(names);
}

int main(void)
{
	test_regions();
	test_memory();
	return unit_end();
}
