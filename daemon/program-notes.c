/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/program-notes.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/notes/notes.h"

enum {
	DESCRIPTORS = 2, /* of the memory, and of the connection */
	STATE_SIZE = offsetof(struct notes_memory, entries),
};

/* Only a memfd that keeps its size is accepted: accesses to another file could block. */
static bool is_memory(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && seals & F_SEAL_SHRINK && seals & F_SEAL_GROW && fstat(fd, &st) == 0 &&
	       st.st_size == sizeof(struct notes_memory);
}

int program_notes_new(struct ledger *l, pid_t pid, uid_t uid, int fd, struct program_notes **ret,
		      struct ledger_refusal *ret_refusal)
{
	struct program_notes *n = calloc(1, sizeof(*n));
	int rc = !n ? -ENOMEM : is_memory(fd) ? 0 : -EPERM;

	if (rc == 0)
		rc = ledger_charge(l, uid, LEDGER_DESCRIPTORS, DESCRIPTORS, &n->descriptors, ret_refusal);
	if (rc == 0)
		rc = ledger_charge(l, uid, LEDGER_RINGS, sizeof(struct notes_memory), &n->memory, ret_refusal);
	if (rc < 0) {
		close(fd);
		if (n)
			ledger_return(&n->descriptors);
		free(n);
		return rc;
	}
	n->refs = 1;
	n->pid = pid;
	n->uid = uid;
	n->fd = fd;
	n->state_page = mmap(NULL, STATE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (n->state_page == MAP_FAILED)
		n->state_page = NULL;
	proc_file_start(pid, &n->start);
	*ret = n;
	return 0;
}

struct program_notes *program_notes_ref(struct program_notes *n)
{
	n->refs++;
	return n;
}

struct program_notes *program_notes_unref(struct program_notes *n)
{
	if (!n || --n->refs > 0)
		return NULL;
	ledger_return(&n->memory);
	ledger_return(&n->descriptors);
	if (n->state_page)
		munmap(n->state_page, STATE_SIZE);
	close(n->fd);
	free(n);
	return NULL;
}

/* Writes the state to the program's memory. Without a mapping, as the program has sealed it, no notes are recorded. */
static void write_state(const struct program_notes *n, uint32_t state)
{
	if (n->state_page)
		io_store((uint8_t *)n->state_page + offsetof(struct notes_memory, state), &state, sizeof(state));
}

void program_notes_set(struct program_notes *n, uint32_t state)
{
	if (!n)
		return;
	n->state = state;
	write_state(n, state);
}

void program_notes_freeze(const struct program_notes *n)
{
	if (n)
		write_state(n, n->state | NOTES_FROZEN);
}

int program_notes_copy(const struct program_notes *n, struct buf *ret)
{
	int rc = n ? notes_copy(n->fd, ret) : 0;

	if (n)
		write_state(n, n->state);
	return rc;
}
