# SPDX-License-Identifier: MIT
# What a trigger is: the grammar of csight watch, csightd.conf and org.csight.
noinst_LTLIBRARIES += lib/trigger/libtrigger.la
lib_trigger_libtrigger_la_SOURCES = lib/trigger/trigger-spec.c lib/trigger/trigger-spec.h
