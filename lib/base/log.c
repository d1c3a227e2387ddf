/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/log.h"

static const char *log_name = "csight";
static int log_level = LOG_INFO;
static bool log_journal;
static pthread_mutex_t last_mutex = PTHREAD_MUTEX_INITIALIZER, write_mutex = PTHREAD_MUTEX_INITIALIZER;
static char last_error[256];
static bool log_drops;
static unsigned long lost; /* lines that were dropped since the last one that was written */

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

bool log_last_error(char *ret, size_t size)
{
	bool has;

	pthread_mutex_lock(&last_mutex);
	has = last_error[0];
	snprintf(ret, size, "%s", last_error);
	pthread_mutex_unlock(&last_mutex);
	return has;
}

void log_never_wait(void)
{
	log_drops = true;
}

/* What is written between two calls fits into a pipe or socket that has room. */
static bool can_write(void)
{
	struct pollfd p = { STDERR_FILENO, POLLOUT, 0 };

	return !log_drops || (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT));
}

/* Returns false if the line was dropped. */
static bool put_line(int priority, const char *line)
{
	if (!can_write())
		return false;
	if (log_journal)
		fprintf(stderr, "<%d>%s\n", priority, line);
	else
		fprintf(stderr, "%s: %s\n", log_name, line);
	return true;
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
	if (priority <= LOG_ERR) {
		pthread_mutex_lock(&last_mutex);
		snprintf(last_error, sizeof(last_error), "%.*s", (int)sizeof(last_error) - 1, line);
		pthread_mutex_unlock(&last_mutex);
	}
	pthread_mutex_lock(&write_mutex);
	if (lost) {
		char text[80];

		snprintf(text, sizeof(text), "%lu lines of this log were lost: nothing read it", lost);
		lost = put_line(LOG_WARNING, text) ? 0 : lost;
	}
	lost += lost || !put_line(priority, line);
	pthread_mutex_unlock(&write_mutex);
}
