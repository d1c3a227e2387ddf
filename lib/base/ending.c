/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/base/ending.h"

enum { SIGNALS = 65 };

static void signal_text(int signal, char ret[ENDING_TEXT_SIZE])
{
	const char *name = sigabbrev_np(signal);

	if (name)
		snprintf(ret, ENDING_TEXT_SIZE, "SIG%s", name);
	else
		snprintf(ret, ENDING_TEXT_SIZE, "signal %d", signal);
}

void ending_text(const struct ending *e, char ret[ENDING_TEXT_SIZE])
{
	static const char died[] = "died of ";

	if (WIFEXITED(e->status)) {
		snprintf(ret, ENDING_TEXT_SIZE, "exited with status %d", WEXITSTATUS(e->status));
		return;
	}
	signal_text(WTERMSIG(e->status), ret);
	memmove(ret + sizeof(died) - 1, ret, strlen(ret) + 1);
	memcpy(ret, died, sizeof(died) - 1);
	if (e->oom)
		strcat(ret, " (out of memory)");
}

json_object *ending_json(const struct ending *e)
{
	json_object *o = json_object_new_object();
	char text[ENDING_TEXT_SIZE];

	ending_text(e, text);
	json_add_str(o, "text", text);
	if (WIFEXITED(e->status)) {
		json_add_i64(o, "status", WEXITSTATUS(e->status));
	} else {
		signal_text(WTERMSIG(e->status), text);
		json_add_str(o, "signal", text);
	}
	if (e->oom)
		json_add_bool(o, "oom", true);
	if (e->tid)
		json_add_u64(o, "tid", e->tid);
	return o;
}

int ending_parse(json_object *o, struct ending *ret)
{
	struct ending e = { .known = true };
	char text[ENDING_TEXT_SIZE];
	const char *signal;
	uint64_t tid = 0, status;

	if (json_get_u64(o, "tid", &tid) == -EINVAL || tid > UINT32_MAX)
		return -EBADMSG;
	e.tid = (uint32_t)tid;
	if (json_get_bool(o, "oom", &e.oom) == -EINVAL)
		return -EBADMSG;
	if (json_get_u64(o, "status", &status) == 0 && status <= UINT8_MAX) {
		e.status = (int)status << 8;
		*ret = e;
		return 0;
	}
	if (json_get_str(o, "signal", &signal) < 0)
		return -EBADMSG;
	for (e.status = 1; e.status < SIGNALS; e.status++) {
		signal_text(e.status, text);
		if (strcmp(text, signal) == 0) {
			*ret = e;
			return 0;
		}
	}
	return -EBADMSG;
}
