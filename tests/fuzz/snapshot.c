/* SPDX-License-Identifier: MIT */
/*
 * lib/coresight/armsnap.c, lib/base/ini.c: the input holds the files of an Arm snapshot, separated by NUL, each as its
 * name, a colon and its text. References in the result must be valid.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/coresight/armsnap.h"
#include "tests/fuzz/fuzz.h"

struct files {
	const char *data;
	size_t size;
};

static int read_text(void *user, const char *name, char **ret, size_t *ret_size)
{
	const struct files *f = user;
	size_t length = strlen(name);

	for (size_t at = 0; at < f->size;) {
		const char *file = f->data + at, *end = memchr(file, 0, f->size - at);
		size_t size = end ? (size_t)(end - file) : f->size - at;

		if (size > length && memcmp(file, name, length) == 0 && file[length] == ':') {
			*ret_size = size - length - 1;
			*ret = malloc(*ret_size + 1);
			fuzz_require(*ret != NULL);
			memcpy(*ret, file + length + 1, *ret_size);
			(*ret)[*ret_size] = 0;
			return 0;
		}
		at += size + 1;
	}
	return -ENOENT;
}

static size_t touch(const struct armsnap *s)
{
	uint32_t n;
	size_t sum = 0;

	for (size_t i = 0; i < s->n_devices; i++) {
		fuzz_require(armsnap_device(s, s->devices[i].name, &n) == 0 && n <= i);
		sum += strlen(s->devices[i].class) + strlen(s->devices[i].type);
	}
	for (size_t i = 0; i < s->n_buffers; i++) {
		fuzz_require(armsnap_buffer(s, s->buffers[i].key, &n) == 0);
		sum += strlen(s->buffers[i].name) + strlen(s->buffers[i].file);
	}
	for (size_t i = 0; i < s->n_dumps; i++) {
		fuzz_require(s->dumps[i].device < s->n_devices);
		sum += strlen(s->dumps[i].file);
	}
	for (size_t i = 0; i < s->n_sources; i++)
		sum += strlen(s->sources[i].from) + strlen(s->sources[i].to);
	for (size_t i = 0; i < s->n_cores; i++)
		sum += strlen(s->cores[i].from) + strlen(s->cores[i].to);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct files texts = { (const char *)data, size };
	const struct armsnap_files files = { read_text, &texts };
	_cleanup_(armsnap_freep) struct armsnap *s = NULL, *device = NULL;
	struct armsnap_problem problem = { 0 };
	size_t sum = 0;
	int rc = armsnap_read(&files, &s, &problem);

	fuzz_require(rc != -EBADMSG || problem.cause);
	if (rc == 0)
		sum += touch(s);
	rc = armsnap_read_device(&files, "cpu_0.ini", &device, &problem);
	fuzz_require(rc != -EBADMSG || problem.cause);
	if (rc == 0)
		sum += touch(device);
	return sum == SIZE_MAX;
}

void fuzz_seeds(void)
{
	static const char two[] =
	    "snapshot.ini:[snapshot]\nversion=1.0\n\n[device_list]\ndevice0=cpu_0.ini\n"
	    "device1=ETM_0.ini\n[trace]\nmetadata=trace.ini\n\0"
	    "trace.ini:[trace_buffers]\nbuffers=buffer0, buffer1\n[buffer0]\nname=ETB_0\nfile=a.bin\n"
	    "format=coresight\n[buffer1]\nname=ETB_1\nfile=b.bin;c.bin\nformat=source_data\n"
	    "[source_buffers]\nETM_0=ETB_0,ETB_1\n[core_trace_sources]\ncpu_0=ETM_0\n\0"
	    "cpu_0.ini:; a core\n[device]\nname=cpu_0\nclass=core\ntype=Cortex-A57\n[regs]\n"
	    "PC(size:64)=0xFFFFFFC000081000\nSCTLR_EL1=0x1007\n[dump1]\nfile=kernel.bin\n"
	    "address=0xFFFFFFC000080000\nlength=0x40000\noffset=0x10\nspace=EL1N\n\0"
	    "ETM_0.ini:[device]\nname=ETM_0\nclass=trace_source\ntype=ETM4\n[regs]\n"
	    "TRCCONFIGR(0x004)=0x000000C1\nTRCTRACEIDR=0x10\nTRCIDR0(id:0x78)=0x28000EA1\n"
	    "TRCIDR1=0x4100F403\nTRCIDR2=0x488\nTRCIDR8=0\n";
	static const char old[] = "snapshot.ini:[snapshot]\nversion=1.0\n[device_list]\ndevice0=cpu_0.ini\n\0"
				  "cpu_0.ini:[device]\nname=cpu_0\nclass=trace_source\ntype=PTM1.0\nformat=coresight\n"
				  "[regs]\nETMCR=0x10001000\nETMIDR=0x411cf300\nETMCCER=0x344008f2\nETMTRACEIDR=0x10\n";

	fuzz_seed(two, sizeof(two) - 1);
	fuzz_seed(old, sizeof(old) - 1);
}
