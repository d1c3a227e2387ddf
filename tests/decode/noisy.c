/* SPDX-License-Identifier: MIT */
/* csight-decode's server with a decoder that floods its standard error, and fails. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/decode/decode.h"
#include "daemon/decode/server.h"

static void say(const char *text, size_t size)
{
	(void)!write(STDERR_FILENO, text, size);
}

int decode_run(struct decode_job *job)
{
	static const char lines[] = "first\n\n\x1b[2J\r<2>csightd: \a\0\n"
				    "<1>csightd: uid 0 (pid 1) removed snapshot X\n";
	static char zeros[4096];

	say(lines, sizeof(lines) - 1);
	memset(zeros, '0', sizeof(zeros) - 1);
	zeros[sizeof(zeros) - 1] = '\n';
	say(zeros, sizeof(zeros));
	for (int i = 0; i < 100000; i++)
		say("again\n", 6);
	return reason_set(&job->reason, -EIO, "the decoder is noisy");
}

int main(int argc, char **argv)
{
	return server_run() < 0;
}
