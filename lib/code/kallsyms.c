/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "lib/code/kallsyms.h"
#include "lib/base/io.h"

enum {
	TEXT_MAX = 256 << 20,
	SYMBOLS_MAX = 4 << 20,
	FIRST_LINE_MAX = 1024,
	PAGE = 4096,
	FUNCTION_MAX = 64 << 10, /* bytes of a function outside the kernel's own code, whose end may have no symbol */
	GAP = 16 << 10,          /* ranges so close to each other are one */
};

void kallsyms_done(struct kallsyms *k)
{
	free(k->text);
	free(k->symbols);
	*k = (struct kallsyms){ 0 };
}

/* The kernel's files in /proc have no size. */
static int read_text(int fd, char **ret)
{
	size_t capacity = 1 << 20, size = 0;
	char *text = malloc(capacity + 1);

	while (text) {
		ssize_t n = io_read(fd, text + size, capacity - size);
		char *more;

		if (n < 0 || capacity > TEXT_MAX) {
			free(text);
			return n < 0 ? (int)n : -EFBIG;
		}
		size += (size_t)n;
		if (size < capacity) {
			text[size] = '\0';
			*ret = text;
			return strlen(text) == size ? 0 : -EBADMSG;
		}
		capacity *= 2;
		more = realloc(text, capacity + 1);
		if (!more)
			free(text);
		text = more;
	}
	return -ENOMEM;
}

/* Mapping symbols ($x, $d) and local labels (.L) are no functions, and would end the function before them. */
static bool is_mark(const char *name)
{
	return name[0] == '$' || strncmp(name, ".L", 2) == 0;
}

/* Parses "ADDRESS TYPE NAME", with "\t[OWNER]" behind it for what is not the kernel's own. */
static bool parse_line(char *line, struct kallsyms_symbol *ret)
{
	char *end, *owner, type;

	ret->address = strtoull(line, &end, 16);
	if (end == line || *end != ' ' || !end[1] || end[2] != ' ' || !end[3])
		return false;
	type = end[1];
	ret->name = end + 3;
	ret->owner = "";
	owner = strchr(end + 3, '\t');
	if (owner) {
		*owner++ = '\0';
		if (owner[0] != '[' || owner[strlen(owner) - 1] != ']')
			return false;
		owner[strlen(owner) - 1] = '\0';
		ret->owner = owner + 1;
	}
	ret->weak = type == 'w' || type == 'W';
	ret->code = ret->weak || type == 't' || type == 'T';
	ret->global = type == 'T' || type == 'W';
	return true;
}

bool kallsyms_is(int fd)
{
	char line[FIRST_LINE_MAX + 1];
	struct kallsyms_symbol s;
	ssize_t n = pread(fd, line, FIRST_LINE_MAX, 0);

	if (n < 0)
		return false;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return parse_line(line, &s);
}

static int parse(struct kallsyms *k)
{
	size_t lines = 1;
	char *next;

	for (const char *at = k->text; (at = strchr(at, '\n')); at++)
		lines++;
	if (lines > SYMBOLS_MAX)
		return -EFBIG;
	k->symbols = calloc(lines, sizeof(*k->symbols));
	if (!k->symbols)
		return -ENOMEM;
	for (char *line = k->text; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (!parse_line(line, &k->symbols[k->n]))
			return -EBADMSG;
		k->n += !is_mark(k->symbols[k->n].name);
	}
	return 0;
}

/* Code precedes data, so that a function at the address of a mark is the first. */
static int compare(const void *a, const void *b)
{
	const struct kallsyms_symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (int)y->code - (int)x->code;
}

static int find_bounds(struct kallsyms *k, struct reason *why)
{
	bool hidden = k->n > 0;

	for (size_t i = 0; i < k->n; i++) {
		const struct kallsyms_symbol *s = &k->symbols[i];

		hidden = hidden && !s->address;
		if (*s->owner)
			continue;
		if (strcmp(s->name, "_stext") == 0)
			k->start = s->address;
		else if (strcmp(s->name, "_etext") == 0)
			k->end = s->address;
	}
	if (hidden)
		return reason_set(why, -EACCES,
				  "the kernel hides the addresses of its symbols (kernel.kptr_restrict is 2, or "
				  "CAP_SYSLOG is missing)");
	if (!k->start || k->end <= k->start || (k->start | k->end) % 4)
		return reason_set(why, -EBADMSG, "/proc/kallsyms has no symbols _stext and _etext around code");
	return 0;
}

int kallsyms_read(int fd, struct kallsyms *ret, struct reason *why)
{
	struct kallsyms k = { 0 };
	int rc = read_text(fd, &k.text);

	if (rc == 0)
		rc = parse(&k);
	if (rc == 0)
		rc = find_bounds(&k, why);
	if (rc < 0) {
		kallsyms_done(&k);
		return *why->text ? rc : reason_set(why, rc, "cannot read /proc/kallsyms: %s", strerror(-rc));
	}
	qsort(k.symbols, k.n, sizeof(*k.symbols), compare);
	for (size_t i = k.n; i-- > 0;) {
		const struct kallsyms_symbol *behind = i + 1 < k.n ? &k.symbols[i + 1] : NULL;

		if (behind)
			k.symbols[i].next = behind->address > k.symbols[i].address ? behind->address : behind->next;
	}
	*ret = k;
	return 0;
}

static bool is_own(const struct kallsyms *k, const struct kallsyms_symbol *s)
{
	return !*s->owner && s->address >= k->start && s->address < k->end;
}

/* Code of BPF programs is replaced by that of others at any time, without a trace of it here. */
static bool is_of_bpf(const struct kallsyms_symbol *s)
{
	return strcmp(s->owner, "bpf") == 0;
}

/* The kernel frees its code of the start, which has symbols outside the bounds. */
static bool is_function(const struct kallsyms *k, const struct kallsyms_symbol *s)
{
	return s->code && !is_of_bpf(s) && (*s->owner || is_own(k, s));
}

static uint64_t size_of(const struct kallsyms *k, const struct kallsyms_symbol *s)
{
	uint64_t next = s->next;

	if (is_own(k, s))
		return MIN(next ? next : k->end, k->end) - s->address;
	return next && next - s->address < FUNCTION_MAX ? next - s->address : MIN(PAGE, UINT64_MAX - s->address);
}

static void add_range(struct elf_core_segment *ranges, size_t *n, uint64_t start, uint64_t end)
{
	struct elf_core_segment *last = *n ? &ranges[*n - 1] : NULL;

	start &= ~(uint64_t)(PAGE - 1);
	end = (end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (end <= start)
		return;
	if (last && start <= last->address + last->size + GAP)
		last->size = MAX(last->address + last->size, end) - last->address;
	else
		ranges[(*n)++] = (struct elf_core_segment){ .address = start, .size = end - start };
}

/* Joins neighbours until there are at most max, beginning with the closest. */
static size_t join(struct elf_core_segment *ranges, size_t n, size_t max)
{
	for (uint64_t gap = 2 * GAP; n > max && gap; gap *= 2) {
		size_t kept = 1;

		for (size_t i = 1; i < n; i++) {
			struct elf_core_segment *last = &ranges[kept - 1];

			if (n - i + kept > max && ranges[i].address - (last->address + last->size) <= gap)
				last->size = ranges[i].address + ranges[i].size - last->address;
			else
				ranges[kept++] = ranges[i];
		}
		n = kept;
	}
	return n;
}

int kallsyms_code(const struct kallsyms *k, size_t max, struct elf_core_segment **ret, size_t *ret_n)
{
	struct elf_core_segment *ranges = calloc(k->n + 1, sizeof(*ranges));
	size_t n = 0;

	if (!ranges)
		return -ENOMEM;
	for (size_t i = 0; i < k->n; i++) {
		const struct kallsyms_symbol *s = &k->symbols[i];

		if (is_own(k, s) && s->address == k->start)
			add_range(ranges, &n, k->start, k->end);
		else if (*s->owner && s->code && s->address && !is_of_bpf(s))
			add_range(ranges, &n, s->address, s->address + size_of(k, s));
	}
	*ret = ranges;
	*ret_n = join(ranges, n, max);
	return 0;
}

int kallsyms_functions(const struct kallsyms *k, struct elf_core_function **ret, size_t *ret_n)
{
	struct elf_core_function *list = calloc(k->n + 1, sizeof(*list));
	size_t n = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < k->n; i++) {
		const struct kallsyms_symbol *s = &k->symbols[i];

		if (is_function(k, s) && s->address)
			list[n++] = (struct elf_core_function){ .address = s->address,
								.size = size_of(k, s),
								.name = s->name,
								.global = s->global,
								.weak = s->weak };
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
