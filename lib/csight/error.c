/* SPDX-License-Identifier: MIT */
/* The messages of failed calls. */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/escape.h"
#include "lib/csight/csight-internal.h"

const char *csight_error(const struct csight *c)
{
	return c->error;
}

const char *csight_error_name(const struct csight *c)
{
	return c->error_name;
}

void csight_begin_call(struct csight *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->doing, sizeof(c->doing), fmt, args);
	va_end(args);
	free(c->error_name);
	c->error_name = NULL;
	c->error[0] = 0;
}

int csight_set_error(struct csight *c, int rc, const char *fmt, ...)
{
	char text[sizeof(c->error)];
	va_list args;
	int n;

	n = snprintf(text, sizeof(text), "cannot %s: ", c->doing);
	va_start(args, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
	va_end(args);
	escape_text(text, c->error, sizeof(c->error));
	return rc;
}

const char *csight_text_or(json_object *o, const char *key, const char *otherwise)
{
	json_get_str(o, key, &otherwise);
	return otherwise;
}

int csight_set_version_error(struct csight *c, const char *version)
{
	return csight_set_error(
	    c, -ENOSYS,
	    "the csightd at %s does not support this: it is version %s, and this is version %s; use both "
	    "of one version, and restart csightd after an upgrade",
	    c->socket, version ? version : "unknown", PACKAGE_VERSION);
}

static int set_parameter_error(struct csight *c, const char *parameter)
{
	if (strcmp(parameter, "why") == 0)
		return csight_set_error(c, -EINVAL, "the reason has more than 256 bytes, or control characters");
	if (strcmp(parameter, "labels") == 0)
		return csight_set_error(
		    c, -EINVAL,
		    "a label is NAME=VALUE, at most 32 of letters, digits, '_', '.' and '-', and at "
		    "most 64 bytes without control characters");
	return csight_set_error(c, -EINVAL, "csightd rejects the value of '%s'", parameter);
}

int csight_set_reply_error(struct csight *c, const struct varlink_reply *reply)
{
	const char *name = reply->error, *reason = csight_text_or(reply->parameters, "reason", "no reason given");

	c->error_name = strdup(name);
	if (strncmp(name, INTERFACE, strlen(INTERFACE)) == 0)
		name += strlen(INTERFACE);
	if (strcmp(name, VARLINK_PERMISSION_DENIED) == 0)
		return csight_set_error(
		    c, -EPERM, "it does not exist, or belongs to another user; only its owner and root have access");
	if (strcmp(name, VARLINK_INVALID_PARAMETER) == 0)
		return set_parameter_error(c, csight_text_or(reply->parameters, "parameter", "?"));
	if (strcmp(name, VARLINK_METHOD_NOT_FOUND) == 0 || strcmp(name, VARLINK_METHOD_NOT_IMPLEMENTED) == 0 ||
	    strcmp(name, VARLINK_INTERFACE_NOT_FOUND) == 0)
		return csight_set_version_error(c, NULL);
	if (strcmp(name, "NoSuchProcess") == 0)
		return csight_set_error(c, -ESRCH, "there is no such process");
	if (strcmp(name, "NoSuchSnapshot") == 0)
		return csight_set_error(c, -ENOENT, "there is no such snapshot");
	if (strcmp(name, "NoSuchTrigger") == 0)
		return csight_set_error(c, -ENOENT, "there is no such trigger");
	if (strcmp(name, "InvalidTrigger") == 0)
		return csight_set_error(c, -EINVAL, "%s", reason);
	if (strcmp(name, "NoSuchStandingTarget") == 0)
		return csight_set_error(c, -ENOENT, "there is no such standing target");
	if (strcmp(name, "InvalidRule") == 0)
		return csight_set_error(c, -EINVAL, "%s", reason);
	if (strcmp(name, "CannotTrace") == 0)
		return csight_set_error(c, -EOPNOTSUPP, "it cannot be traced: %s", reason);
	if (strcmp(name, "OptionRefused") == 0)
		return csight_set_error(c, -EOPNOTSUPP, "an option is refused: %s", reason);
	if (strcmp(name, "NotArmed") == 0)
		return csight_set_error(c, -ENODATA, "it is not armed, so it has no history");
	if (strcmp(name, "NotReady") == 0)
		return csight_set_error(c, -EBUSY, "the snapshot is %s",
					csight_text_or(reply->parameters, "state", "in another state"));
	if (strcmp(name, "NotRecording") == 0)
		return csight_set_error(c, -EBUSY, "the snapshot is no recording");
	if (strcmp(name, "SharedTrace") == 0)
		return csight_set_error(
		    c, -EPERM, "it holds trace of other processes, which share the sink: only root has access");
	if (strcmp(name, "SnapshotFailed") == 0)
		return csight_set_error(c, -EIO, "%s", reason);
	if (strcmp(name, "LimitReached") == 0)
		return csight_set_error(c, -EDQUOT, "the limit of %s is reached: %s",
					csight_text_or(reply->parameters, "limit", "something"), reason);
	if (strcmp(name, "NotKept") == 0)
		return csight_set_error(c, -EIO, "it cannot be written to the spool: %s", reason);
	if (strcmp(name, "InvalidConfiguration") == 0)
		return csight_set_error(c, -EBADMSG, "%s; the old configuration stays in effect", reason);
	if (strcmp(name, "TooSlow") == 0)
		return csight_set_error(c, -ENOBUFS, "events came faster than they were read");
	if (strcmp(name, "Ending") == 0)
		return csight_set_error(c, -ESHUTDOWN, "csightd is ending: %s", reason);
	return csight_set_error(c, -EPROTO, "csightd reports %s", name);
}

int csight_set_receive_error(struct csight *c, int rc)
{
	switch (rc) {
	case -ENOMEM:
		return csight_set_error(c, rc, "out of memory");
	case -ETIMEDOUT:
		return csight_set_error(c, rc, "the csightd at %s has not replied in time", c->socket);
	case -EBADMSG:
	case -EMSGSIZE:
		return csight_set_error(c, -EPROTO, "the reply from %s is not csightd's protocol", c->socket);
	default:
		return csight_set_error(
		    c, -ENOTCONN, "the csightd at %s closed the connection; its log may have the reason", c->socket);
	}
}

int csight_set_connect_error(struct csight *c, int rc, uid_t uid)
{
	if (rc == -ENOMEM)
		return csight_set_error(c, rc, "out of memory");
	if (rc == -ECHILD)
		return csight_set_error(
		    c, rc, "process %d opened the handle, and this is process %d: after fork() a child opens its own",
		    (int)c->owner, (int)getpid());
	if (rc == -EACCES && uid != (uid_t)-1)
		return csight_set_error(
		    c, rc, "%s is served by user %u, neither you nor root; to trust it, name the socket explicitly",
		    c->socket, (unsigned)uid);
	if (rc == -EACCES || rc == -EPERM)
		return csight_set_error(c, -EACCES, "no permission to connect to %s", c->socket);
	if (rc == -ETIMEDOUT)
		return csight_set_error(
		    c, rc, "cannot connect to %s: the csightd there has not accepted others that wait in time",
		    c->socket);
	return csight_set_error(c, -ENOTCONN, "no csightd answers at %s (%s); start csightd, or name another socket",
				c->socket, strerror(-rc));
}

int csight_set_options_error(struct csight *c, int rc)
{
	return csight_set_error(c, rc,
				rc == -E2BIG ? "an option is set that this version of libcsight (%s) does not have"
					     : "the size of the options is not set (libcsight %s)",
				CSIGHT_VERSION_TEXT);
}
