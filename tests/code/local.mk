# SPDX-License-Identifier: MIT
code_units = tests/code/unit-image tests/code/unit-inlines tests/code/unit-inline-pieces tests/code/unit-names tests/code/unit-symbols \
	tests/code/unit-ocaml-traps tests/code/unit-stack-use tests/code/unit-syscall-number \
	tests/code/unit-function-ends tests/code/unit-region-map
check_PROGRAMS += $(code_units) tests/code/symbols-dump
tests_code_unit_image_LDADD = lib/code/libcode.la
tests_code_unit_inlines_SOURCES = tests/code/unit-inlines.c tests/code/dwarfgen.h
tests_code_unit_inline_pieces_SOURCES = tests/code/unit-inline-pieces.c tests/code/dwarfgen.h
tests_code_unit_inline_pieces_LDADD = lib/code/libcode.la
tests_code_unit_inlines_LDADD = lib/code/libcode.la
tests_code_unit_names_LDADD = lib/code/libcode.la
tests_code_unit_symbols_SOURCES = tests/code/unit-symbols.c tests/code/elfgen.h
tests_code_unit_symbols_LDADD = lib/code/libcode.la $(ELF_LIBS)
tests_code_unit_ocaml_traps_LDADD = lib/code/libcode.la
tests_code_unit_stack_use_LDADD = lib/code/libcode.la
tests_code_unit_syscall_number_LDADD = lib/code/libcode.la
tests_code_unit_function_ends_LDADD = lib/code/libcode.la
tests_code_unit_region_map_SOURCES = tests/code/unit-region-map.c tests/code/symbol-list.h
tests_code_unit_region_map_LDADD = lib/code/libcode.la
tests_code_symbols_dump_LDADD = lib/code/libcode.la
TESTS += $(code_units) tests/code/elf.test tests/code/inlines.test tests/code/symbols.test
EXTRA_DIST += tests/code/catcher.cc tests/code/readelf-compare tests/code/elf.test tests/code/inlines.test tests/code/symbols.test
if HAVE_LIBDW
check_PROGRAMS += tests/code/libdw-frames
tests_code_libdw_frames_CFLAGS = $(AM_CFLAGS) $(DW_CFLAGS)
tests_code_libdw_frames_LDADD = $(DW_LIBS)
endif
