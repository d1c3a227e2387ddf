/* SPDX-License-Identifier: MIT */
#include "client/library-code.h"

#include <string.h>

#include "lib/base/util.h"

static bool begins_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/*
 * Returns true for a source file in a directory where systems and package managers put the sources of others, or from
 * which Debian built its libraries.
 */
static bool is_library_file(const char *file)
{
	static const char *const begins[] = { "/usr/", "/rustc/", "/build/", "./", "../" };
	static const char *const parts[] = { "/include/c++/", "/.cargo/registry/", "/pkg/mod/", "/rustlib/" };

	for (size_t i = 0; i < ELEMENTS(begins); i++)
		if (begins_with(file, begins[i]))
			return true;
	for (size_t i = 0; i < ELEMENTS(parts); i++)
		if (strstr(file, parts[i]))
			return true;
	return false;
}

static bool is_library_image(const char *image)
{
	return begins_with(image, "/lib") || begins_with(image, "/usr/") || strstr(image, ".so") || *image == '[';
}

/* Names of the runtimes of languages. */
static bool is_library_name(const char *name)
{
	static const char *const begins[] = {
		"std::",    "core::",    "alloc::",  "__gnu_cxx::", "runtime.", "sync.",
		"runtime/", "internal/", "syscall.", "<alloc::",    "<core::",  "<std::"
	};

	for (size_t i = 0; i < ELEMENTS(begins); i++)
		if (begins_with(name, begins[i]))
			return true;
	return false;
}

static bool is_library(const struct store_function *f)
{
	return f->file[0] ? is_library_file(f->file) : is_library_image(f->image) || is_library_name(f->name);
}

bool library_code_has(const struct store_function *f, const struct store_function *own)
{
	bool same_image = strcmp(f->image, own->image) == 0;

	if (f->kind == REGION_SYSCALL || store_is_wait(f->kind))
		return true;
	if (is_library(own))
		return !same_image;
	/* In a program with debug information, a function without it belongs to a library. */
	return is_library(f) || (!f->file[0] && (own->file[0] || !same_image));
}
