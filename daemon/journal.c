/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <unistd.h>

#ifdef HAVE_SYSTEMD
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#endif

#include "daemon/journal.h"

int journal_send(const struct iovec *fields, size_t n)
{
#ifdef HAVE_SYSTEMD
	/* Without a journal, sd_journal_sendv() succeeds and does nothing. */
	if (access("/run/systemd/journal/socket", F_OK) < 0)
		return -ENOENT;
	return sd_journal_sendv(fields, (int)n);
#else
	(void)fields;
	(void)n;
	return -ENOSYS;
#endif
}
