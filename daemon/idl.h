/* SPDX-License-Identifier: MIT */
/* The text of the served interfaces, generated from the .varlink files at build time. */
#ifndef CSIGHT_DAEMON_IDL_H
#define CSIGHT_DAEMON_IDL_H

extern const char idl_org_csight[];
extern const char idl_org_varlink_service[];

#endif
