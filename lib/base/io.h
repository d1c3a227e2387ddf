/* Whole reads and writes, and messages that carry descriptors. All return negative errno on failure. */
#ifndef CSIGHT_IO_H
#define CSIGHT_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As many as the kernel passes in one message: none that comes is ever closed unseen for lack of room. */
enum { IO_FDS_MAX = 253 };

int write_full(int fd, const void *data, size_t size);
int pwrite_full(int fd, const void *data, size_t size, off_t at);

/* The bytes read; fewer than size only at the end of the file. */
ssize_t read_full(int fd, void *ret, size_t size);
ssize_t pread_full(int fd, void *ret, size_t size, uint64_t at);

/*
 * Opens a regular file for reading by a name that came from outside: relative, without "..", and neither it nor a
 * directory on its way a symbolic link; so it is beneath dirfd. -EINVAL: such a name, or no regular file; -ELOOP.
 */
int open_beneath(int dirfd, const char *name, int *ret_fd);

/* A whole regular file of at most limit bytes, with a NUL after it that is not counted; the caller frees. */
int read_file(int dirfd, const char *path, size_t limit, char **ret, size_t *ret_size);

/* Writes path.tmp, syncs it and renames it over path: a reader sees the old content or the new. */
int write_file_atomic(int dirfd, const char *path, const void *data, size_t size, mode_t mode);

/*
 * One message with descriptors, on a SOCK_SEQPACKET or SOCK_STREAM socket. fdmsg_send does not raise SIGPIPE and keeps
 * the descriptors. fdmsg_recv returns the size (0: the peer closed); descriptors arrive close-on-exec, *n_fds holds the
 * room on entry and what came on return; a message cut short, or with more descriptors than there is room for, is
 * -EMSGSIZE and its descriptors are closed.
 */
int fdmsg_send(int fd, const void *data, size_t size, const int *fds, size_t n_fds);
ssize_t fdmsg_recv(int fd, void *ret, size_t size, int *fds, size_t *n_fds, int flags);

/* Moves a descriptor to the lowest free number at or above least, close-on-exec; the old number is closed. */
int fd_move_high(int fd, int least);

#endif
