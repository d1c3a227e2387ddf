/* SPDX-License-Identifier: MIT */
/* Constants of the perf.data format, shared by the writer and the reader. */
#ifndef CSIGHT_PERFDATA_FORMAT_H
#define CSIGHT_PERFDATA_FORMAT_H

#define PD_MAGIC 0x32454c4946524550ull /* "PERFILE2" */

enum {
	PD_HEADER_SIZE = 104,
	PD_HEADER_FEATURES = 72, /* offset of the bits of the features; not in a file that perf wrote to a pipe */
	PD_ATTR_SIZE = 112,      /* PERF_ATTR_SIZE_VER5 */
	PD_ATTR_SIZE_MIN = 64,
	PD_AUXTRACE_SIZE = 48,
	PD_RECORD_MAX = 65528, /* the size field has 16 bits, and records are multiples of 8 */
	PD_STRING_ALIGN = 64,
	PD_BUILD_ID_FIELD = 24, /* in the build-id section: 20 bytes, the size, and padding */
};

enum pd_record {
	PD_REC_MMAP = 1,
	PD_REC_LOST = 2,
	PD_REC_COMM = 3,
	PD_REC_EXIT = 4,
	PD_REC_FORK = 7,
	PD_REC_SAMPLE = 9,
	PD_REC_MMAP2 = 10,
	PD_REC_AUX = 11,
	PD_REC_ITRACE_START = 12,
	PD_REC_SWITCH = 14,
	PD_REC_SWITCH_CPU_WIDE = 15,
	PD_REC_AUX_OUTPUT_HW_ID = 21,
	PD_REC_USER = 64, /* first type of records that perf itself writes, without a sample_id */
	PD_REC_FINISHED_ROUND = 68,
	PD_REC_ID_INDEX = 69,
	PD_REC_AUXTRACE_INFO = 70,
	PD_REC_AUXTRACE = 71,
	PD_REC_TIME_CONV = 79,
	PD_REC_COMPRESSED = 81,
	PD_REC_COMPRESSED2 = 83,
};

enum { PD_AUXTRACE_CS_ETM = 3 };

/* The name of csight's own event for frequencies: the period of a sample is kHz, its CPU the one that has changed. */
#define PD_FREQUENCY_NAME "cpu-frequency"

enum {
	PD_MISC_CPUMODE = 7,
	PD_MISC_KERNEL = 1,
	PD_MISC_USER = 2,
	PD_MISC_COMM_EXEC = 1 << 13,
	PD_MISC_MMAP_DATA = 1 << 13,
	PD_MISC_SWITCH_OUT = 1 << 13,
	PD_MISC_SWITCH_OUT_PREEMPT = 1 << 14,
	PD_MISC_BUILD_ID = 1 << 14,
	PD_MISC_BUILD_ID_SIZE = 1 << 15, /* in the build-id section: the entry has a size */
};

enum {
	PD_SAMPLE_IP = 1 << 0,
	PD_SAMPLE_TID = 1 << 1,
	PD_SAMPLE_TIME = 1 << 2,
	PD_SAMPLE_ADDR = 1 << 3,
	PD_SAMPLE_READ = 1 << 4,
	PD_SAMPLE_CALLCHAIN = 1 << 5,
	PD_SAMPLE_ID = 1 << 6,
	PD_SAMPLE_CPU = 1 << 7,
	PD_SAMPLE_PERIOD = 1 << 8,
	PD_SAMPLE_STREAM_ID = 1 << 9,
	PD_SAMPLE_RAW = 1 << 10,
	PD_SAMPLE_IDENTIFIER = 1 << 16,
};

enum {
	PD_FORMAT_TIMES = 3, /* bits of two times */
	PD_FORMAT_ID = 1 << 2,
	PD_FORMAT_GROUP = 1 << 3,
	PD_FORMAT_LOST = 1 << 4,
};

/* Flags of struct perf_event_attr, as bits of one word. */
enum {
	PD_ATTR_DISABLED = 1 << 0,
	PD_ATTR_INHERIT = 1 << 1,
	PD_ATTR_EXCLUDE_KERNEL = 1 << 5,
	PD_ATTR_EXCLUDE_HV = 1 << 6,
	PD_ATTR_MMAP = 1 << 8,
	PD_ATTR_COMM = 1 << 9,
	PD_ATTR_FREQUENCY = 1 << 10,
	PD_ATTR_TASK = 1 << 13,
	PD_ATTR_SAMPLE_ID_ALL = 1 << 18,
	PD_ATTR_EXCLUDE_GUEST = 1 << 20,
	PD_ATTR_MMAP2 = 1 << 23,
	PD_ATTR_COMM_EXEC = 1 << 24,
	PD_ATTR_USE_CLOCKID = 1 << 25,
};

enum pd_feature {
	PD_FEAT_BUILD_ID = 2,
	PD_FEAT_HOSTNAME = 3,
	PD_FEAT_OSRELEASE = 4,
	PD_FEAT_VERSION = 5,
	PD_FEAT_ARCH = 6,
	PD_FEAT_NRCPUS = 7,
	PD_FEAT_CMDLINE = 11,
	PD_FEAT_EVENT_DESC = 12,
	PD_FEAT_PMU_MAPPINGS = 16,
	PD_FEAT_AUXTRACE = 18,
	PD_FEAT_CLOCKID = 23,
	PD_FEAT_NOTES = 240, /* csight's own: other readers skip features that they do not know */
	PD_FEAT_MAX = 256,
};

#endif
