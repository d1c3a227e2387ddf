/* SPDX-License-Identifier: MIT */
/* The source line of an instruction, from the line number program of its unit (DWARF 5, 6.2). */
#include "lib/code/dwarf.h"

enum {
	OP_EXTENDED,
	OP_COPY,
	OP_ADVANCE_PC,
	OP_ADVANCE_LINE,
	OP_SET_FILE,
	OP_CONST_ADD_PC = 8,
	OP_FIXED_ADVANCE_PC,
	EXTENDED_END = 1,
	EXTENDED_ADDRESS,
};

struct line_row {
	uint64_t address, file, line;
};

/* State of running a program up to the row that covers an address. */
struct line_search {
	struct dwarf_line_header header;
	struct reader r;
	struct line_row row, last; /* last: the row before, if has_last */
	bool has_last;
	uint64_t address;
};

static void begin_sequence(struct line_search *s)
{
	s->row = (struct line_row){ .file = 1, .line = 1 };
	s->has_last = false;
}

/* Ends the stretch of the last row. True if it has the address. */
static bool add_row(struct line_search *s)
{
	if (s->has_last && s->last.address <= s->address && s->address < s->row.address)
		return true;
	s->last = s->row;
	s->has_last = true;
	return false;
}

static int run_extended(struct line_search *s, bool *ret_found)
{
	struct reader body;
	uint64_t size;
	uint32_t address;
	uint8_t op;

	if (rd_varint(&s->r, &size) < 0 || size > rd_left(&s->r) || rd_sub(&s->r, (size_t)size, &body) < 0)
		return -EBADMSG;
	if (rd_u8(&body, &op) < 0)
		return 0;
	if (op == EXTENDED_END) {
		*ret_found = add_row(s);
		if (!*ret_found)
			begin_sequence(s);
	} else if (op == EXTENDED_ADDRESS) {
		if (rd_left(&body) == sizeof(address) && rd_u32(&body, &address) == 0)
			s->row.address = address;
		else if (rd_u64(&body, &s->row.address) < 0)
			return -EBADMSG;
	}
	return 0;
}

static int skip_operands(struct line_search *s, uint8_t op)
{
	uint64_t ignored;

	for (uint8_t n = s->header.operands[op - 1]; n > 0; n--)
		if (rd_leb(&s->r, false, &ignored) < 0)
			return -EBADMSG;
	return 0;
}

static int run_standard(struct line_search *s, uint8_t op, bool *ret_found)
{
	const struct dwarf_line_header *h = &s->header;
	uint64_t n = 0;
	uint16_t fixed;

	switch (op) {
	case OP_EXTENDED:
		return run_extended(s, ret_found);
	case OP_COPY:
		*ret_found = add_row(s);
		return 0;
	case OP_ADVANCE_PC:
		if (rd_leb(&s->r, false, &n) < 0)
			return -EBADMSG;
		s->row.address += n * h->instruction;
		return 0;
	case OP_ADVANCE_LINE:
		if (rd_leb(&s->r, true, &n) < 0)
			return -EBADMSG;
		s->row.line += n;
		return 0;
	case OP_SET_FILE:
		return rd_leb(&s->r, false, &s->row.file);
	case OP_CONST_ADD_PC:
		s->row.address += (uint64_t)((255 - h->opcodes) / h->range) * h->instruction;
		return 0;
	case OP_FIXED_ADVANCE_PC:
		if (rd_u16(&s->r, &fixed) < 0)
			return -EBADMSG;
		s->row.address += fixed;
		return 0;
	default:
		return skip_operands(s, op);
	}
}

static void run_special(struct line_search *s, uint8_t op, bool *ret_found)
{
	const struct dwarf_line_header *h = &s->header;
	uint8_t adjusted = op - h->opcodes;

	s->row.address += (uint64_t)(adjusted / h->range) * h->instruction;
	s->row.line += (uint64_t)(int64_t)(h->base + adjusted % h->range);
	*ret_found = add_row(s);
}

int dwarf_line(struct dwarf *d, struct dwarf_unit *u, uint64_t address, const char **ret_file, uint32_t *ret_line)
{
	struct line_search s = { .address = address };
	bool found = false;
	const char *file;
	int rc = u->has_stmt_list ? dwarf_line_header(d, u, &s.header) : -ENOENT;

	if (rc == 0 && (!s.header.range || !s.header.opcodes))
		rc = -EBADMSG;
	s.r = s.header.program;
	begin_sequence(&s);
	while (rc == 0 && !found && rd_left(&s.r)) {
		uint8_t op = 0;

		if (!dwarf_step(d, 1))
			return -EFBIG;
		rd_u8(&s.r, &op);
		if (op >= s.header.opcodes)
			run_special(&s, op, &found);
		else
			rc = run_standard(&s, op, &found);
	}
	if (rc < 0)
		return rc;
	file = found && s.last.line && s.last.line <= UINT32_MAX ? dwarf_file(d, u, s.last.file) : NULL;
	if (!file)
		return -ENOENT;
	*ret_file = file;
	*ret_line = (uint32_t)s.last.line;
	return 0;
}
