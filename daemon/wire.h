/* SPDX-License-Identifier: MIT */
/* The JSON of org.csight (lib/csight/org.csight.varlink): its types Target and Snapshot, its errors, its progress. */
#ifndef CSIGHT_DAEMON_WIRE_H
#define CSIGHT_DAEMON_WIRE_H

#include "daemon/snapshot.h"
#include "daemon/target.h"
#include "lib/base/json.h"

enum wire_error {
	WIRE_NO_SUCH_PROCESS,
	WIRE_NO_SUCH_SNAPSHOT,
	WIRE_CANNOT_TRACE,
	WIRE_OPTION_REFUSED,
	WIRE_NOT_ARMED,
	WIRE_NOT_READY,
	WIRE_NOT_RECORDING,
	WIRE_SHARED_TRACE,
	WIRE_SNAPSHOT_FAILED,
	WIRE_LIMIT_REACHED,
	WIRE_NOT_KEPT,
	WIRE_INVALID_CONFIGURATION,
	WIRE_NO_SUCH_TRIGGER,
	WIRE_INVALID_TRIGGER,
	WIRE_NO_SUCH_STANDING_TARGET,
	WIRE_INVALID_RULE,
	WIRE_ENDING,
	WIRE_TOO_SLOW,
};

/* Returns the name of an error, such as "org.csight.NotArmed". */
const char *wire_error_str(enum wire_error error);

/* Return the parameters of an error about a process, and of one about a snapshot. reason and state may be NULL. */
json_object *wire_error_of_process(pid_t pid, const char *reason);
json_object *wire_error_of_snapshot(const char *id, const char *state);

/* Returns the parameters of the error LimitReached. */
json_object *wire_error_of_limit(const struct ledger_refusal *why);

/* Returns the parameters of the errors NoSuchTrigger and NoSuchStandingTarget. */
json_object *wire_error_of_trigger(uint64_t id);

/*
 * Return the parameters of the errors InvalidConfiguration, InvalidTrigger and InvalidRule, and of Ending. id: a
 * snapshot that the next daemon decodes, or NULL.
 */
json_object *wire_error_of_configuration(const struct reason *why);
json_object *wire_error_of_ending(const char *id);

/* Returns the parameters of the reply of Reload. */
json_object *wire_changes(const struct settings_changes *changes);

/* Return arrays of type Use: of a user, and of all users together. */
json_object *wire_use(struct ledger *l, uid_t uid);
json_object *wire_use_of_all(struct ledger *l);

/* Returns an array of type UserUse: all users who hold something. */
json_object *wire_users(struct ledger *l);

json_object *wire_target(struct target *t);

/*
 * Convert options to an object of type ArmOptions, and back; the texts of *ret are borrowed from o. -EINVAL: the member
 * *ret_bad is invalid.
 */
json_object *wire_options(const struct capture_options *options);
int wire_read_options(json_object *o, struct capture_options *ret, const char **ret_bad);

/* Returns the item of a list, without members that can be long. spool: the path of the spool. */
json_object *wire_snapshot_in_list(const struct snapshot *s, const char *spool);

/* Return the parameters of a reply of Snapshot and Wait: {"snapshot": …}, and {"phase": …}. */
json_object *wire_snapshot_reply(const struct snapshot *s, const char *spool);
json_object *wire_phase(const char *phase);
json_object *wire_recording(const struct snapshot *s, const char *spool);
json_object *wire_decode_progress(const struct snapshot *s);

#endif
