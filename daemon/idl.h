/* The text of the interfaces that are served; made from the .varlink files when the daemon is built. */
#ifndef CSIGHT_DAEMON_IDL_H
#define CSIGHT_DAEMON_IDL_H

extern const char idl_org_csight[];
extern const char idl_org_varlink_service[];

#endif
