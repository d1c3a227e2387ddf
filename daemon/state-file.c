/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/capture/perf/perf.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/state-file.h"
#include "daemon/state-shares.h"
#include "daemon/wire.h"
#include "lib/base/io.h"
#include "lib/base/json.h"

enum { STATE_VERSION = 1, STATE_MAX = 64 << 20, ENTRY_BYTES = 768 /* without texts */ };

void state_file_boot(char ret[STATE_BOOT_SIZE])
{
	if (proc_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret, STATE_BOOT_SIZE) < 0)
		*ret = 0;
	ret[strcspn(ret, "\n")] = 0;
}

static int check_file(int spool, struct reason *why)
{
	struct stat st;

	if (fstatat(spool, STATE_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return reason_set(why, -errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return reason_set(why, -EPERM, "it is not a regular file");
	if (st.st_uid != geteuid() || st.st_mode & (S_IRWXG | S_IRWXO))
		return reason_set(why, -EPERM, "others than the user of csightd could have changed it");
	return 0;
}

int state_file_read(int spool, struct state_content *ret, size_t *ret_past, struct reason *why)
{
	_cleanup_json_ json_object *o = NULL;
	_cleanup_free_ char *text = NULL;
	json_object *list, *standing = NULL;
	bool paused = false, past;
	int64_t version = 0;
	const char *of = "";
	size_t size;
	int rc = check_file(spool, why);

	if (rc < 0)
		return rc;
	rc = io_read_file(spool, STATE_FILE, STATE_MAX, &text, &size);
	if (rc < 0)
		return reason_set(why, rc, "%s", strerror(-rc));
	rc = json_parse(text, size, &o);
	if (rc < 0)
		return reason_set(why, rc, "%s", rc == -EBADMSG ? "it is not valid JSON" : strerror(-rc));
	if (json_get_i64(o, "version", &version) < 0 || version != STATE_VERSION)
		return reason_set(why, -EBADMSG, "it has version %lld, and this csightd reads version %d",
				  (long long)version, STATE_VERSION);
	if (json_get_str(o, "boot", &of) < 0 || json_get(o, "targets", json_type_array, &list) < 0 ||
	    json_get_bool(o, "paused", &paused) == -EINVAL ||
	    json_get(o, "standing", json_type_array, &standing) == -EINVAL)
		return reason_set(why, -EBADMSG, "a member is missing, or of the wrong type");
	past = !*ret->boot || strcmp(of, ret->boot) != 0;
	ret->paused = paused && !past;
	*ret_past = past ? json_array_size(list) : 0;
	ret->targets = past ? NULL : json_object_get(list);
	ret->standing = standing ? json_object_get(standing) : NULL;
	return 0;
}

int state_file_text(const struct state_content *content, char **ret)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	_cleanup_free_ char *text = NULL;

	json_add_i64(o, "version", STATE_VERSION);
	json_add_str(o, "boot", content->boot);
	if (content->paused)
		json_add_bool(o, "paused", true);
	json_add(o, "targets", content->targets);
	json_add(o, "standing", content->standing);
	text = json_text(o, JSON_PLAIN);
	if (!text)
		return -ENOMEM;
	if (strlen(text) > STATE_MAX)
		return -EFBIG;
	*ret = TAKE_PTR(text);
	return 0;
}

static bool get_id(json_object *o, const char *name, int64_t most, int64_t *ret)
{
	return json_get_i64(o, name, ret) == 0 && *ret >= 0 && *ret <= most;
}

int state_file_parse(json_object *o, struct state_entry *ret)
{
	struct state_entry e = { 0 };
	int64_t pid, uid, requester, standing = 0;
	json_object *options;
	const char *bad;

	if (!json_object_is_type(o, json_type_object) || !get_id(o, "pid", INT32_MAX, &pid) || pid == 0 ||
	    !get_id(o, "uid", UINT32_MAX - 1, &uid) || !get_id(o, "requester", UINT32_MAX - 1, &requester) ||
	    json_get_u64(o, "start", &e.start) < 0 || json_get_str(o, "name", &e.name) < 0 ||
	    json_get_str(o, "exe", &e.exe) < 0 || json_get(o, "triggers", json_type_array, &e.triggers) == -EINVAL ||
	    (json_get_i64(o, "standing", &standing) != -ENOENT && !get_id(o, "standing", UINT32_MAX, &standing)))
		return -EBADMSG;
	e.perf = json_get(o, "options", json_type_object, &options) == 0;
	if (e.perf && wire_read_options(options, &e.options, &bad) < 0)
		return -EBADMSG;
	e.pid = (pid_t)pid;
	e.uid = (uid_t)uid;
	e.requester = (uid_t)requester;
	e.standing = (uint32_t)standing;
	*ret = e;
	return 0;
}

uint64_t state_file_size(const struct target *t)
{
	const struct capture_options *options =
	    t->ring.source->ops == &perf_capture ? perf_target_options(t->ring.source) : NULL;

	return ENTRY_BYTES + state_shares_text(t->name) + state_shares_text(t->exe) +
	       (options ? state_shares_text(options->filter) + state_shares_text(options->sink) +
			      state_shares_text(options->counters)
			: 0);
}

json_object *state_file_entry(const struct target *t)
{
	json_object *o = json_object_new_object();

	json_add_i64(o, "pid", t->pid);
	json_add_u64(o, "start", t->start);
	json_add_i64(o, "uid", t->uid);
	json_add_i64(o, "requester", t->requester);
	json_add_bytes(o, "name", t->name);
	json_add_bytes(o, "exe", t->exe);
	if (t->standing)
		json_add_i64(o, "standing", t->standing);
	if (t->ring.source->ops == &perf_capture)
		json_add(o, "options", wire_options(perf_target_options(t->ring.source)));
	return o;
}
