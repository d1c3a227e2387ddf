/* SPDX-License-Identifier: MIT */
/* Complete reads and writes, and messages that carry descriptors. All functions return negative errno on failure. */
#ifndef CSIGHT_IO_H
#define CSIGHT_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The kernel's limit for one message, so that the kernel never drops a descriptor for lack of space. */
enum { IO_FDS_MAX = 253 };

int io_write(int fd, const void *data, size_t size);
int io_pwrite(int fd, const void *data, size_t size, off_t at);

/*
 * Writes to memory that is mapped from a file of another process. -EFAULT: there is no such memory, or the system
 * cannot supply it, for which a store would raise a signal. Unlike io_pwrite() it takes no lock of the file, which a
 * process keeps while it writes to that file from memory that a file system in user space supplies.
 */
int io_store(void *at, const void *data, size_t size);

/* Return the number of bytes read, which is less than size only at the end of the file. */
ssize_t io_read(int fd, void *ret, size_t size);
ssize_t io_pread(int fd, void *ret, size_t size, uint64_t at);

/*
 * As pread(2), of a file that another user may write to. It waits for the disk, but for the lock of the file only for
 * 200 ms: then it returns the bytes that it has, or -EBUSY. On some file systems (XFS) pread() waits for that lock, and
 * no signal ends the wait; a write() keeps the lock while it reads memory that a file system in user space supplies,
 * for as long as its user likes. Where the kernel or the file system has no such reads, it is pread().
 */
ssize_t io_pread_bounded(int fd, void *ret, size_t size, off_t at);

/*
 * Opens a regular file beneath dirfd for reading, by an untrusted name. The name must be relative and without "..", and
 * neither the file nor a directory on the path may be a symbolic link. -EINVAL: another name, or no regular file;
 * -ELOOP.
 */
int io_open_beneath(int dirfd, const char *name, int *ret_fd);

/* True for a file that begins as ELF files do. Decoders are not trusted, and get no other private files by path. */
bool io_is_elf(int fd);

/* Reads a whole regular file of at most limit bytes and appends a NUL, which is not counted; the caller frees *ret. */
int io_read_file(int dirfd, const char *path, size_t limit, char **ret, size_t *ret_size);

/* Opens an unnamed temporary file of $TMPDIR, or memory: no end of the process leaves it. Returns the descriptor. */
int io_temporary(void);

/* Writes path.tmp, syncs it and renames it over path: a reader sees the old content or the new. */
int io_write_file(int dirfd, const char *path, const void *data, size_t size, mode_t mode);

/*
 * Connects to the SOCK_SEQPACKET socket at a path. flags: SOCK_NONBLOCK, or 0. seconds: the limit for connecting, and
 * for each message; 0: none. Returns the connection.
 */
int io_connect(const char *path, int flags, unsigned seconds);

/*
 * One message with descriptors, on a SOCK_SEQPACKET or SOCK_STREAM socket. io_send_fds() does not raise SIGPIPE, and
 * the caller keeps its descriptors. io_receive_fds() returns the message's size (0: the peer closed the socket). *n_fds
 * is the capacity of fds on entry and the number of descriptors received on return; they are close-on-exec. -EMSGSIZE:
 * the message was cut short or had more descriptors. Then, and with 0, since a message may be empty, the descriptors
 * are closed, and -1 in fds. Closing may block if the peer is hostile: then use io_take_fds(), which returns what was
 * received in both cases as well. The kernel drops descriptors beyond the capacity before they exist here.
 */
int io_send_fds(int fd, const void *data, size_t size, const int *fds, size_t n_fds);
ssize_t io_receive_fds(int fd, void *ret, size_t size, int *fds, size_t *n_fds, int flags);
ssize_t io_take_fds(int fd, void *ret, size_t size, int *fds, size_t *n_fds, int flags);

/* Moves a descriptor to the lowest free number from least on, close-on-exec, and closes the old number. */
int io_move_fd(int fd, int least);

#endif
