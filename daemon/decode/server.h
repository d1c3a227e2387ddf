/* SPDX-License-Identifier: MIT */
/*
 * The server process of csight-decode: forks one child per job, and holds no data of any job itself. Its socket is
 * descriptor 3; lib/decoder/decoder.h describes the messages.
 */
#ifndef CSIGHT_DECODE_SERVER_H
#define CSIGHT_DECODE_SERVER_H

/*
 * Serves until the owner closes its end of the socket; returns 0 then, in the server and not in its children. Returns
 * -ENOTSOCK if descriptor 3 is not a SOCK_SEQPACKET socket, -EPERM if its peer is neither root nor of this user.
 */
int server_run(void);

#endif
