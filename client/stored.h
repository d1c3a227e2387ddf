/* The store that a verb looks at: a snapshot's, asked of the daemon, or a file's or snapshot directory's here. */
#ifndef CSIGHT_CLIENT_STORED_H
#define CSIGHT_CLIENT_STORED_H

#include "client/client.h"
#include "lib/base/json.h"
#include "lib/store/store.h"

struct stored {
	struct store *store;
	int fd;
	struct csight_object *snapshot; /* as the daemon tells of it; NULL: a file's */
};

#define STORED_NONE      \
	{                \
		.fd = -1 \
	}
#define STORED_ARGUMENT "ID|FILE"

/* Whether name is of a file or directory here, and no snapshot's id. */
bool stored_is_path(const char *name);

/* 0 or an exit status. What cannot be shown yet, or ever, is said. */
int stored_open(struct client *c, const char *name, struct stored *ret);

/* The same of a descriptor that is in ret already, which is of what has this name. */
int stored_read(const char *name, struct stored *ret);
void stored_done(struct stored *s);

/* Whether a function is meant: by its name, with * and ? for any letters, with or without its parameters. */
bool stored_name_is(const char *name, const char *wanted);

/* ns since the earliest event of any thread. */
uint64_t stored_since_start(const struct store *s, uint64_t time);

/* A line: which time it is of, on which clock, and how exact its times are; nothing where there are none. */
void stored_tell_times(FILE *to, const struct store *s);

/* The same, for JSON. */
void stored_times_json(const struct store *s, json_object *to);

#endif
