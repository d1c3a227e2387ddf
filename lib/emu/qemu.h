/* SPDX-License-Identifier: MIT */
/*
 * The part of QEMU's plugin interface (version 1) that csight-etm.so uses; QEMU's header is not packaged. The names and
 * types are QEMU's. The last group is not part of that interface: these are weak references to symbols that qemu-user
 * happens to export. guest.c looks up the thread-local thread_cpu with dlsym() instead, because a weak reference to an
 * absent thread-local variable still has an address.
 */
#ifndef CSIGHT_EMU_QEMU_H
#define CSIGHT_EMU_QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;

typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

extern QEMU_EXPORT int qemu_plugin_version;
QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

typedef void (*qemu_plugin_vcpu_simple_cb_t)(qemu_plugin_id_t id, unsigned vcpu);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned vcpu, void *userdata);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*qemu_plugin_vcpu_syscall_cb_t)(qemu_plugin_id_t id, unsigned vcpu, int64_t num, uint64_t a1, uint64_t a2,
					      uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
					      uint64_t a8);
typedef void (*qemu_plugin_vcpu_syscall_ret_cb_t)(qemu_plugin_id_t id, unsigned vcpu, int64_t num, int64_t ret);
typedef void (*qemu_plugin_udata_cb_t)(qemu_plugin_id_t id, void *userdata);

void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_simple_cb_t cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t cb,
					  enum qemu_plugin_cb_flags flags, void *userdata);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_udata_cb_t cb,
					    enum qemu_plugin_cb_flags flags, void *userdata);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_syscall_cb_t cb);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_syscall_ret_cb_t cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t cb, void *userdata);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
const char *qemu_plugin_path_to_binary(void);

struct CPUState;
struct byte_array { /* GLib's GByteArray */
	uint8_t *data;
	unsigned len;
};
extern uint64_t default_rt_sigreturn __attribute__((weak));
extern uintptr_t guest_base __attribute__((weak));
int aarch64_cpu_gdb_read_register(struct CPUState *cpu, struct byte_array *ret, int number) __attribute__((weak));
struct byte_array *g_byte_array_sized_new(unsigned size) __attribute__((weak));
struct byte_array *g_byte_array_set_size(struct byte_array *array, unsigned size) __attribute__((weak));
uint8_t *g_byte_array_free(struct byte_array *array, int free_segment) __attribute__((weak));
/*
 * Functions of QEMU 7.2. Addresses are those of the guest. A thread that has mmap_lock() may take it again, and takes
 * it before the lock of the plugin.
 */
void mmap_lock(void) __attribute__((weak));
void mmap_unlock(void) __attribute__((weak));
void tb_invalidate_phys_range(uint64_t start, uint64_t end) __attribute__((weak));

#endif
