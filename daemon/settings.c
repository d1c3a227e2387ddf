/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/capture/capture.h"
#include "daemon/settings.h"
#include "lib/base/escape.h"
#include "lib/base/ini.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/path.h"
#include "lib/base/util.h"

enum { FILE_MAX = 64 << 10 };

/* KIND_SPACE: bytes or a percentage; KIND_SHARE: a percentage, of which there are parts per million, or 0. */
enum kind { KIND_PATH, KIND_TEXT, KIND_COUNT, KIND_BYTES, KIND_SPACE, KIND_SHARE, KIND_USERS };

struct setting {
	const char *name;
	enum kind kind;
	size_t offset, size;
	uint64_t least, most;
	bool fixed; /* a change takes effect after a restart */
};

#define FIELD(name) offsetof(struct settings, name), sizeof(((struct settings *)0)->name)

static const struct setting keys[] = {
	{ "socket", KIND_PATH, FIELD(socket), .fixed = true },
	{ "spool", KIND_PATH, FIELD(spool), .fixed = true },
	{ "capture", KIND_TEXT, FIELD(capture), .fixed = true },
	{ "arm", KIND_TEXT, FIELD(arm), .fixed = true },
	{ "hazards", KIND_TEXT, FIELD(hazards), .fixed = true },
	{ "restore", KIND_TEXT, FIELD(restore), .fixed = true },
	{ "keeper", KIND_PATH, FIELD(keeper), .fixed = true },
	{ "decoder", KIND_PATH, FIELD(decoder), .fixed = true },
	{ "opener", KIND_PATH, FIELD(opener), .fixed = true },
	{ "runner", KIND_PATH, FIELD(runner), .fixed = true },
	{ "kernel", KIND_PATH, FIELD(kernel), .fixed = true },
	{ "sink", KIND_TEXT, FIELD(sink), .fixed = true },
	{ "cpus", KIND_TEXT, FIELD(cpus), .fixed = true },
	{ "shared-sink", KIND_TEXT, FIELD(shared_sink) },
	{ "ring-size", KIND_BYTES, FIELD(ring_size), 8 << 10, 1 << 30 },
	{ "rings-max", KIND_BYTES, FIELD(rings_max), 1 << 20, UINT64_MAX },
	{ "decode-user", KIND_TEXT, FIELD(decode_user), .fixed = true },
	{ "spool-max", KIND_SPACE, FIELD(spool_max), 1 << 20, SETTINGS_PERCENT - 1 },
	{ "spool-keep-free", KIND_SPACE, FIELD(spool_keep_free), 0, SETTINGS_PERCENT - 1 },
	{ "spool-max-age", KIND_COUNT, FIELD(spool_max_age), 0, UINT32_MAX },
	{ "memory-max", KIND_SPACE, FIELD(memory_max), 1 << 20, SETTINGS_PERCENT - 1 },
	{ "connections-max", KIND_COUNT, FIELD(connections_max), 16, 1 << 20 },
	{ "targets-max", KIND_COUNT, FIELD(targets_max), 1, 1 << 20 },
	{ "stored-max", KIND_COUNT, FIELD(stored_max), 1, 10000000 },
	{ "allow", KIND_USERS, FIELD(allow) },
	{ "deny", KIND_USERS, FIELD(deny) },
	{ "kernel-users", KIND_USERS, FIELD(kernel_users) },
	{ "snapshot-max", KIND_BYTES, FIELD(snapshot_max), 64 << 10, 64ull << 30 },
	{ "overhead-max", KIND_SHARE, FIELD(overhead_max) },
	{ "jobs", KIND_COUNT, FIELD(jobs), 1, 64 },
	{ "job-timeout", KIND_COUNT, FIELD(job_timeout), 1, 86400 },
	{ "stop-timeout", KIND_COUNT, FIELD(stop_timeout), 0, 3600 },
	{ "symbols-max", KIND_BYTES, FIELD(symbols_max), 0, UINT64_MAX },
	{ "history-targets", KIND_COUNT, FIELD(history_targets), 0, 1000 },
	{ "history-seconds", KIND_COUNT, FIELD(history_seconds), 0, 86400 * 7 },
	{ "history-bytes", KIND_BYTES, FIELD(history_bytes), 0, UINT64_MAX },
};

static int parse_percent(const char *value, uint64_t *ret)
{
	size_t n = strlen(value);
	char digits[4] = "";
	uint64_t v;

	if (n < 2 || n > sizeof(digits) || value[n - 1] != '%')
		return -EINVAL;
	memcpy(digits, value, n - 1);
	if (parse_u64(digits, 100, &v) < 0)
		return -EINVAL;
	*ret = v | SETTINGS_PERCENT;
	return 0;
}

static int parse_number(const struct setting *k, const char *value, uint64_t *ret)
{
	int rc;

	if (k->kind == KIND_SPACE && parse_percent(value, ret) == 0)
		return k->least && *ret == SETTINGS_PERCENT ? -EINVAL : 0;
	rc = k->kind == KIND_COUNT ? parse_u64(value, UINT64_MAX, ret) : parse_size(value, ret);
	return rc < 0 || *ret < k->least || *ret > k->most ? -EINVAL : 0;
}

static int refuse_number(struct settings *s, const struct setting *k, const char *value, const char *where)
{
	return reason_set(s->why, -EINVAL, "%s: %s must be a number%s from %llu to %llu%s, not \"%s\"", where, k->name,
			  k->kind == KIND_COUNT ? "" : " (K, M, G, T may follow)", (unsigned long long)k->least,
			  (unsigned long long)k->most,
			  k->kind == KIND_SPACE ? k->least ? " or a percentage above 0" : " or a percentage" : "",
			  esc(value));
}

static int refuse_share(struct settings *s, const struct setting *k, const char *value, const char *where)
{
	return reason_set(s->why, -EINVAL, "%s: %s must be a percentage from 0.01%% to 100%%, or unlimited, not \"%s\"",
			  where, k->name, esc(value));
}

/* Parses "unlimited", or a percentage with at most two decimals. */
static int set_share(struct settings *s, const struct setting *k, const char *value, const char *where)
{
	uint64_t share = 0, digits = 0, unit = 10000;
	const char *p = value;

	for (bool point = false; strcmp(value, "unlimited") != 0 && *p && strcmp(p, "%") != 0; p++) {
		if (*p == '.' && !point && digits) {
			point = true;
			continue;
		}
		if (*p < '0' || *p > '9' || ++digits > 5 || (point && unit == 100))
			return refuse_share(s, k, value, where);
		share = share * 10 + (uint64_t)(*p - '0');
		unit /= point ? 10 : 1;
	}
	share *= unit;
	if (strcmp(value, "unlimited") != 0 && (!*p || share == 0 || share > 1000000))
		return refuse_share(s, k, value, where);
	memcpy((char *)s + k->offset, &share, sizeof(share));
	return 0;
}

static int set_users(struct settings *s, const struct setting *k, const char *value, const char *where)
{
	struct account_set *set = (struct account_set *)(void *)((char *)s + k->offset);
	const char *bad;
	int rc;

	accounts_set_done(set);
	rc = accounts_set_add_list(set, value, &bad);
	if (rc == -ESRCH && s->starting) {
		log_warning("%s: %s: there is no user or group \"%s\": it is ignored", where, k->name, esc(bad));
		return 0;
	}
	if (rc == -ESRCH)
		reason_set(s->why, rc, "%s: %s: there is no user or group \"%s\"", where, k->name, esc(bad));
	else if (rc < 0)
		reason_set(s->why, rc, "%s: %s: cannot look up \"%s\" and its members: %s", where, k->name, esc(bad),
			   strerror(-rc));
	return rc;
}

/* Sets what one user may have at most. section: see quotas_set(). */
static int set_quota(struct settings *s, int section, enum ledger_kind kind, const char *value, const char *where)
{
	struct setting k = { .name = ledger_setting(kind, false), .kind = KIND_COUNT, .most = UINT32_MAX };
	uint64_t v = LEDGER_UNLIMITED;

	if (kind == LEDGER_MEMORY || kind == LEDGER_SPOOL || kind == LEDGER_RINGS) {
		k.kind = kind == LEDGER_RINGS ? KIND_BYTES : KIND_SPACE;
		k.most = SETTINGS_PERCENT - 1;
	}
	if (strcmp(value, "unlimited") != 0) {
		if (parse_number(&k, value, &v) < 0)
			return refuse_number(s, &k, value, where);
		if (kind == LEDGER_DECODER)
			v *= 1000;
	}
	quotas_set(&s->quotas, section, kind, v);
	if (kind == LEDGER_SPOOL)
		quotas_set(&s->quotas, section, LEDGER_PENDING, v);
	return 0;
}

static int set_value(struct settings *s, const char *name, const char *value, const char *where)
{
	const struct setting *k = NULL;
	enum ledger_kind quota;
	uint64_t v;

	for (size_t i = 0; i < ELEMENTS(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			k = &keys[i];
	if (!k && quotas_kind(name, &quota) == 0)
		return set_quota(s, -1, quota, value, where);
	if (!k)
		return reason_set(s->why, -EINVAL, "%s: unknown setting \"%s\"", where, esc(name));
	if (k->kind == KIND_USERS)
		return set_users(s, k, value, where);
	if (k->kind == KIND_SHARE)
		return set_share(s, k, value, where);
	if (k->kind == KIND_PATH || k->kind == KIND_TEXT) {
		char *to = (char *)s + k->offset;

		if (k->kind == KIND_PATH && value[0] != '/')
			return reason_set(s->why, -EINVAL, "%s: %s must be an absolute path, not \"%s\"", where, name,
					  esc(value));
		if (!value[0] || strlen(value) >= k->size)
			return reason_set(s->why, -EINVAL, "%s: %s is empty or too long", where, name);
		strcpy(to, value);
		return 0;
	}
	if (parse_number(k, value, &v) < 0)
		return refuse_number(s, k, value, where);
	memcpy((char *)s + k->offset, &v, sizeof(v));
	return 0;
}

/* Explains an error of a section. csightd starts without a section whose user does not exist. */
static int refuse_section(struct settings *s, const struct ini_entry *e, const char *where, const struct reason *why,
			  int rc)
{
	if (rc == -ESRCH && s->starting) {
		log_warning("%s: [%s]: %s: the section is ignored", where, esc(e->section), why->text);
		return 0;
	}
	return reason_set(s->why, rc, "%s: [%s]: %s", where, esc(e->section), why->text);
}

static int set_trigger(struct settings *s, const struct ini_entry *e, const char *where)
{
	struct reason why = { "" };
	int rc = trigger_sections_set(&s->triggers, e, &why);

	return rc < 0 ? refuse_section(s, e, where, &why, rc) : 0;
}

static int set_standing(struct settings *s, const struct ini_entry *e, const char *where)
{
	struct reason why = { "" };
	int rc = standing_sections_set(&s->standing, e, &why);

	return rc < 0 ? refuse_section(s, e, where, &why, rc) : 0;
}

/* Sets a value in a section of a user or group, of a trigger, or of a standing target. */
static int set_section_value(struct settings *s, const struct ini_entry *e, const char *where)
{
	enum ledger_kind kind;
	int section;

	if (trigger_sections_have(e->section))
		return set_trigger(s, e, where);
	if (standing_sections_have(e->section))
		return set_standing(s, e, where);
	section = quotas_section(&s->quotas, e->section);
	if (section == -ESRCH && s->starting) {
		log_warning("%s: [%s]: there is no such user or group: the line is ignored", where, esc(e->section));
		return 0;
	}
	if (section == -EINVAL)
		reason_set(s->why, section,
			   "%s: a section is [User NAME], [Group NAME], [Trigger NAME] or [Target NAME], not [%s]",
			   where, esc(e->section));
	else if (section == -ESRCH)
		reason_set(s->why, section, "%s: [%s]: there is no such user or group", where, esc(e->section));
	else if (section < 0)
		reason_set(s->why, section, "%s: [%s]: cannot look it up: %s", where, esc(e->section),
			   strerror(-section));
	if (section < 0)
		return section;
	if (quotas_kind(e->key, &kind) < 0)
		return reason_set(s->why, -EINVAL, "%s: \"%s\" is not a limit of one user", where, esc(e->key));
	return set_quota(s, section, kind, e->value, where);
}

struct loading {
	struct settings *settings;
	const char *path;
	bool explained; /* why has the error of an entry */
};

static int load_entry(void *user, const struct ini_entry *e)
{
	struct loading *l = user;
	char where[PATH_MAX + 32];
	int rc;

	snprintf(where, sizeof(where), "%s:%u", l->path, e->line);
	rc = *e->section ? set_section_value(l->settings, e, where) : set_value(l->settings, e->key, e->value, where);
	l->explained = rc < 0;
	return rc;
}

static int load_file(struct settings *s, const char *path, bool must)
{
	struct loading l = { .settings = s, .path = path };
	_cleanup_free_ char *text = NULL;
	unsigned line = 0;
	size_t size;
	int rc;

	rc = io_read_file(AT_FDCWD, path, FILE_MAX, &text, &size);
	if (rc == -ENOENT && !must)
		return 0;
	if (rc < 0)
		return reason_set(s->why, rc, "cannot read %s: %s", esc(path), strerror(-rc));
	rc = ini_read(text, size, INI_COMMENTS_LINES, load_entry, &l, &line);
	if (rc == 0 || l.explained)
		return rc;
	return reason_set(s->why, -EINVAL, "%s:%u: %s", path, line,
			  rc == -EFBIG ? "the line is too long" : "expected key = value");
}

static int is_drop_in(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 5 && strcmp(d->d_name + n - 5, ".conf") == 0;
}

static int load_files(struct settings *s, bool must)
{
	char dir[PATH_MAX + 2], path[2 * PATH_MAX];
	struct dirent **list = NULL;
	int rc, n;

	rc = load_file(s, s->config, must);
	snprintf(dir, sizeof(dir), "%s.d", s->config);
	n = rc < 0 ? 0 : scandir(dir, &list, is_drop_in, alphasort);
	if (n < 0 && errno != ENOENT)
		rc = reason_set(s->why, -errno, "cannot read %s: %s", esc(dir), strerror(errno));
	for (int i = 0; i < n; i++) {
		if (rc == 0) {
			snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
			rc = load_file(s, path, true);
		}
		free(list[i]);
	}
	free(list);
	if (rc == 0)
		rc = trigger_sections_check(&s->triggers, s->why);
	return rc < 0 ? rc : standing_sections_check(&s->standing, s->why);
}

static void usage(void)
{
	printf("Usage: csightd [--system] [OPTION...]\n\n"
	       "Keeps rings of exact control flow for programs and turns them into timelines on request.\n\n"
	       "  --system            run as the system's daemon: /run/csight, /var/lib/csight, any user may connect\n"
	       "  --socket=PATH       the control socket; programs register at PATH.emu\n"
	       "  --spool=DIR         where snapshots are kept\n"
	       "  --capture=auto|perf|emu\n"
	       "                      where trace comes from\n"
	       "  --spool-max=BYTES   remove the oldest snapshots beyond this (K, M, G, T may follow)\n"
	       "  --set=KEY=VALUE     any setting of csightd.conf(5)\n"
	       "  --config=FILE       read this file instead of " SYSCONFDIR
	       "/csight/csightd.conf (read with --system)\n"
	       "  --check-config      check the configuration and exit\n"
	       "  --verbose           log more\n"
	       "  --help, --version\n");
}

static const struct option options[] = {
	{ "system", no_argument, NULL, 'S' },          { "socket", required_argument, NULL, 's' },
	{ "spool", required_argument, NULL, 'p' },     { "capture", required_argument, NULL, 'c' },
	{ "spool-max", required_argument, NULL, 'm' }, { "set", required_argument, NULL, 'k' },
	{ "config", required_argument, NULL, 'f' },    { "check-config", no_argument, NULL, 'C' },
	{ "verbose", no_argument, NULL, 'v' },         { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },         { 0 },
};

/* Makes a relative path of the command line absolute, so that it does not depend on the daemon's directory. */
static int set_path(struct settings *s, const char *name, const char *value)
{
	_cleanup_free_ char *whole = NULL, *cwd = NULL;

	if (value[0] == '/')
		return set_value(s, name, value, "command line");
	cwd = getcwd(NULL, 0);
	if (!cwd || asprintf(&whole, "%s/%s", cwd, value) < 0)
		return reason_set(s->why, -ENOMEM, "cannot read the command line: out of memory");
	return set_value(s, name, whole, "command line");
}

static int set_pair(struct settings *s, const char *pair)
{
	_cleanup_free_ char *copy = strdup(pair);
	char *value;

	if (!copy)
		return reason_set(s->why, -ENOMEM, "cannot read the command line: out of memory");
	value = strchr(copy, '=');
	if (!value)
		return reason_set(s->why, -EINVAL, "--set requires KEY=VALUE");
	*value++ = 0;
	return set_value(s, ini_trim(copy), ini_trim(value), "command line");
}

static int apply_option(struct settings *s, int option, const char *value)
{
	switch (option) {
	case 's':
		return set_path(s, "socket", value);
	case 'p':
		return set_path(s, "spool", value);
	case 'c':
		return set_value(s, "capture", value, "command line");
	case 'm':
		return set_value(s, "spool-max", value, "command line");
	case 'k':
		return set_pair(s, value);
	}
	return 0;
}

/* Handles the options that have an effect before a file is read. */
static int parse_early_options(int argc, char **argv, struct settings *s)
{
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			usage();
			return 1;
		case 'V':
			printf("csightd %s\n", PACKAGE_VERSION);
			return 1;
		case 'S':
			s->system = true;
			break;
		case 'C':
			s->check_only = true;
			s->starting = false;
			break;
		case 'v':
			s->verbose = true;
			break;
		case 'f':
			if ((size_t)snprintf(s->config, sizeof(s->config), "%s", optarg) >= sizeof(s->config))
				return -ENAMETOOLONG;
			break;
		case '?':
			return reason_set(s->why, -EINVAL, "see csightd --help");
		}
	}
	if (optind < argc)
		return reason_set(s->why, -EINVAL, "unexpected argument \"%s\"; see csightd --help", esc(argv[optind]));
	return 0;
}

void settings_done(struct settings *s)
{
	quotas_done(&s->quotas);
	accounts_set_done(&s->allow);
	accounts_set_done(&s->deny);
	accounts_set_done(&s->kernel_users);
	accounts_set_done(&s->shared_users);
	trigger_sections_done(&s->triggers);
	standing_sections_done(&s->standing);
}

bool settings_permit(const struct settings *s, uid_t user, const gid_t *groups, size_t n_groups)
{
	if (user == 0 || user == getuid())
		return true;
	return !accounts_set_has(&s->deny, user, groups, n_groups) &&
	       ((s->allow.n_uids == 0 && s->allow.n_gids == 0) || accounts_set_has(&s->allow, user, groups, n_groups));
}

bool settings_permit_account(const struct settings *s, uid_t account)
{
	return settings_permit(s, account, NULL, 0);
}

bool settings_permit_kernel(const struct settings *s, uid_t user)
{
	return user == 0 || accounts_set_has(&s->kernel_users, user, NULL, 0);
}

uint64_t settings_space(uint64_t setting, uint64_t whole)
{
	return setting == LEDGER_UNLIMITED || !(setting & SETTINGS_PERCENT)
		   ? setting
		   : whole / 100 * (setting & ~SETTINGS_PERCENT);
}

static const struct settings defaults = {
	.capture = "auto",
	.arm = "request",
	.hazards = "refuse",
	.restore = "yes",
	.sink = "auto",
	.cpus = "all",
	.shared_sink = "all",
	.ring_size = 4 << 20,
	.rings_max = 1 << 30,
	.spool_max = 4ull << 30,
	.spool_keep_free = SETTINGS_PERCENT | 5,
	.memory_max = SETTINGS_PERCENT | 25,
	.connections_max = 512,
	.targets_max = 10000,
	.stored_max = 100000,
	.snapshot_max = 1 << 30,
	.jobs = 1,
	.job_timeout = 900,
	.stop_timeout = 10,
	.symbols_max = 64 << 20,
	.quotas.defaults.most = {
		[LEDGER_MEMORY] = LEDGER_UNLIMITED,
		[LEDGER_SPOOL] = LEDGER_UNLIMITED,
		[LEDGER_PENDING] = LEDGER_UNLIMITED,
		[LEDGER_RINGS] = 8ull << 30,
		[LEDGER_DESCRIPTORS] = 16384,
		[LEDGER_TARGETS] = 256,
		[LEDGER_CONNECTIONS] = 16,
		[LEDGER_REGISTRATIONS] = 64,
		[LEDGER_REQUESTS] = 16,
		[LEDGER_WAITING] = 1024,
		[LEDGER_STORED] = 10000,
		[LEDGER_TRIGGERS] = 64,
		[LEDGER_STANDING] = 32,
		[LEDGER_SNAPSHOTS] = 6000,
		[LEDGER_TRIGGERED] = 120,
		[LEDGER_DECODER] = LEDGER_UNLIMITED,
	},
	.history_targets = 8,
	.history_seconds = 600,
	.history_bytes = 1 << 30,
};

/* Sets the default paths, which depend on whether the daemon is the system's. */
static int set_default_paths(struct settings *s)
{
	int rc;

	if (s->system) {
		strcpy(s->socket, SYSTEM_SOCKET);
		strcpy(s->spool, SYSTEM_SPOOL);
		strcpy(s->keeper, SYSTEM_KEEPER);
		strcpy(s->decoder, SYSTEM_DECODER);
		strcpy(s->opener, SYSTEM_OPENER);
		strcpy(s->runner, SYSTEM_RUNNER);
		strcpy(s->kernel, SYSTEM_KERNEL);
		if (!s->config[0])
			strcpy(s->config, SYSCONFDIR "/csight/csightd.conf");
		return 0;
	}
	rc = path_user_socket(s->socket, sizeof(s->socket));
	if (rc == 0)
		rc = path_user_spool(s->spool, sizeof(s->spool));
	return rc == 0
		   ? 0
		   : reason_set(s->why, rc, "the default paths of this user are too long; use --socket and --spool");
}

static int check_shared_sink(struct settings *s)
{
	int rc;

	if (strcmp(s->shared_sink, "all") == 0 || strcmp(s->shared_sink, "root") == 0)
		return 0;
	rc = accounts_set_add_group(&s->shared_users, s->shared_sink);
	if (rc == -ESRCH && s->starting) {
		log_warning(
		    "shared-sink: there is no group \"%s\": it is ignored, and root alone may use a shared sink",
		    esc(s->shared_sink));
		return 0;
	}
	if (rc == -ESRCH)
		return reason_set(s->why, -EINVAL, "shared-sink must be all, root or a group, not \"%s\"",
				  esc(s->shared_sink));
	return rc < 0 ? reason_set(s->why, rc, "shared-sink: cannot look up \"%s\" and its members: %s",
				   esc(s->shared_sink), strerror(-rc))
		      : 0;
}

static int check_words(struct settings *s)
{
	if (strcmp(s->capture, "auto") != 0 && strcmp(s->capture, "perf") != 0 && strcmp(s->capture, "emu") != 0)
		return reason_set(s->why, -EINVAL, "capture must be auto, perf or emu, not \"%s\"", esc(s->capture));
	if (strcmp(s->arm, "request") != 0 && strcmp(s->arm, "machine") != 0)
		return reason_set(s->why, -EINVAL, "arm must be request or machine, not \"%s\"", esc(s->arm));
	if (strcmp(s->hazards, "refuse") != 0 && strcmp(s->hazards, "allow") != 0)
		return reason_set(s->why, -EINVAL, "hazards must be refuse or allow, not \"%s\"", esc(s->hazards));
	if (strcmp(s->restore, "yes") != 0 && strcmp(s->restore, "no") != 0)
		return reason_set(s->why, -EINVAL, "restore must be yes or no, not \"%s\"", esc(s->restore));
	if (strcmp(s->cpus, "all") != 0 && capture_cpus_check(s->cpus) < 0)
		return reason_set(s->why, -EINVAL, "cpus must be all, or a list such as 0-3,5, not \"%s\"",
				  esc(s->cpus));
	return check_shared_sink(s);
}

static int load(int argc, char **argv, struct settings *s)
{
	bool must;
	int rc = parse_early_options(argc, argv, s), c;

	if (rc != 0)
		return rc;
	must = s->config[0] != 0;
	rc = set_default_paths(s);
	if (rc == 0 && s->config[0])
		rc = load_files(s, must);
	optind = 1;
	while (rc == 0 && (c = getopt_long(argc, argv, "hV", options, NULL)) != -1)
		rc = apply_option(s, c, optarg);
	return rc < 0 ? rc : check_words(s);
}

int settings_load(int argc, char **argv, bool starting, struct settings *ret, struct reason *ret_why)
{
	struct settings s = defaults;
	int rc;

	s.why = ret_why;
	s.starting = starting;
	rc = load(argc, argv, &s);
	if (rc < 0 && !ret_why->text[0])
		reason_set(ret_why, rc, "cannot read the configuration: %s", strerror(-rc));
	s.why = NULL;
	if (rc == 0)
		*ret = s;
	else
		settings_done(&s);
	return rc;
}

static bool value_equal(const struct setting *k, const struct settings *a, const struct settings *b)
{
	const char *x = (const char *)a + k->offset, *y = (const char *)b + k->offset;

	if (k->kind == KIND_USERS)
		return accounts_set_equal((const void *)x, (const void *)y);
	return k->kind == KIND_PATH || k->kind == KIND_TEXT ? strcmp(x, y) == 0 : memcmp(x, y, k->size) == 0;
}

void settings_replace(struct settings *s, struct settings *fresh, struct settings_changes *ret)
{
	*ret = (struct settings_changes){ 0 };
	for (size_t n = 0; n < ELEMENTS(keys); n++) {
		const struct setting *k = &keys[n];

		if (value_equal(k, s, fresh))
			continue;
		if (k->fixed) {
			ret->fixed[ret->n_fixed++] = k->name;
			memcpy((char *)fresh + k->offset, (char *)s + k->offset, k->size);
		} else {
			ret->names[ret->n++] = k->name;
		}
	}
	for (enum ledger_kind kind = 0; kind < LEDGER_KINDS; kind++)
		if (kind != LEDGER_PENDING && s->quotas.defaults.most[kind] != fresh->quotas.defaults.most[kind])
			ret->names[ret->n++] = ledger_setting(kind, false);
	if (!quotas_sections_equal(&s->quotas, &fresh->quotas))
		ret->names[ret->n++] = "sections of users and groups";
	if (!trigger_sections_equal(&s->triggers, &fresh->triggers))
		ret->names[ret->n++] = "sections of triggers";
	if (!standing_sections_equal(&s->standing, &fresh->standing))
		ret->names[ret->n++] = "sections of targets";
	/* The members of a group may have changed, though its name has not. */
	settings_done(s);
	*s = *fresh;
	*fresh = (struct settings){ 0 };
}
