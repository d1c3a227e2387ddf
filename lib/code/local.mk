# SPDX-License-Identifier: MIT
# Each half on its own lines: images, and symbols.
noinst_LTLIBRARIES += lib/code/libcode.la
lib_code_libcode_la_SOURCES = \
	lib/code/a64.h \
	lib/code/captured-code.h \
	lib/code/bytes.c lib/code/bytes.h \
	lib/code/elf.c lib/code/elf.h lib/code/elf-private.h \
	lib/code/elf-core.c lib/code/elf-core.h \
	lib/code/elf-notes.c \
	lib/code/elf-tables.c \
	lib/code/function-ends.c lib/code/function-ends.h \
	lib/code/image.c lib/code/image.h \
	lib/code/address-space.c lib/code/address-space.h
lib_code_libcode_la_LIBADD = lib/perfdata/libperfdata.la lib/base/libbase.la
lib_code_libcode_la_SOURCES += \
	lib/code/debug-file.c lib/code/debug-file.h \
	lib/code/demangle.c lib/code/demangle.h \
	lib/code/demangle-d.c \
	lib/code/demangle-plain.c \
	lib/code/demangle-rust.c \
	lib/code/demangle-rust-legacy.c \
	lib/code/dwarf.c lib/code/dwarf.h \
	lib/code/dwarf-files.c \
	lib/code/dwarf-forms.c \
	lib/code/dwarf-lines.c \
	lib/code/inflate.c lib/code/inflate.h \
	lib/code/kallsyms.c lib/code/kallsyms.h \
	lib/code/inlines.c lib/code/inlines.h lib/code/inlines-private.h \
	lib/code/inline-entries.c lib/code/inline-pieces.c \
	lib/code/inline-instances.c lib/code/inline-instances.h \
	lib/code/memory-path.h \
	lib/code/region-map.c lib/code/region-map.h \
	lib/code/syscall-number.c lib/code/syscall-number.h lib/code/syscalls.h \
	lib/code/rust-name.c lib/code/rust-name.h \
	lib/code/symbols-elf.c \
	lib/code/symbols-file.c \
	lib/code/symbols-kernel.c \
	lib/code/symbols-layers.c \
	lib/code/symbols-perf.c \
	lib/code/symbols.c lib/code/symbols.h lib/code/symtab.h \
	lib/code/ocaml-traps.c lib/code/ocaml-traps.h \
	lib/code/stack-use.c lib/code/stack-use.h \
	lib/code/unwind.c lib/code/unwind.h
lib_code_libcode_la_LIBADD += $(ELF_LIBS) $(LZMA_LIBS) $(ZSTD_LIBS) $(ZLIB_LIBS) -lsupc++ -lstdc++
