#include "config.h"

#include <string.h>

#include "daemon/capture/process.h"
#include "lib/base/util.h"

__attribute__((weak)) int process_new(pid_t pid, int pidfd, bool data, uint64_t now_ns, struct process **ret)
{
	(void)pid, (void)pidfd, (void)data, (void)now_ns, (void)ret;
	return -ENOTSUP;
}

__attribute__((weak)) struct process *process_free(struct process *p)
{
	(void)p;
	return NULL;
}

__attribute__((weak)) void process_map(struct process *p, const struct process_map *m)
{
	(void)p, (void)m;
}

__attribute__((weak)) void process_name(struct process *p, uint64_t time, uint32_t tid, const char *name, bool exec)
{
	(void)p, (void)time, (void)tid, (void)name, (void)exec;
}

__attribute__((weak)) void process_lost(struct process *p, uint64_t now_ns)
{
	(void)p, (void)now_ns;
}

__attribute__((weak)) void process_look(struct process *p, uint64_t now_ns)
{
	(void)p, (void)now_ns;
}

__attribute__((weak)) int process_tell(struct process *p, struct buf *ret_log, struct buf *missing,
				       struct capture_file **ret_files, size_t *ret_n_files)
{
	(void)p, (void)ret_log, (void)missing, (void)ret_files, (void)ret_n_files;
	return 0;
}

__attribute__((weak)) void process_forget(struct process *p, uint64_t before_ns)
{
	(void)p, (void)before_ns;
}

__attribute__((weak)) uint64_t process_memory(const struct process *p)
{
	(void)p;
	return 0;
}
