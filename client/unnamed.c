/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/mman.h>

#include "client/debuginfod.h"
#include "client/format.h"
#include "client/local-decode.h"
#include "client/terminal.h"
#include "client/text-table.h"
#include "client/unnamed.h"
#include "lib/base/escape.h"
#include "lib/decoder/debug-places.h"

enum { FILES_MAX = 256, FILES_PRINTED = 3 };

struct unnamed_file {
	const char *image, *build_id;
	uint64_t functions;
};

struct unnamed {
	struct unnamed_file files[FILES_MAX]; /* those with most functions first */
	size_t n;
	uint64_t functions;
};

/* Names in brackets are placeholders; in files with symbols, code between functions has one, too, and no name. */
static bool is_unnamed(const struct store_function *f)
{
	return f->calls && f->image[0] == '/' && f->name[0] == '[' &&
	       (f->kind == REGION_FUNCTION || (f->kind == REGION_UNNAMED && !strchr(f->name, '+')));
}

static void add_unnamed(struct unnamed *u, const struct store_function *f)
{
	size_t i = 0;

	while (i < u->n && (strcmp(u->files[i].build_id, f->build_id) != 0 || strcmp(u->files[i].image, f->image) != 0))
		i++;
	if (i == FILES_MAX)
		return;
	if (i == u->n)
		u->files[u->n++] = (struct unnamed_file){ f->image, f->build_id, 0 };
	u->files[i].functions++;
	u->functions++;
}

static int compare_files(const void *left, const void *right)
{
	const struct unnamed_file *a = left, *b = right;

	return (a->functions < b->functions) - (a->functions > b->functions);
}

static void find_unnamed(const struct store *s, struct unnamed *ret)
{
	*ret = (struct unnamed){ 0 };
	for (size_t i = 0; i < store_functions(s); i++)
		if (is_unnamed(store_function(s, i)))
			add_unnamed(ret, store_function(s, i));
	if (ret->n)
		qsort(ret->files, ret->n, sizeof(*ret->files), compare_files);
}

/* True if a file is where the debug file of this one should be. */
static bool has_debug_file(const struct unnamed_file *f)
{
	_cleanup_(debug_places_done) struct debug_places places = { 0 };
	char cache[PATH_MAX];
	struct debug_wish wish = { .path = f->image, .build_id = f->build_id };

	if (debug_places_cache(cache, sizeof(cache)))
		wish.cache = cache;
	if (debug_places_list(&wish, &places) < 0)
		return false;
	for (size_t i = 0; i < places.n; i++)
		if (access(places.paths[i], R_OK) == 0)
			return true;
	return false;
}

static void on_renamed(struct client *c, json_object *result)
{
}

int unnamed_rename(struct client *c, const char *name, int fd, const struct store *s)
{
	_cleanup_(local_decode_done) struct local_decode d = { LOCAL_DECODE_NONE, .client = c,
							       .on_result = on_renamed };
	_cleanup_close_ int to = -1;
	struct unnamed u;
	bool wanted = false;

	find_unnamed(s, &u);
	for (size_t i = 0; i < u.n && !wanted; i++)
		wanted = (u.files[i].build_id[0] && debuginfod_wanted()) || has_debug_file(&u.files[i]);
	if (!wanted)
		return -1;
	to = memfd_create("csight-store", MFD_CLOEXEC);
	if (to < 0 || local_decode_rename(&d, name, fd, to) != STATUS_OK)
		return -1;
	return TAKE_FD(to);
}

/* The package of Debian that has the debug files of the C library. */
static bool is_c_library(const char *image)
{
	const char *base = strrchr(image, '/') + 1;

	return strcmp(base, "libc.so.6") == 0 || fnmatch("ld-linux-aarch64.so.*", base, 0) == 0;
}

static void print_files(FILE *to, const struct unnamed *u)
{
	static const char *const head[] = { "FUNCTIONS>", "FILE~", "BUILD-ID~" };
	_cleanup_(text_table_freep) struct text_table *t = text_table_new(head, ELEMENTS(head));

	for (size_t i = 0; i < MIN(u->n, (size_t)FILES_PRINTED); i++) {
		text_table_add(t, STYLE_PLAIN, format_count(u->files[i].functions));
		text_table_add(t, STYLE_PLAIN, strrchr(u->files[i].image, '/') + 1);
		text_table_add(t, STYLE_PLAIN, u->files[i].build_id[0] ? u->files[i].build_id : "-");
	}
	text_table_print(t, to);
	if (u->n > FILES_PRINTED)
		fprintf(to, "and %s\n", format_plural(u->n - FILES_PRINTED, "more file"));
}

void unnamed_print(FILE *to, const struct store *s)
{
	struct unnamed u;
	bool c_library = false;
	char advice[256];

	find_unnamed(s, &u);
	if (!u.n)
		return;
	for (size_t i = 0; i < u.n; i++)
		c_library = c_library || is_c_library(u.files[i].image);
	snprintf(advice, sizeof(advice),
		 "%s without a name; install debug files (on Debian: %sfind-dbgsym-packages FILE)%s:",
		 format_plural(u.functions, "function"), c_library ? "apt install libc6-dbg:arm64; " : "",
		 debuginfod_wanted() ? "" : ", or set DEBUGINFOD_URLS=https://debuginfod.debian.net");
	terminal_print_wrapped(to, advice);
	print_files(to, &u);
}

json_object *unnamed_json(const struct store *s)
{
	json_object *list = json_object_new_array();
	struct unnamed u;

	find_unnamed(s, &u);
	for (size_t i = 0; i < u.n; i++) {
		json_object *o = json_object_new_object();

		json_add_bytes(o, "image", u.files[i].image);
		if (u.files[i].build_id[0])
			json_add_bytes(o, "build_id", u.files[i].build_id);
		json_add_u64(o, "functions", u.files[i].functions);
		json_array_add(list, o);
	}
	return list;
}
