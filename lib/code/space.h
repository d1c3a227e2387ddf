/*
 * What stood where in one address space, and when: places, each from a time on, later ones over earlier ones. Filled
 * once, then sealed and asked. The answer to a question takes steps in the order of log(places)^2, whatever they are.
 */
#ifndef CSIGHT_CODE_SPACE_H
#define CSIGHT_CODE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place {
	uint64_t start, end; /* [start, end) */
	uint64_t time;
	uint64_t offset; /* of start, in its source */
	uint32_t source;
	uint32_t order; /* set by space_add() */
	bool empty;     /* hides what was there and has nothing itself */
	bool unknown;   /* nobody knows what is there, and what comes later does not answer for it */
};

struct space;

int space_new(struct space **ret);
struct space *space_free(struct space *s);
size_t space_places(const struct space *s);

/* All but order counts. Places of no size are passed over. */
int space_add(struct space *s, const struct place *place);

/* -ENOMEM. Afterwards nothing can be added. */
int space_seal(struct space *s);

/*
 * What is at addr as of time, and up to where that answer holds; NULL: nothing. Where nothing is there by then, the
 * next one that comes answers: the question comes of something being executed there, on a clock that lags behind.
 */
const struct place *space_find(const struct space *s, uint64_t addr, uint64_t time, uint64_t *ret_end);

/* How many places there are as of time. */
size_t space_version(const struct space *s, uint64_t time);

#endif
