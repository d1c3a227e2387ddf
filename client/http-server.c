/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "client/http-server.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

enum { CLIENTS_MAX = 16, REQUEST_MAX = 8192, PATIENCE_MS = 200, SEND_SECONDS = 30, IDLE_SECONDS = 5, ESTABLISHED = 1 };

struct http_client {
	int fd; /* -1: the entry is free */
	uint64_t since_ns;
	size_t size;
	char request[REQUEST_MAX + 1];
};

int http_server_open(uint16_t port, struct http_server *ret)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	uint8_t secret[HTTP_SECRET_SIZE / 2];
	struct http_server s = { .fd = -1 };
	int one = 1;

	if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return -EIO;
	hex_encode(secret, sizeof(secret), s.secret);
	s.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s.fd < 0 || setsockopt(s.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(s.fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(s.fd, CLIENTS_MAX) < 0 ||
	    getsockname(s.fd, (struct sockaddr *)&address, &size) < 0) {
		int rc = -errno;

		http_server_done(&s);
		return rc;
	}
	s.port = ntohs(address.sin_port);
	*ret = s;
	return 0;
}

void http_server_done(struct http_server *s)
{
	closep(&s->fd);
}

static int send_head(int fd, const char *status, const char *type, uint64_t size)
{
	char text[512];

	/* The page must not be shown in a frame of another page, and not be cached. */
	snprintf(
	    text, sizeof(text),
	    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %ju\r\nConnection: close\r\nCache-Control: no-store\r\n"
	    "X-Frame-Options: DENY\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\r\n",
	    status, type, (uintmax_t)size);
	return io_write(fd, text, strlen(text));
}

static int send_file(int fd, const struct http_file *f, bool body)
{
	off_t at = 0;
	int rc = send_head(fd, "200 OK", f->type, f->size);

	while (rc == 0 && body && (uint64_t)at < f->size) {
		ssize_t n = sendfile(fd, f->fd, &at, f->size - (uint64_t)at);

		if (n <= 0)
			rc = n < 0 ? -errno : -EIO;
	}
	return rc;
}

/* Returns 1 if the last file was sent completely. */
static int answer_request(const struct http_server *s, const struct http_client *v, const struct http_file *files,
			  size_t n)
{
	const struct timeval patience = { .tv_sec = SEND_SECONDS };
	char method[8] = "", path[256] = "", host[128] = "";
	const char *line = strcasestr(v->request, "\r\nHost:");
	char secret[HTTP_SECRET_SIZE + 8];

	/* Sending blocks, but not longer than SEND_SECONDS. */
	fcntl(v->fd, F_SETFL, 0);
	setsockopt(v->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (sscanf(v->request, "%7s %255s", method, path) != 2 || !line || sscanf(line + 7, "%127s", host) != 1 ||
	    (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)) {
		send_head(v->fd, "400 Bad Request", "text/plain", 0);
		return 0;
	}
	path[strcspn(path, "?")] = 0;
	/* Other host names are refused: a hostile site may resolve its own name to this machine (DNS rebinding). */
	host[strcspn(host, ":")] = 0;
	snprintf(secret, sizeof(secret), "/%s/", s->secret);
	if ((strcmp(host, "127.0.0.1") == 0 || strcmp(host, "localhost") == 0) &&
	    strncmp(path, secret, strlen(secret)) == 0)
		for (size_t i = 0; i < n; i++) {
			bool body = strcmp(method, "GET") == 0;

			if (strcmp(path + strlen(secret), files[i].name) == 0)
				return send_file(v->fd, &files[i], body) == 0 && body && files[i].last;
		}
	send_head(v->fd, "404 Not Found", "text/plain", 0);
	return 0;
}

static void http_client_close(struct http_client *v)
{
	closep(&v->fd);
	v->size = 0;
}

/* Returns 1 if the last file was sent completely. */
static int http_client_read(const struct http_server *s, struct http_client *v, const struct http_file *files, size_t n)
{
	ssize_t got = recv(v->fd, v->request + v->size, REQUEST_MAX - v->size, 0);
	int rc = 0;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0) {
		http_client_close(v);
		return 0;
	}
	v->size += (size_t)got;
	v->request[v->size] = 0;
	if (!strstr(v->request, "\r\n\r\n") && v->size < REQUEST_MAX)
		return 0;
	rc = answer_request(s, v, files, n);
	shutdown(v->fd, SHUT_WR);
	http_client_close(v);
	return rc;
}

/*
 * True if the other end of a connection on this machine belongs to this user, as the kernel's table of sockets says.
 * The secret may have become known to other users, from a log or a screen. Only an established connection that a
 * process has open counts: the kernel gives all others to root. The peer may have connections from its address and port
 * to the same port of other addresses.
 */
static bool same_user(int fd, const struct sockaddr_in *peer)
{
	struct sockaddr_in own = { 0 };
	socklen_t size = sizeof(own);
	_cleanup_fclose_ FILE *table = fopen("/proc/net/tcp", "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	if (getsockname(fd, (struct sockaddr *)&own, &size) < 0)
		return false;
	while (table && getline(&line, &room, table) > 0) {
		unsigned from, from_port, to, to_port, state, uid;
		unsigned long inode;

		if (sscanf(line, " %*u: %x:%x %x:%x %x %*x:%*x %*x:%*x %*x %u %*u %lu", &from, &from_port, &to,
			   &to_port, &state, &uid, &inode) == 7 &&
		    state == ESTABLISHED && from == peer->sin_addr.s_addr && from_port == ntohs(peer->sin_port) &&
		    to == own.sin_addr.s_addr && to_port == ntohs(own.sin_port))
			return inode != 0 && uid == geteuid();
	}
	return false;
}

static void http_server_accept(const struct http_server *s, struct http_client *all)
{
	struct sockaddr_in peer = { 0 };
	socklen_t size = sizeof(peer);
	int fd = accept4(s->fd, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 && !same_user(fd, &peer))
		closep(&fd);

	for (size_t i = 0; fd >= 0 && i < CLIENTS_MAX; i++)
		if (all[i].fd < 0) {
			all[i].fd = TAKE_FD(fd);
			all[i].since_ns = now_ns(CLOCK_MONOTONIC);
			all[i].size = 0;
		}
	/* A browser opens fewer connections than CLIENTS_MAX; further ones are closed. */
	closep(&fd);
}

/* Closes the connections that have sent no whole request for some time. */
static void drop_idle(struct http_client *all)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (all[i].fd >= 0 && now - all[i].since_ns > IDLE_SECONDS * 1000000000ull)
			http_client_close(&all[i]);
}

int http_server_run(struct http_server *s, const struct http_file *files, size_t n, bool (*stop)(void))
{
	static struct http_client all[CLIENTS_MAX];
	int rc = 0;

	for (size_t i = 0; i < CLIENTS_MAX; i++)
		all[i].fd = -1;
	while (rc == 0) {
		struct pollfd fds[CLIENTS_MAX + 1] = { { s->fd, POLLIN, 0 } };

		for (size_t i = 0; i < CLIENTS_MAX; i++)
			fds[i + 1] = (struct pollfd){ all[i].fd, POLLIN, 0 };
		poll(fds, CLIENTS_MAX + 1, PATIENCE_MS);
		if (stop())
			rc = -ECANCELED;
		for (size_t i = 0; rc == 0 && i < CLIENTS_MAX; i++)
			if (fds[i + 1].fd >= 0 && fds[i + 1].revents)
				rc = http_client_read(s, &all[i], files, n);
		drop_idle(all);
		if (rc == 0 && fds[0].revents)
			http_server_accept(s, all);
	}
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		http_client_close(&all[i]);
	return MIN(rc, 0);
}
