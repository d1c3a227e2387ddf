# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/export/unit-perfetto tests/export/unit-names tests/export/pftrace-dump
tests_export_unit_names_SOURCES = tests/export/unit-names.c
tests_export_unit_names_LDADD = lib/export/libexport.la lib/calls/libcalls.la
tests_export_unit_perfetto_SOURCES = tests/export/unit-perfetto.c tests/export/pftrace.c tests/export/pftrace.h tests/store/storegen.h
tests_export_unit_perfetto_LDADD = lib/export/libexport.la lib/calls/libcalls.la
tests_export_pftrace_dump_SOURCES = tests/export/pftrace-dump.c tests/export/pftrace.c tests/export/pftrace.h
tests_export_pftrace_dump_LDADD = lib/base/libbase.la $(ZLIB_LIBS)
TESTS += tests/export/unit-perfetto tests/export/unit-names tests/export/exports.test tests/export/viewers.test tests/export/redact.test
EXTRA_DIST += tests/export/fxt.py tests/export/exports.test tests/export/viewers.test tests/export/redact.test
TESTS += tests/export/parquet.test
EXTRA_DIST += tests/export/parquet.test tests/export/parquet.py
