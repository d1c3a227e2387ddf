# SPDX-License-Identifier: MIT
# Faults: each call of the allocator and the kernel fails, or the process is killed there.
check_PROGRAMS += tests/faults/library
tests_faults_library_LDADD = lib/csight/libcsight.la
TESTS += tests/faults/sweep.test tests/faults/conditions.test
EXTRA_DIST += tests/faults/sweep.test tests/faults/conditions.py tests/faults/conditions.test tests/faults/control.h tests/faults/control.py tests/faults/guest.c tests/faults/shim.c tests/faults/sweep.py tests/faults/world.py

# Preloaded into programs that may have a sanitizer: it has none.
check_DATA += tests/faults/shim.so
CLEANFILES += tests/faults/shim.so
tests/faults/shim.so: tests/faults/shim.c tests/faults/control.h
	$(AM_V_CC)$(MKDIR_P) tests/faults && $(CC) -std=gnu11 -I$(top_srcdir) -D_GNU_SOURCE $(CSIGHT_PLAIN_CFLAGS) -O1 -g -fPIC -shared -o $@ \
		$(top_srcdir)/tests/faults/shim.c -ldl -lgcc_s

if HAVE_AARCH64_CC
check_DATA += tests/faults/guest
CLEANFILES += tests/faults/guest
tests/faults/guest: tests/faults/guest.c tests/programs/program.h
	$(AM_V_GEN)$(MKDIR_P) tests/faults && $(AARCH64_CC) $(TRACED_CFLAGS) -I$(top_srcdir) -static -o $@ $(top_srcdir)/tests/faults/guest.c
endif
