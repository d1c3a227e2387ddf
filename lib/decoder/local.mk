# SPDX-License-Identifier: MIT
# Without lib/base, which libcsight has once: for libcsight.so
noinst_LTLIBRARIES += lib/decoder/libdecoder-alone.la
lib_decoder_libdecoder_alone_la_SOURCES = lib/decoder/decoder.c lib/decoder/decoder-user.c lib/decoder/decoder.h \
	lib/decoder/debug-places.c lib/decoder/debug-places.h

noinst_LTLIBRARIES += lib/decoder/libdecoder.la
lib_decoder_libdecoder_la_SOURCES =
lib_decoder_libdecoder_la_LIBADD = lib/decoder/libdecoder-alone.la lib/base/libbase.la
