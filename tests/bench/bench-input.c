/* SPDX-License-Identifier: MIT */
/*
 * Prepares inputs of tests/bench/commands.
 *
 *   bench-input INPUT        prints the seconds that OpenCSD takes to decode the trace, the least of ROUNDS (3), and
 * the trace's bytes, ranges and instructions bench-input INPUT DIR    writes the trace as an Arm snapshot with its
 * code: no names, no debug information
 */
#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "tests/bench/reference.h"

static int print_reference(const struct trace *t, const struct pages *p, const struct said *said)
{
	const char *text = getenv("ROUNDS");
	double took, least = 1e30;
	int rc = 0;

	for (unsigned long n = text ? strtoul(text, NULL, 0) : 3; n && rc == 0; n--) {
		rc = reference_run(t, p, reference_ignore, &took);
		least = MIN(least, took);
	}
	if (rc == 0)
		printf("%.6f %zu %ju %ju\n", least / 1e9, t->size, (uintmax_t)said->ranges,
		       (uintmax_t)said->instructions);
	return rc;
}

static FILE *create(const char *dir, const char *file)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "w");
	if (!f)
		perror(path);
	return f;
}

/* Writes the code that the decode read, and the device file of its core. */
static bool write_code(const struct pages *p, const char *dir)
{
	FILE *core = create(dir, "core.ini"), *code = create(dir, "code.bin");
	size_t at = 0;

	if (!core || !code)
		return false;
	fputs("[device]\nname=core\nclass=core\ntype=Cortex-A53\n", core);
	for (size_t i = 0; i < p->n;) {
		const struct page *first = p->list[i];
		uint64_t start = first->address + first->from, end = start;
		size_t offset = at;

		for (; i < p->n && p->list[i]->address + p->list[i]->from == end; i++) {
			const struct page *page = p->list[i];

			end = page->address + page->to;
			at += fwrite(page->bytes + page->from, 1, page->to - page->from, code);
		}
		if (end > start)
			fprintf(core, "[dump%zu]\nfile=code.bin\naddress=0x%jx\noffset=%zu\nlength=%zu\n", i,
				(uintmax_t)start, offset, at - offset);
		else
			i++;
	}
	return fclose(core) == 0 && fclose(code) == 0;
}

static bool write_devices(const struct engine_config *c, const char *dir)
{
	FILE *unit = create(dir, "etm.ini"), *list = create(dir, "snapshot.ini"), *buffers = create(dir, "trace.ini");

	if (!unit || !list || !buffers)
		return false;
	fprintf(unit,
		"[device]\nname=ETM\nclass=trace_source\ntype=%s\n[regs]\nTRCCONFIGR=0x%x\nTRCTRACEIDR=0x%x\n"
		"TRCIDR0=0x%x\nTRCIDR1=0x%x\nTRCIDR2=0x%x\nTRCIDR8=0x%x\nTRCDEVARCH=0x%x\n",
		c->protocol == PROTOCOL_ETE ? "ETE" : "ETM4", c->configr, c->traceidr, c->idr0, c->idr1, c->idr2,
		c->idr8, c->devarch);
	fputs("[snapshot]\nversion=1.0\n[device_list]\na=core.ini\nb=etm.ini\n[trace]\nmetadata=trace.ini\n", list);
	fputs("[trace_buffers]\nbuffers=one\n[one]\nname=ONE\nfile=trace.bin\nformat=source_data\n"
	      "[source_buffers]\nETM=ONE\n[core_trace_sources]\ncore=ETM\n",
	      buffers);
	return fclose(unit) == 0 && fclose(list) == 0 && fclose(buffers) == 0;
}

static int write_snapshot(const struct trace *t, const struct pages *p, const char *dir)
{
	FILE *trace = create(dir, "trace.bin");

	if (!trace || fwrite(t->bytes, 1, t->size, trace) != t->size || fclose(trace) != 0)
		return -EIO;
	return write_code(p, dir) && write_devices(&t->config, dir) ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	struct pages p = { 0 };
	struct said said;
	struct trace t;
	int rc;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: bench-input INPUT [DIR]\n");
		return 2;
	}
	rc = trace_load(argv[1], -1, &t);
	if (rc < 0)
		return 1;
	p.trace = &t;
	rc = reference_listen(&native_engine_ops, &t, &p, &said);
	if (rc == 0)
		rc = argc > 2 ? write_snapshot(&t, &p, argv[2]) : print_reference(&t, &p, &said);
	if (rc < 0)
		fprintf(stderr, "bench-input: %s: %s\n", argv[1], strerror(-rc));
	trace_done(&t);
	return rc < 0;
}
