# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/bench/bench-store tests/bench/bench-engine tests/bench/bench-input tests/bench/bench-workers
check_PROGRAMS += tests/bench/bench-async
tests_bench_bench_async_LDADD = lib/csight/libclient.la
tests_bench_bench_store_LDADD = lib/store/libstore.la
tests_bench_bench_engine_SOURCES = tests/bench/bench-engine.c tests/bench/reference.c tests/bench/reference.h $(trace_sources)
tests_bench_bench_engine_LDADD = lib/local/liblocal.la daemon/decode/libdecode.la
tests_bench_bench_input_SOURCES = tests/bench/bench-input.c tests/bench/reference.c tests/bench/reference.h $(trace_sources)
tests_bench_bench_input_LDADD = lib/local/liblocal.la daemon/decode/libdecode.la
tests_bench_bench_workers_SOURCES = tests/bench/bench-workers.c $(trace_sources)
tests_bench_bench_workers_LDADD = lib/local/liblocal.la daemon/decode/libdecode.la
EXTRA_DIST += tests/bench/bench tests/bench/commands tests/bench/engines tests/bench/perfetto tests/bench/triggers tests/bench/traces.py

bench: all $(check_PROGRAMS) $(check_DATA)
	$(top_srcdir)/tests/bench/bench .
.PHONY: bench
