/*
 * The socket where programs under the emulated ETM register (lib/emu/ring.h). A program that registers becomes a target
 * of the user that its socket's credentials name.
 */
#ifndef CSIGHT_DAEMON_REGISTRY_H
#define CSIGHT_DAEMON_REGISTRY_H

#include <sys/types.h>

struct daemon;
struct registry;

int registry_new(struct daemon *d, const char *path, unsigned mode, struct registry **ret);
struct registry *registry_free(struct registry *r);
const char *registry_path(const struct registry *r);

#endif
