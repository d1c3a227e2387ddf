# SPDX-License-Identifier: MIT
# Notes that programs write about themselves: the memory that libcsight and csightd share, and its parser.
noinst_LTLIBRARIES += lib/notes/libnotes.la
lib_notes_libnotes_la_SOURCES = lib/notes/notes.c lib/notes/notes.h
