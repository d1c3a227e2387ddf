/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <string.h>

#include "daemon/decode/place.h"
#include "lib/base/buf.h"

enum { FRAMES_MAX = 128 };

/* A function that control is in, which may be inlined. */
struct place_frame {
	const char *function, *image, *file;
	uint32_t line;
	uint64_t address;
	bool inlined;
};

struct place_frames {
	struct place_frame list[FRAMES_MAX]; /* innermost first */
	size_t n;
};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool matches(const char *text, const char *const *patterns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fnmatch(patterns[i], text, 0) == 0)
			return true;
	return false;
}

/*
 * Returns true for an implementation of a trait of Rust's library for a type that has no path, such as <usize as
 * core::ops::Add>::add.
 */
static bool is_rust_impl(const char *name)
{
	static const char *const traits[] = { "core::*", "std::*", "alloc::*" };
	const char *as = name[0] == '<' ? strstr(name, " as ") : NULL, *path = strstr(name, "::");

	return as && path && path > as && matches(as + strlen(" as "), traits, ELEMENTS(traits));
}

/*
 * Returns true for a function of the language's runtime, by its library, or in static programs by its source file or
 * its name.
 */
static bool is_runtime(const struct place_frame *f)
{
	static const char *const images[] = { "libc.so*",      "libc-*",      "libpthread*", "ld-linux*", "ld-musl*",
					      "libstdc++.so*", "libc++*.so*", "libgcc_s*",   "libunwind*" };
	static const char *const names[] = {
		"_start",
		"__libc_*",
		"*generic_start_main*",
		"abort",
		"abort.*",
		"raise",
		"raise.*",
		"gsignal",
		"kill",
		"tgkill",
		"pthread_kill*",
		"__pthread_kill*",
		"__GI_*",
		"__assert*",
		"__stack_chk_fail*",
		"__fortify_fail*",
		"__chk_fail*",
		"exit",
		"_exit",
		"_Exit",
		"quick_exit",
		"__run_exit_handlers",
		"exit_group",
		"_Unwind_*",
		"__cxa_*",
		"__gxx_*",
		"std::terminate*",
		"std::unexpected*",
		"std::__throw_*",
		"__cxxabiv1::*",
		"__gnu_cxx::*",
		"rust_panic*",
		"rust_begin_unwind*",
		"__rust*",
		"std::*",
		"core::*",
		"alloc::*",
		"<std::*",
		"<core::*",
		"<alloc::*",
		"panic_abort::*",
		"panic_unwind::*",
		"runtime.*",
		"syscall.*",
		"_rt0_*",
	};

	static const char *const files[] = { "/rustc/*/library/*", "/usr/src/rustc-*/library/*" };

	return matches(base_of(f->image), images, ELEMENTS(images)) || matches(f->function, names, ELEMENTS(names)) ||
	       is_rust_impl(f->function) || (f->file && matches(f->file, files, ELEMENTS(files)));
}

static void add_frame(struct place_frames *frames, const struct place_frame *f)
{
	if (frames->n < FRAMES_MAX)
		frames->list[frames->n++] = *f;
}

/* Adds the function at an address, after those inlined in it there. */
static void add_address(struct region_map *regions, uint64_t address, uint64_t time, struct place_frames *frames)
{
	struct place_frame f = { .address = address };
	struct region_hit hit;

	if (region_map_find(regions, address, time, &hit) < 0)
		return;
	f.image = hit.region->image;
	if (!region_map_line(regions, address, time, &f.file, &f.line))
		f.file = NULL;
	for (const struct inlined *i = hit.inlined; i; i = i->parent) {
		f.function = i->function->name;
		f.inlined = true;
		add_frame(frames, &f);
		f.file = i->call_file;
		f.line = i->call_line;
	}
	f.function = hit.region->name;
	f.inlined = false;
	add_frame(frames, &f);
}

/* Returns the function that frame `at` had called: not one that is inlined there. */
static const char *callee_of(const struct place_frames *frames, size_t at)
{
	size_t i = at;

	while (i-- > 0 && frames->list[i].inlined)
		;
	return frames->list[i == SIZE_MAX ? at - 1 : i].function;
}

bool place_find(struct region_map *regions, const struct calls *c, uint64_t time, struct place *ret)
{
	_cleanup_free_ struct place_frames *frames = calloc(1, sizeof(*frames));
	uint64_t addresses[FRAMES_MAX];
	bool in_call;
	size_t n = calls_addresses(c, addresses, FRAMES_MAX, &in_call), at = 0;
	const struct place_frame *f;

	if (!frames)
		return false;
	for (size_t i = 0; i < n; i++)
		add_address(regions, addresses[i], time, frames);
	while (at < frames->n && is_runtime(&frames->list[at]))
		at++;
	if (!frames->n || (in_call && at == frames->n))
		return false;
	f = &frames->list[in_call ? at : 0];
	*ret = (struct place){ .function = f->function, .file = f->file, .line = f->line, .address = f->address };
	if (in_call && at) {
		ret->through = callee_of(frames, at);
	} else if (at && at < frames->n) {
		ret->caller = frames->list[at].function;
		ret->caller_file = frames->list[at].file;
		ret->caller_line = frames->list[at].line;
	}
	return true;
}

static void put_function(struct buf *b, const char *before, const char *function, const char *file, uint32_t line)
{
	buf_printf(b, "%s%s", before, function);
	if (file)
		buf_printf(b, " at %s:%u", base_of(file), line);
}

void place_add(const struct place *p, json_object *ending)
{
	_cleanup_buf_ struct buf text = { 0 };
	const char *how;

	if (json_get_str(ending, "text", &how) < 0)
		return;
	buf_printf(&text, "%s", how);
	put_function(&text, " in ", p->function, p->file, p->line);
	if (p->through)
		buf_printf(&text, " (%s)", p->through);
	if (p->caller)
		put_function(&text, ", called by ", p->caller, p->caller_file, p->caller_line);
	buf_u8(&text, 0);
	if (buf_error(&text))
		return;
	json_add_bytes(ending, "text", (const char *)text.data);
	json_add_bytes(ending, "function", p->function);
	if (p->file) {
		json_add_bytes(ending, "file", p->file);
		json_add_u64(ending, "line", p->line);
	}
	json_add_hex(ending, "address", p->address);
	if (p->through)
		json_add_bytes(ending, "through", p->through);
}
