/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/terminal.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"

/* getopt values of long options, beyond those of letters: OWN or SHARED plus an index into the table. */
enum { OPTIONS_MAX = 32, OWN = 1000, SHARED = 2000 };

static const struct verb_option shared_options[] = {
	{ "images", 0, "DIR", TRACE_OPTIONS_IMAGES_HELP },
	{ "buffer", 0, "NAME", TRACE_OPTIONS_BUFFER_HELP },
	{ "regs", 0, "FILE", TRACE_OPTIONS_REGS_HELP },
	{ "socket", 0, "PATH", "use the csightd that listens at PATH" },
	{ "json", 0, NULL, "print one JSON document" },
	{ "quiet", 'q', NULL, "print only the result itself" },
	{ "full-names", 0, NULL, "print names of functions with parameters and template arguments" },
	{ "no-pager", 0, NULL, "do not start a pager" },
	{ "help", 'h', NULL, "print this help" },
};
enum {
	SHARED_IMAGES,
	SHARED_BUFFER,
	SHARED_REGS,
	SHARED_SOCKET,
	SHARED_JSON,
	SHARED_QUIET,
	SHARED_FULL_NAMES,
	SHARED_NO_PAGER,
	SHARED_HELP
};
static const unsigned shared_flags[] = { VERB_TRACE, VERB_TRACE, VERB_TRACE, VERB_SOCKET, VERB_JSON, VERB_QUIET,
					 VERB_NAMES, VERB_PAGER, 0 };

static bool verb_accepts(const struct verb *v, size_t i)
{
	return !shared_flags[i] || (v->flags & shared_flags[i]);
}

void client_error(const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	fputs("csight: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

static void print_usage(const struct verb *v, FILE *f)
{
	fprintf(f, "usage: csight %s [options]%s%s\n", v->name, *v->arguments ? " " : "", v->arguments);
}

int client_usage(struct client *c, const char *fmt, ...)
{
	va_list args;

	fputs("csight: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	print_usage(c->verb, stderr);
	fprintf(stderr, "See 'csight %s --help'.\n", c->verb->name);
	return STATUS_USAGE;
}

int client_unknown(struct client *c, const char *noun, const char *value, const char *const *known, size_t n)
{
	_cleanup_(buf_done) struct buf list = { 0 };

	for (size_t i = 0; i < n; i++)
		buf_printf(&list, "%s%s", !i ? "" : i + 1 < n ? ", " : " and ", known[i]);
	buf_u8(&list, 0);
	return client_usage(c, "unknown %s '%s'; there are %s", noun, esc(value),
			    buf_error(&list) ? "others" : (const char *)list.data);
}

static void print_option(const struct verb_option *o)
{
	char left[64];

	snprintf(left, sizeof(left), "%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
		 o->letter ? "," : " ", o->name, o->argument ? "=" : "", o->argument ? o->argument : "");
	printf("  %-24s  %s\n", left, o->help);
}

static void print_help(const struct verb *v)
{
	print_usage(v, stdout);
	printf("\n%s.\n\noptions:\n", v->summary);
	for (const struct verb_option *o = v->options; o && o->name; o++)
		print_option(o);
	for (size_t i = 0; i < ELEMENTS(shared_options); i++)
		if (verb_accepts(v, i))
			print_option(&shared_options[i]);
	printf("\nSee csight(1) for details.\n");
}

static void add_getopt_option(const struct verb_option *o, int value, struct option *longs, size_t *n_longs,
			      char *shorts, size_t *n_shorts)
{
	longs[(*n_longs)++] = (struct option){ o->name, o->argument ? required_argument : no_argument, NULL, value };
	if (!o->letter)
		return;
	shorts[(*n_shorts)++] = o->letter;
	if (o->argument)
		shorts[(*n_shorts)++] = ':';
}

static int option_of_letter(const struct verb *v, int letter)
{
	for (int i = 0; v->options && v->options[i].name; i++)
		if (v->options[i].letter == letter)
			return OWN + i;
	for (int i = 0; i < (int)ELEMENTS(shared_options); i++)
		if (shared_options[i].letter == letter)
			return SHARED + i;
	return letter;
}

int client_check_directory(const char *option, const char *path)
{
	struct stat st;
	int rc = stat(path, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;

	if (rc)
		client_error("--%s: cannot search %s: %s", option, esc(path), strerror(rc));
	return !rc ? STATUS_OK : rc == ENOENT ? STATUS_NOT_FOUND : STATUS_FAILED;
}

/* Handles one of shared_options. Returns CLIENT_DONE if more options may follow, else CLIENT_STOP. */
static int take_shared_option(struct client *c, int option, const char *value)
{
	switch (option) {
	case SHARED_IMAGES:
		if (c->trace.n_dirs == TRACE_OPTIONS_DIRS_MAX) {
			c->status = client_usage(c, "at most %d --images options are accepted", TRACE_OPTIONS_DIRS_MAX);
			return CLIENT_STOP;
		}
		c->status = client_check_directory("images", value);
		if (c->status != STATUS_OK)
			return CLIENT_STOP;
		c->trace.dirs[c->trace.n_dirs++] = value;
		return CLIENT_DONE;
	case SHARED_BUFFER:
		c->trace.buffer = value;
		return CLIENT_DONE;
	case SHARED_REGS:
		c->trace.regs = value;
		return CLIENT_DONE;
	case SHARED_SOCKET:
		c->socket = value;
		return CLIENT_DONE;
	case SHARED_JSON:
		c->json = true;
		return CLIENT_DONE;
	case SHARED_QUIET:
		c->quiet = true;
		return CLIENT_DONE;
	case SHARED_FULL_NAMES:
		c->full_names = true;
		return CLIENT_DONE;
	case SHARED_NO_PAGER:
		c->no_pager = true;
		return CLIENT_DONE;
	default:
		print_help(c->verb);
		c->status = STATUS_OK;
		return CLIENT_STOP;
	}
}

int client_option(struct client *c, const char **ret_value)
{
	struct option longs[OPTIONS_MAX + ELEMENTS(shared_options) + 1] = { 0 };
	char shorts[2 * (OPTIONS_MAX + ELEMENTS(shared_options)) + 3];
	size_t n_longs = 0, n_shorts = 0;
	int o;

	if (c->verb->flags & VERB_PROGRAM)
		shorts[n_shorts++] = '+';
	for (int i = 0; c->verb->options && c->verb->options[i].name; i++) {
		assert(i < OPTIONS_MAX);
		add_getopt_option(&c->verb->options[i], OWN + i, longs, &n_longs, shorts, &n_shorts);
	}
	for (int i = 0; i < (int)ELEMENTS(shared_options); i++)
		if (verb_accepts(c->verb, i))
			add_getopt_option(&shared_options[i], SHARED + i, longs, &n_longs, shorts, &n_shorts);
	shorts[n_shorts] = 0;
	for (;;) {
		o = option_of_letter(c->verb, getopt_long(c->argc, c->argv, shorts, longs, NULL));
		if (o >= SHARED) {
			if (take_shared_option(c, o - SHARED, optarg) == CLIENT_STOP)
				return CLIENT_STOP;
			continue;
		}
		switch (o) {
		case '?':
			print_usage(c->verb, stderr);
			c->status = STATUS_USAGE;
			return CLIENT_STOP;
		case -1:
			c->argc -= optind;
			c->argv += optind;
			return CLIENT_DONE;
		default:
			*ret_value = optarg;
			return o - OWN;
		}
	}
}

static bool print_failed;

static void report_no_memory(void)
{
	if (!print_failed)
		client_error("cannot print the result: out of memory");
	print_failed = true;
}

bool client_print_failed(void)
{
	return print_failed;
}

void client_print_json_text(const char *text)
{
	if (text)
		puts(text);
	else
		report_no_memory();
}

void client_print_json_member(FILE *to, const char *key, const char *text)
{
	if (text)
		fprintf(to, "{\"%s\":%s}\n", key, text);
	else
		report_no_memory();
}

void client_print_json(json_object *o)
{
	_cleanup_free_ char *text = json_text(o, JSON_PLAIN);

	client_print_json_text(text);
}

const char *client_read_problem(int error)
{
	return error == ESTALE ? "it was removed meanwhile" : strerror(error);
}

const char *client_write_advice(int error)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return "; make its directory, or name another file with -o";
	case ENOSPC:
	case EDQUOT:
	case EROFS:
	case EFBIG:
		return "; name a file on another file system with -o";
	case EACCES:
	case EPERM:
	case EISDIR:
		return "; name another file with -o";
	default:
		return "";
	}
}

void client_page(const struct client *c)
{
	if (!c->json && !c->no_pager)
		terminal_page();
}

int client_pid(struct client *c, const char *option, pid_t *ret)
{
	const char *text = option ? option : c->argc ? c->argv[0] : NULL;
	int64_t n;

	if (!text)
		return client_usage(c, "missing process ID");
	if (c->argc > !option)
		return client_usage(c, "only one process is accepted: unexpected argument '%s'",
				    esc(c->argv[c->argc - 1]));
	if (parse_i64(text, 1, INT32_MAX, &n) < 0)
		return client_usage(c, "'%s' is not a process ID", esc(text));
	*ret = (pid_t)n;
	return 0;
}

bool client_is_mode(const char *text)
{
	return strcmp(text, "ring") == 0 || strcmp(text, "fill") == 0;
}
