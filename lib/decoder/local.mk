# SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += lib/decoder/libdecoder.la
lib_decoder_libdecoder_la_SOURCES = lib/decoder/decoder.c lib/decoder/decoder-user.c lib/decoder/decoder.h \
	lib/decoder/debug-places.c lib/decoder/debug-places.h
lib_decoder_libdecoder_la_LIBADD = lib/base/libbase.la
