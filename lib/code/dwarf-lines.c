/* SPDX-License-Identifier: MIT */
/* The line number table of a unit, from its program (DWARF 5, 6.2), and the source line of an instruction. */
#include "lib/code/dwarf.h"

enum {
	OP_EXTENDED,
	OP_COPY,
	OP_ADVANCE_PC,
	OP_ADVANCE_LINE,
	OP_SET_FILE,
	OP_SET_COLUMN,
	OP_NEGATE_STATEMENT,
	OP_CONST_ADD_PC = 8,
	OP_FIXED_ADVANCE_PC,
	EXTENDED_END = 1,
	EXTENDED_ADDRESS,
};

/* State of running a program. */
struct line_program {
	struct dwarf_line_header header;
	struct reader r;
	struct dwarf_row row;
	bool discarded; /* the linker left the code of this sequence out */
	dwarf_row_fn *fn;
	void *user;
};

static void begin_sequence(struct line_program *p)
{
	p->row = (struct dwarf_row){ .file = 1, .line = 1, .statement = p->header.statement };
	p->discarded = false;
}

static int add_row(struct line_program *p)
{
	return p->discarded ? 0 : p->fn(p->user, &p->row);
}

/* Linkers put code that they leave out at 0, or at one of the last two addresses. */
static int set_address(struct line_program *p, struct reader *operand)
{
	uint64_t last = rd_left(operand) < sizeof(uint64_t) ? UINT32_MAX : UINT64_MAX;
	int rc = rd_left(operand) > sizeof(uint64_t)
		     ? -EBADMSG
		     : dwarf_number(operand, (unsigned)rd_left(operand), &p->row.address);

	p->discarded = !p->row.address || p->row.address >= last - 1;
	return rc;
}

static int run_extended(struct line_program *p)
{
	struct reader body;
	uint64_t size;
	uint8_t op;
	int rc = 0;

	if (rd_varint(&p->r, &size) < 0 || size > rd_left(&p->r) || rd_sub(&p->r, (size_t)size, &body) < 0)
		return -EBADMSG;
	if (rd_u8(&body, &op) < 0)
		return 0;
	if (op == EXTENDED_ADDRESS)
		return set_address(p, &body);
	if (op == EXTENDED_END) {
		p->row.end = true;
		rc = add_row(p);
		begin_sequence(p);
	}
	return rc;
}

static int skip_operands(struct line_program *p, uint8_t op)
{
	uint64_t ignored;

	for (uint8_t n = p->header.operands[op - 1]; n > 0; n--)
		if (rd_leb(&p->r, false, &ignored) < 0)
			return -EBADMSG;
	return 0;
}

static int run_standard(struct line_program *p, uint8_t op)
{
	const struct dwarf_line_header *h = &p->header;
	uint64_t n = 0;
	uint16_t fixed;

	switch (op) {
	case OP_EXTENDED:
		return run_extended(p);
	case OP_COPY:
		return add_row(p);
	case OP_ADVANCE_PC:
		if (rd_leb(&p->r, false, &n) < 0)
			return -EBADMSG;
		p->row.address += n * h->instruction;
		return 0;
	case OP_ADVANCE_LINE:
		if (rd_leb(&p->r, true, &n) < 0)
			return -EBADMSG;
		p->row.line += n;
		return 0;
	case OP_SET_FILE:
		return rd_leb(&p->r, false, &p->row.file);
	case OP_SET_COLUMN:
		return rd_leb(&p->r, false, &p->row.column);
	case OP_NEGATE_STATEMENT:
		p->row.statement = !p->row.statement;
		return 0;
	case OP_CONST_ADD_PC:
		p->row.address += (uint64_t)((255 - h->opcodes) / h->range) * h->instruction;
		return 0;
	case OP_FIXED_ADVANCE_PC:
		if (rd_u16(&p->r, &fixed) < 0)
			return -EBADMSG;
		p->row.address += fixed;
		return 0;
	default:
		return skip_operands(p, op);
	}
}

static int run_special(struct line_program *p, uint8_t op)
{
	const struct dwarf_line_header *h = &p->header;
	uint8_t adjusted = op - h->opcodes;

	p->row.address += (uint64_t)(adjusted / h->range) * h->instruction;
	p->row.line += (uint64_t)(int64_t)(h->base + adjusted % h->range);
	return add_row(p);
}

int dwarf_rows(struct dwarf *d, const struct dwarf_unit *u, dwarf_row_fn *fn, void *user)
{
	struct line_program p = { .fn = fn, .user = user };
	int rc = u->has_stmt_list ? dwarf_line_header(d, u, &p.header) : -ENOENT;

	if (rc == 0 && (!p.header.range || !p.header.opcodes))
		rc = -EBADMSG;
	p.r = p.header.program;
	begin_sequence(&p);
	while (rc == 0 && rd_left(&p.r)) {
		uint8_t op = 0;

		if (!dwarf_step(d, 1))
			return -EFBIG;
		rd_u8(&p.r, &op);
		rc = op >= p.header.opcodes ? run_special(&p, op) : run_standard(&p, op);
	}
	return rc;
}

/* The search for the row that covers an address. */
struct line_search {
	uint64_t address;
	struct dwarf_row last; /* the row before, if has_last */
	bool has_last;
};

static int on_row(void *user, const struct dwarf_row *row)
{
	struct line_search *s = user;

	if (s->has_last && s->last.address <= s->address && s->address < row->address)
		return 1;
	s->last = *row;
	s->has_last = !row->end;
	return 0;
}

int dwarf_line(struct dwarf *d, struct dwarf_unit *u, uint64_t address, const char **ret_file, uint32_t *ret_line)
{
	struct line_search s = { .address = address };
	int rc = dwarf_rows(d, u, on_row, &s);
	const char *file;

	if (rc < 0)
		return rc;
	file = rc == 1 && s.last.line && s.last.line <= UINT32_MAX ? dwarf_file(d, u, s.last.file) : NULL;
	if (!file)
		return -ENOENT;
	*ret_file = file;
	*ret_line = (uint32_t)s.last.line;
	return 0;
}
