/*
 * What stood where in one address space, and when: places, each from a time on, later ones over earlier ones. Filled
 * once, then sealed and asked. The answer to a question takes steps in the order of log(places)^2, whatever they are.
 */
#ifndef CSIGHT_CODE_SPACE_H
#define CSIGHT_CODE_SPACE_H

#include <stddef.h>
#include <stdint.h>

struct place {
	uint64_t start, end; /* [start, end) */
	uint64_t time;
	uint64_t offset; /* of start, in its source */
	uint32_t source;
	uint32_t order; /* set by space_add() */
};

struct space;

int space_new(struct space **ret);
struct space *space_free(struct space *s);
size_t space_places(const struct space *s);

/* start, end, time, offset and source count. Empty places are passed over. */
int space_add(struct space *s, const struct place *place);

/* -ENOMEM. Afterwards nothing can be added. */
int space_seal(struct space *s);

/*
 * What is at addr as of time, and up to where that answer holds; NULL: nothing ever was. Before the first place of an
 * address, that one answers.
 */
const struct place *space_find(const struct space *s, uint64_t addr, uint64_t time, uint64_t *ret_end);

/* How many places there are as of time. */
size_t space_version(const struct space *s, uint64_t time);

#endif
