/* SPDX-License-Identifier: MIT */
/* The Varlink protocol: a message is a JSON object in UTF-8, followed by NUL. Messages are parsed and formatted without
 * regard to sockets and event loops; varlink_stream is a connection for a blocking client.
 */
#ifndef CSIGHT_VARLINK_H
#define CSIGHT_VARLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/buf.h"
#include "lib/base/json.h"

enum { VARLINK_REQUEST_MAX = 64 << 10, VARLINK_REPLY_MAX = 16 << 20 };

#define VARLINK_PERMISSION_DENIED "org.varlink.service.PermissionDenied"
#define VARLINK_INVALID_PARAMETER "org.varlink.service.InvalidParameter"
#define VARLINK_INTERFACE_NOT_FOUND "org.varlink.service.InterfaceNotFound"
#define VARLINK_METHOD_NOT_FOUND "org.varlink.service.MethodNotFound"
#define VARLINK_METHOD_NOT_IMPLEMENTED "org.varlink.service.MethodNotImplemented"
#define VARLINK_EXPECTED_MORE "org.varlink.service.ExpectedMore"

struct varlink_call {
	json_object *root;       /* owned */
	const char *method;      /* within root; "interface.Method", checked to have that form */
	json_object *parameters; /* within root; an empty object if absent or null */
	bool oneway, more, upgrade;
};

struct varlink_reply {
	json_object *root;       /* owned */
	const char *error;       /* within root, or NULL */
	json_object *parameters; /* within root; always an object */
	bool continues;
};

/* Parses one message without its NUL. The caller frees the result with the done function. -EBADMSG: not a JSON object,
 * unknown or duplicate keys, wrong types, or more than one of oneway, more and upgrade; -ENOMEM.
 */
int varlink_call_parse(const char *text, size_t size, struct varlink_call *ret);
int varlink_reply_parse(const char *text, size_t size, struct varlink_reply *ret);
void varlink_call_done(struct varlink_call *call);
void varlink_reply_done(struct varlink_reply *reply);

/* Appends a message with its NUL. parameters are borrowed and may be NULL. An error is stored in the buffer. */
void varlink_put_call(struct buf *b, const char *method, json_object *parameters, bool more);
void varlink_put_reply(struct buf *b, json_object *parameters, bool continues);
void varlink_put_error(struct buf *b, const char *error, json_object *parameters);

/* The client's end of a connection; calls block. */
struct varlink_stream;

/*
 * Connects to a socket, or takes ownership of a connected one (varlink_stream_wrap). Errors of socket() and connect().
 * While too many others wait for the peer, varlink_connect() waits, for timeout_ms (then -ETIMEDOUT) or without a limit
 * (-1).
 */
int varlink_connect(const char *path, int timeout_ms, struct varlink_stream **ret);
/* Does not wait: -EAGAIN if too many others wait for the peer. */
int varlink_connect_now(const char *path, struct varlink_stream **ret);
int varlink_stream_wrap(int fd, struct varlink_stream **ret);

/* Ends the connection. In a child of the process that made the stream, only closes the child's descriptor. */
struct varlink_stream *varlink_stream_free(struct varlink_stream *s);

int varlink_stream_fd(const struct varlink_stream *s);
int varlink_send_call(struct varlink_stream *s, const char *method, json_object *parameters, bool more);

/* Receives the next reply; timeout_ms -1 waits without a limit. Returns its descriptor in *ret_fd, -1 if it has none;
 * if ret_fd is NULL the descriptor is closed. -EPIPE: the peer closed the connection; -ETIMEDOUT; -EBADMSG: not a
 * reply, or more than one descriptor; -EMSGSIZE: larger than VARLINK_REPLY_MAX. After an error other than -ETIMEDOUT
 * all further calls return that error.
 */
int varlink_receive(struct varlink_stream *s, int timeout_ms, struct varlink_reply *ret, int *ret_fd);

#endif
