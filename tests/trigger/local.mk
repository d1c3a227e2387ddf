# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/trigger/unit-spec tests/trigger/unit-watched-target
tests_trigger_unit_watched_target_LDADD = daemon/libdaemon.la
tests_trigger_unit_spec_LDADD = lib/trigger/libtrigger.la lib/base/libbase.la
TESTS += tests/trigger/unit-spec tests/trigger/unit-watched-target tests/trigger/triggers.test tests/trigger/oom.test tests/trigger/sections.test tests/trigger/group.test \
	tests/trigger/exec.test tests/trigger/goroutines.test tests/trigger/deaths.test tests/trigger/period.test tests/trigger/contexts.test
EXTRA_DIST += tests/trigger/contexts.test tests/trigger/deaths.test tests/trigger/period.test tests/trigger/exec.test tests/trigger/goroutines.test tests/trigger/oom.test tests/trigger/sections.test tests/trigger/group.test tests/trigger/triggers.test tests/trigger/marked
