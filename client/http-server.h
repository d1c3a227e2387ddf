/* SPDX-License-Identifier: MIT */
/* A minimal HTTP server that passes files to a browser on this machine: GET and HEAD, on a loopback port, below a path
 * that holds a random secret. It refuses all other requests, and all connections of other users. Not for use on a
 * network.
 */
#ifndef CSIGHT_CLIENT_HTTP_SERVER_H
#define CSIGHT_CLIENT_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_file {
	const char *name; /* below the secret path; "": the page itself */
	const char *type; /* media type */
	int fd;
	uint64_t size;
	bool last; /* the server ends when this file was sent completely */
};

enum { HTTP_SECRET_SIZE = 32 };

struct http_server {
	int fd;
	uint16_t port;
	char secret[HTTP_SECRET_SIZE + 1];
};

/* Listens on a loopback port; 0: any free port. Returns 0 or negative errno. */
int http_server_open(uint16_t port, struct http_server *ret);

/*
 * Serves until the file marked last was sent completely (returns 0) or stop() returns true (-ECANCELED). stop() is
 * called at least every 200 ms.
 */
int http_server_run(struct http_server *s, const struct http_file *files, size_t n, bool (*stop)(void));
void http_server_done(struct http_server *s);

#endif
