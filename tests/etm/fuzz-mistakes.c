/* SPDX-License-Identifier: MIT */
/*
 * The known mistakes of OpenCSD, from tests/etm/opencsd-mistakes (which describes its own form), and whether one of
 * them explains a difference.
 */
#include "config.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/packet.h"
#include "tests/etm/fuzz-engines.h"

enum { STORY_MAX = BYTES_MAX * 48, KNOWN_MAX = 64 };

/* A known mistake: patterns for the first line of each side that differs. */
struct mistake {
	char name[256], theirs[256], ours[256], before[256], then[256], packets[256];
	bool anywhere; /* two ranges may have different starts */
	bool longer;   /* OpenCSD's range ends behind ours */
	uint64_t seen;
};

static struct mistake known[KNOWN_MAX];
static size_t n_known;

/* True if both ranges have the same start: the patterns alone would match too many pairs of ranges. */
static bool same_start(const struct difference *d)
{
	const char *theirs = d->theirs + 6, *ours = d->ours + 6;

	/* Ranges that OpenCSD decodes as A32 have nothing in common with ours. */
	if (strncmp(d->theirs, "range ", 6) != 0 || strncmp(d->ours, "range ", 6) != 0 || strstr(d->theirs, " A32 "))
		return true;
	return strcspn(theirs, " ") == strcspn(ours, " ") && memcmp(theirs, ours, strcspn(ours, " ")) == 0;
}

static uint64_t end_of_range(const char *line)
{
	unsigned long long end = 0;

	return sscanf(line, "range %*x %llx", &end) == 1 ? end : 0;
}

static size_t find_sync(const uint8_t *bytes, size_t n)
{
	static const uint8_t sync[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80 };
	const uint8_t *at = memmem(bytes, n, sync, sizeof(sync));

	return at ? (size_t)(at - bytes) : n;
}

/* The elements so far, the newest last. Committed ones are not removed. */
struct elements {
	size_t n;
	uint8_t kinds[BYTES_MAX * 24];
};

/* False for elements that a cancel packet removes together with the P0 elements around them. */
static bool is_lasting(uint8_t kind)
{
	return kind == PACKET_EVENT || kind == PACKET_TIMESTAMP || kind == PACKET_CYCLES || kind == PACKET_MARKER;
}

static bool is_p0(uint8_t kind)
{
	return kind == PACKET_ATOMS || kind == PACKET_SOURCE || kind == PACKET_EXCEPTION || kind == PACKET_PE_RESET ||
	       kind == PACKET_Q || kind == PACKET_TRANSACTION_START;
}

/* Removes the newest cancel P0 elements; returns true if a source address is among them. */
static bool cancel_elements(struct elements *e, uint32_t cancel)
{
	bool source = false;

	for (size_t i = e->n; i-- && cancel;) {
		uint8_t kind = e->kinds[i];

		source = source || kind == PACKET_SOURCE;
		cancel -= is_p0(kind);
		if (!is_lasting(kind))
			memmove(&e->kinds[i], &e->kinds[i + 1], --e->n - i);
	}
	return source;
}

/* Removes the addresses behind the newest branch; returns true if there are several, or others behind one. */
static bool drop_addresses(struct elements *e)
{
	unsigned n = 0;
	bool others = false, passed = false;

	for (size_t i = e->n; i-- && e->kinds[i] != PACKET_ATOMS;) {
		if (e->kinds[i] != PACKET_ADDRESS) {
			others = true;
			continue;
		}
		memmove(&e->kinds[i], &e->kinds[i + 1], --e->n - i);
		passed = passed || others || n++;
	}
	return passed;
}

/* Applies a packet to the elements before it; returns an addition to its name, as mistakes_story() has them. */
static const char *apply_packet(struct elements *e, const struct engine_config *config, const struct packet *p)
{
	enum packet_kind kind = p->kind;
	const char *text = "";
	size_t n = 0;

	switch (kind) {
	case PACKET_ATOMS:
	case PACKET_CANCEL:
		kind = PACKET_ATOMS;
		n = p->n_atoms;
		break;
	case PACKET_ADDRESS:
	case PACKET_ADDRESS_CONTEXT:
		kind = PACKET_ADDRESS;
		n = 1;
		break;
	case PACKET_SOURCE:
	case PACKET_EXCEPTION:
	case PACKET_PE_RESET:
	case PACKET_Q:
	case PACKET_EVENT:
	case PACKET_TIMESTAMP:
	case PACKET_CYCLES:
	case PACKET_MARKER:
	case PACKET_CONTEXT:
	case PACKET_TRACE_ON:
	case PACKET_EXCEPTION_RETURN:
		n = 1;
		break;
	case PACKET_TRANSACTION_START:
		n = !(config->idr0 & 1u << 30);
		break;
	case PACKET_RESERVED:
	case PACKET_INVALID:
	case PACKET_BROKEN:
		e->n = 0;
		break;
	default:
		break;
	}
	while (n-- && e->n < sizeof(e->kinds))
		e->kinds[e->n++] = (uint8_t)kind;
	if (cancel_elements(e, p->cancel))
		text = "cancelled-source ";
	if (p->mispredict && drop_addresses(e))
		text = "passed-addresses ";
	return text;
}

/* True for trace info with fields that are unterminated, or longer than 32 bits need. */
static bool is_long(const uint8_t *info, uint32_t size)
{
	unsigned more = 0;

	for (uint32_t i = 1; i < size && more < 5; i++)
		more = info[i] & 0x80 ? more + 1 : 0;
	return more == 5 || info[1] & 0x80 || (info[1] & 1 && info[2] & 0x80);
}

/*
 * True if a decoder that continues at an offset without knowing instrumentation packets reads the start of the next
 * sync point as part of another packet.
 */
static bool sync_is_hidden(const struct job *job, struct packet_reader packets, size_t at)
{
	size_t sync = at + find_sync(job->bytes + at, job->size - at);
	struct packet p;

	for (unsigned i = 0; i < ELEMENTS(packets.kinds); i++)
		if (packets.kinds[i] == PACKET_INSTRUMENTATION)
			packets.kinds[i] = PACKET_RESERVED;
	while (at < sync && packet_next(&packets, job->bytes + at, job->size - at, &p))
		at += p.size;
	return at > sync;
}

/* Appends the name of a packet, with additions, and a blank; returns its length. */
static size_t append_packet_name(char *to, const struct packet *p, const uint8_t *bytes, bool early)
{
	const char *info = early ? "sync-info" : "trace-info";
	size_t n;

	switch (p->kind) {
	case PACKET_TRACE_INFO:
		n = (size_t)sprintf(to, "%s ", info);
		if (p->number)
			n += (size_t)sprintf(to + n, "%s-unseen ", info);
		if (bytes[1] & 16)
			n += (size_t)sprintf(to + n, "%s-window ", info);
		if (is_long(bytes, p->size))
			n += (size_t)sprintf(to + n, "%s-long ", info);
		return n;
	case PACKET_RESERVED:
	case PACKET_INVALID:
	case PACKET_BROKEN:
		return (size_t)sprintf(to, "bad-%02x ", bytes[0]);
	case PACKET_CONTEXT:
		return (size_t)sprintf(to, "%s ", p->context.updated ? "context" : "same-context");
	case PACKET_ASYNC:
		return (size_t)sprintf(to, "async ");
	case PACKET_INSTRUMENTATION:
		return (size_t)sprintf(to, "%s%s ", early ? "early-" : "", packet_name(p->kind));
	default:
		n = (size_t)sprintf(to, "%s ", packet_name(p->kind));
		if (p->cancel > INT32_MAX || p->commit > INT32_MAX)
			n += (size_t)sprintf(to + n, "negative ");
		return n;
	}
}

const char *mistakes_story(const struct job *job, uint32_t from, uint32_t to)
{
	static char text[STORY_MAX];
	static struct elements elements;
	struct packet_reader packets;
	struct packet p;
	const char *done = "", *lasting = "";
	size_t n = 0;
	bool early = true, unseen = false, behind = false, bad = false, hidden = false;

	elements.n = 0;
	packet_reader_init(&packets, &job->config);
	for (size_t at = find_sync(job->bytes, job->size); at < job->size; at += p.size) {
		if (!packet_next(&packets, job->bytes + at, job->size - at, &p)) {
			enum packet_kind kind = packets.kinds[job->bytes[at]];

			if (behind)
				break;
			n +=
			    (size_t)sprintf(text + n, "%scut-%s ",
					    early && kind == PACKET_INSTRUMENTATION ? "early-" : "", packet_name(kind));
			break;
		}
		if (p.kind == PACKET_ASYNC && at > to && to >= from) {
			/* Elements that are not committed yet may still be cancelled there. */
			if (behind)
				break;
			behind = true;
		}
		if (behind) {
			n += (size_t)sprintf(text + n, "%s", apply_packet(&elements, &job->config, &p));
			continue;
		}
		if (p.kind == PACKET_ASYNC) {
			early = true;
			n = at <= from ? 0 : n;
		}
		n += append_packet_name(text + n, &p, job->bytes + at, early);
		if (p.kind == PACKET_ASYNC) {
			n += (size_t)sprintf(
			    text + n, "%s%s%s%s", unseen ? "sync-info-unseen " : "", hidden ? "hidden-sync " : "",
			    memchr(elements.kinds, PACKET_SOURCE, elements.n) ? "source-address-before " : "", lasting);
			unseen = unseen && !bad;
			bad = hidden = false;
		}
		done = apply_packet(&elements, &job->config, &p);
		n += (size_t)sprintf(text + n, "%s", done);
		lasting = *done ? done : lasting;
		if (p.kind == PACKET_RESERVED || p.kind == PACKET_INVALID || p.kind == PACKET_BROKEN) {
			bad = true;
			hidden = hidden || sync_is_hidden(job, packets, at + p.size);
			lasting = "";
		} else if (p.kind == PACKET_INSTRUMENTATION) {
			hidden = hidden || sync_is_hidden(job, packets, at);
		} else if (p.kind == PACKET_TRACE_INFO && early && p.number) {
			unseen = true;
		}
		early = early && p.kind != PACKET_TRACE_INFO;
	}
	text[n] = 0;
	return text;
}

static bool matches(const char *pattern, const char *text)
{
	return strcmp(pattern, "*") == 0 || fnmatch(pattern, text, FNM_EXTMATCH) == 0;
}

const char *mistakes_explain(const struct job *job, const struct difference *d)
{
	const char *packets = mistakes_story(job, d->from, d->to);

	for (size_t i = 0; i < n_known; i++) {
		struct mistake *m = &known[i];

		if (m->longer && end_of_range(d->theirs) <= end_of_range(d->ours))
			continue;
		if ((m->anywhere || same_start(d)) && matches(m->theirs, d->theirs) && matches(m->ours, d->ours) &&
		    matches(m->before, d->before) && matches(m->then, d->then) && matches(m->packets, packets))
			return m->seen++, m->name;
	}
	return NULL;
}

int mistakes_read(const char *path)
{
	FILE *f = fopen(path, "re");
	struct mistake *m = NULL;
	char line[256];

	if (!f)
		return -errno;
	/* The rest of a longer line holds only bytes, which no key begins with. */
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "mistake ", 8) == 0 && n_known < KNOWN_MAX) {
			m = &known[n_known++];
			snprintf(m->name, sizeof(m->name), "%s", line + 8);
			strcpy(m->before, "*");
			strcpy(m->then, "*");
			strcpy(m->packets, "*");
		} else if (m && strncmp(line, "opencsd ", 8) == 0) {
			snprintf(m->theirs, sizeof(m->theirs), "%s", line + 8);
		} else if (m && strncmp(line, "right ", 6) == 0) {
			snprintf(m->ours, sizeof(m->ours), "%s", line + 6);
		} else if (m && strncmp(line, "before ", 7) == 0) {
			snprintf(m->before, sizeof(m->before), "%s", line + 7);
		} else if (m && strncmp(line, "then ", 5) == 0) {
			snprintf(m->then, sizeof(m->then), "%s", line + 5);
		} else if (m && strncmp(line, "packets ", 8) == 0) {
			snprintf(m->packets, sizeof(m->packets), "%s", line + 8);
		} else if (m && strcmp(line, "anywhere") == 0) {
			m->anywhere = true;
		} else if (m && strcmp(line, "longer") == 0) {
			m->longer = true;
		}
	}
	fclose(f);
	return 0;
}

void mistakes_print(void)
{
	for (size_t i = 0; i < n_known; i++)
		printf("  %-40s %llu\n", known[i].name, (unsigned long long)known[i].seen);
}
