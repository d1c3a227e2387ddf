/* SPDX-License-Identifier: MIT */
/*
 * What identifies the input of a decode: its contents, and, as a shortcut to these, the identities of its files. Of a
 * directory all regular files count that a decode can open, with their names; of a snapshot of csightd not what the
 * daemon made of it (store, state.json).
 */
#ifndef CSIGHT_CLIENT_TRACE_IDENTITY_H
#define CSIGHT_CLIENT_TRACE_IDENTITY_H

#include "client/local-decode.h"
#include "lib/base/digest.h"

/*
 * The digest of device, inode, size and times of the files. *ret_settled is false if one was changed so recently that
 * another change might leave its times as they are. -E2BIG: a directory has too many files.
 */
int trace_identity_files(const struct local_decode *d, char ret[DIGEST_TEXT], bool *ret_settled);

/* The digest of the contents; reads all of them. -EBUSY: a file changed; other errors as above. */
int trace_identity_contents(const struct local_decode *d, char ret[DIGEST_TEXT]);

#endif
