# SPDX-License-Identifier: MIT
# csightd: all of it but main() is a convenience library, which the tests link.
noinst_LTLIBRARIES += daemon/libdaemon.la
daemon_libdaemon_la_SOURCES = \
	daemon/target-adopt.c daemon/target-adopt.h \
	daemon/accounts.c daemon/accounts.h \
	daemon/ancestors.c daemon/ancestors.h \
	daemon/activation.c daemon/activation.h \
	daemon/audit.c daemon/audit.h \
	daemon/build-ids.c daemon/build-ids.h \
	daemon/call.c daemon/call.h \
	daemon/connection.c daemon/connection.h \
	daemon/counters.c daemon/counters.h \
	daemon/daemon.h \
	daemon/decode-server.c daemon/decode-server.h \
	daemon/idl.h \
	daemon/decode-images.c daemon/decode-images.h \
	daemon/fair-queue.c daemon/fair-queue.h \
	daemon/exec-gate.c daemon/exec-gate.h \
	daemon/exit-listener.c daemon/exit-listener.h \
	daemon/interfaces.c daemon/interfaces.h \
	daemon/journal.c daemon/journal.h \
	daemon/job-budget.c daemon/job-budget.h \
	daemon/job-files.c daemon/job-files.h \
	daemon/job-log.c daemon/job-log.h \
	daemon/job-internal.h daemon/job-queue.c \
	daemon/job.c daemon/job.h \
	daemon/ledger.c daemon/ledger.h \
	daemon/limits.c daemon/limits.h \
	daemon/listener.c daemon/listener.h \
	daemon/failure.c daemon/failure.h \
	daemon/group.c daemon/group.h daemon/methods.c daemon/methods.h daemon/methods-internal.h daemon/methods-process.c \
	daemon/annotation.c daemon/annotation.h \
	daemon/notify.c daemon/notify.h \
	daemon/oom-listener.c daemon/oom-listener.h \
	daemon/opener.c daemon/opener.h \
	daemon/overhead.c daemon/overhead.h \
	daemon/pause.c daemon/pause.h \
	daemon/perf-map.c daemon/perf-map.h \
	daemon/policy.c daemon/policy.h \
	daemon/reload.c daemon/reload.h \
	daemon/snapshot-space.c daemon/snapshot-space.h \
	daemon/snapshot-writer.c daemon/snapshot-writer.h \
	daemon/program-notes.c daemon/program-notes.h \
	daemon/quotas.c daemon/quotas.h \
	daemon/registry.c daemon/registry.h \
	daemon/ring.c daemon/ring.h \
	daemon/service.c daemon/service.h \
	daemon/settings.c daemon/settings.h \
	daemon/recording.c daemon/recording.h \
	daemon/request.c daemon/request.h daemon/request-internal.h daemon/request-copy.c daemon/request-record.c \
	daemon/runner.c daemon/runner.h daemon/runner/protocol.h \
	daemon/snapshot.c daemon/snapshot.h \
	daemon/spool-room.c daemon/spool-room.h \
	daemon/spool.c daemon/spool.h \
	daemon/status-line.c daemon/status-line.h \
	daemon/subscriptions.c daemon/subscriptions.h \
	daemon/subuids.c daemon/subuids.h \
	daemon/turns.c daemon/turns.h \
	daemon/symbol-cache.c daemon/symbol-cache.h \
	daemon/standing/control-group.c daemon/standing/control-group.h \
	daemon/standing/process-events.c daemon/standing/process-events.h \
	daemon/standing/process-set.c daemon/standing/process-set.h \
	daemon/standing/standing.c daemon/standing/standing.h \
	daemon/standing/standing-methods.c daemon/standing/standing-methods.h \
	daemon/standing/standing-rule.c daemon/standing/standing-rule.h \
	daemon/standing/standing-sections.c daemon/standing/standing-sections.h \
	daemon/standing/standing-wire.c daemon/standing/standing-wire.h \
	daemon/state-file.c daemon/state-file.h \
	daemon/state.c daemon/state.h \
	daemon/state-shares.c daemon/state-shares.h \
	daemon/target-file.c daemon/target-file.h \
	daemon/target.c daemon/target.h daemon/target-arm.c daemon/target-ending.c daemon/target-internal.h daemon/target-list.c \
	daemon/trigger/trigger.c daemon/trigger/trigger.h daemon/trigger/trigger-private.h \
	daemon/trigger/trigger-methods.c daemon/trigger/trigger-methods.h \
	daemon/trigger/trigger-sections.c daemon/trigger/trigger-sections.h \
	daemon/trigger/trigger-exec.c daemon/trigger/trigger-exec.h \
	daemon/trigger/trigger-group.c daemon/trigger/trigger-period.c daemon/trigger/trigger-places.c daemon/trigger/trigger-shot.c \
	daemon/trigger/trigger-state.c daemon/trigger/trigger-state.h \
	daemon/trigger/trigger-wire.c daemon/trigger/trigger-wire.h \
	daemon/trigger/watched-target.c daemon/trigger/watched-target.h \
	daemon/directory-tree.c daemon/directory-tree.h \
	daemon/drain-pace.c daemon/drain-pace.h \
	daemon/tail.c daemon/tail.h \
	daemon/trace-file.c daemon/trace-file.h \
	daemon/trace-units.c daemon/trace-units.h \
	daemon/user-queues.c daemon/user-queues.h \
	daemon/wire.c daemon/wire.h \
	daemon/workqueue.c daemon/workqueue.h
nodist_daemon_libdaemon_la_SOURCES = daemon/idl.c
daemon_libdaemon_la_LIBADD = daemon/capture/libcapture.la lib/trigger/libtrigger.la lib/notes/libnotes.la lib/coresight/libcoresight.la lib/decoder/libdecoder.la \
	lib/varlink/libvarlink.la lib/perfdata/libperfdata.la lib/base/libbase.la $(EVENT_LIBS) $(JSON_LIBS) $(SYSTEMD_LIBS) -lpthread

pkglibexec_PROGRAMS += csight-keeper
csight_keeper_SOURCES = daemon/keeper/main.c daemon/keeper/protocol.h
csight_keeper_LDADD = daemon/libdaemon.la daemon/capture/libcapture.la lib/base/libbase.la $(SYSTEMD_LIBS)

# Its module, apart from main(), which a test links.
noinst_LTLIBRARIES += daemon/kernel/libkernel.la
daemon_kernel_libkernel_la_SOURCES = daemon/kernel/kernel-copy.c daemon/kernel/kernel-copy.h daemon/kernel/protocol.h \
	daemon/kernel/trampoline.c daemon/kernel/trampoline.h
daemon_kernel_libkernel_la_LIBADD = lib/code/libcode.la lib/base/libbase.la
pkglibexec_PROGRAMS += csight-kernel
csight_kernel_SOURCES = daemon/kernel/main.c
csight_kernel_LDADD = daemon/kernel/libkernel.la daemon/libdaemon.la $(SYSTEMD_LIBS)

pkglibexec_PROGRAMS += csight-opener
csight_opener_SOURCES = daemon/opener/main.c
csight_opener_LDADD = daemon/libdaemon.la $(SYSTEMD_LIBS)

pkglibexec_PROGRAMS += csight-runner
csight_runner_SOURCES = daemon/runner/main.c daemon/runner/runner-serve.c
csight_runner_LDADD = daemon/libdaemon.la $(EVENT_LIBS) $(SYSTEMD_LIBS)

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
