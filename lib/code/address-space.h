/*
 * What stood where in one address space, and when: mappings, each from a time on, later ones over earlier
 * ones. Filled once, then sealed and asked. The answer to a question takes steps in the order of log(mappings)^2,
 * whatever they are.
 */
#ifndef CSIGHT_CODE_ADDRESS_SPACE_H
#define CSIGHT_CODE_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct space_mapping {
	uint64_t start, end; /* [start, end) */
	uint64_t time;
	uint64_t offset; /* of start, in its source */
	uint32_t source;
	uint32_t order; /* set by address_space_add() */
	bool empty;     /* hides what was there and has nothing itself */
	bool unknown;   /* nobody knows what is there, and what comes later does not answer for it */
};

struct address_space;

int address_space_new(struct address_space **ret);
struct address_space *address_space_free(struct address_space *s);
size_t address_space_count(const struct address_space *s);

/* All but order counts. Places of no size are passed over. */
int address_space_add(struct address_space *s, const struct space_mapping *mapping);

/* -ENOMEM. Afterwards nothing can be added. */
int address_space_seal(struct address_space *s);

/*
 * What is at addr as of time, and up to where that answer holds; NULL: nothing. Where nothing is there by then, the
 * next one that comes answers: the question comes of something being executed there, on a clock that lags behind.
 */
const struct space_mapping *address_space_find(const struct address_space *s, uint64_t addr, uint64_t time,
					       uint64_t *ret_end);

/* How many mappings there are as of time. */
size_t address_space_version(const struct address_space *s, uint64_t time);

#endif
