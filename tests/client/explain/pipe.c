/* SPDX-License-Identifier: MIT */
/* A record is read from a pipe; the sender takes its time with one. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "planted.h"

static apart int read_record(int fd, uint32_t *ret)
{
	return read(fd, ret, sizeof(*ret)) == sizeof(*ret);
}

static apart int next_event(int fd)
{
	uint32_t record;

	return read_record(fd, &record) && used(compute(record, 200) | 1);
}

static void send_records(int fd)
{
	const struct timespec moment = { .tv_nsec = 60 * 1000 * 1000 };

	for (uint32_t i = 0; i < 60; i++) {
		if (i == 35)
			nanosleep(&moment, NULL);
		if (write(fd, &i, sizeof(i)) < 0)
			break;
	}
	_exit(0);
}

int main(void)
{
	int ends[2];

	planted("next_event", "read_record");
	if (pipe(ends) < 0)
		return 1;
	if (fork() == 0)
		send_records(ends[1]);
	close(ends[1]);
	while (next_event(ends[0]))
		;
	return 0;
}
