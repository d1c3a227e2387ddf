/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/log.h"

static const char *log_name = "csight";
static int log_level = LOG_INFO;
static bool log_journal;

void log_setup(const char *name, int level)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long dev, ino;
	struct stat st;

	log_name = name;
	log_level = level;
	/*
	 * Children of a unit inherit the variable even if their standard error goes elsewhere: compare the descriptor.
	 */
	log_journal = stream && sscanf(stream, "%lu:%lu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
		      st.st_dev == dev && st.st_ino == ino;
}

bool log_in_journal(void)
{
	return log_journal;
}

void log_at(int priority, const char *fmt, ...)
{
	char line[2048];
	va_list args;

	if (priority > log_level)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (log_journal)
		fprintf(stderr, "<%d>%s\n", priority, line);
	else
		fprintf(stderr, "%s: %s\n", log_name, line);
}
