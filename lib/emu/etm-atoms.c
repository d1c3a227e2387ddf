/* SPDX-License-Identifier: MIT */
#include "lib/emu/etm-encode.h"

/* Decodes an atom packet (0xc0 and above) to its atoms, the oldest in bit 0. Returns their number. */
static unsigned unpack(unsigned packet, uint32_t *ret)
{
	static const uint8_t four[] = { 0xe, 0x0, 0xa, 0x5 }, five[] = { 0x00, 0x0a, 0x15 };
	unsigned run = (packet & 31) + 3;

	if (packet >= 0xf8)
		return *ret = packet & 7, 3;
	if (packet >= 0xf6)
		return *ret = packet & 1, 1;
	if (packet == 0xf5)
		return *ret = 0x1e, 5;
	if (packet >= 0xdc && packet <= 0xdf)
		return *ret = four[packet & 3], 4;
	if (packet >= 0xd8 && packet <= 0xdb)
		return *ret = packet & 3, 2;
	if (packet >= 0xd5 && packet <= 0xd7)
		return *ret = five[packet - 0xd5], 5;
	/* Format 6: a run of E atoms, and one more atom of either kind. */
	*ret = (1u << run) - 1;
	if (!(packet & 32))
		*ret |= 1u << run;
	return run + 1;
}

/* Returns the packet for these atoms, or 0 if there is none. */
static uint8_t pack(unsigned n, uint32_t bits)
{
	for (unsigned packet = 0xc0; packet < 0x100; packet++) {
		uint32_t its_bits;

		if (unpack(packet, &its_bits) == n && its_bits == bits)
			return (uint8_t)packet;
	}
	return 0;
}

uint16_t etm_atoms[256][2];

/*
 * Each prefix and each suffix of a sequence that a packet can encode is also the sequence of a packet. Therefore the
 * packet of the pending atoms is a sufficient state, and the longest match yields the fewest packets.
 */
void etm_atoms_init(void)
{
	for (unsigned taken = 0; taken < 2; taken++) {
		uint8_t alone = pack(1, taken);

		etm_atoms[0][taken] = alone;
		for (unsigned packet = 0xc0; packet < 0x100; packet++) {
			uint32_t bits;
			unsigned n = unpack(packet, &bits);
			uint8_t longer = pack(n + 1, bits | taken << n);

			etm_atoms[packet][taken] = longer ? longer : (uint16_t)(packet << 8 | alone);
		}
	}
}

unsigned etm_finish_stream(uint64_t head, uint64_t pending, uint8_t ret[EMU_PENDING_MAX])
{
	/* A thread that died between the stores of head and pending had already written the atoms. */
	if ((pending & 0xff) < 0xc0 || pending >> 8 != (head & UINT64_MAX >> 8))
		return 0;
	ret[0] = pending & 0xff;
	return 1;
}
