/* SPDX-License-Identifier: MIT */
/*
 * The sandbox of a process that parses hostile input.
 *
 * After cage_lock(), the process can only read and write its descriptors, allocate memory that is not executable, start
 * threads and exit; any other system call kills it with SIGSYS. cage_lock() also enters user, mount, network and IPC
 * namespaces, if the system permits (inside a chroot, or under some policies, it does not), drops all capabilities and
 * sets resource limits. The process must have only one thread when it calls cage_lock(), and must have opened all files
 * that it needs, or receive them as descriptors.
 */
#ifndef CSIGHT_DECODE_CAGE_H
#define CSIGHT_DECODE_CAGE_H

#include "lib/base/json.h"

/*
 * Sanitizers read /proc and start processes to look for leaks. A build with one has neither namespaces nor a filter,
 * and reports so.
 */
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

/*
 * Sets a bit of *ret_parts for each part that is active. On failure the process is not sandboxed and must not read
 * hostile input.
 */
int cage_lock(unsigned *ret_parts);

/* Returns the names of active parts as a JSON array. */
json_object *cage_json(unsigned parts);

#endif
