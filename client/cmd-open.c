/* SPDX-License-Identifier: MIT */
/* csight open. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/client.h"
#include "client/format.h"
#include "client/http-server.h"
#include "client/named-store.h"
#include "client/selection.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

enum {
	OPTION_SINCE,
	OPTION_UNTIL,
	OPTION_LAST,
	OPTION_THREAD,
	OPTION_BUDGET,
	OPTION_PORT,
	OPTION_UI,
	OPTION_NO_BROWSER
};

static const struct verb_option options[] = {
	[OPTION_SINCE] = { "since", 0, "TIME", SELECTION_SINCE_HELP },
	[OPTION_UNTIL] = { "until", 0, "TIME", SELECTION_UNTIL_HELP },
	[OPTION_LAST] = { "last", 0, "TIME", SELECTION_LAST_HELP },
	[OPTION_THREAD] = { "thread", 0, "THREAD", SELECTION_THREAD_HELP },
	[OPTION_BUDGET] = { "budget", 0, "N", SELECTION_BUDGET_HELP },
	[OPTION_PORT] = { "port", 0, "N", "loopback port to listen on (default any free port)" },
	[OPTION_UI] = { "ui", 0, "URL", "address of the UI (default https://ui.perfetto.dev)" },
	[OPTION_NO_BROWSER] = { "no-browser", 0, NULL, "print the address, start no browser" },
	{ 0 },
};

/*
 * The page fetches the trace from csight and passes it to the window of the UI as a message, so that the UI makes no
 * request for it.
 */
static const char page_begin[] =
    "<!doctype html><meta charset=\"utf-8\"><title>csight</title>\n"
    "<style>body{font:16px sans-serif;margin:4em "
    "auto;max-width:40em;text-align:center}button{font:inherit;padding:.6em 2em}</style>\n"
    "<h1 id=\"title\"></h1><button id=\"go\">Open in the Perfetto UI</button><p id=\"said\"></p>\n"
    "<script>\n"
    "const trace = ";
static const char page_end[] =
    ";\n"
    "const said = text => { document.getElementById('said').textContent = text; };\n"
    "const origin = new URL(trace.ui).origin;\n"
    "document.getElementById('title').textContent = trace.title;\n"
    "document.getElementById('go').onclick = async () => {\n"
    "  const ui = window.open(trace.ui);\n"
    "  if (!ui) return said('The browser blocked the new window. Allow it for this page and press the button "
    "again.');\n"
    "  said('Fetching the trace ...');\n"
    "  let buffer;\n"
    "  try { buffer = await (await fetch('trace')).arrayBuffer(); } catch (e) {\n"
    "    return said('The trace is no longer available because csight open has ended. Run it again.');\n"
    "  }\n"
    "  said('Waiting for the UI ...');\n"
    "  const ping = setInterval(() => ui.postMessage('PING', origin), 50);\n"
    "  window.addEventListener('message', e => {\n"
    "    if (e.source !== ui || e.origin !== origin || e.data !== 'PONG' || !buffer) return;\n"
    "    clearInterval(ping);\n"
    "    ui.postMessage({perfetto: {buffer, title: trace.title, fileName: trace.title + '.pftrace'}}, origin);\n"
    "    buffer = null;\n"
    "    said('The UI has the trace. You can close this page.');\n"
    "  });\n"
    "};\n"
    "</script>\n";

struct open {
	struct selection selection;
	const char *ui;
	int64_t port;
	bool no_browser;
	int trace; /* file of the trace to serve */
	uint64_t size;
	struct export_result result;
	struct http_server server;
	char forward[PATH_MAX], forward_dir[PATH_MAX]; /* the page for the browser, and its directory; "": none */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
	interrupted = signal;
}

static bool was_interrupted(void)
{
	return interrupted;
}

static int make_trace(struct client *c, struct open *o, const struct store *s)
{
	struct export_options export = EXPORT_DEFAULTS;
	int rc = selection_apply(c, &o->selection, s, &export);

	if (rc != STATUS_OK)
		return rc;
	o->trace = memfd_create("csight-trace", MFD_CLOEXEC);
	rc = o->trace < 0 ? -errno : export_perfetto.write(s, o->trace, &export, &o->result);
	if (rc == 0)
		return STATUS_OK;
	client_error("cannot make the trace: %s", strerror(-rc));
	return STATUS_FAILED;
}

/* A file that is neither a store nor trace is served unchanged, since the UI reads many formats. */
static int open_trace(struct client *c, struct open *o, const char *name)
{
	_cleanup_(named_store_close) struct named_store input = NAMED_STORE_NONE;
	struct stat st;
	int rc;

	if (named_store_is_path(name) && stat(name, &st) == 0 && S_ISREG(st.st_mode))
		input.fd = open(name, O_RDONLY | O_CLOEXEC);
	if (input.fd >= 0 && !named_store_reads(c, input.fd)) {
		o->trace = TAKE_FD(input.fd);
		return STATUS_OK;
	}
	closep(&input.fd);
	rc = named_store_open(c, name, &input);
	return rc == STATUS_OK ? make_trace(c, o, input.store) : rc;
}

static int make_page(const struct open *o, const char *title, uint64_t *ret_size)
{
	_cleanup_json_ json_object *json = json_object_new_object();
	_cleanup_free_ char *text = NULL;
	int fd;

	json_add_str(json, "ui", o->ui);
	json_add_bytes(json, "title", title);
	/* With slashes escaped, a title with </script> does not end the script. */
	text = json_text(json, JSON_SLASHES);
	if (!text)
		return -ENOMEM;
	fd = memfd_create("csight-page", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (dprintf(fd, "%s%s%s", page_begin, text, page_end) < 0) {
		close(fd);
		return -EIO;
	}
	*ret_size = (uint64_t)lseek(fd, 0, SEEK_END);
	return fd;
}

/* True for a directory that only this user can enter. */
static bool is_private(const char *dir)
{
	struct stat st;

	return dir && dir[0] == '/' && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 077) == 0;
}

/*
 * Writes a page that leads to the URL. The browser gets its path as an argument: arguments of a process are readable to
 * all users, and the URL has the secret.
 */
static int write_forward(struct open *o, const char *url)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
	_cleanup_close_ int fd = -1;
	int n;

	if (!is_private(runtime)) {
		n = snprintf(o->forward_dir, sizeof(o->forward_dir), "%s/csight-XXXXXX", tmp && *tmp ? tmp : "/tmp");
		if ((size_t)n >= sizeof(o->forward_dir) || !mkdtemp(o->forward_dir)) {
			o->forward_dir[0] = 0;
			return -errno;
		}
		runtime = o->forward_dir;
	}
	n = snprintf(o->forward, sizeof(o->forward), "%s/csight-open-XXXXXX.html", runtime);
	if ((size_t)n < sizeof(o->forward))
		fd = mkostemps(o->forward, (int)strlen(".html"), O_CLOEXEC);
	if (fd < 0) {
		o->forward[0] = 0;
		return -errno;
	}
	return dprintf(fd,
		       "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\n"
		       "<meta http-equiv=\"refresh\" content=\"0; url=%s\"><title>csight</title>\n",
		       url) < 0
		   ? -EIO
		   : 0;
}

static void remove_forward(struct open *o)
{
	if (o->forward[0])
		unlink(o->forward);
	if (o->forward_dir[0])
		rmdir(o->forward_dir);
}

static void launch_browser(const char *url)
{
	const char *browser = getenv("BROWSER");
	pid_t pid = fork();
	int null;

	if (pid > 0)
		waitpid(pid, NULL, 0);
	if (pid != 0)
		return;
	/* The browser becomes a grandchild, which init reaps. */
	if (fork() != 0)
		_exit(0);
	setsid();
	null = open("/dev/null", O_RDWR);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	execlp(browser && *browser ? browser : "xdg-open", "browser", url, NULL);
	_exit(127);
}

static void print_address(const struct client *c, struct open *o)
{
	bool remote = getenv("SSH_CONNECTION") != NULL;
	bool screen = getenv("DISPLAY") || getenv("WAYLAND_DISPLAY") || getenv("BROWSER");
	char url[128], host[256] = "HOST";

	snprintf(url, sizeof(url), "http://127.0.0.1:%u/%s/", o->server.port, o->server.secret);
	if (c->json) {
		_cleanup_json_ json_object *json = json_object_new_object();

		json_add_str(json, "url", url);
		json_add_u64(json, "port", o->server.port);
		json_add_u64(json, "bytes", o->size);
		json_add_bool(json, "cut", o->result.cut);
		client_print_json(json);
	} else if (remote) {
		gethostname(host, sizeof(host) - 1);
		printf("on the machine with your browser run  ssh -N -L %u:127.0.0.1:%u %s\nthen open  %s\n",
		       o->server.port, o->server.port, esc(host), url);
	} else {
		printf("open  %s\n", url);
	}
	if (!c->json && o->result.cut)
		printf(
		    "  the earlier part is left out because the UI loads large traces slowly; --budget=0 keeps it\n");
	fflush(stdout);
	if (!remote && screen && !o->no_browser) {
		int rc = write_forward(o, url);

		if (rc == 0)
			launch_browser(o->forward);
		else
			client_error("cannot start a browser: no page for it can be written: %s", strerror(-rc));
	}
}

static int serve_trace(struct client *c, struct open *o, const char *title)
{
	struct http_file files[] = { { "", "text/html; charset=utf-8", -1, 0, false },
				     { "trace", "application/octet-stream", o->trace, 0, true } };
	const struct sigaction action = { .sa_handler = on_signal };
	_cleanup_close_ int page = make_page(o, title, &files[0].size);
	int rc = page < 0 ? page : http_server_open((uint16_t)o->port, &o->server);

	if (rc < 0) {
		client_error("cannot listen on port %lld of this machine: %s", (long long)o->port, strerror(-rc));
		return STATUS_FAILED;
	}
	files[0].fd = page;
	o->size = files[1].size = (uint64_t)lseek(o->trace, 0, SEEK_END);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	print_address(c, o);
	rc = http_server_run(&o->server, files, ELEMENTS(files), was_interrupted);
	if (rc < 0) {
		client_error("ended before a browser fetched the trace");
		return STATUS_FAILED;
	}
	if (!c->json && !c->quiet)
		printf("the browser has fetched the trace: %s\n", format_size(o->size));
	return STATUS_OK;
}

static int open_parse(struct client *c, struct open *o)
{
	const char *value;
	int i;

	while ((i = client_option(c, &value)) >= 0) {
		const char **const to[] = {
			[OPTION_SINCE] = &o->selection.since,
			[OPTION_UNTIL] = &o->selection.until,
			[OPTION_LAST] = &o->selection.last,
			[OPTION_THREAD] = &o->selection.thread,
			[OPTION_BUDGET] = &o->selection.budget,
			[OPTION_PORT] = NULL,
			[OPTION_UI] = &o->ui,
		};

		if (i == OPTION_NO_BROWSER)
			o->no_browser = true;
		else if (i != OPTION_PORT)
			*to[i] = value;
		else if (parse_i64(value, 0, UINT16_MAX, &o->port) < 0)
			return client_usage(c, "--port: '%s' is not a port number", esc(value));
	}
	if (i == CLIENT_STOP)
		return c->status;
	if (strncmp(o->ui, "https://", 8) != 0 && strncmp(o->ui, "http://127.0.0.1", 16) != 0 &&
	    strncmp(o->ui, "http://localhost", 16) != 0)
		return client_usage(c, "--ui: '%s' is neither an https:// address nor on this machine", esc(o->ui));
	if (c->argc != 1)
		return client_usage(c, c->argc ? NAMED_STORE_TOO_MANY : NAMED_STORE_MISSING);
	return -1;
}

static void open_done(struct open *o)
{
	closep(&o->trace);
	remove_forward(o);
	http_server_done(&o->server);
}

static int open_run(struct client *c)
{
	_cleanup_(open_done) struct open o = { .ui = "https://ui.perfetto.dev", .trace = -1, .server.fd = -1 };
	const char *name;
	int rc = open_parse(c, &o);

	if (rc >= 0)
		return rc;
	rc = open_trace(c, &o, c->argv[0]);
	if (rc != STATUS_OK)
		return rc;
	name = strrchr(c->argv[0], '/');
	return serve_trace(c, &o, name && name[1] ? name + 1 : c->argv[0]);
}

const struct verb cmd_open = {
	.name = "open",
	.arguments = NAMED_STORE_ARGUMENT,
	.summary = "open a snapshot in the Perfetto UI",
	.flags = VERB_SOCKET | VERB_JSON | VERB_TRACE | VERB_QUIET,
	.options = options,
	.run = open_run,
};
