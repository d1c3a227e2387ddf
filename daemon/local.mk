# csightd: all of it but main() is a convenience library, which the tests link.
noinst_LTLIBRARIES += daemon/libdaemon.la
daemon_libdaemon_la_SOURCES = \
	daemon/adopt.c daemon/adopt.h \
	daemon/daemon.h \
	daemon/decode-server.c daemon/decode-server.h \
	daemon/idl.h \
	daemon/images.c daemon/images.h \
	daemon/job.c daemon/job.h \
	daemon/methods.c daemon/methods.h \
	daemon/policy.c daemon/policy.h \
	daemon/queue.c daemon/queue.h \
	daemon/record.c daemon/record.h \
	daemon/registry.c daemon/registry.h \
	daemon/ring.c daemon/ring.h \
	daemon/service.c daemon/service.h \
	daemon/settings.c daemon/settings.h \
	daemon/snapshot.c daemon/snapshot.h \
	daemon/spool.c daemon/spool.h \
	daemon/tables.c daemon/tables.h \
	daemon/target.c daemon/target.h \
	daemon/tree.c daemon/tree.h \
	daemon/units.c daemon/units.h
nodist_daemon_libdaemon_la_SOURCES = daemon/idl.c
daemon_libdaemon_la_LIBADD = daemon/capture/libcapture.la lib/coresight/libcoresight.la lib/decoder/libdecoder.la \
	lib/varlink/libvarlink.la lib/perfdata/libperfdata.la lib/base/libbase.la $(EVENT_LIBS) $(JSON_LIBS) $(SYSTEMD_LIBS) -lpthread

sbin_PROGRAMS += csightd
csightd_SOURCES = daemon/main.c
csightd_LDADD = daemon/libdaemon.la

# The daemon serves the text of its interfaces.
IDL = lib/csight/org.csight.varlink daemon/org.varlink.service.varlink
EXTRA_DIST += $(IDL)
CLEANFILES += daemon/idl.c
daemon/idl.c: $(IDL)
	$(AM_V_GEN)$(MKDIR_P) daemon && { echo '#include "daemon/idl.h"'; for f in $(IDL); do \
	name=`basename $$f .varlink | tr . _`; test -f $$f || f=$(srcdir)/$$f; \
	echo "const char idl_$$name[] ="; \
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/	"/' -e 's/$$/\\n"/' $$f; echo '	;'; done; } >$@.tmp && mv $@.tmp $@
