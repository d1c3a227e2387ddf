/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/emu/guest.h"

/* dlsym() returns the calling thread's instance of a thread-local variable. */
static __thread struct CPUState **own_cpu;

bool guest_has_registers(void)
{
	static _Atomic int known; /* 0: not determined yet */

	if (!known)
		known = dlsym(RTLD_DEFAULT, "thread_cpu") && aarch64_cpu_gdb_read_register && g_byte_array_sized_new &&
				g_byte_array_set_size && &default_rt_sigreturn
			    ? 1
			    : -1;
	return known > 0;
}

struct CPUState *guest_cpu(void)
{
	if (!own_cpu)
		own_cpu = dlsym(RTLD_DEFAULT, "thread_cpu");
	return *own_cpu;
}

uint64_t guest_register(int number)
{
	static __thread struct byte_array *array;
	uint64_t v = 0;

	if (!array)
		array = g_byte_array_sized_new(16);
	g_byte_array_set_size(array, 0);
	if (aarch64_cpu_gdb_read_register(guest_cpu(), array, number) == 8)
		memcpy(&v, array->data, 8);
	return v;
}

bool guest_try_read(uint64_t base, uint64_t address, void *ret, size_t size)
{
	const struct iovec to = { ret, size }, from = { (void *)(uintptr_t)(base + address), size };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size;
}
