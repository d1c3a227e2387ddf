#include "lib/emu/encode.h"

/* The patterns of formats 4 and 5, the oldest atom in bit 0, and their headers. */
struct pattern {
	uint8_t bits, header;
};
static const struct pattern four[] = { { 0xe, 0xdc }, { 0x0, 0xdd }, { 0xa, 0xde }, { 0x5, 0xdf } };
static const struct pattern five[] = { { 0x1e, 0xf5 }, { 0x00, 0xd5 }, { 0x0a, 0xd6 }, { 0x15, 0xd7 } };

static uint8_t header_of(const struct pattern *p, uint32_t bits)
{
	for (int i = 0; i < 4; i++)
		if (p[i].bits == bits)
			return p[i].header;
	return 0;
}

/* How many of the oldest atoms the next packet takes; its byte goes to *ret. */
static unsigned take(uint32_t atoms, unsigned n, uint8_t *ret)
{
	unsigned run = (unsigned)__builtin_ctz(~atoms);

	run = run > n ? n : run;
	/* Format 6: 3 to 23 of E, and one more of either. */
	if (run >= 3 && run < n && run <= 23) {
		*ret = (uint8_t)(0xe0 + run - 3);
		return run + 1;
	}
	if (run >= 4) {
		run = run > ETM_ATOMS_MAX ? ETM_ATOMS_MAX : run;
		*ret = (uint8_t)(0xc0 + run - 4);
		return run;
	}
	if (n >= 5 && (*ret = header_of(five, atoms & 0x1f)))
		return 5;
	if (n >= 4 && (*ret = header_of(four, atoms & 0xf)))
		return 4;
	if (n >= 3) {
		*ret = (uint8_t)(0xf8 | (atoms & 7));
		return 3;
	}
	*ret = n == 2 ? (uint8_t)(0xd8 | (atoms & 3)) : (uint8_t)(0xf6 | (atoms & 1));
	return n;
}

unsigned etm_atom_packets(uint32_t atoms, unsigned n, uint8_t *ret)
{
	unsigned bytes = 0;

	while (n) {
		unsigned took = take(atoms, n, &ret[bytes++]);

		atoms = took < 32 ? atoms >> took : 0;
		n -= took;
	}
	return bytes;
}

unsigned emu_finish(uint64_t pending, uint8_t ret[EMU_PENDING_MAX])
{
	uint64_t n = pending >> 32;

	return n <= ETM_ATOMS_MAX ? etm_atom_packets((uint32_t)pending, (unsigned)n, ret) : 0;
}
