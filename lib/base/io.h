/* Whole reads and writes, and messages that carry descriptors. All return negative errno on failure. */
#ifndef CSIGHT_IO_H
#define CSIGHT_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As many as the kernel passes in one message: none that comes is ever closed unseen for lack of room. */
enum { IO_FDS_MAX = 253 };

int io_write(int fd, const void *data, size_t size);
int io_pwrite(int fd, const void *data, size_t size, off_t at);

/* The bytes read; fewer than size only at the end of the file. */
ssize_t io_read(int fd, void *ret, size_t size);
ssize_t io_pread(int fd, void *ret, size_t size, uint64_t at);

/*
 * Opens a regular file for reading by a name that came from outside: relative, without "..", and neither it nor a
 * directory on its way a symbolic link; so it is beneath dirfd. -EINVAL: such a name, or no regular file; -ELOOP.
 */
int io_open_beneath(int dirfd, const char *name, int *ret_fd);

/* A whole regular file of at most limit bytes, with a NUL after it that is not counted; the caller frees. */
int io_read_file(int dirfd, const char *path, size_t limit, char **ret, size_t *ret_size);

/* Writes path.tmp, syncs it and renames it over path: a reader sees the old content or the new. */
int io_write_file(int dirfd, const char *path, const void *data, size_t size, mode_t mode);

/*
 * One message with descriptors, on a SOCK_SEQPACKET or SOCK_STREAM socket. io_send_fds does not raise SIGPIPE and keeps
 * the descriptors. io_receive_fds returns the size (0: the peer closed); descriptors arrive close-on-exec, *n_fds holds
 * the room on entry and what came on return; a message cut short, or with more descriptors than there is room for, is
 * -EMSGSIZE and its descriptors are closed.
 */
int io_send_fds(int fd, const void *data, size_t size, const int *fds, size_t n_fds);
ssize_t io_receive_fds(int fd, void *ret, size_t size, int *fds, size_t *n_fds, int flags);

/* Moves a descriptor to the lowest free number at or above least, close-on-exec; the old number is closed. */
int io_move_fd(int fd, int least);

#endif
