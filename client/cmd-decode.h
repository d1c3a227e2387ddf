/* csight decode: a file or a snapshot directory through csight-decode, without the daemon. */
#ifndef CSIGHT_CMD_DECODE_H
#define CSIGHT_CMD_DECODE_H

/* argv[0] is the verb. Returns the exit status: 0, 1 for a failure, 2 for wrong arguments; it has said why. */
int cmd_decode(int argc, char **argv);

#endif
