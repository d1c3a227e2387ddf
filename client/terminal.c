/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "client/terminal.h"
#include "lib/base/fit.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"

enum { WIDTH_MIN = 40, WIDTH_USUAL = 80, WIDTH_MAX = 10000 };

static bool utf8;
static pid_t pager;
static int stderr_before = -1;

/* Returns true if the locale has UTF-8. For a locale that is not installed, its name decides. */
static bool find_utf8(void)
{
	static const char *const variables[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	if (setlocale(LC_CTYPE, ""))
		return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	for (size_t i = 0; i < ELEMENTS(variables); i++) {
		const char *value = getenv(variables[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

void terminal_begin(void)
{
	utf8 = find_utf8();
}

bool terminal_has_utf8(void)
{
	return utf8;
}

bool terminal_is_paged(void)
{
	return pager > 0;
}

bool terminal_is(FILE *f)
{
	return isatty(fileno(f)) || (f == stdout && terminal_is_paged());
}

static size_t find_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int64_t n;

	if (columns && parse_i64(columns, 1, WIDTH_MAX, &n) == 0)
		return MAX((size_t)n, (size_t)WIDTH_MIN);
	if (!isatty(STDOUT_FILENO))
		return 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return WIDTH_USUAL;
	return MAX((size_t)size.ws_col, (size_t)WIDTH_MIN);
}

size_t terminal_width(void)
{
	static size_t width;
	static bool known;

	if (!known)
		width = find_width();
	known = true;
	return width;
}

void terminal_print_wrapped(FILE *f, const char *text)
{
	size_t width = terminal_width(), at = 0;

	while (*text) {
		size_t blank = strspn(text, " "), size = strcspn(text + blank, " ");
		char word[1024];

		snprintf(word, sizeof(word), "%.*s", (int)MIN(blank + size, sizeof(word) - 1), text);
		if (width && at > 2 && at + fit_width(word) > width) {
			fprintf(f, "\n  %s", word + blank);
			at = 2 + fit_width(word + blank);
		} else {
			fputs(word, f);
			at += fit_width(word);
		}
		text += blank + size;
	}
	fputc('\n', f);
}

static bool is_on_path(const char *name, size_t size)
{
	const char *at = getenv("PATH");
	char path[4096];

	if (memchr(name, '/', size)) {
		snprintf(path, sizeof(path), "%.*s", (int)size, name);
		return access(path, X_OK) == 0;
	}
	for (size_t n; at && *at; at += n + (at[n] == ':')) {
		n = strcspn(at, ":");
		snprintf(path, sizeof(path), "%.*s/%.*s", (int)n, at, (int)size, name);
		if (n && access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* Returns the command of the pager, or NULL for none. A pager that is not installed must not swallow the output. */
static const char *find_pager(void)
{
	const char *own = getenv("CSIGHT_PAGER"), *command = own ? own : getenv("PAGER");

	if (command) {
		command += strspn(command, " ");
		if (!*command || strcmp(command, "cat") == 0)
			return NULL;
		/* Only a plain command can be looked up. */
		if (strpbrk(command, "\"'$`;|&<>()={}\\") || is_on_path(command, strcspn(command, " ")))
			return command;
	}
	return is_on_path("less", 4) ? "less" : is_on_path("more", 4) ? "more" : NULL;
}

static void exec_pager(const char *command, int input)
{
	dup2(input, STDIN_FILENO);
	/* Quit if it fits on one screen, show colours, cut long lines, leave the screen as it is. */
	setenv("LESS", "FRSX", 0);
	if (utf8)
		setenv("LESSCHARSET", "utf-8", 0);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

void terminal_page(void)
{
	const char *command, *term = getenv("TERM");
	int ends[2];

	if (pager || !isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0)
		return;
	command = find_pager();
	terminal_width();
	fflush(stdout);
	if (!command || pipe2(ends, O_CLOEXEC) < 0)
		return;
	pager = fork();
	if (pager == 0)
		exec_pager(command, ends[0]);
	close(ends[0]);
	if (pager > 0) {
		dup2(ends[1], STDOUT_FILENO);
		if (isatty(STDERR_FILENO)) {
			stderr_before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
			dup2(ends[1], STDERR_FILENO);
		}
		/* The user interrupts the pager, not csight. */
		signal(SIGINT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
	}
	close(ends[1]);
}

void terminal_end(void)
{
	int null;

	if (!terminal_is_paged())
		return;
	fflush(stdout);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDOUT_FILENO);
		if (stderr_before >= 0)
			dup2(stderr_before, STDERR_FILENO);
		close(null);
	}
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
}
