/* SPDX-License-Identifier: MIT */
/* Structured messages for the journal of systemd. Any thread may send; a call waits while the journal is busy. */
#ifndef CSIGHT_DAEMON_JOURNAL_H
#define CSIGHT_DAEMON_JOURNAL_H

#include <stddef.h>
#include <sys/uio.h>

/*
 * Sends a message of fields NAME=VALUE, the first of which is MESSAGE. -ENOENT: there is no journal; -ENOSYS: csightd
 * was built without libsystemd.
 */
int journal_send(const struct iovec *fields, size_t n);

#endif
