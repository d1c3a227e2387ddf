/* The methods of org.csight and org.varlink.service: one row a method in methods.c. */
#ifndef CSIGHT_DAEMON_METHODS_H
#define CSIGHT_DAEMON_METHODS_H

#include "daemon/service.h"
#include "lib/base/json.h"

struct snapshot;

/* Finds the method, checks the caller's right, and calls its handler; answers with an error otherwise. */
void methods_dispatch(struct daemon *d, struct call *c, const char *name);

/* org.csight's Snapshot, and its name for errors that are told from elsewhere */
json_object *methods_snapshot_json(struct daemon *d, const struct snapshot *s);

#endif
