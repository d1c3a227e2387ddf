# SPDX-License-Identifier: MIT
# The traced programs: for aarch64, and static unless the name has a suffix.
traced_static = demo hunt loops recurse indirect branchy library threads threads8 signals faults forks longjmps jit crash \
	execs moves clocks clones requests messages steps waits words jobs server tails pair paced kernel-calls pages
traced_pie = library recurse
traced_dynamic = library threads
traced_static += contexts deaths ends limits planted
traced_dynamic += ends limits
traced_cxx = exceptions market events
# The same with a planted regression
traced_slower = words jobs server
traced_cxx_slower = market

EXTRA_DIST += $(traced_static:%=tests/programs/%.c) tests/programs/program.h tests/programs/plugins.c tests/programs/plugin.c \
	tests/programs/exceptions.cc tests/programs/market.cc tests/programs/events.cc tests/programs/names.cc \
	tests/programs/orders.rs tests/programs/goroutines.go

if HAVE_AARCH64_CC
traced_programs = $(traced_static:%=tests/programs/%) $(traced_pie:%=tests/programs/%-static-pie) \
	$(traced_dynamic:%=tests/programs/%-dynamic) $(traced_dynamic:%=tests/programs/%-dynamic-nopie) tests/programs/plugins \
	tests/programs/plugin-one.so tests/programs/plugin-two.so \
	$(traced_slower:%=tests/programs/%-slower)
endif
if HAVE_AARCH64_CXX
traced_cxx_programs = $(traced_cxx:%=tests/programs/%) $(traced_cxx:%=tests/programs/%-dynamic) $(traced_cxx_slower:%=tests/programs/%-slower)
endif
check_DATA += $(traced_programs) $(traced_cxx_programs)
traced: $(check_DATA)
.PHONY: traced
CLEANFILES += $(traced_programs) $(traced_cxx_programs)

TRACED_CFLAGS = -O2 -g -Wall -Wextra -Werror -pthread
traced_source = $(top_srcdir)/tests/programs
traced_make = $(AM_V_GEN)$(MKDIR_P) tests/programs && $(AARCH64_CC) $(TRACED_CFLAGS)
traced_make_cxx = $(AM_V_GEN)$(MKDIR_P) tests/programs && $(AARCH64_CXX) $(TRACED_CFLAGS)

if HAVE_AARCH64_CC
$(traced_static:%=tests/programs/%): tests/programs/%: $(traced_source)/%.c $(traced_source)/program.h
	$(traced_make) -static -o $@ $<
$(traced_pie:%=tests/programs/%-static-pie): tests/programs/%-static-pie: $(traced_source)/%.c $(traced_source)/program.h
	$(traced_make) -static-pie -fPIE -o $@ $<
$(traced_dynamic:%=tests/programs/%-dynamic): tests/programs/%-dynamic: $(traced_source)/%.c $(traced_source)/program.h
	$(traced_make) -pie -fPIE -o $@ $<
$(traced_dynamic:%=tests/programs/%-dynamic-nopie): tests/programs/%-dynamic-nopie: $(traced_source)/%.c $(traced_source)/program.h
	$(traced_make) -no-pie -fno-pie -o $@ $<
$(traced_slower:%=tests/programs/%-slower): tests/programs/%-slower: $(traced_source)/%.c $(traced_source)/program.h
	$(traced_make) -DSLOWER -static -o $@ $<
tests/programs/plugins: $(traced_source)/plugins.c $(traced_source)/program.h
	$(traced_make) -o $@ $<
tests/programs/plugin-one.so: $(traced_source)/plugin.c
	$(traced_make) -DTURN=1 -shared -fPIC -o $@ $<
tests/programs/plugin-two.so: $(traced_source)/plugin.c
	$(traced_make) -DTURN=2 -shared -fPIC -o $@ $<
endif
if HAVE_AARCH64_CXX
$(traced_cxx:%=tests/programs/%): tests/programs/%: $(traced_source)/%.cc
	$(traced_make_cxx) -static -o $@ $<
$(traced_cxx:%=tests/programs/%-dynamic): tests/programs/%-dynamic: $(traced_source)/%.cc
	$(traced_make_cxx) -o $@ $<
$(traced_cxx_slower:%=tests/programs/%-slower): tests/programs/%-slower: $(traced_source)/%.cc
	$(traced_make_cxx) -DSLOWER -static -o $@ $<
endif
