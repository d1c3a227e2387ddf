noinst_LTLIBRARIES += lib/etm/libetm.la
lib_etm_libetm_la_SOURCES = \
	lib/etm/continuity.c lib/etm/continuity.h \
	lib/etm/element.c lib/etm/element.h \
	lib/etm/engine.h \
	lib/etm/guard.c lib/etm/guard.h \
	lib/etm/opencsd-element.c \
	lib/etm/opencsd-source.c \
	lib/etm/opencsd.c lib/etm/opencsd.h
lib_etm_libetm_la_LIBADD = lib/base/libbase.la $(OPENCSD_LIBS)
