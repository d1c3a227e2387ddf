noinst_LTLIBRARIES += lib/worker/libworker.la
lib_worker_libworker_la_SOURCES = lib/worker/worker.c lib/worker/worker.h
lib_worker_libworker_la_LIBADD = lib/base/libbase.la
