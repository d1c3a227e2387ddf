/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/decode/memory-files.h"
#include "lib/base/util.h"

static int tables[MEMORY_FILES_TABLES], store = -1;
static int n_tables;
static bool opened;

void memory_files_open(void)
{
	opened = true;
	store = memfd_create("csight-store", MFD_CLOEXEC);
	for (n_tables = 0; n_tables < MEMORY_FILES_TABLES; n_tables++) {
		int fd = memfd_create("csight-symbols", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		/* The file has its full size, takes no memory until it is written, and cannot grow. */
		if (fd < 0 || ftruncate(fd, MEMORY_FILES_TABLE_MAX) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0) {
			closep(&fd);
			return;
		}
		tables[n_tables] = fd;
	}
}

int memory_files_take_table(void)
{
	return n_tables > 0 ? tables[--n_tables] : -1;
}

int memory_files_take_store(void)
{
	/* A program without a cage makes files as it needs them. */
	return opened ? TAKE_FD(store) : memfd_create("csight-store", MFD_CLOEXEC);
}
