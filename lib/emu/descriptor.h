/* SPDX-License-Identifier: MIT */
/*
 * A descriptor that the plugin keeps. The program may close it, and open another file at its number: each use begins
 * with descriptor_fd(). A struct of zeros has none.
 */
#ifndef CSIGHT_EMU_DESCRIPTOR_H
#define CSIGHT_EMU_DESCRIPTOR_H

#include <sys/types.h>

struct descriptor {
	int fd;
	dev_t device;
	ino_t inode;
};

/*
 * Moves a new descriptor to a high number, if the limit allows it, so that those of the program do not change. fd: or
 * -1, with errno. Returns the number, or a negative errno, and fd is closed.
 */
int descriptor_move(int fd);

/* Takes over a descriptor. */
struct descriptor descriptor_keep(int fd);

/* Returns the number; -EBADF: there is no descriptor, or the program has closed it. */
int descriptor_fd(const struct descriptor *d);

void descriptor_close(struct descriptor *d);

#endif
