# Every test speaks TAP; skips name their reason. Rooms add their own programs to check_PROGRAMS and TESTS.
TEST_EXTENSIONS = .test .rig
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
TEST_LOG_DRIVER = $(LOG_DRIVER)
AM_TESTS_ENVIRONMENT = top_srcdir='$(abs_top_srcdir)'; export top_srcdir; top_builddir='$(abs_top_builddir)'; export top_builddir; \
	AARCH64_CC='$(AARCH64_CC)'; export AARCH64_CC; AARCH64_CXX='$(AARCH64_CXX)'; export AARCH64_CXX; \
	QEMU_AARCH64='$(QEMU_AARCH64)'; export QEMU_AARCH64; PYTHON3='$(PYTHON3)'; export PYTHON3; \
	CSIGHT_LONG='$(CSIGHT_LONG)'; export CSIGHT_LONG; \
	LSAN_OPTIONS='suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0'; export LSAN_OPTIONS;
EXTRA_DIST += tests/lsan.supp
EXTRA_DIST += .shellcheckrc tests/scripts.test
TESTS += tests/scripts.test
EXTRA_DIST += tests/unit.h tests/lib.sh tests/demo tests/check-summary tests/builds.test

# Tests that run for minutes; with CSIGHT_LONG=1 others do more of the same.
LONG_TESTS = tests/builds.test tests/large.test

check-long: all
	$(MAKE) CSIGHT_LONG=1 TESTS='$(TESTS) $(LONG_TESTS)' check
.PHONY: check-long

check_PROGRAMS += tests/unit-base
tests_unit_base_SOURCES = tests/unit-base.c
tests_unit_base_LDADD = lib/base/libbase.la
TESTS += tests/unit-base

# client
check_PROGRAMS += tests/unit-varlink
tests_unit_varlink_SOURCES = tests/unit-varlink.c
tests_unit_varlink_LDADD = lib/varlink/libvarlink.la
check_PROGRAMS += tests/unit-libcsight
tests_unit_libcsight_SOURCES = tests/unit-libcsight.c
tests_unit_libcsight_LDADD = lib/csight/libclient.la
TESTS += tests/unit-varlink tests/unit-libcsight tests/libcsight.test tests/man.test \
	tests/client.test tests/run.test
EXTRA_DIST += tests/libcsight.test tests/man.test tests/client.test tests/run.test

# lib/perfdata
check_PROGRAMS += tests/unit-perfdata
tests_unit_perfdata_SOURCES = tests/unit-perfdata.c
tests_unit_perfdata_LDADD = lib/perfdata/libperfdata.la
check_PROGRAMS += tests/perfdata-grow
tests_perfdata_grow_SOURCES = tests/perfdata-grow.c
tests_perfdata_grow_LDADD = lib/perfdata/libperfdata.la
EXTRA_DIST += tests/large.test
check_PROGRAMS += tests/unit-perfdata-kinds
tests_unit_perfdata_kinds_SOURCES = tests/unit-perfdata-kinds.c
tests_unit_perfdata_kinds_LDADD = lib/perfdata/libperfdata.la
TESTS += tests/unit-perfdata tests/unit-perfdata-kinds

# emu: what compares decodes with the truth
check_PROGRAMS += tests/exact
tests_exact_SOURCES = tests/exact.c tests/truth.h
check_PROGRAMS += tests/unit-encode
tests_unit_encode_SOURCES = tests/unit-encode.c
tests_unit_encode_LDADD = lib/emu/libemuring.la lib/etm/libetm.la
check_PROGRAMS += tests/unit-maps
tests_unit_maps_SOURCES = tests/unit-maps.c lib/emu/buildid.c lib/emu/files.c lib/emu/maps.c lib/emu/shared.c
tests_unit_maps_CFLAGS = $(AM_CFLAGS)
tests_unit_maps_LDADD = lib/emu/libemuring.la lib/base/libbase.la
TESTS += tests/unit-encode tests/unit-maps
EXTRA_DIST += tests/emu-exact.test tests/exact-run tests/emu-truth.test
EXTRA_DIST += tests/freeze.test tests/freeze-run
TESTS += tests/emu-exact.test tests/emu-truth.test tests/freeze.test

# daemon/capture, the code of real processes
check_PROGRAMS += tests/unit-process
tests_unit_process_SOURCES = tests/unit-process.c tests/process-child.c tests/process-child.h tests/process-files.c \
	daemon/capture/code.c daemon/capture/history.c \
	daemon/capture/identity.c daemon/capture/jitdump.c daemon/capture/process.c daemon/capture/process-look.c \
	daemon/capture/procfs.c
tests_unit_process_CFLAGS = $(AM_CFLAGS)
tests_unit_process_LDADD = lib/emu/libemuring.la lib/code/libcode.la lib/base/libbase.la
TESTS += tests/unit-process tests/names.test
EXTRA_DIST += tests/names.test

# lib/code, images
check_PROGRAMS += tests/unit-image
tests_unit_image_SOURCES = tests/unit-image.c
tests_unit_image_LDADD = lib/code/libcode.la
TESTS += tests/unit-image

# lib/code, symbols of stripped programs, names
check_PROGRAMS += tests/unit-names
tests_unit_names_SOURCES = tests/unit-names.c
tests_unit_names_LDADD = lib/code/libcode.la
TESTS += tests/unit-names
check_PROGRAMS += tests/unit-inlines
tests_unit_inlines_SOURCES = tests/unit-inlines.c tests/dwarfgen.h
tests_unit_inlines_LDADD = lib/code/libcode.la
TESTS += tests/unit-inlines tests/inlines.test tests/inlined.test
EXTRA_DIST += tests/inlines.test tests/inlined.test tests/inlined-fold
check_PROGRAMS += tests/symbols-dump
tests_symbols_dump_SOURCES = tests/symbols-dump.c
tests_symbols_dump_LDADD = lib/code/libcode.la
TESTS += tests/symbols.test tests/renamed.test
EXTRA_DIST += tests/symbols.test tests/renamed.test

# lib/coresight, lib/etm's OpenCSD engine
check_PROGRAMS += tests/unit-native
tests_unit_native_SOURCES = tests/unit-native.c
tests_unit_native_LDADD = lib/etm/libetm.la
check_PROGRAMS += tests/unit-continuity
tests_unit_continuity_SOURCES = tests/unit-continuity.c
tests_unit_continuity_LDADD = lib/etm/libetm.la
check_PROGRAMS += tests/unit-deframe
tests_unit_deframe_SOURCES = tests/unit-deframe.c
tests_unit_deframe_LDADD = lib/coresight/libcoresight.la $(OPENCSD_LIBS)
check_PROGRAMS += tests/crashing
tests_crashing_SOURCES = tests/crashing.c $(csight_decode_SOURCES)
tests_crashing_LDADD = $(csight_decode_LDADD)
tests_crashing_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ocsd_dt_process_data
TESTS += tests/open.test tests/exports.test tests/report.test tests/times.test
EXTRA_DIST += tests/open.test tests/exports.test tests/report.test tests/times.test
TESTS += tests/unit-continuity tests/unit-native tests/unit-deframe tests/golden.test tests/inputs.test
EXTRA_DIST += tests/golden.test tests/inputs.test

# lib/coresight/topology, csight doctor
check_PROGRAMS += tests/unit-topology
tests_unit_topology_SOURCES = tests/unit-topology.c
tests_unit_topology_LDADD = lib/coresight/libcoresight.la
TESTS += tests/unit-topology tests/doctor.test
EXTRA_DIST += tests/doctor.test tests/topology

# lib/worker, csight-decode
check_PROGRAMS += tests/unit-worker
tests_unit_worker_SOURCES = tests/unit-worker.c
tests_unit_worker_LDADD = lib/worker/libworker.la lib/perfdata/libperfdata.la
TESTS += tests/unit-worker tests/decode.test tests/images.test tests/formats.test
EXTRA_DIST += tests/decode.test tests/images.test tests/formats.test tests/autofdo-count tests/autofdo-image tests/store-read tests/open-chromium tests/perfdata-sinks

# cage: a hostile decoder, in csight-decode's cage and without it
check_PROGRAMS += tests/cage tests/planted tests/planted-loose
tests_cage_SOURCES = tests/cage.c
tests_cage_LDADD = lib/worker/libworker.la
tests_planted_SOURCES = tests/planted.c client/decode/main.c client/decode/job.c client/decode/cage.c
tests_planted_CFLAGS = $(AM_CFLAGS) -pthread
tests_planted_LDADD = lib/etm/libetm.la lib/worker/libworker.la lib/base/libbase.la -lpthread
tests_planted_loose_SOURCES = tests/planted.c client/decode/main.c client/decode/job.c
tests_planted_loose_CFLAGS = $(AM_CFLAGS) -pthread -DNO_CAGE
tests_planted_loose_LDADD = $(tests_planted_LDADD)
TESTS += tests/cage tests/cage.test
# client/decode/demux.c and what it is made of: a machine that is not there.
check_PROGRAMS += tests/machine
tests_machine_SOURCES = tests/machine.c
tests_machine_LDADD = lib/emu/libemuring.la lib/perfdata/libperfdata.la lib/base/libbase.la
TESTS += tests/demux.test
EXTRA_DIST += tests/demux.test

check_PROGRAMS += tests/damage
tests_damage_SOURCES = tests/damage.c
tests_damage_LDADD = lib/worker/libworker.la lib/perfdata/libperfdata.la
TESTS += tests/damage.test
EXTRA_DIST += tests/damage.test
check_PROGRAMS += tests/unit-guard
tests_unit_guard_SOURCES = tests/unit-guard.c
tests_unit_guard_LDADD = lib/etm/libetm.la
tests_unit_guard_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ocsd_dt_process_data
TESTS += tests/unit-guard
EXTRA_DIST += tests/cage.test

# lib/calls, lib/store, lib/export
check_PROGRAMS += tests/unit-symbols
tests_unit_symbols_SOURCES = tests/unit-symbols.c tests/elfgen.h
tests_unit_symbols_LDADD = lib/code/libcode.la $(ELF_LIBS)
TESTS += tests/unit-symbols
check_PROGRAMS += tests/unit-traps
tests_unit_traps_SOURCES = tests/unit-traps.c
tests_unit_traps_LDADD = lib/code/libcode.la
TESTS += tests/unit-traps
check_PROGRAMS += tests/unit-calls
tests_unit_calls_SOURCES = tests/unit-calls.c
tests_unit_calls_LDADD = lib/calls/libcalls.la
TESTS += tests/unit-calls
check_PROGRAMS += tests/stacks
tests_stacks_SOURCES = tests/stacks.c tests/stacks-truth.c tests/stacks.h tests/truth.h
tests_stacks_LDADD = lib/store/libstore.la lib/calls/libcalls.la lib/perfdata/libperfdata.la
TESTS += tests/stacks.test tests/random.test
EXTRA_DIST += tests/stacks.test tests/stacks-run tests/cases tests/random.test tests/stacks-generate
check_PROGRAMS += tests/unit-store
tests_unit_store_SOURCES = tests/unit-store.c tests/storegen.h
tests_unit_store_LDADD = lib/store/libstore.la
TESTS += tests/unit-store
check_PROGRAMS += tests/unit-perfetto tests/pftrace-dump
tests_unit_perfetto_SOURCES = tests/unit-perfetto.c tests/pftrace.c tests/pftrace.h tests/storegen.h
tests_unit_perfetto_LDADD = lib/export/libexport.la lib/calls/libcalls.la
tests_pftrace_dump_SOURCES = tests/pftrace-dump.c tests/pftrace.c tests/pftrace.h
tests_pftrace_dump_LDADD = lib/base/libbase.la $(ZLIB_LIBS)
TESTS += tests/unit-perfetto

# daemon
EXTRA_DIST += tests/daemon-help.h
check_PROGRAMS += tests/daemon-rings
tests_daemon_rings_SOURCES = tests/daemon-rings.c tests/daemon-help.c
tests_daemon_rings_CFLAGS = $(AM_CFLAGS) -pthread
tests_daemon_rings_LDADD = lib/varlink/libvarlink.la lib/perfdata/libperfdata.la lib/base/libbase.la -lpthread
TESTS += tests/daemon-rings
check_PROGRAMS += tests/daemon-wire
tests_daemon_wire_SOURCES = tests/daemon-wire.c tests/daemon-help.c
tests_daemon_wire_CFLAGS = $(AM_CFLAGS) -pthread
tests_daemon_wire_LDADD = lib/varlink/libvarlink.la lib/base/libbase.la -lpthread
TESTS += tests/daemon-wire
check_PROGRAMS += tests/call tests/children
tests_call_SOURCES = tests/call.c
tests_call_LDADD = lib/varlink/libvarlink.la lib/base/libbase.la
tests_children_SOURCES = tests/children.c
EXTRA_DIST += tests/daemon-jobs.test tests/daemon-start.test
TESTS += tests/daemon-start.test tests/daemon-jobs.test

# The whole line, and its figures.
EXTRA_DIST += tests/demo.test
TESTS += tests/demo.test

EXTRA_DIST += tests/bench tests/bench-engines tests/bench-perfetto
check_PROGRAMS += tests/bench-store
tests_bench_store_SOURCES = tests/bench-store.c
tests_bench_store_LDADD = lib/store/libstore.la
check_PROGRAMS += tests/bench-engine
trace_sources = tests/trace.c tests/trace.h client/finder.c client/decode/info.c client/decode/job.c client/decode/runs.c \
	client/decode/source.c client/decode/source-perf.c client/decode/source-snapshot.c client/decode/stream.c
tests_bench_engine_SOURCES = tests/bench-engine.c $(trace_sources)
tests_bench_engine_LDADD = $(csight_decode_LDADD) -lpthread
check_PROGRAMS += tests/bench-workers
tests_bench_workers_SOURCES = tests/bench-workers.c $(trace_sources)
tests_bench_workers_LDADD = $(csight_decode_LDADD) -lpthread
check_PROGRAMS += tests/unit-generate
generate_sources = tests/generate.c tests/generate.h tests/generate-packets.c tests/generate-parts.h tests/generate-program.c
tests_unit_generate_SOURCES = tests/unit-generate.c $(generate_sources)
tests_unit_generate_LDADD = lib/etm/libetm.la lib/base/libbase.la
TESTS += tests/unit-generate
check_PROGRAMS += tests/fuzz-engines
tests_fuzz_engines_SOURCES = tests/fuzz-engines.c tests/fuzz-engines.h tests/fuzz-jobs.c tests/fuzz-mistakes.c \
	$(generate_sources) $(trace_sources)
tests_fuzz_engines_LDADD = $(csight_decode_LDADD) -lpthread
EXTRA_DIST += tests/opencsd-mistakes

# What is found lies in fuzz/found; tests/fuzz-engines --show tells what each side says of it.
FUZZ_CORPUS = $${CSIGHT_CORPUS:-$(top_srcdir)/../shared/corpus}
fuzz-engines: tests/fuzz-engines
	@mkdir -p fuzz/found
	tests/fuzz-engines --seconds $(FUZZ_SECONDS) --seed $$(date +%s)000000 --known $(top_srcdir)/tests/opencsd-mistakes --save fuzz/found \
		$$(grep -liE 'type=(ETM4|ETE)' $(FUZZ_CORPUS)/snapshots/*/*.ini 2>/dev/null | xargs -r -n 1 dirname | sort -u) \
		$$(ls -d $${CSIGHT_BENCH_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/csight-bench}/*/ 2>/dev/null)
.PHONY: fuzz-engines
TESTS += tests/branches.test
EXTRA_DIST += tests/branches.test
check_PROGRAMS += tests/outlets
EXTRA_DIST += tests/workers.test
TESTS += tests/workers.test
tests_outlets_SOURCES = tests/outlets.c $(generate_sources) tests/trace.c tests/trace.h client/finder.c client/decode/info.c client/decode/job.c \
	client/decode/runs.c client/decode/source.c client/decode/source-perf.c client/decode/source-snapshot.c client/decode/stream.c
tests_outlets_LDADD = $(csight_decode_LDADD) -lpthread
bench: all $(check_PROGRAMS) $(check_DATA)
	$(top_srcdir)/tests/bench .
.PHONY: bench

# What the demo and the summaries leave.
CLEANFILES += demo/demo.pftrace check.log check-long.log

# The daemon among users, and among faults.
EXTRA_DIST += tests/users.test tests/faults.test
TESTS += tests/users.test tests/faults.test

# daemon/capture: what needs no trace unit
check_PROGRAMS += tests/unit-filter
tests_unit_filter_SOURCES = tests/unit-filter.c daemon/capture/filter.c
tests_unit_filter_CFLAGS = $(AM_CFLAGS)
tests_unit_filter_LDADD = lib/base/libbase.la
TESTS += tests/unit-filter

# daemon: what decodes leave for others
check_PROGRAMS += tests/unit-tables
tests_unit_tables_SOURCES = tests/unit-tables.c daemon/tables.c
tests_unit_tables_CFLAGS = $(AM_CFLAGS)
tests_unit_tables_LDADD = lib/base/libbase.la
TESTS += tests/unit-tables

# daemon/capture: perf
check_PROGRAMS += tests/unit-plan
tests_unit_plan_SOURCES = tests/unit-plan.c daemon/capture/plan.c
tests_unit_plan_CFLAGS = $(AM_CFLAGS)
tests_unit_plan_LDADD = lib/coresight/libcoresight.la lib/base/libbase.la
check_PROGRAMS += tests/plan-of
tests_plan_of_SOURCES = tests/plan-of.c daemon/capture/plan.c
tests_plan_of_CFLAGS = $(AM_CFLAGS)
tests_plan_of_LDADD = lib/coresight/libcoresight.la lib/base/libbase.la
TESTS += tests/plans.test
EXTRA_DIST += tests/plans.test
check_PROGRAMS += tests/unit-aux
tests_unit_aux_SOURCES = tests/unit-aux.c daemon/capture/aux.c daemon/capture/births.c daemon/capture/pevent.c daemon/capture/proc.c daemon/capture/tasks.c
tests_unit_aux_CFLAGS = $(AM_CFLAGS)
tests_unit_aux_LDADD = lib/base/libbase.la
check_PROGRAMS += tests/unit-side
tests_unit_side_SOURCES = tests/unit-side.c daemon/capture/credentials.c daemon/capture/pevent.c daemon/capture/proc.c \
	daemon/capture/side.c daemon/capture/tasks.c
tests_unit_side_CFLAGS = $(AM_CFLAGS) -pthread
tests_unit_side_LDADD = lib/base/libbase.la -lpthread
TESTS += tests/unit-plan tests/unit-aux tests/unit-side
