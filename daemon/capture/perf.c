#include "config.h"

#include <string.h>

#include "daemon/capture/perf.h"
#include "lib/base/util.h"

int perf_machine_new(const struct perf_settings *settings, struct perf_machine **ret, char ret_why[PERF_WHY_MAX])
{
	(void)settings;
	(void)ret;
	snprintf(ret_why, PERF_WHY_MAX, "this csightd cannot use the kernel's cs_etm PMU yet");
	return -ENODEV;
}

struct perf_machine *perf_machine_free(struct perf_machine *m)
{
	(void)m;
	return NULL;
}

bool perf_machine_shared(struct perf_machine *m, const struct capture_options *o)
{
	(void)m;
	(void)o;
	return true;
}

int perf_machine_fd(const struct perf_machine *m)
{
	(void)m;
	return -1;
}

void perf_machine_drain(struct perf_machine *m)
{
	(void)m;
}

int perf_source_new(struct perf_machine *m, pid_t pid, int pidfd, uid_t uid, const struct capture_options *o,
		    struct capture_source **ret)
{
	(void)m;
	(void)pid;
	(void)pidfd;
	(void)uid;
	(void)o;
	(void)ret;
	return -ENODEV;
}

bool perf_source_lost(const struct capture_source *s)
{
	(void)s;
	return false;
}

const struct capture_ops perf_capture = { .name = "perf" };
