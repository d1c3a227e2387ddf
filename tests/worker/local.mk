check_PROGRAMS += tests/worker/unit-worker
tests_worker_unit_worker_LDADD = lib/worker/libworker.la lib/perfdata/libperfdata.la
TESTS += tests/worker/unit-worker
