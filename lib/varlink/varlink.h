/*
 * The wire of Varlink: a message is a JSON object in UTF-8 and a NUL. This room knows messages, not sockets' event
 * loops; varlink_stream is for a blocking client.
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
	json_object *parameters; /* within root; an empty object where it was omitted or null */
	bool oneway, more, upgrade;
};

struct varlink_reply {
	json_object *root;       /* owned */
	const char *error;       /* within root, or NULL */
	json_object *parameters; /* within root; an object always */
	bool continues;
};

/*
 * text: one message without its NUL. -EBADMSG where it is not one: not a JSON object, unknown or duplicate top-level
 * keys, wrong types, two of oneway, more, upgrade.
 */
int varlink_call_parse(const char *text, size_t size, struct varlink_call *ret);
int varlink_reply_parse(const char *text, size_t size, struct varlink_reply *ret);
void varlink_call_done(struct varlink_call *call);
void varlink_reply_done(struct varlink_reply *reply);

/* Appends a whole message with its NUL; parameters are borrowed and may be NULL. Failures stick in the buffer. */
void varlink_put_call(struct buf *b, const char *method, json_object *parameters, bool more);
void varlink_put_reply(struct buf *b, json_object *parameters, bool continues);
void varlink_put_error(struct buf *b, const char *error, json_object *parameters);

/* A client's end of a connection, blocking. */
struct varlink_stream;

/* -errno of socket() and connect(). varlink_stream_of takes a connected socket over. */
int varlink_connect(const char *path, struct varlink_stream **ret);
int varlink_stream_of(int fd, struct varlink_stream **ret);
struct varlink_stream *varlink_stream_free(struct varlink_stream *s);
int varlink_stream_fd(const struct varlink_stream *s);
int varlink_send_call(struct varlink_stream *s, const char *method, json_object *parameters, bool more);

/*
 * The next reply; timeout_ms -1 waits for ever. A descriptor that came with it goes to *ret_fd (-1 for none; closed
 * where ret_fd is NULL). -EPIPE: the peer closed; -ETIMEDOUT; -EBADMSG: not a reply, or more than one descriptor with
 * it; -EMSGSIZE: over VARLINK_REPLY_MAX. After any of these but -ETIMEDOUT the stream gives nothing more.
 */
int varlink_receive(struct varlink_stream *s, int timeout_ms, struct varlink_reply *ret, int *ret_fd);

#endif
