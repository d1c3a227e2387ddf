# SPDX-License-Identifier: MIT
# client
bin_PROGRAMS += csight
csight_SOURCES = \
	client/main.c client/behaviour.c client/behaviour.h client/client.h client/client-daemon.c client/client-options.c client/client-snapshot.c \
	client/cmd-arm.c client/cmd-decode.c client/cmd-diff.c client/cmd-doctor.c client/cmd-export.c client/cmd-grep.c \
	client/cmd-info.c client/cmd-keep.c client/cmd-list.c client/cmd-open.c client/cmd-pause.c client/cmd-reload.c client/cmd-remove.c client/cmd-report.c client/cmd-run.c \
	client/cmd-show.c client/cmd-snapshot.c client/cmd-status.c client/cmd-stream.c client/cmd-tail.c client/cmd-targets.c client/cmd-version.c \
	client/comparison.c client/comparison.h client/ending.c client/ending.h client/container.c client/container.h client/spread.c client/spread.h \
	client/format.c client/format.h \
	client/function-name.c client/function-name.h \
	client/function-lookup.c client/function-lookup.h client/group.c client/group.h client/guest.c client/guest.h \
	client/http-server.c client/http-server.h client/local-decode.c client/local-decode.h \
	client/output-files.c client/output-files.h client/selection.c client/selection.h client/show-json.c client/show-json.h \
	client/similar.c client/similar.h client/cmd-wait.c client/cmd-watch.c client/cmd-triggers.c client/assertion.c client/assertion.h \
	client/cmd-assert.c client/cmd-assert.h client/measure.c client/measure.h client/line-lookup.c client/line-lookup.h client/live-function.c client/live-function.h \
	client/cmd-record.c client/private-daemon.c client/private-daemon.h \
	client/named-store.c client/named-store.h client/terminal.c client/terminal.h client/text-table.c client/text-table.h
csight_SOURCES += client/call-groups.c client/call-groups.h client/call-groups-output.c client/call-groups-output.h \
	client/call-list.c client/call-list.h client/call-tree.c client/call-tree.h client/cmd-explain.c \
	client/explanation.c client/explanation.h client/explanation-output.c client/explanation-output.h \
	client/call-list-typical.c client/library-code.c client/library-code.h client/waker.c client/waker.h
csight_SOURCES += client/metrics.c client/metrics.h
csight_SOURCES += client/cmd-selftest.c client/selftest-log.c client/selftest-log.h client/selftest-recording.c client/selftest-recording.h client/selftest-step.c
csight_SOURCES += client/debuginfod.c client/debuginfod.h client/unnamed.c client/unnamed.h
csight_SOURCES += client/redaction.c client/redaction.h client/decode-cache.c client/decode-cache.h client/served-files.c client/served-files.h \
	client/trace-identity.c client/trace-identity.h client/trace-options.h client/trace-store.c client/trace-store.h
csight_LDADD = lib/csight/libclient.la lib/local/liblocal.la lib/trigger/libtrigger.la lib/decoder/libdecoder.la lib/export/libexport.la lib/calls/libcalls.la lib/coresight/libcoresight.la lib/base/libbase.la $(ZLIB_LIBS) -lm


# The program that csight selftest records: of aarch64 on any machine, as the emulated trace unit needs it.
EXTRA_DIST += client/known-program.c
if HAVE_AARCH64_CC
CLEANFILES += csight-known
csight-known: $(top_srcdir)/client/known-program.c
	$(AM_V_GEN)$(AARCH64_CC) -O1 -g -Wall -Wextra -Werror -pthread -static -o $@ $(top_srcdir)/client/known-program.c
pkglibexec_SCRIPTS = csight-known
endif

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = etc/bash-completion/csight
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = etc/zsh-completion/_csight
