# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/etm/unit-native tests/etm/unit-continuity tests/etm/unit-guard tests/etm/unit-itm
tests_etm_unit_native_LDADD = lib/etm/libetm.la
tests_etm_unit_continuity_LDADD = lib/etm/libetm.la
tests_etm_unit_guard_LDADD = lib/etm/libetm.la
tests_etm_unit_itm_LDADD = lib/etm/libetm.la
tests_etm_unit_guard_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ocsd_dt_process_data -Wl,--wrap=ocsd_get_version
TESTS += tests/etm/unit-native tests/etm/unit-continuity tests/etm/unit-guard tests/etm/unit-itm

# Made-up traces with their truth; traces from files.
generate_sources = tests/etm/generate.c tests/etm/generate.h tests/etm/generate-packets.c tests/etm/generate-parts.h \
	tests/etm/generate-program.c
trace_sources = tests/etm/trace.c tests/etm/trace.h
check_PROGRAMS += tests/etm/unit-generate tests/etm/outlets tests/etm/fuzz-engines
tests_etm_unit_generate_SOURCES = tests/etm/unit-generate.c $(generate_sources)
tests_etm_unit_generate_LDADD = lib/etm/libetm.la lib/base/libbase.la
tests_etm_outlets_SOURCES = tests/etm/outlets.c tests/code/symbol-list.h $(generate_sources) $(trace_sources)
tests_etm_outlets_LDADD = lib/local/liblocal.la daemon/decode/libdecode.la
tests_etm_fuzz_engines_SOURCES = tests/etm/fuzz-engines.c tests/etm/fuzz-engines.h tests/etm/fuzz-jobs.c \
	tests/etm/fuzz-mistakes.c $(generate_sources) $(trace_sources)
tests_etm_fuzz_engines_LDADD = lib/local/liblocal.la daemon/decode/libdecode.la
TESTS += tests/etm/unit-generate tests/etm/golden.test tests/etm/branches.test tests/etm/workers.test
EXTRA_DIST += tests/etm/golden.test tests/etm/branches.test tests/etm/workers.test tests/etm/opencsd-mistakes

# Findings are saved in fuzz/found; tests/etm/fuzz-engines --show prints what each side makes of one.
FUZZ_CORPUS = $${CSIGHT_CORPUS:-$(top_srcdir)/../shared/corpus}
fuzz-engines: tests/etm/fuzz-engines
	@mkdir -p fuzz/found
	tests/etm/fuzz-engines --seconds $(FUZZ_SECONDS) --seed $$(date +%s)000000 --known $(top_srcdir)/tests/etm/opencsd-mistakes \
		--save fuzz/found \
		$$(grep -liE 'type=(ETM4|ETE)' $(FUZZ_CORPUS)/snapshots/*/*.ini 2>/dev/null | xargs -r -n 1 dirname | sort -u) \
		$$(ls -d $${CSIGHT_BENCH_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/csight-bench}/*/ 2>/dev/null)
.PHONY: fuzz-engines
