/* SPDX-License-Identifier: MIT */
/*
 * Paths of sockets, spools and helper programs, for the daemon and its clients. The system daemon uses fixed
 * directories; a user's own daemon follows the XDG variables. Functions return -ENAMETOOLONG if ret is too small.
 */
#ifndef CSIGHT_PATH_H
#define CSIGHT_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define SYSTEM_SOCKET "/run/csight/csight.sock"
#define SYSTEM_SPOOL "/var/lib/csight/spool"
#define SYSTEM_KEEPER "/run/csight-keeper.sock"
#define SYSTEM_DECODER "/run/csight-decode.sock"
#define SYSTEM_OPENER "/run/csight-opener.sock"
#define SYSTEM_RUNNER "/run/csight-runner.sock"
#define SYSTEM_KERNEL "/run/csight-kernel.sock"

/* $XDG_RUNTIME_DIR/csight/csight.sock, else /tmp/csight-UID/csight.sock. */
int path_user_socket(char *ret, size_t size);

/* $XDG_STATE_HOME/csight, else $HOME/.local/state/csight, else /var/tmp/csight-UID. */
int path_user_spool(char *ret, size_t size);

/* $XDG_CACHE_HOME/csight, else $HOME/.cache/csight, else -ENOENT. */
int path_user_cache(char *ret, size_t size);

/* Finds a program of this name on the PATH, as a shell does. Returns false if there is none. */
bool path_find_program(const char *name, char *ret, size_t size);

/* Makes the path of the socket at which emulated programs register: the control socket's path and ".emu". */
int path_emu_socket(const char *socket, char *ret, size_t size);

/*
 * Creates a directory with mode, and its parents (0755) if parents is set. An existing directory must be no symbolic
 * link (-ENOTDIR), belong to this user or root, and not be writable by others (-EPERM).
 */
int path_make_dir(const char *path, unsigned mode, bool parents);

/* Finds a helper program or plugin: beside this executable (a build tree), else in installed_dir. -ENOENT, -EACCES. */
int path_helper(const char *name, const char *installed_dir, char *ret, size_t size);

#endif
