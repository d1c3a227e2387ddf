/* From AUX records and AUX buffers to pieces: which slice of which buffer each record means. */
#ifndef CSIGHT_PERFDATA_PIECES_H
#define CSIGHT_PERFDATA_PIECES_H

#include "lib/base/buf.h"
#include "lib/perfdata/read.h"
#include "lib/perfdata/sums.h"

struct pd_aux_record {
	uint64_t offset, size, flags;
	struct pd_origin origin;
	size_t order;
};

struct pd_aux_buffer {
	uint32_t cpu, tid, index;
	uint64_t offset, size;
	uint64_t file_offset;
	size_t order;
	size_t first_free; /* in the first of those with the same place: how many of them are taken */
};

struct pd_pieces {
	struct buf pieces; /* struct pd_piece */
	struct buf losses; /* struct pd_origin */
	uint64_t repeated, unplaced, empty, empty_lost;
};

/* Both lists are put into another order; the file's data ends at end. -ENOMEM. */
int pd_make_pieces(struct pd_aux_record *records, size_t n_records, struct pd_aux_buffer *buffers, size_t n_buffers,
		   uint64_t end, struct pd_pieces *ret);

/* Leaves out what is damaged: what stands before it and behind it are pieces of their own. -ENOMEM. */
int pd_cut_pieces(struct pd_pieces *pieces, const struct stretch *damaged, size_t n);

#endif
