/* SPDX-License-Identifier: MIT */
/*
 * The mappings of one address space over time: a later mapping covers an earlier one from its time on. The caller adds
 * mappings, seals the address space, and then looks up addresses in O(log(mappings)^2), even for hostile input. After
 * further mappings it is to be sealed again, which costs as much as before.
 */
#ifndef CSIGHT_CODE_ADDRESS_SPACE_H
#define CSIGHT_CODE_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct space_mapping {
	uint64_t start, end; /* [start, end) */
	uint64_t time;
	uint64_t offset; /* of start, in the source */
	uint32_t source; /* chosen by the caller: where the bytes are */
	uint32_t order;  /* set by address_space_add() */
	bool empty;      /* unmaps: covers earlier mappings and has no bytes */
	bool unknown;    /* the bytes are unknown; look-ups find nothing, even if a later mapping exists */
};

struct address_space;

int address_space_new(struct address_space **ret);
struct address_space *address_space_free(struct address_space *s);

static inline void address_space_freep(struct address_space **s)
{
	address_space_free(*s);
}

/* Copies the mapping. Ignores one without a byte. */
int address_space_add(struct address_space *s, const struct space_mapping *mapping);

/* Builds the index, unless there is one of all mappings. -ENOMEM. */
int address_space_seal(struct address_space *s);

/*
 * Returns the mapping of addr at time, valid up to *ret_end; NULL: none, or its bytes are unknown. If addr is not
 * mapped at that time, returns the next mapping in time: look-ups are for executed code, and the clock of a trace may
 * lag behind the kernel's record of the mapping.
 */
const struct space_mapping *address_space_find(const struct address_space *s, uint64_t addr, uint64_t time,
					       uint64_t *ret_end);

/*
 * Returns the mapping of addr at a time that is not known, valid up to *ret_end; NULL: there were others at other
 * times, of other bytes, or so many that they are not compared. As above, the first known bytes count for earlier
 * times.
 */
const struct space_mapping *address_space_find_only(const struct address_space *s, uint64_t addr, uint64_t *ret_end);

/* Returns the number of mappings added up to time: it differs between two times if any mapping changed between them. */
size_t address_space_count_until(const struct address_space *s, uint64_t time);

#endif
