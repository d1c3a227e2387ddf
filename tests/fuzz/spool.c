/* SPDX-License-Identifier: MIT */
/*
 * daemon/spool.c, snapshot.c: a directory of the spool. The input is the name of a snapshot, its snapshot.json and its
 * state.json, each terminated by NUL. The state of what is listed is written again, and reads as the same.
 */
#include "config.h"

#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/spool.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/fuzz/fuzz.h"

static struct event_base *base;
static struct ledger *ledger;
static char dir[] = "/dev/shm/csight-fuzz-XXXXXX";

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ret->most[k] = LEDGER_UNLIMITED;
}

static void on_changed(void *data, const struct snapshot *s, enum snapshot_change change)
{
}

static void remove_dir(void)
{
	rmdir(dir);
}

static void begin(void)
{
	struct ledger_options o = { .limits = limits_of };

	if (base)
		return;
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		o.totals[k] = (struct ledger_total){ .most = LEDGER_UNLIMITED };
	base = event_base_new();
	log_setup("fuzz", LOG_EMERG);
	fuzz_require(base && mkdtemp(dir) && ledger_new(&o, &ledger) == 0);
	atexit(remove_dir);
}

static void write_text(int at, const char *name, const char *text)
{
	int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	fuzz_require(fd >= 0 && io_write(fd, text, strlen(text)) == 0);
	close(fd);
}

static struct spool *open_spool(void)
{
	struct spool *s;

	fuzz_require(
	    spool_new(&(struct spool_options){ .path = dir, .ledger = ledger, .base = base, .changed = on_changed },
		      &s) == 0);
	return s;
}

/* Writes the state again, and compares what is read then. */
static void check_again(const char *id)
{
	struct spool *s = open_spool();
	const struct snapshot *a = spool_find(s, id);
	_cleanup_free_ char *text = NULL, *again = NULL;
	json_object *decode;

	if (!a) {
		spool_free(s);
		return;
	}
	fuzz_require(a->name && a->state != SNAPSHOT_COPYING && a->state != SNAPSHOT_DECODING);
	decode = snapshot_decode(a);
	text = snapshot_state_text(a, a->state);
	fuzz_require(text && snapshot_write_state(spool_fd(s), id, text) == 0);
	json_object_put(decode);
	spool_free(s);
	s = open_spool();
	a = spool_find(s, id);
	again = a ? snapshot_state_text(a, a->state) : NULL;
	fuzz_require(again && strcmp(text, again) == 0);
	spool_free(s);
}

/* Returns the next text, which the caller frees. */
static char *take(const char **at, size_t *size)
{
	const char *nul = memchr(*at, 0, *size);
	size_t n = nul ? (size_t)(nul - *at) : *size, whole = n + (nul != NULL);
	char *text = strndup(*at, n);

	*at += whole;
	*size -= whole;
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data;
	char *name = take(&at, &size), *snapshot = take(&at, &size), *state = take(&at, &size);
	int top, in;

	begin();
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < 200 && mkdirat(top, name, 0700) == 0) {
		in = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fuzz_require(top >= 0 && in >= 0);
		if (snapshot[0])
			write_text(in, "snapshot.json", snapshot);
		if (state[0])
			write_text(in, "state.json", state);
		check_again(name);
		unlinkat(in, "snapshot.json", 0);
		unlinkat(in, "state.json", 0);
		unlinkat(top, name, AT_REMOVEDIR);
		close(in);
	}
	close(top);
	free(name);
	free(snapshot);
	free(state);
	return 0;
}

void fuzz_seeds(void)
{
	static const char ready[] = "20260101T000000-abcdef\0"
				    "{\"pid\":7,\"uid\":1000,\"gid\":1000,\"name\":\"prog\",\"time\":5,\"blind\":6,"
				    "\"shared\":true,\"threads\":[{}],"
				    "\"missing\":[\"this\",\"that\"],\"ended\":{\"text\":\"exited with status 0\"}}\0"
				    "{\"state\":\"ready\",\"attempts\":1,\"decode\":{\"functions\":7,\"bytes\":[1,2]}}";
	static const char raw[] = "20260101T000000-abcdef\0"
				  "{\"pid\":7,\"uid\":1000,\"gid\":1000,\"name\":\"\\u001b\",\"time\":5,\"blind\":6}\0"
				  "{\"state\":\"raw\",\"attempts\":2,\"reason\":\"csight-decode: killed by SIGKILL\"}";
	static const char queued[] = "20260101T000000-abcdef\0"
				     "{\"pid\":7,\"uid\":1000,\"gid\":1000,\"name\":\"p\",\"time\":5,\"blind\":6}\0";
	static const char unfinished[] = "tmp-20260101T000000-abcdef\0{}";

	fuzz_seed(ready, sizeof(ready) - 1);
	fuzz_seed(raw, sizeof(raw) - 1);
	fuzz_seed(queued, sizeof(queued) - 1);
	fuzz_seed(unfinished, sizeof(unfinished) - 1);
}
