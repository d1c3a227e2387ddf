# SPDX-License-Identifier: MIT
# Harnesses for libFuzzer, so built by clang, whatever builds everything else; nothing of it is part of all or check.
FUZZ = code decode decoder deframe dwarf elf jit job live log messages names native notes opencsd perfdata ring runner service snapshot spool state store topology
FUZZ_CC = clang
FUZZ_SECONDS = 60
# Checksums hold always: what a fuzzer changes is to be read.
FUZZ_CFLAGS = -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -std=gnu11 -g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=all -pthread
FUZZ_RUN = -timeout=20 -rss_limit_mb=2560 -max_len=65536 -verbosity=1 -print_final_stats=1
EXTRA_DIST += tests/fuzz/coverage tests/fuzz/local.mk

# Built by `make check`, for nothing but that they go on fitting what they call.
check_LTLIBRARIES = tests/fuzz/libfuzz.la
tests_fuzz_libfuzz_la_SOURCES = tests/fuzz/code.c tests/fuzz/csightd.c tests/fuzz/csightd.h tests/fuzz/decode.c tests/fuzz/decoder.c tests/fuzz/deframe.c tests/fuzz/dwarf.c tests/fuzz/elf.c \
	tests/fuzz/fuzz.c tests/fuzz/fuzz.h tests/fuzz/jit.c tests/fuzz/job.c tests/fuzz/live.c tests/fuzz/log.c tests/fuzz/machine.c tests/fuzz/machine.h tests/fuzz/messages.c tests/fuzz/names.c tests/fuzz/native.c \
	tests/fuzz/notes.c tests/fuzz/opencsd.c tests/fuzz/perfdata.c tests/fuzz/ring.c tests/fuzz/runner.c tests/fuzz/service.c tests/fuzz/snapshot.c tests/fuzz/spool.c tests/fuzz/state.c tests/fuzz/store.c tests/fuzz/topology.c
tests_fuzz_libfuzz_la_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION

fuzz_sources = tests/fuzz/fuzz.c tests/fuzz/machine.c tests/fuzz/machine.h $(daemon_decode_libdecode_la_SOURCES) \
	client/call-groups.c client/call-groups.h client/call-list.c client/call-list.h client/call-list-typical.c client/call-tree.c \
	client/call-tree.h client/explanation.c client/explanation.h client/library-code.c client/library-code.h client/waker.c \
	client/waker.h \
	$(daemon_libdaemon_la_SOURCES) daemon/runner/runner-serve.c $(lib_trigger_libtrigger_la_SOURCES) \
	$(daemon_capture_libcapture_la_SOURCES) $(lib_base_libbase_la_SOURCES) $(lib_calls_libcalls_la_SOURCES) $(lib_code_libcode_la_SOURCES) \
	$(lib_coresight_libcoresight_alone_la_SOURCES) $(lib_emu_libemuring_la_SOURCES) $(lib_etm_libetm_la_SOURCES) $(lib_etm_libruns_la_SOURCES) \
	$(lib_export_libexport_la_SOURCES) $(lib_perfdata_libperfdata_la_SOURCES) $(lib_store_libstore_alone_la_SOURCES) $(lib_calls_libkinds_la_SOURCES) \
	$(lib_notes_libnotes_la_SOURCES) $(lib_varlink_libvarlink_la_SOURCES) $(lib_decoder_libdecoder_alone_la_SOURCES)
fuzz_headers = $(addprefix $(top_srcdir)/,$(filter %.h,$(fuzz_sources)) tests/fuzz/fuzz.h tests/code/dwarfgen.h tests/code/elfgen.h tests/store/storegen.h)
fuzz_objects = $(patsubst %.c,fuzz/%.o,$(filter %.c,$(fuzz_sources))) fuzz/daemon/idl.o

fuzz/%.o: $(top_srcdir)/%.c $(fuzz_headers)
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(FUZZ_CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(FUZZ_CFLAGS) -c -o $@ $<

fuzz/daemon/idl.o: daemon/idl.c
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(FUZZ_CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(FUZZ_CFLAGS) -c -o $@ $<

# The harnesses of csightd as a whole call main() of csightd.
fuzz/daemon/main.o: FUZZ_CFLAGS += -Dmain=csightd_main
fuzz/bin/service fuzz/bin/decoder: fuzz/daemon/main.o fuzz/tests/fuzz/csightd.o

$(addprefix fuzz/bin/,$(FUZZ)): fuzz/bin/%: fuzz/tests/fuzz/%.o $(fuzz_objects)
	$(AM_V_CCLD)$(MKDIR_P) fuzz/bin && $(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^ \
		$(EVENT_LIBS) $(SYSTEMD_LIBS) $(JSON_LIBS) $(OPENCSD_LIBS) $(ELF_LIBS) $(LZMA_LIBS) $(ZSTD_LIBS) $(ZLIB_LIBS) -lsupc++ -lstdc++

# One after another, each until its time is up or it finds something; what it found lies in fuzz/found. OpenCSD
# leaks memory with each tree, and its stacks cannot be distinguished from ours; csightd allocates beside the harness.
fuzz: $(addprefix fuzz/bin/,$(FUZZ))
	@set -e; mkdir -p fuzz/found; for name in $(FUZZ); do \
		mkdir -p fuzz/corpus/$$name; FUZZ_SEEDS=fuzz/corpus/$$name top_srcdir=$(top_srcdir) fuzz/bin/$$name; \
		case $$name in decode | decoder | live | opencsd | service) leaks=0 ;; *) leaks=1 ;; esac; \
		echo "==> $$name"; ASAN_OPTIONS=detect_leaks=$$leaks fuzz/bin/$$name $(FUZZ_RUN) -detect_leaks=$$leaks -max_total_time=$(FUZZ_SECONDS) \
			-artifact_prefix=fuzz/found/$$name- fuzz/corpus/$$name >fuzz/$$name.log 2>&1 || \
			{ tail -n 60 fuzz/$$name.log; exit 1; }; \
		grep -E 'DONE|number_of_executed|peak_rss' fuzz/$$name.log; \
	done
.PHONY: fuzz
.PRECIOUS: fuzz/%.o

clean-local: clean-fuzz
clean-fuzz:
	rm -rf fuzz
