/* SPDX-License-Identifier: MIT */
/* Assigns AUX records to AUX buffers: each record describes one slice of a buffer, which becomes a piece. */
#ifndef CSIGHT_PERFDATA_PIECES_H
#define CSIGHT_PERFDATA_PIECES_H

#include "lib/base/buf.h"
#include "lib/perfdata/losses.h"
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
	size_t record;     /* 1 + the order of the AUX record of its beginning directly before it; 0: there is none */
	size_t first_free; /* in the first of several buffers with the same position: how many of them are in use */
};

/* A part of a piece that is in one stretch of the file. */
struct pd_extent {
	uint64_t at; /* in the piece */
	uint64_t file_offset;
};

struct pd_pieces {
	struct buf pieces;  /* struct pd_piece */
	struct buf extents; /* struct pd_extent; those of a piece follow each other */
	struct pd_losses losses;
	uint64_t repeated, unplaced, empty, empty_lost;
};

/* Makes the pieces; end is the end of the file's data. Reorders both lists. -ENOMEM. */
int pd_make_pieces(struct pd_aux_record *records, size_t n_records, struct pd_aux_buffer *buffers, size_t n_buffers,
		   uint64_t end, struct pd_pieces *ret);

/* Removes damaged ranges of the file from the pieces; the parts before and after become separate pieces. -ENOMEM. */
int pd_cut_pieces(struct pd_pieces *pieces, const struct stretch *damaged, size_t n);

/* Joins the slices that continue each other to one piece, as long as nothing of them is missing. -ENOMEM. */
int pd_join_pieces(struct pd_pieces *pieces);

#endif
