# daemon
sbin_PROGRAMS += csightd
csightd_SOURCES = \
	daemon/adopt.c daemon/adopt.h \
	daemon/capture/capture.h \
	daemon/capture/copy.c \
	daemon/capture/code.c daemon/capture/code.h \
	daemon/capture/emu.c daemon/capture/emu.h \
	daemon/capture/filter.c daemon/capture/filter.h \
	daemon/capture/history.c daemon/capture/history.h \
	daemon/capture/identity.c daemon/capture/identity.h \
	daemon/capture/arena.c daemon/capture/arena.h \
	daemon/capture/aux.c daemon/capture/aux.h \
	daemon/capture/births.c daemon/capture/births.h \
	daemon/capture/credentials.c daemon/capture/credentials.h \
	daemon/capture/grid.c daemon/capture/grid.h \
	daemon/capture/jitdump.c daemon/capture/jitdump.h \
	daemon/capture/perf.c daemon/capture/perf.h daemon/capture/perf-private.h \
	daemon/capture/perf-copy.c daemon/capture/perf-source.c \
	daemon/capture/pevent.c daemon/capture/pevent.h \
	daemon/capture/plan.c daemon/capture/plan.h \
	daemon/capture/proc.c daemon/capture/proc.h \
	daemon/capture/process.c daemon/capture/process.h \
	daemon/capture/process-look.c daemon/capture/process-look.h \
	daemon/capture/procfs.c daemon/capture/procfs.h \
	daemon/capture/side.c daemon/capture/side.h \
	daemon/capture/tasks.c daemon/capture/tasks.h \
	daemon/daemon.h daemon/idl.h \
	daemon/decoder.c daemon/decoder.h \
	daemon/images.c daemon/images.h \
	daemon/job.c daemon/job.h \
	daemon/main.c \
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
nodist_csightd_SOURCES = daemon/idl.c
csightd_CFLAGS = $(AM_CFLAGS) -pthread
csightd_LDADD = lib/emu/libemuring.la lib/coresight/libcoresight.la lib/worker/libworker.la lib/varlink/libvarlink.la lib/perfdata/libperfdata.la lib/base/libbase.la \
	$(EVENT_LIBS) $(JSON_LIBS) $(SYSTEMD_LIBS) -lpthread

# The daemon tells its interfaces over the wire.
IDL = lib/csight/org.csight.varlink daemon/org.varlink.service.varlink
EXTRA_DIST += $(IDL)
CLEANFILES += daemon/idl.c
daemon/idl.c: $(IDL)
	$(AM_V_GEN)$(MKDIR_P) daemon && { echo '#include "daemon/idl.h"'; for f in $(IDL); do \
	name=`basename $$f .varlink | tr . _`; test -f $$f || f=$(srcdir)/$$f; \
	echo "const char idl_$$name[] ="; \
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/	"/' -e 's/$$/\\n"/' $$f; echo '	;'; done; } >$@.tmp && mv $@.tmp $@
