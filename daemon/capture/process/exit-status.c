/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "daemon/capture/process/exit-status.h"
#include "daemon/capture/process/proc-file.h"
#include "lib/base/util.h"

/* Linux's struct pidfd_info of 64 bytes, as the headers of Linux 6.1 lack it. */
struct reaped_info {
	uint64_t mask, cgroup;
	uint32_t ids[11];
	int32_t exit_code;
};

#define PIDFD_GET_INFO _IOWR(0xff, 11, struct reaped_info)
#define PIDFD_INFO_EXIT (1u << 3)

enum { STAT_EXIT_CODE = 52, STAT_STATE = 3 };

static int read_reaped(int pidfd, int *ret)
{
	struct reaped_info info = { .mask = PIDFD_INFO_EXIT };

	if (ioctl(pidfd, PIDFD_GET_INFO, &info) < 0 || !(info.mask & PIDFD_INFO_EXIT))
		return -ESRCH;
	*ret = info.exit_code;
	return 0;
}

/* Reads state and exit code of /proc/PID/stat. */
static bool parse_stat(const char *text, char *ret_state, int *ret_code)
{
	const char *state = proc_file_stat_field(text, STAT_STATE), *code = proc_file_stat_field(text, STAT_EXIT_CODE);

	if (!state || !code)
		return false;
	*ret_state = *state;
	return sscanf(code, "%d", ret_code) == 1;
}

int exit_status_read(pid_t pid, int pidfd, int *ret)
{
	char path[32], text[4096], state = 0;
	bool parsed;

	if (read_reaped(pidfd, ret) == 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	parsed = proc_file_read(AT_FDCWD, path, text, sizeof(text)) >= 0 && parse_stat(text, &state, ret);
	/* Signal 0 fails once the process was reaped: the number may be another's by now. */
	if (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0 && errno == ESRCH)
		return read_reaped(pidfd, ret);
	return !parsed ? -ESRCH : state == 'Z' ? 0 : -EAGAIN;
}
