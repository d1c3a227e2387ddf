/*
 * Where things are: one rule for the daemon and its clients. The system's daemon uses fixed directories; a user's own
 * follows the XDG variables and falls back to 0700 directories of that user where they are not set.
 */
#ifndef CSIGHT_PATH_H
#define CSIGHT_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define SYSTEM_SOCKET "/run/csight/csight.sock"
#define SYSTEM_SPOOL "/var/lib/csight/spool"

/* The user's own: $XDG_RUNTIME_DIR/csight/csight.sock, else /tmp/csight-UID/csight.sock. -ENAMETOOLONG only. */
int path_user_socket(char *ret, size_t size);

/* $XDG_STATE_HOME/csight, else $HOME/.local/state/csight, else /var/tmp/csight-UID. */
int path_user_spool(char *ret, size_t size);

/* Where emulated programs register: beside the control socket. */
int path_emu_socket(const char *socket, char *ret, size_t size);

/*
 * Makes the last component of path with mode, and its parents (0755) where parents is set. An existing directory must
 * belong to this user (or root) and be no link; one that others may write is refused: -EPERM.
 */
int path_make_dir(const char *path, unsigned mode, bool parents);

/* A helper program or plugin: beside this executable (as built), else in the directory it is installed to. */
int path_helper(const char *name, const char *installed_dir, char *ret, size_t size);

#endif
