# SPDX-License-Identifier: MIT
# lib/varlink
noinst_LTLIBRARIES += lib/varlink/libvarlink.la
lib_varlink_libvarlink_la_SOURCES = lib/varlink/message.c lib/varlink/stream.c lib/varlink/varlink.h
lib_varlink_libvarlink_la_LIBADD = lib/base/libbase.la
