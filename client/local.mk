# client
bin_PROGRAMS += csight
csight_SOURCES = \
	client/main.c client/client.h client/doctor.h \
	client/options.c client/ask.c client/asked.c client/asked.h \
	client/finder.c client/finder.h client/format.c client/format.h client/guest.c client/guest.h client/offline.c client/offline.h \
	client/cmd-arm.c client/cmd-decode.c client/cmd-diff.c client/cmd-doctor.c client/cmd-export.c client/cmd-grep.c client/cmd-info.c client/cmd-list.c client/cmd-remove.c client/cmd-run.c \
	client/cmd-open.c client/cmd-report.c client/serve.c client/serve.h client/cmd-show.c client/cmd-snapshot.c client/stored.c client/stored.h \
	client/cmd-status.c client/cmd-targets.c client/cmd-version.c client/view.c client/view.h \
	client/doctor.c client/doctor-firmware.c client/doctor-kernel.c client/doctor-hardware.c client/doctor-rights.c client/doctor-use.c \
	client/doctor-programs.c
csight_LDADD = lib/csight/libclient.la lib/decoder/libdecoder.la lib/export/libexport.la lib/calls/libcalls.la lib/coresight/libcoresight.la lib/base/libbase.la $(ZLIB_LIBS)

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = etc/bash-completion/csight
