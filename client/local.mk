# client
bin_PROGRAMS += csight
csight_SOURCES = \
	client/main.c client/client.h \
	client/options.c client/ask.c \
	client/format.c client/format.h client/guest.c client/guest.h \
	client/cmd-arm.c client/cmd-decode.c client/cmd-list.c client/cmd-remove.c client/cmd-run.c \
	client/cmd-snapshot.c \
	client/cmd-status.c client/cmd-targets.c client/cmd-version.c
csight_LDADD = lib/csight/libclient.la lib/worker/libworker.la

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = etc/bash-completion/csight
