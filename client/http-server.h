/*
 * The little of HTTP that hands files of memory to a browser on this machine: GET and HEAD, on a loopback port, beneath
 * a path that nobody can guess. Other requests are refused. Not for a network.
 */
#ifndef CSIGHT_CLIENT_HTTP_SERVER_H
#define CSIGHT_CLIENT_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_file {
	const char *name; /* behind the secret path; "": the page itself */
	const char *type; /* its media type */
	int fd;
	uint64_t size;
	bool last; /* when it was taken, that is all */
};

enum { HTTP_SECRET_SIZE = 32 };

struct http_server {
	int fd;
	uint16_t port;
	char secret[HTTP_SECRET_SIZE + 1];
};

/* port 0: any that is free. */
int http_server_open(uint16_t port, struct http_server *ret);

/* Until the last file was taken whole: 0; or stop() says so: -ECANCELED. It is asked now and then. */
int http_server_run(struct http_server *s, const struct http_file *files, size_t n, bool (*stop)(void));
void http_server_done(struct http_server *s);

#endif
