/* SPDX-License-Identifier: MIT */
/*
 * The requests of csightd to csight-keeper: one message each way on a SOCK_SEQPACKET socket, with at most one
 * descriptor. A thing is a descriptor that the keeper keeps, with its ring if that is mapped. csightd identifies it by
 * a group (a target), a kind and a number, which the keeper does not interpret. The greeting has `more` if an earlier
 * client has listed things and ended before KEEPER_CLAIMED: records that it read may be lost.
 */
#ifndef CSIGHT_DAEMON_KEEPER_PROTOCOL_H
#define CSIGHT_DAEMON_KEEPER_PROTOCOL_H

#include <stdint.h>

enum { KEEPER_VERSION = 1, KEEPER_ATTR_SIZE = 192, KEEPER_ALL = 0 };

enum keeper_op {
	KEEPER_OPEN = 1, /* perf_event_open() with attr, pid, cpu; the answer has the descriptor */
	KEEPER_MAP,      /* map the ring of an event: data_size beside the first page, aux_size */
	KEEPER_HOLD,     /* keep the descriptor of this message, in place of a thing of the same identity */
	KEEPER_CLOSE,    /* close one thing, or, with the kind KEEPER_ALL, its group */
	KEEPER_LIST,     /* list a group: an answer with a descriptor for each thing, then one without `more` */
	KEEPER_GROUPS,   /* list all groups: an answer for each, then one without `more` */
	KEEPER_CLAIMED,  /* what the client has listed and read is in its logs, or not needed */
};

enum keeper_kind {
	KEEPER_RING = 1, /* an event with a ring */
	KEEPER_EVENT,    /* an event that writes into the ring of another */
	KEEPER_SWITCHES, /* an event that writes context switches into the ring of another */
	KEEPER_FILE,
	KEEPER_BACKLOG, /* in answers only: what was read from the ring of this number while no csightd was connected */
};

struct keeper_message {
	uint32_t version, op;
	uint64_t group;
	uint32_t kind, number;
	int32_t pid, cpu;
	uint64_t data_size, aux_size;
	uint64_t position; /* of a backlog's first byte, among all bytes ever written to the ring */
	int32_t rc;        /* in answers: 0 or negative errno */
	/*
	 * In answers: another one follows. In the greeting: see KEEPER_CLAIMED. In a request to hold: nothing has this
	 * name yet. To map: the ring keeps its first trace.
	 */
	uint32_t more;
	uint8_t attr[KEEPER_ATTR_SIZE]; /* struct perf_event_attr, whose member size has its size */
};

#endif
