/* The store that a verb looks at: a snapshot's, asked of the daemon, or a file's or snapshot directory's here.
 */
#ifndef CSIGHT_CLIENT_STORE_INPUT_H
#define CSIGHT_CLIENT_STORE_INPUT_H

#include "client/client.h"
#include "lib/base/json.h"
#include "lib/store/store.h"

struct store_input {
	struct store *store;
	int fd;
	struct csight_object *snapshot; /* as the daemon tells of it; NULL: a file's */
};

#define STORE_INPUT_NONE \
	{                \
		.fd = -1 \
	}
#define STORE_INPUT_ARGUMENT "ID|FILE"

/* Whether name is of a file or directory here, and no snapshot's id. */
bool store_input_is_path(const char *name);

/* 0 or an exit status. What cannot be shown yet, or ever, is said. */
int store_input_open(struct client *c, const char *name, struct store_input *ret);

/* The same of a descriptor that is in ret already, which is of what has this name. */
int store_input_read(const char *name, struct store_input *ret);
void store_input_done(struct store_input *s);

/* Whether a function is meant: by its name, with * and ? for any letters, with or without its parameters. */
bool store_input_matches_name(const char *name, const char *wanted);

/* ns since the earliest event of any thread. */
uint64_t store_input_since_start(const struct store *s, uint64_t time);

/* A line: which time it is of, on which clock, and how exact its times are; nothing where there are none. */
void store_input_print_times(FILE *to, const struct store *s);

/* The same, for JSON. */
void store_input_add_times(const struct store *s, json_object *to);

#endif
