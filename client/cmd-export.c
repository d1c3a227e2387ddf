/* csight export. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/format.h"
#include "client/stored.h"
#include "client/view.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/json.h"

enum { OPTION_TO, OPTION_OUTPUT, OPTION_SINCE, OPTION_UNTIL, OPTION_THREAD, OPTION_BUDGET };

static const struct verb_option options[] = {
	[OPTION_TO] = { "to", 't', "FORMAT", "perfetto (the default), fxt, speedscope, pprof, folded, tree, store, perfdata or json" },
	[OPTION_OUTPUT] = { "output", 'o', "FILE", "write there, not to standard output" },
	[OPTION_SINCE] = { "since", 0, "TIME", VIEW_SINCE_HELP },
	[OPTION_UNTIL] = { "until", 0, "TIME", "only up to this time" },
	[OPTION_THREAD] = { "thread", 0, "THREAD", "only this thread, by its number or name" },
	[OPTION_BUDGET] = { "budget", 0, "N", "at most about N slices, the last ones; 0: all" },
	{ 0 },
};

/* What the daemon hands out as it is. */
static const char *const files[] = { "store", "perfdata", "json" };

struct output {
	const char *format, *path; /* path NULL: standard output */
	struct view view;
	const struct export_ops *ops; /* NULL: a file as it is */
	int fd;
	uint64_t bytes;
	struct export_result result;
};

static int copy_file(int from, int to, uint64_t *ret_bytes)
{
	static char data[256 << 10];

	for (;;) {
		ssize_t n = read_full(from, data, sizeof(data));
		int rc;

		if (n <= 0)
			return (int)n;
		rc = write_full(to, data, (size_t)n);
		if (rc < 0)
			return rc;
		*ret_bytes += (uint64_t)n;
	}
}

/* What is to be written: the file as it is, or a store with the options for its export. */
struct input {
	struct stored stored;
	struct export_options options;
};

static void input_done(struct input *in)
{
	stored_done(&in->stored);
}

/* One of the files of a snapshot, as the daemon has it. */
static int open_whole(struct client *c, const struct output *out, const char *name, struct input *in)
{
	int rc = client_connect(c);

	if (rc == 0)
		rc = client_find(c, name, &in->stored.snapshot);
	if (rc != 0)
		return rc;
	rc = csight_open_file(c->daemon, csight_text(in->stored.snapshot, "id"), out->format, &in->stored.fd);
	return rc < 0 ? client_failed(c, rc) : STATUS_OK;
}

static int open_input(struct client *c, const struct output *out, const char *name, struct input *in)
{
	int rc = out->ops ? stored_open(c, name, &in->stored) : open_whole(c, out, name, in);

	return rc == STATUS_OK && out->ops ? view_options(c, &out->view, in->stored.store, &in->options) : rc;
}

static int open_output(struct output *out)
{
	if (!out->path)
		return STATUS_OK;
	out->fd = open(out->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (out->fd >= 0)
		return STATUS_OK;
	client_error("cannot write %s: %s", esc(out->path), strerror(errno));
	return STATUS_FAILED;
}

static int write_output(struct input *in, struct output *out)
{
	struct stat st;
	bool regular;
	int rc;

	if (out->ops)
		rc = out->ops->write(in->stored.store, out->fd, &in->options, &out->result);
	else
		rc = copy_file(in->stored.fd, out->fd, &out->bytes);
	regular = out->path && fstat(out->fd, &st) == 0 && S_ISREG(st.st_mode);
	/* Half a file must not be taken for a whole one. */
	if (rc < 0 && regular)
		unlink(out->path);
	if (rc == 0 && regular)
		out->bytes = (uint64_t)st.st_size;
	if (rc == 0 || (rc == -EPIPE && !out->path))
		return STATUS_OK;
	client_error("cannot write %s to %s: %s", out->format, out->path ? esc(out->path) : "standard output",
		     strerror(-rc));
	return STATUS_FAILED;
}

static void tell(struct client *c, const struct output *out)
{
	if (c->json) {
		_cleanup_json_ json_object *o = json_object_new_object();

		json_add_bytes(o, "file", out->path);
		json_add_str(o, "format", out->format);
		json_add_u64(o, "bytes", out->bytes);
		if (out->ops) {
			json_add_u64(o, "threads", out->result.threads);
			json_add_u64(o, "slices", out->result.slices);
			json_add_u64(o, "gaps", out->result.gaps);
			json_add_u64(o, "since", out->result.since);
			json_add_u64(o, "until", out->result.until);
			json_add_bool(o, "cut", out->result.cut);
		}
		printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
		return;
	}
	if (c->quiet)
		return;
	fprintf(stderr, "wrote %s: %s, %s", esc(out->path), out->format, format_size(out->bytes));
	if (out->ops)
		fprintf(stderr, ", %s of %s in %s", format_plural(out->result.slices, "call"),
			format_plural(out->result.threads, "thread"), format_duration(out->result.until - out->result.since));
	fputc('\n', stderr);
	if (out->ops && out->result.cut)
		fprintf(stderr, "  an earlier part is left out so that viewers load the file at ease; --budget=0 keeps it\n");
}

static bool is_text(const char *format)
{
	static const char *const texts[] = { "tree", "folded", "speedscope", "json" };

	for (size_t i = 0; i < ELEMENTS(texts); i++)
		if (strcmp(texts[i], format) == 0)
			return true;
	return false;
}

static int check_format(struct client *c, struct output *out)
{
	const struct view *v = &out->view;

	for (size_t i = 0; i < ELEMENTS(files); i++) {
		if (strcmp(files[i], out->format) != 0)
			continue;
		if (v->since || v->until || v->thread || v->budget)
			return client_usage(c, "%s is exported whole; --since, --until, --thread and --budget are for "
					       "what is made of its calls",
					    out->format);
		return 0;
	}
	out->ops = export_find(out->format);
	return out->ops ? 0 : client_usage(c, "there is no format '%s'", esc(out->format));
}

static int parse(struct client *c, struct output *out)
{
	const char *value;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		const char **const to[] = {
			[OPTION_TO] = &out->format,	   [OPTION_OUTPUT] = &out->path,
			[OPTION_SINCE] = &out->view.since, [OPTION_UNTIL] = &out->view.until,
			[OPTION_THREAD] = &out->view.thread, [OPTION_BUDGET] = &out->view.budget,
		};

		*to[o] = value;
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? "one snapshot at a time" : "which snapshot? its id or file is missing");
	if (out->path && strcmp(out->path, "-") == 0)
		out->path = NULL;
	o = check_format(c, out);
	if (o != 0)
		return o;
	if (c->json && !out->path)
		return client_usage(c, "--json tells of the file that -o names; without one the export itself is printed");
	if (!out->path && isatty(STDOUT_FILENO) && !is_text(out->format))
		return client_usage(c, "%s is no text for a terminal; name a file with -o", out->format);
	return -1;
}

static int run(struct client *c)
{
	_cleanup_(input_done) struct input in = { .stored = STORED_NONE, .options = EXPORT_DEFAULTS };
	struct output out = { .format = "perfetto", .fd = STDOUT_FILENO };
	int rc;

	rc = parse(c, &out);
	if (rc >= 0)
		return rc;
	rc = open_input(c, &out, c->argv[0], &in);
	if (rc == 0)
		rc = open_output(&out);
	if (rc != 0)
		return rc;
	in.options.colour = isatty(out.fd) && *format_mark(stdout, MARK_HEAD);
	rc = write_output(&in, &out);
	if (rc == 0 && out.path)
		tell(c, &out);
	return rc;
}

const struct verb cmd_export = {
	.name = "export",
	.arguments = STORED_ARGUMENT,
	.summary = "write a snapshot as a file for viewers and tools",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = run,
};
