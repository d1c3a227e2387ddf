/* Small files of /proc and /sys, which tell no size. */
#ifndef CSIGHT_DAEMON_CAPTURE_PROC_FILE_H
#define CSIGHT_DAEMON_CAPTURE_PROC_FILE_H

#include <stddef.h>

/* The beginning of it, as far as there is room, with a NUL; negative errno. dir: AT_FDCWD, or where path begins. */
int proc_file_read(int dir, const char *path, char *ret, size_t room);

/* Its number; -1 where there is none. */
long long proc_file_number(const char *path);

#endif
