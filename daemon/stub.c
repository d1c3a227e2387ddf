#include "config.h"
#include <errno.h>
#include "lib/emu/ring.h"
#include "lib/worker/worker.h"
int worker_spawn(const char *path, uid_t uid, gid_t gid, pid_t *ret_pid, int *ret_fd){return -ENOSYS;}
int worker_submit(int server, uint64_t job, int *ret_fd){return -ENOSYS;}
int worker_ended(int server, int flags, uint64_t *ret_job, int *ret_status){return -EPIPE;}
int worker_start(int job, const struct worker_start *start){return -ENOSYS;}
void worker_event_done(struct worker_event *e){}
int worker_receive(int job, int flags, struct worker_event *ret){return -EPIPE;}
int worker_image(int job, uint32_t index, int fd, const char *reason){return -ENOSYS;}
unsigned emu_finish(uint64_t pending, uint8_t ret[EMU_PENDING_MAX]){return 0;}
