/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "lib/base/reader.h"

struct reader reader_of(const void *data, size_t size)
{
	/* Empty input is often a null pointer, to which C forbids to add even 0. */
	const uint8_t *at = data ? data : (const uint8_t *)"";
	struct reader r = { at, at + (data ? size : 0) };

	return r;
}

int rd_bytes(struct reader *r, size_t size, const uint8_t **ret)
{
	if (size > rd_left(r))
		return -EBADMSG;
	*ret = r->at;
	r->at += size;
	return 0;
}

int rd_copy(struct reader *r, void *ret, size_t size)
{
	const uint8_t *from;
	int rc = rd_bytes(r, size, &from);

	if (rc < 0)
		return rc;
	if (size)
		memcpy(ret, from, size);
	return 0;
}

int rd_skip(struct reader *r, size_t size)
{
	const uint8_t *from;

	return rd_bytes(r, size, &from);
}

int rd_sub(struct reader *r, size_t size, struct reader *ret)
{
	const uint8_t *from;
	int rc = rd_bytes(r, size, &from);

	if (rc < 0)
		return rc;
	*ret = reader_of(from, size);
	return 0;
}

int rd_u8(struct reader *r, uint8_t *ret)
{
	return rd_copy(r, ret, sizeof(*ret));
}

int rd_u16(struct reader *r, uint16_t *ret)
{
	uint16_t v;
	int rc = rd_copy(r, &v, sizeof(v));

	if (rc < 0)
		return rc;
	*ret = le16toh(v);
	return 0;
}

int rd_u32(struct reader *r, uint32_t *ret)
{
	uint32_t v;
	int rc = rd_copy(r, &v, sizeof(v));

	if (rc < 0)
		return rc;
	*ret = le32toh(v);
	return 0;
}

int rd_u64(struct reader *r, uint64_t *ret)
{
	uint64_t v;
	int rc = rd_copy(r, &v, sizeof(v));

	if (rc < 0)
		return rc;
	*ret = le64toh(v);
	return 0;
}

int rd_long_varint(struct reader *r, uint64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < 10 && i < rd_left(r); i++) {
		uint8_t byte = r->at[i];

		if (i == 9 && byte > 1)
			return -EBADMSG;
		v |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (!(byte & 0x80)) {
			r->at += i + 1;
			*ret = v;
			return 0;
		}
	}
	return -EBADMSG;
}

int rd_leb(struct reader *r, bool is_signed, uint64_t *ret)
{
	const uint8_t *at = r->at;
	unsigned shift = 0;
	uint64_t v = 0;
	uint8_t byte;

	do {
		if (at == r->end)
			return -EBADMSG;
		byte = *at++;
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift = shift < 64 ? shift + 7 : shift;
	} while (byte & 0x80);
	if (is_signed && byte & 0x40 && shift < 64)
		v |= ~(uint64_t)0 << shift;
	r->at = at;
	*ret = v;
	return 0;
}

int rd_str(struct reader *r, const char **ret)
{
	const uint8_t *nul = rd_left(r) ? memchr(r->at, 0, rd_left(r)) : NULL;

	if (!nul)
		return -EBADMSG;
	*ret = (const char *)r->at;
	r->at = nul + 1;
	return 0;
}
