/* lib/etm/native*.c: what a mistake in the stream takes back, however the bytes come. */
#include "config.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/engine.h"
#include "tests/unit.h"

enum { BASE = 0x400000 };

static const uint32_t program[] = {
	0x94000002, /* bl BASE + 8 */
	0xd503201f, /* nop */
	0xd65f03c0, /* ret */
};

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	if (address < BASE || address >= BASE + sizeof(program))
		return 0;
	size = MIN(size, BASE + sizeof(program) - address);
	for (size_t i = 0; i < size / 4; i++)
		((uint32_t *)ret)[i] = htole32(program[(address - BASE) / 4 + i]);
	return size & ~(size_t)3;
}

static uint64_t version(void *user, const struct engine_context *context)
{
	return 1;
}

static int on_element(void *user, const struct element *e)
{
	char *all = user, line[128];
	size_t n = strlen(all);

	element_format(e, line, sizeof(line));
	snprintf(all + n, 2048 - n, "%s; ", line);
	return 0;
}

static const char *decode(const uint8_t *bytes, size_t size, size_t chunk)
{
	/* Cycle counts and a return stack. */
	const struct engine_config config = { .protocol = PROTOCOL_ETMV4, .trace_id = 16, .configr = 1 << 4 | 1 << 12,
					      .idr0 = 0x28000ea1, .idr1 = 0x4100f403, .idr2 = 0x10000488, .core_aa64 = true };
	static char all[2048];
	struct engine *e;
	int rc = 0;

	all[0] = '\0';
	CHECK(engine_native.open(&config, &(struct engine_memory){ .read = read_code, .version = version },
				 &(struct element_sink){ on_element, all }, &e) == 0);
	for (size_t at = 0; at < size && rc == 0; at += chunk)
		rc = engine_native.push(e, bytes + at, MIN(chunk, size - at));
	CHECK(rc == 0 && engine_native.finish(e) == 0);
	engine_native.close(e);
	return all;
}

/* An atom after the last return that the stack knows: its packet counts for nothing, nor do the cycles before it. */
static void atoms_too_many(void)
{
	static const uint8_t bytes[] = {
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x01, 0x00, 0x04,
		0x85, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30,
		0xf7, 0xf7, 0xf7, /* bl, ret, ret */
		0x90, 0x1c, 0xff, /* the same at once, from BASE on */
		0x90, 0x1d, 0xc0, /* and with one more */
		0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7,
	};
	_cleanup_free_ char *whole = strdup(decode(bytes, sizeof(bytes), sizeof(bytes)));

	CHECK(strstr(whole, "cycles 0; ") && strstr(whole, "no-sync bad-packet; ") && !strstr(whole, "cycles 1; "));
	for (size_t chunk = 1; chunk < 40; chunk++)
		CHECK(strcmp(decode(bytes, sizeof(bytes), chunk), whole) == 0);
}

int main(void)
{
	atoms_too_many();
	return unit_end();
}
