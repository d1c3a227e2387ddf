/* SPDX-License-Identifier: MIT */
/* csight export. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/format.h"
#include "client/function-name.h"
#include "client/local-decode.h"
#include "client/named-store.h"
#include "client/output-files.h"
#include "client/redaction.h"
#include "client/selection.h"
#include "client/trace-store.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/local/bundle.h"
#include "lib/perfdata/format.h"

enum {
	OPTION_TO,
	OPTION_OUTPUT,
	OPTION_SINCE,
	OPTION_UNTIL,
	OPTION_LAST,
	OPTION_THREAD,
	OPTION_BUDGET,
	OPTION_SUFFIXES,
	OPTION_PHYSICAL,
	OPTION_REDACT,
	OPTION_HOST,
	OPTION_CORE
};

#define FORMATS                                                                                                   \
	"perfetto (default), fxt, speedscope, chrome, pprof, folded, tree, parquet, parquet-functions, autofdo, " \
	"store, perfdata, json or bundle"

static const struct verb_option options[] = {
	[OPTION_TO] = { "to", 't', "FORMAT", FORMATS },
	[OPTION_OUTPUT] = { "output", 'o', "FILE", "output file (default standard output); one for each --to" },
	[OPTION_SINCE] = { "since", 0, "TIME", SELECTION_SINCE_HELP },
	[OPTION_UNTIL] = { "until", 0, "TIME", SELECTION_UNTIL_HELP },
	[OPTION_LAST] = { "last", 0, "TIME", SELECTION_LAST_HELP },
	[OPTION_THREAD] = { "thread", 0, "THREAD", SELECTION_THREAD_HELP },
	[OPTION_BUDGET] = { "budget", 0, "N", SELECTION_BUDGET_HELP },
	[OPTION_SUFFIXES] = { "suffixes", 0, NULL, FUNCTION_NAME_SUFFIXES_HELP },
	[OPTION_PHYSICAL] = { "physical", 0, NULL, NAMED_STORE_PHYSICAL_HELP },
	[OPTION_REDACT] = { "redact", 0, NULL, "leave out arguments, paths, and names of users, programs and threads" },
	[OPTION_HOST] = { "host", 0, "NAME", "parquet: where the snapshot was taken (default this host)" },
	[OPTION_CORE] = { "core", 0, "FILE", "bundle: also a core dump of the same process" },
	{ 0 },
};

/*
 * What a format is made from: the store; a file of the spool, which is copied unchanged; the trace, which is decoded
 * again; or all of these.
 */
enum origin { FROM_STORE, FROM_SPOOL, FROM_TRACE, FROM_PARTS };

static const struct {
	const char *format;
	enum origin origin;
} unselected_formats[] = { { "store", FROM_SPOOL },
			   { "perfdata", FROM_SPOOL },
			   { "json", FROM_SPOOL },
			   { "autofdo", FROM_TRACE },
			   { "bundle", FROM_PARTS } };

struct export_output {
	const char *format, *path; /* path NULL: standard output */
	enum origin origin;
	const struct export_ops *ops; /* if origin is FROM_STORE */
	int fd;
	uint64_t bytes;
	struct export_result result;
};

struct export
{
	struct client *client;
	const char *name; /* of the snapshot or file to export */
	struct output_files output_files;
	struct selection selection;
	struct export_output outputs[DECODER_OUTPUTS_MAX];
	/* Opened when a format first needs the store; its snapshot likewise, unless the input is a file. */
	struct named_store input;
	struct export_options options;
	const char *core; /* or NULL */
	char host[256];   /* "": unknown */
	bool host_given;
};

static void export_done(struct export *e)
{
	named_store_close(&e->input);
}

/* -ESTALE: the file has become shorter meanwhile. */
static int copy_file(int from, int to, uint64_t *ret_bytes)
{
	static char data[256 << 10];
	struct stat st;

	if (fstat(from, &st) < 0)
		return -errno;
	for (;;) {
		ssize_t n = io_read(from, data, sizeof(data));
		int rc;

		if (n <= 0)
			return n == 0 && *ret_bytes < (uint64_t)st.st_size ? -ESTALE : (int)n;
		rc = io_write(to, data, (size_t)n);
		if (rc < 0)
			return rc;
		*ret_bytes += (uint64_t)n;
	}
}

static int export_find_snapshot(struct export *e)
{
	int rc;

	if (e->input.snapshot)
		return 0;
	rc = client_connect(e->client);
	if (rc == 0)
		rc = client_find(e->client, e->name, &e->input.snapshot);
	return rc;
}

/* Opens one of the files of a snapshot through the daemon. Returns 0 or an exit status. */
static int export_open_file(struct export *e, const char *file, int *ret)
{
	int rc = export_find_snapshot(e);

	if (rc != 0)
		return rc;
	rc = csight_open_file(e->client->daemon, csight_text(e->input.snapshot, "id"), file, ret);
	return rc < 0 ? client_daemon_failed(e->client, rc) : STATUS_OK;
}

static int report_absent(const struct export *e, const char *file, int rc)
{
	client_error("%s has no %s to export: %s", esc(e->name), file, strerror(-rc));
	return STATUS_FAILED;
}

/*
 * Opens the trace ("perfdata") or the description ("json") of a local file or directory. Returns 0 or an exit status.
 */
static int export_open_part(struct export *e, const char *file, int *ret)
{
	_cleanup_close_ int fd = open(e->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool trace = strcmp(file, "perfdata") == 0;
	uint64_t magic = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return report_absent(e, file, -errno);
	if (S_ISDIR(st.st_mode)) {
		*ret = openat(fd, trace ? "trace.perf.data" : "snapshot.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		return *ret < 0 ? report_absent(e, file, -errno) : STATUS_OK;
	}
	if (bundle_is(fd)) {
		*ret = bundle_open(fd, trace ? "trace.perf.data" : "snapshot.json");
		return *ret < 0 ? report_absent(e, file, *ret) : STATUS_OK;
	}
	if (!trace || io_pread(fd, &magic, sizeof(magic), 0) != sizeof(magic) || le64toh(magic) != PD_MAGIC)
		return report_absent(e, file, -EINVAL);
	*ret = TAKE_FD(fd);
	return STATUS_OK;
}

/* Opens the trace, the description or the store of a local file or directory. Returns 0 or an exit status. */
static int export_open_local(struct export *e, const char *file, int *ret)
{
	_cleanup_(named_store_close) struct named_store whole = NAMED_STORE_NONE;
	int rc;

	if (strcmp(file, "store") != 0)
		return export_open_part(e, file, ret);
	whole.suffixes = true;
	whole.redacted = e->input.redacted;
	rc = named_store_open(e->client, e->name, &whole);
	if (rc == STATUS_OK)
		*ret = TAKE_FD(whole.fd);
	return rc;
}

static int export_open_store(struct export *e)
{
	int rc;

	if (e->input.store)
		return STATUS_OK;
	if (named_store_is_path(e->name)) {
		rc = named_store_open(e->client, e->name, &e->input);
	} else {
		rc = export_open_file(e, "store", &e->input.fd);
		if (rc == 0)
			rc = named_store_read(e->client, e->name, &e->input);
	}
	return rc == STATUS_OK ? selection_apply(e->client, &e->selection, e->input.store, &e->options) : rc;
}

/* Opens the file of an output. input: the file that is read, or a copy of it. */
static int output_open(const struct export *e, struct export_output *out, int input)
{
	return out->path ? output_files_open(out->path, O_WRONLY, e->name, input, &out->fd) : STATUS_OK;
}

static int output_close(struct export_output *out, int rc)
{
	struct stat st;

	rc = output_files_end(out->fd, rc);
	if (rc == 0 && out->path && fstat(out->fd, &st) == 0 && S_ISREG(st.st_mode))
		out->bytes = (uint64_t)st.st_size;
	if (out->path)
		closep(&out->fd);
	if (rc == 0 || (rc == -EPIPE && !out->path))
		return STATUS_OK;
	client_error("cannot write %s to %s: %s%s", out->format, out->path ? esc(out->path) : "standard output",
		     client_read_problem(-rc), client_write_advice(-rc));
	return STATUS_FAILED;
}

static int export_store(struct export *e, struct export_output *out)
{
	struct export_options o;
	int rc = export_open_store(e);

	if (rc == 0)
		rc = output_open(e, out, e->input.fd);
	if (rc != 0)
		return rc;
	o = e->options;
	o.host = e->host;
	if (out->ops->whole && !e->selection.budget)
		o.budget = 0;
	o.colour = isatty(out->fd) && *format_style(stdout, STYLE_HEADING);
	return output_close(out, out->ops->write(e->input.store, out->fd, &o, &out->result));
}

static int export_file(struct export *e, struct export_output *out)
{
	_cleanup_close_ int fd = -1;
	bool store = strcmp(out->format, "store") == 0, description = strcmp(out->format, "json") == 0;
	int rc = named_store_is_path(e->name) || (store && e->input.redacted) ? export_open_local(e, out->format, &fd)
									      : export_open_file(e, out->format, &fd);

	if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = report_absent(e, out->format, -errno);
	if (rc == 0)
		rc = output_open(e, out, fd);
	if (rc != 0)
		return rc;
	return output_close(out, description && e->input.redacted ? redaction_description(fd, out->fd)
								  : copy_file(fd, out->fd, &out->bytes));
}

/*
 * Opens the trace of a snapshot as input of a decode: its directory if it is readable, which also holds the captured
 * code, else the files that the daemon passes.
 */
static int export_open_trace(struct export *e, struct local_decode *d)
{
	const char *path;
	int trace = -1, json = -1, rc;

	local_decode_set_options(d, &e->client->trace);
	if (named_store_is_path(e->name))
		return local_decode_open_input(d, e->name);
	rc = export_find_snapshot(e);
	if (rc != 0)
		return rc;
	path = csight_text(e->input.snapshot, "path");
	if (path && access(path, R_OK | X_OK) == 0)
		return local_decode_open_input(d, path);
	rc = export_open_file(e, "perfdata", &trace);
	if (rc == 0)
		rc = export_open_file(e, "json", &json);
	if (rc == 0)
		return local_decode_open_snapshot(d, csight_text(e->input.snapshot, "id"), trace, json);
	closep(&trace);
	return rc;
}

static void export_on_result(struct client *c, json_object *result)
{
	if (!c->quiet)
		local_decode_print_missing(result);
}

/* Decodes to a temporary file, of which a redacted copy is written. */
static int export_redacted(const struct export *e, struct local_decode *d, struct export_output *out)
{
	_cleanup_close_ int fd = io_temporary();
	int rc;

	if (fd < 0) {
		client_error("cannot create a temporary file: %s", strerror(errno));
		return STATUS_FAILED;
	}
	rc = local_decode_to(d, out->format, fd);
	if (rc == 0)
		rc = output_open(e, out, d->file.input);
	if (rc != 0)
		return rc;
	rc = lseek(fd, 0, SEEK_SET) < 0 ? -errno : redaction_autofdo(fd, out->fd);
	return output_close(out, rc);
}

static int export_trace(struct export *e, struct export_output *out)
{
	_cleanup_(local_decode_done) struct local_decode d = { LOCAL_DECODE_NONE, .client = e->client,
							       .on_result = export_on_result };
	struct stat st;
	int rc;

	d.output_files = (struct output_files){ .files = { { out->format, out->path } }, .n = 1 };
	rc = export_open_trace(e, &d);
	if (rc == 0 && e->input.redacted)
		return export_redacted(e, &d, out);
	if (rc == 0)
		rc = local_decode_open_outputs(&d);
	if (rc == 0)
		rc = local_decode_run(&d);
	if (rc == 0 && out->path && stat(out->path, &st) == 0)
		out->bytes = (uint64_t)st.st_size;
	return rc;
}

/*
 * Opens the description of a local directory, snapshot.json. Returns negative errno, without a message, if the input
 * has none.
 */
static int open_description(const struct export *e, int *ret)
{
	_cleanup_close_ int at = open(e->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (at >= 0)
		*ret = openat(at, "snapshot.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return at < 0 || *ret < 0 ? -errno : 0;
}

static int read_whole(int fd, char **ret, size_t *ret_size)
{
	struct stat st;
	char *text;

	if (fstat(fd, &st) < 0 || !(text = calloc(1, (size_t)st.st_size + 1)))
		return -ENOMEM;
	if (io_pread(fd, text, (size_t)st.st_size, 0) != st.st_size) {
		free(text);
		return -EIO;
	}
	*ret = text;
	*ret_size = (size_t)st.st_size;
	return 0;
}

/* Makes the parts of a redacted bundle: redacted copies of the store and the description. */
static int bundle_redacted(struct export *e, struct export_output *out, struct bundle_parts *p)
{
	_cleanup_close_ int json = -1, clean = io_temporary(), store = -1;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = clean < 0 ? report_absent(e, "description", clean) : export_open_local(e, "store", &store);

	if (rc == STATUS_OK && !named_store_is_path(e->name))
		rc = export_open_file(e, "json", &json);
	else if (rc == STATUS_OK && open_description(e, &json) < 0)
		json = -1;
	if (rc != STATUS_OK)
		return rc;
	if (json >= 0) {
		rc = redaction_description(json, clean);
		if (rc == 0)
			rc = read_whole(clean, &text, &size);
		if (rc < 0)
			return report_absent(e, "description", rc);
	}
	p->store = store;
	p->snapshot = text;
	rc = output_open(e, out, store);
	return rc != STATUS_OK ? rc : output_close(out, bundle_write(out->fd, p));
}

/* Makes the parts of a whole bundle. It decodes the trace once, to find the files that a decode needs. */
static int bundle_whole(struct export *e, struct export_output *out, struct bundle_parts *p)
{
	_cleanup_(bundle_files_done) struct bundle_files files = { 0 };
	_cleanup_(local_decode_done) struct local_decode d = { LOCAL_DECODE_NONE, .client = e->client,
							       .on_result = export_on_result, .bundled = &files };
	_cleanup_close_ int store = io_temporary();
	_cleanup_free_ char *text = NULL;
	int rc = store < 0 ? report_absent(e, "store", store) : export_open_trace(e, &d);

	if (rc == STATUS_OK && strcmp(d.file.type, "perf.data") != 0)
		return client_usage(e->client, "a bundle is made of a snapshot of csightd or a perf.data file");
	if (rc == STATUS_OK)
		rc = local_decode_to(&d, "store", store);
	if (rc != STATUS_OK)
		return rc;
	if (d.file.finder.snapshot && !(text = json_text(d.file.finder.snapshot, JSON_PRETTY)))
		return report_absent(e, "description", -ENOMEM);
	p->trace = d.file.input;
	p->directory = d.file.finder.dir;
	p->bundle = d.file.finder.bundle_fd;
	p->snapshot = text;
	p->files = &files;
	rc = output_open(e, out, d.file.input);
	return rc != STATUS_OK ? rc : output_close(out, bundle_write(out->fd, p));
}

static int export_bundle(struct export *e, struct export_output *out)
{
	_cleanup_close_ int core = -1;
	struct bundle_parts parts = { .trace = -1, .directory = -1, .bundle = -1, .store = -1, .core = -1 };

	if (e->core && e->input.redacted)
		return client_usage(e->client, "a core dump cannot be redacted");
	if (e->core) {
		output_files_protect(e->core);
		core = open(e->core, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (core < 0) {
			client_error("cannot open %s: %s", esc(e->core), strerror(errno));
			return STATUS_FAILED;
		}
		parts.core = core;
	}
	return e->input.redacted ? bundle_redacted(e, out, &parts) : bundle_whole(e, out, &parts);
}

static void print_output(struct client *c, const struct export_output *out)
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
		client_print_json(o);
		return;
	}
	if (c->quiet)
		return;
	fprintf(stderr, "wrote %s: %s, %s", esc(out->path), out->format, format_size(out->bytes));
	if (out->ops)
		fprintf(stderr, ", %s of %s in %s", format_plural(out->result.slices, "call"),
			format_plural(out->result.threads, "thread"),
			format_duration(out->result.until - out->result.since));
	fputc('\n', stderr);
	if (out->ops && out->result.cut)
		fprintf(
		    stderr,
		    "  the earlier part is left out because viewers load large files slowly; --budget=0 keeps it\n");
}

static bool format_is_text(const char *format)
{
	static const char *const texts[] = { "tree", "folded", "speedscope", "chrome", "json", "autofdo" };

	for (size_t i = 0; i < ELEMENTS(texts); i++)
		if (strcmp(texts[i], format) == 0)
			return true;
	return false;
}

static int export_check_format(struct export *e, struct export_output *out)
{
	for (size_t i = 0; i < ELEMENTS(unselected_formats); i++) {
		if (strcmp(unselected_formats[i].format, out->format) != 0)
			continue;
		out->origin = unselected_formats[i].origin;
		return 0;
	}
	out->ops = export_find(out->format);
	return out->ops ? 0 : client_usage(e->client, "unknown format '%s'; there are " FORMATS, esc(out->format));
}

static int export_check_output(struct export *e, struct export_output *out)
{
	struct client *c = e->client;
	int rc = export_check_format(e, out);

	if (rc != 0)
		return rc;
	if (e->input.redacted && strcmp(out->format, "perfdata") == 0)
		return client_usage(
		    c, "perfdata cannot be redacted: the trace is decoded by its mappings, names and code; "
		       "export it as store");
	if (c->json && !out->path)
		return client_usage(c, "--json requires an output file (-o): without one the export itself is printed");
	if (!out->path && isatty(STDOUT_FILENO) && !format_is_text(out->format))
		return client_usage(c, "%s is a binary format; name an output file with -o", out->format);
	return 0;
}

static int export_parse_option(struct export *e, int option, const char *value)
{
	switch (option) {
	case OPTION_TO:
		return output_files_add_format(e->client, &e->output_files, value);
	case OPTION_OUTPUT:
		return output_files_add_path(e->client, &e->output_files, value);
	case OPTION_SINCE:
		e->selection.since = value;
		return 0;
	case OPTION_UNTIL:
		e->selection.until = value;
		return 0;
	case OPTION_LAST:
		e->selection.last = value;
		return 0;
	case OPTION_THREAD:
		e->selection.thread = value;
		return 0;
	case OPTION_SUFFIXES:
		e->input.suffixes = true;
		return 0;
	case OPTION_PHYSICAL:
		e->input.physical = true;
		return 0;
	case OPTION_REDACT:
		e->input.redacted = true;
		return 0;
	case OPTION_CORE:
		e->core = value;
		return 0;
	case OPTION_HOST:
		if (strlen(value) >= sizeof(e->host))
			return client_usage(e->client, "--host: a name has at most %zu characters",
					    sizeof(e->host) - 1);
		strcpy(e->host, value);
		e->host_given = true;
		return 0;
	default:
		e->selection.budget = value;
		return 0;
	}
}

/* True if an output is made by a decode, to which --images, --buffer and --regs apply. */
static bool is_decoded(const struct export *e, const struct export_output *out)
{
	if (out->origin == FROM_TRACE || out->origin == FROM_PARTS)
		return true;
	return named_store_is_path(e->name) && (out->origin == FROM_STORE || strcmp(out->format, "store") == 0);
}

/* Refuses options that none of the outputs uses. */
static int export_check_options(const struct export *e)
{
	const struct selection *v = &e->selection;
	bool decoded = false, bundle = false, parquet = false, calls = false, named = false;

	for (size_t i = 0; i < e->output_files.n; i++) {
		const struct export_output *out = &e->outputs[i];

		decoded = decoded || is_decoded(e, out);
		bundle = bundle || out->origin == FROM_PARTS;
		parquet = parquet || out->ops == &export_parquet || out->ops == &export_parquet_functions;
		calls = calls || (out->ops && out->ops != &export_parquet_functions);
		named = named || out->ops;
	}
	if (!calls && (v->since || v->until || v->last || v->thread || v->budget || e->input.physical))
		return client_usage(e->client,
				    "%s is always exported whole: --since, --until, --last, --thread, --budget and "
				    "--physical apply only to formats that are made from calls",
				    e->outputs[0].format);
	if (!named && e->input.suffixes)
		return client_usage(e->client, "--suffixes has no effect on %s", e->outputs[0].format);
	if (!decoded && trace_options_given(&e->client->trace))
		return client_usage(e->client, "--images, --buffer and --regs have no effect: nothing is decoded");
	if (!bundle && e->core)
		return client_usage(e->client, "--core has no effect without --to bundle");
	if (!parquet && e->host_given)
		return client_usage(e->client, "--host has no effect without --to parquet or parquet-functions");
	if (e->input.redacted && e->host_given)
		return client_usage(e->client, "--host has no effect: --redact leaves the host out");
	return 0;
}

static int export_parse(struct export *e)
{
	struct client *c = e->client;
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		rc = export_parse_option(e, o, value);
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? NAMED_STORE_TOO_MANY : NAMED_STORE_MISSING);
	e->name = c->argv[0];
	rc = output_files_finish(c, &e->output_files, export_perfetto.name);
	for (size_t i = 0; i < e->output_files.n && rc == 0; i++) {
		e->outputs[i] = (struct export_output){ .format = e->output_files.files[i].format,
							.path = e->output_files.files[i].path,
							.fd = STDOUT_FILENO };
		rc = export_check_output(e, &e->outputs[i]);
	}
	if (rc == 0)
		rc = export_check_options(e);
	return rc == 0 ? -1 : rc;
}

static int export_run(struct client *c)
{
	static int (*const export_from[])(struct export * e,
					  struct export_output * out) = { [FROM_STORE] = export_store,
									  [FROM_SPOOL] = export_file,
									  [FROM_TRACE] = export_trace,
									  [FROM_PARTS] = export_bundle };
	_cleanup_(export_done) struct export e = { .client = c, .input = NAMED_STORE_NONE, .options = EXPORT_DEFAULTS };
	int rc;

	gethostname(e.host, sizeof(e.host) - 1);
	rc = export_parse(&e);
	if (rc >= 0)
		return rc;
	if (e.input.redacted)
		e.host[0] = 0;
	rc = 0;
	for (size_t i = 0; i < e.output_files.n && rc == 0; i++) {
		struct export_output *out = &e.outputs[i];

		rc = export_from[out->origin](&e, out);
		if (rc == 0 && out->path)
			print_output(c, out);
	}
	return rc;
}

const struct verb cmd_export = {
	.name = "export",
	.arguments = NAMED_STORE_ARGUMENT,
	.summary = "write a snapshot in a format for viewers and tools",
	.flags = VERB_SOCKET | VERB_JSON | VERB_TRACE | VERB_QUIET,
	.options = options,
	.run = export_run,
};
