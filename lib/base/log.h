/* SPDX-License-Identifier: MIT */
/*
 * The log of the programs; libraries never log. Each message is one line on standard error, with a syslog priority
 * prefix (<N>) if standard error goes to the journal. Any thread may log. Callers escape untrusted text with esc().
 */
#ifndef CSIGHT_LOG_H
#define CSIGHT_LOG_H

#include <syslog.h>

#include "lib/base/util.h"

/* name precedes each line outside the journal; level is the least important priority logged (default LOG_INFO). */
void log_setup(const char *name, int level);

/*
 * Lets no thread wait for what reads standard error: lines for which it has no room are dropped, and counted in the log
 * when it has some again.
 */
void log_never_wait(void);

/* Returns whether standard error goes to the journal. */
bool log_in_journal(void);

/* Copies the last message of LOG_ERR or worse, cut to size. Returns false if there was none. */
bool log_last_error(char *ret, size_t size);

void log_at(int priority, const char *fmt, ...) _printf_(2, 3);

#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_notice(...) log_at(LOG_NOTICE, __VA_ARGS__)
#define log_warning(...) log_at(LOG_WARNING, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERR, __VA_ARGS__)

#endif
