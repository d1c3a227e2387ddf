/*
 * What holds whoever reads hostile bytes: two calls, in this order, by a process that has one thread.
 *
 * cage_lock() leaves a process that may read and write the descriptors that it has, get memory, start threads and end;
 * any other system call ends it with SIGSYS. Before that it goes into user, mount, network and IPC namespaces of its
 * own, where the system lets it (inside a chroot, or under some policies, it does not), gives up every capability and
 * takes its limits. Whatever has to be opened is opened before, or comes as a descriptor.
 */
#ifndef CSIGHT_DECODE_CAGE_H
#define CSIGHT_DECODE_CAGE_H

#include "lib/base/json.h"

/* Sanitizers read /proc, and start processes that look for leaks: built with one, the cage is wider, and says so. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#ifndef UNDER_SANITIZER
#define UNDER_SANITIZER 0
#endif

enum cage_part {
	CAGE_USER,
	CAGE_MOUNT,
	CAGE_NETWORK,
	CAGE_IPC,
	CAGE_CAPABILITIES,
	CAGE_SECCOMP,
	CAGE_PARTS,
};

/* *ret_parts gets a bit for each part that holds. An error where the process is not fit to read hostile bytes. */
int cage_lock(unsigned *ret_parts);

/* The names of those parts. */
json_object *cage_json(unsigned parts);

#endif
