/*
 * The little of HTTP that hands files of memory to a browser on this machine: GET and HEAD, on a loopback port, beneath
 * a path that nobody can guess. Other requests are refused. Not for a network.
 */
#ifndef CSIGHT_CLIENT_SERVE_H
#define CSIGHT_CLIENT_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct serve_file {
	const char *name; /* behind the secret path; "": the page itself */
	const char *type; /* its media type */
	int fd;
	uint64_t size;
	bool last; /* when it was taken, that is all */
};

enum { SERVE_SECRET = 32 };

struct serve {
	int fd;
	uint16_t port;
	char secret[SERVE_SECRET + 1];
};

/* port 0: any that is free. */
int serve_open(uint16_t port, struct serve *ret);

/* Until the last file was taken whole: 0; or stop() says so: -ECANCELED. It is asked now and then. */
int serve_run(struct serve *s, const struct serve_file *files, size_t n, bool (*stop)(void));
void serve_done(struct serve *s);

#endif
