/* SPDX-License-Identifier: MIT */
/*
 * csightd as a whole: its control socket, and the socket at which programs register. Bit 0 of the first byte chooses
 * the socket; bit 2 with it, another user. Bit 1: after messages of the control socket, a byte 0xff, and the limits of
 * the plugin come hits of watch points, which are written to the rings of a target. Bit 3: another user connects, and
 * stays. In a message of the control socket, $1 to $5 are replaced (csightd.h). After each input csightd still replies
 * to another client.
 */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/notes/notes.h"
#include "tests/fuzz/csightd.h"
#include "tests/fuzz/fuzz.h"

enum { SMALL = 16 << 10, MESSAGES = 32, STAYING = 40 };

/* The descriptor that a message has: chosen by its first byte. */
static int make_file(uint8_t kind, const uint8_t *data, size_t size)
{
	uint8_t *rings = fuzz_csightd.rings;
	int fd;

	switch (kind) {
	case 1:
		fd = fuzz_make_rings();
		munmap(fuzz_csightd.rings, FUZZ_RINGS);
		fuzz_csightd.rings = rings;
		return fd;
	case 2:
	case 3:
		fd = memfd_create("notes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		fuzz_require(fd >= 0 && io_pwrite(fd, data, size, 0) == 0);
		fuzz_require(ftruncate(fd, kind == 2 ? sizeof(struct notes_memory) : FUZZ_RINGS) == 0);
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
		return fd;
	case 4:
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	case 5:
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	case 6:
		return fuzz_fd(data, size);
	case 7:
		fd = fuzz_make_rings();
		((struct emu_header *)fuzz_csightd.rings)->disarmed = 1;
		munmap(fuzz_csightd.rings, FUZZ_RINGS);
		fuzz_csightd.rings = rings;
		return fd;
	default:
		return -1;
	}
}

static void enter(const uint8_t *data, size_t size, uid_t uid)
{
	int fd = fuzz_connect_as(fuzz_csightd.emu, SOCK_SEQPACKET, uid);
	char reply[64];

	for (size_t n = 0; size > 1 && n < MESSAGES; n++) {
		size_t length = MIN(size - 1, sizeof(struct emu_message));
		int files[2] = { make_file(data[0] & 7, data + 1, size - 1), fuzz_csightd.other };

		io_send_fds(fd, data + 1, length, files, files[0] < 0 ? 0 : 1 + (data[0] >> 7));
		closep(&files[0]);
		data += 1 + length;
		size -= 1 + length;
	}
	shutdown(fd, SHUT_WR);
	while (fuzz_wait_readable(fd, FUZZ_QUIET_MS) && read(fd, reply, sizeof(reply)) > 0)
		;
	close(fd);
}

static const char lists[] = "{\"method\":\"org.csight.ListTriggers\"}\0{\"method\":\"org.csight.ListSnapshots\"}\0"
			    "{\"method\":\"org.csight.ListTargets\"}";

/* As the plugin writes it, unless the hit has a number. */
static void write_hit(struct emu_hit *h)
{
	struct emu_header *header = (struct emu_header *)fuzz_csightd.rings;
	struct emu_watching *w = fuzz_watching();
	size_t watch = h->watch % EMU_WATCHES_MAX;
	uint64_t n = w->n_hits;

	if (!h->number) {
		h->number = n + 1;
		h->trigger = w->watches[watch].trigger;
		h->tid = h->tid ? h->tid : 1;
	}
	w->counts[watch].hits++;
	w->counts[watch].measured += h->value > 0;
	w->hits[n % EMU_HITS_MAX] = *h;
	w->n_hits = n + 1;
	if (h->held) {
		w->held_ns = now_ns(CLOCK_MONOTONIC);
		atomic_fetch_or(&header->control, 1);
	}
}

static void hit(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, 0xff, size);
	struct emu_watching *w = fuzz_watching();
	uint32_t limits;
	struct emu_hit h;

	if (!end || (size_t)(data + size - end) <= sizeof(limits))
		return;
	memcpy(&limits, end + 1, sizeof(limits));
	w->limits = FUZZ_KNOWS_ALL ^ limits;
	fuzz_call(data, (size_t)(end - data), FUZZ_QUIET_MS);
	size = (size_t)(data + size - end) - 1 - sizeof(limits);
	data = end + 1 + sizeof(limits);
	w->applied = w->epoch;
	for (; size >= sizeof(h); data += sizeof(h), size -= sizeof(h)) {
		memcpy(&h, data, sizeof(h));
		write_hit(&h);
	}
	fuzz_send_message(fuzz_csightd.target, EMU_HITS, 0, -1);
	fuzz_check_alive();
	/* What the hits cause is in the lists. */
	poll(NULL, 0, 2 * FUZZ_QUIET_MS);
	fuzz_call(lists, sizeof(lists), FUZZ_QUIET_MS);
	w->limits = FUZZ_KNOWS_ALL;
}

/* More connections than csightd may have: it closes those that are idle, and programs that do not register. */
static void stay(void)
{
	static const char call[] = "{\"method\":\"org.csight.Status\"}";
	static int fds[STAYING];
	static unsigned n;
	int *fd = &fds[n++ % STAYING];
	uid_t uid = n % 3 ? FUZZ_USER : FUZZ_DENIED;

	if (n > STAYING)
		close(*fd);
	if (n % 4) {
		*fd = fuzz_connect_as(fuzz_csightd.control, SOCK_STREAM, uid);
		send(*fd, call, sizeof(call), MSG_DONTWAIT | MSG_NOSIGNAL);
	} else {
		*fd = fuzz_connect_as(fuzz_csightd.emu, SOCK_SEQPACKET, uid);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > SMALL)
		return 0;
	fuzz_csightd_begin(NULL);
	if (data[0] & 8)
		stay();
	if (data[0] & 2)
		hit(data + 1, size - 1);
	else if (data[0] & 1)
		enter(data + 1, size - 1, data[0] & 4 ? FUZZ_USER : 0);
	else
		fuzz_call(data + 1, size - 1, FUZZ_QUIET_MS);
	fuzz_check_alive();
	return 0;
}

static void seed_call(const char *method, const char *parameters)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "0{\"method\":\"org.%s\",\"parameters\":%s,\"more\":true}", method,
			 parameters);

	fuzz_seed(text, (size_t)n + 1);
}

/* Calls in one connection, of which each waits for the reply of the one before. */
static void add_calls(struct buf *b, const char *const (*calls)[2], size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s%s{\"method\":\"org.%s\",\"parameters\":%s}%c", i ? "\n" : "",
			   *calls[i][0] == '~' ? "~" : "", calls[i][0] + (*calls[i][0] == '~'), calls[i][1], 0);
}

static void seed_sequence(const char *const (*calls)[2], size_t n)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_add(&b, "0", 1);
	add_calls(&b, calls, n);
	fuzz_require(buf_error(&b) == 0);
	fuzz_seed(b.data, b.size);
}

static void seed_sequences(void)
{
#define ID "{\"id\":\"$4\"}"
#define NUMBER "{\"id\":$5}"
#define SEED(...)                                                      \
	do {                                                           \
		static const char *const calls[][2] = { __VA_ARGS__ }; \
		seed_sequence(calls, ELEMENTS(calls));                 \
	} while (0)
	SEED({ "csight.Snapshot", "{\"pid\":$1,\"noWait\":true}" }, { "csight.GetSnapshot", ID },
	     { "csight.Status", "{}" }, { "csight.ListSnapshots", "{}" },
	     { "csight.Open", "{\"id\":\"$4\",\"file\":\"perfdata\"}" },
	     { "csight.Open", "{\"id\":\"$4\",\"file\":\"json\"}" },
	     { "csight.Open", "{\"id\":\"$4\",\"file\":\"store\"}" },
	     { "csight.Open", "{\"id\":\"$4\",\"file\":\"x\"}" }, { "csight.Keep", "{\"id\":\"$4\",\"keep\":1}" },
	     { "csight.Keep", ID }, { "csight.EndRecording", ID }, { "~csight.GetSnapshot", ID },
	     { "csight.Remove", ID });
	SEED({ "csight.Snapshot", "{\"pid\":$2,\"noWait\":true}" }, { "csight.Wait", ID });
	SEED({ "csight.Snapshot", "{\"pid\":$2,\"record\":{},\"noWait\":true}" },
	     { "csight.Open", "{\"id\":\"$4\",\"file\":\"json\"}" }, { "csight.Keep", ID }, { "csight.Remove", ID },
	     { "csight.ListSnapshots", "{}" }, { "csight.EndRecording", ID }, { "csight.GetSnapshot", ID });
	SEED({ "csight.Tail", "{\"pid\":$2,\"maxTime\":20000000}" }, { "csight.Tail", "{\"pid\":$2}" },
	     { "csight.Disarm", "{\"pid\":$2}" }, { "csight.Tail", "{\"pid\":$2}" }, { "csight.Status", "{}" });
	SEED({ "csight.Snapshot", "{\"pid\":$2,\"record\":{},\"last\":5}" });
	SEED({ "csight.Snapshot", "{\"pid\":$2,\"record\":{},\"with\":[$1]}" });
	SEED({ "csight.Snapshot", "{\"pid\":1,\"noArm\":true}" });
	SEED({ "csight.Disarm", "{\"pid\":$2}" }, { "csight.Snapshot", "{\"pid\":$2,\"noArm\":true}" },
	     { "csight.Snapshot", "{\"pid\":$2,\"noWait\":true}" }, { "csight.ListTargets", "{}" },
	     { "csight.Disarm", "{\"pid\":$2}" }, { "csight.Disarm", "{\"pid\":$2}" });
	SEED({ "csight.Pause", "{}" }, { "csight.Status", "{}" }, { "csight.Arm", "{\"pid\":$2}" },
	     { "csight.Snapshot", "{\"pid\":$2}" }, { "csight.Pause", "{\"pause\":1}" });
	SEED({ "csight.ArmStanding", "{\"rule\":{\"name\":\"q*\",\"user\":7},\"options\":"
				     "{\"ringSize\":65536,\"filter\":\"f\",\"sink\":\"s\"}}" },
	     { "csight.ListStanding", "{}" }, { "~csight.DisarmStanding", NUMBER },
	     { "csight.DisarmStanding", NUMBER });
	SEED({ "csight.ArmStanding", "{\"rule\":{\"exe\":\"/x\"},\"options\":1}" });
	SEED({ "csight.ArmStanding", "{\"rule\":{\"exe\":\"/x\"},\"options\":{\"thread\":7}}" });
	SEED({ "csight.ArmStanding", "{\"rule\":{\"exe\":\"\"}}" }, { "csight.ArmStanding", "{\"rule\":{\"unit\":7}}" },
	     { "csight.ArmStanding", "{\"rule\":{\"user\":-7}}" }, { "csight.ArmStanding", "{\"rule\":{\"tree\":-7}}" },
	     { "csight.ListStanding", "{\"first\":\"\"}" });
	SEED({ "~csight.ArmStanding", "{\"rule\":{\"name\":\"x\",\"user\":0}}" },
	     { "~csight.ArmStanding", "{\"rule\":{\"exe\":\"/x\"}}" }, { "~csight.ListStanding", "{}" },
	     { "~csight.ArmStanding", "{\"rule\":{\"exe\":\"/y\"},\"options\":{\"kernel\":true}}" });
	SEED({ "csight.Arm", "{\"pid\":$1,\"options\":{\"cycleThreshold\":100000}}" },
	     { "csight.Arm", "{\"pid\":$1,\"options\":{\"timestampInterval\":3}}" },
	     { "csight.Arm", "{\"pid\":$1,\"options\":{\"thread\":0}}" },
	     { "csight.Arm", "{\"pid\":$1,\"options\":{\"ringSize\":3}}" },
	     { "csight.Arm", "{\"pid\":$1,\"options\":{\"cycles\":7}}" },
	     { "csight.Arm", "{\"pid\":$1,\"options\":{\"mode\":\"x\"}}" }, { "csight.Arm", "{\"pid\":1}" },
	     { "csight.ListTargets", "{\"first\":\"\"}" }, { "csight.ListTriggers", "{\"first\":\"\"}" });
	SEED({ "csight.Watch", "{\"pid\":$1,\"trigger\":\"syscall read longer-than p99 group tree\"}" },
	     { "csight.ListTriggers", "{}" }, { "csight.SetTrigger", "{\"id\":$5,\"enabled\":false}" },
	     { "csight.SetTrigger", "{\"id\":$5,\"enabled\":true}" }, { "csight.SetTrigger", "{\"id\":$5}" },
	     { "~csight.RemoveTrigger", NUMBER }, { "csight.RemoveTrigger", NUMBER });
	SEED({ "csight.Watch", "{\"pid\":$1,\"trigger\":\"syscall nothing\"}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"function f\"}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"oom\"}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"off-cpu longer-than 5ms\"}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"line a.c:7\",\"places\":[{\"address\":\"0x1\"}]}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"every 5m\"}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"crash\",\"places\":[{\"address\":\"0x1\",\"inode\":7,"
			       "\"device\":\"8:x\"}]}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"crash\",\"places\":[{\"address\":\"0x1\",\"inode\":7,"
			       "\"device\":\"8\"}]}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"crash\",\"places\":[{\"address\":\"0x1\",\"ends\":7}]}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"crash\",\"places\":[{\"address\":\"0x1\",\"ends\":[7]}]}" });
	SEED({ "~csight.Status", "{}" }, { "~csight.ListTargets", "{}" }, { "~csight.Arm", "{\"pid\":$1}" },
	     { "~csight.Arm", "{\"pid\":$3,\"options\":{\"kernel\":true}}" }, { "~csight.Arm", "{\"pid\":$3}" },
	     { "~csight.Pause", "{}" }, { "~csight.Reload", "{}" }, { "~csight.Arm", "{\"pid\":1}" },
	     { "~csight.Snapshot", "{\"pid\":$3,\"with\":[$1],\"noWait\":true}" },
	     { "~csight.Snapshot", "{\"pid\":$3,\"noWait\":true}" }, { "~csight.Keep", ID },
	     { "~csight.Open", "{\"id\":\"$4\",\"file\":\"perfdata\"}" }, { "csight.ListSnapshots", "{}" },
	     { "csight.Status", "{}" });
	SEED({ "~csight.Watch", "{\"pid\":$3,\"trigger\":\"signal 10 exec \\\"echo x\\\"\"}" },
	     { "csight.ListTriggers", "{}" }, { "~csight.ListTriggers", "{}" });
	SEED({ "csight.ArmStanding",
	       "{\"rule\":{\"name\":\"q\",\"unit\":\"a.service\",\"cgroup\":\"/a\"},\"options\":{}}" },
	     { "csight.ArmStanding",
	       "{\"rule\":{\"name\":\"q\",\"unit\":\"a.service\",\"cgroup\":\"/a\"},\"options\":{}}" });
	SEED({ "csight.ArmStanding", "{\"rule\":{}}" }, { "csight.ArmStanding", "{\"rule\":{\"exe\":\"x\"}}" },
	     { "csight.ArmStanding", "{\"rule\":{\"unit\":\"x\"}}" },
	     { "csight.ArmStanding", "{\"rule\":{\"cgroup\":\"x\"}}" }, { "csight.DisarmStanding", "{\"id\":1}" },
	     { "csight.DisarmStanding", "{}" }, { "csight.ArmStanding", "{\"rule\":{\"unit\":\"init.scope\"}}" });
	SEED({ "csight.Snapshot", "{\"pid\":$1,\"noArm\":7}" }, { "csight.Snapshot", "{\"pid\":$1,\"with\":7}" },
	     { "csight.Snapshot", "{\"pid\":$1,\"record\":{\"maxTime\":0}}" },
	     { "csight.Snapshot", "{\"pid\":$1,\"last\":\"\"}" }, { "csight.Snapshot", "{\"pid\":-7}" },
	     { "csight.Snapshot", "{\"pid\":999999999}" }, { "csight.Snapshot", "{\"pid\":1}" },
	     { "csight.Snapshot", "{\"pid\":1,\"with\":[$1]}" }, { "csight.Wait", "{}" },
	     { "csight.Wait", "{\"id\":7}" }, { "csight.Keep", "{\"id\":\"$4\",\"keep\":7}" });
	SEED({ "csight.ListTriggers", "{\"first\":\"\"}" }, { "csight.SetTrigger", "{}" },
	     { "csight.ListSnapshots", "{\"first\":\"\"}" }, { "csight.Nothing", "{}" }, { "other.Nothing", "{}" },
	     { "csight.Arm", "{\"pid\":1,\"options\":7}" },
	     { "varlink.service.GetInterfaceDescription", "{\"interface\":\"org.nothing\"}" },
	     { "varlink.service.GetInterfaceDescription", "{}" },
	     { "csight.Watch", "{\"pid\":1,\"trigger\":\"crash\"}" }, { "csight.Watch", "{\"pid\":$1}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"crash\",\"places\":7}" });
	SEED({ "csight.Watch",
	       "{\"pid\":$1,\"trigger\":\"function f longer-than 5ms\",\"places\":[{\"address\":\"0x1000\","
	       "\"size\":16,\"inode\":7,\"device\":\"8:1\",\"ends\":[\"0x1010\"],\"loops\":true}]}" },
	     { "csight.Watch", "{\"pid\":$1,\"trigger\":\"off-cpu longer-than 5ms once\"}" },
	     { "csight.ListTriggers", "{}" }, { "csight.Snapshot", "{\"pid\":$1,\"noWait\":true}" },
	     { "csight.GetSnapshot", ID }, { "csight.Disarm", "{\"pid\":$1}" }, { "csight.Arm", "{\"pid\":$1}" });
	SEED({ "csight.Pause", "{}" }, { "csight.Disarm", "{\"pid\":$1}" },
	     { "csight.Snapshot", "{\"pid\":$1,\"noWait\":true}" }, { "csight.Arm", "{\"pid\":1}" });
	SEED({ "csight.Subscribe", "{}" },
	     { "varlink.service.GetInterfaceDescription", "{\"interface\":\"org.varlink.service\"}" });
#undef SEED
}

/* A client that has subscribed while another one takes a snapshot, and is refused one. */
static void seed_subscription(void)
{
	static const char text[] =
	    "0{\"method\":\"org.csight.Subscribe\",\"more\":true}\0\n"
	    "~{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":$3,\"noWait\":true}}\0\n"
	    "~{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":1,\"noArm\":true}}";
	static const char other[] =
	    "0~{\"method\":\"org.csight.Subscribe\",\"more\":true}\0\n"
	    "{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":$3,\"noWait\":true}}\0\n"
	    "{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":1,\"noArm\":true}}";

	fuzz_seed(text, sizeof(text));
	fuzz_seed(other, sizeof(other));
}

/* Many calls: of a client that does not read replies while another one waits for its own, and more than limits allow.
 */
static void seed_many(void)
{
	static const char *const calls[][2] = {
		{ "{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":{\"interface\":\"org."
		  "csight\",\"n\":",
		  "}}" },
		{ "{\"method\":\"org.csight.Watch\",\"parameters\":{\"pid\":$1,\"trigger\":\"exit-status ", "\"}}" },
		{ "{\"method\":\"org.csight.Watch\",\"parameters\":{\"pid\":$1,\"trigger\":\"address 1 or address 2 or "
		  "address 3 or address 4 or address 5 or address 1",
		  "\"}}" },
		{ "{\"method\":\"org.csight.ArmStanding\",\"parameters\":{\"rule\":{\"name\":\"q\",\"user\":", "}}}" },
		{ "{\"method\":\"org.csight.Snapshot\",\"oneway\":true,\"parameters\":{\"pid\":$2,\"last\":1", "}}" },
	};
	static const char others[] = "\n~{\"method\":\"org.csight.Status\"}\0\n"
				     "~{\"method\":\"org.csight.ListTriggers\"}\0\n"
				     "~{\"method\":\"org.csight.Subscribe\",\"more\":true}\0\n~{}\0\n~{}";

	for (size_t i = 0; i < ELEMENTS(calls); i++) {
		_cleanup_buf_ struct buf b = { 0 };

		buf_add(&b, "0", 1);
		for (unsigned n = 0; b.size < SMALL / 2; n++) {
			buf_printf(&b, "%s%u%s%c", calls[i][0], n, calls[i][1], 0);
		}
		buf_add(&b, others, sizeof(others));
		fuzz_require(buf_error(&b) == 0);
		fuzz_seed(b.data, b.size);
	}
}

/* A trigger, and hits of its first watches; the last one holds the rings. */
static void seed_hits(const char *trigger, const char *places, uint32_t limits)
{
	_cleanup_buf_ struct buf b = { 0 };
	struct emu_hit h = { .tid = 1, .time_ns = 7, .value = 9, .how = EMU_HIT_RETURNED };

	buf_printf(
	    &b, "2{\"method\":\"org.csight.Watch\",\"parameters\":{\"pid\":$1,\"trigger\":\"%s\",\"places\":[%s]}}%c",
	    trigger, places, 0);
	buf_add(&b, "\xff", 1);
	buf_add(&b, &limits, sizeof(limits));
	for (h.watch = 0; h.watch < 3; h.watch++) {
		h.held = h.watch == 2;
		h.how++;
		buf_add(&b, &h, sizeof(h));
	}
	fuzz_require(buf_error(&b) == 0);
	fuzz_seed(b.data, b.size);
}

static void seed_all_hits(void)
{
	static const char place[] = "{\"address\":\"0x1000\",\"size\":16,\"condition\":0}";

	seed_hits("address 0x400000", "", 0);
	seed_hits("function f longer-than 5ns group tree", place, 0);
	seed_hits("function f longer-than p99", "{\"address\":\"0x1000\",\"go\":\"0x20\",\"ends\":[\"0x1010\"]}", 0);
	seed_hits("signal 10 and address 0x400000 within 5ms", "", 0);
	seed_hits("signal 10 or syscall read once", "", 0);
	seed_hits("address 0x400000 after 1ms max 0", "", 0);
	seed_hits("address 0x400000", "", EMU_CANNOT_RETRANSLATE);
	seed_hits("signal 10", "", EMU_CANNOT_READ_REGISTERS);
	seed_hits("off-cpu longer-than 5ms", "", EMU_KNOWS_OFF_CPU);
	seed_hits("syscall read longer-than p99", "", EMU_KNOWS_P99);
	seed_hits("signal 10 and address 0x400000 within 5ms", "", EMU_KNOWS_JOINS);
	seed_hits("function f longer-than 5ns", "{\"address\":\"0x1000\",\"go\":\"0x20\"}", EMU_KNOWS_GO_CALLS);
}

static void seed_calls(void)
{
	static const char *const calls[][2] = {
		{ "csight.Status", "{}" },
		{ "csight.ListTargets", "{\"first\":0}" },
		{ "csight.Arm", "{\"pid\":$1,\"options\":{\"kernel\":true,\"filter\":\"f\",\"mode\":\"ring\"}}" },
		{ "csight.Arm", "{\"pid\":$2}" },
		{ "csight.Disarm", "{\"pid\":$3}" },
		{ "csight.ArmStanding", "{\"rule\":{\"name\":\"p*\",\"user\":7},\"options\":{\"ringSize\":65536}}" },
		{ "csight.ArmStanding", "{\"rule\":{\"exe\":\"/bin/x\",\"unit\":\"a.service\",\"cgroup\":\"/a\"}}" },
		{ "csight.ArmStanding", "{\"rule\":{\"tree\":$2}}" },
		{ "csight.DisarmStanding", "{\"id\":1}" },
		{ "csight.ListStanding", "{\"first\":0}" },
		{ "csight.Snapshot", "{\"pid\":$1,\"noWait\":true}" },
		{ "csight.Snapshot", "{\"pid\":$1,\"with\":[$2,$3],\"noWait\":true,\"why\":\"w\",\"last\":5,"
				     "\"labels\":[{\"name\":\"group\",\"value\":\"v\"}]}" },
		{ "csight.Snapshot", "{\"pid\":$2,\"with\":[$2,$2,$1],\"noArm\":true}" },
		{ "csight.Snapshot", "{\"pid\":$1,\"with\":[1]}" },
		{ "csight.Snapshot", "{\"pid\":$1,\"record\":{\"maxTime\":1000000,\"maxBytes\":9,\"maxRate\":7}}" },
		{ "csight.Snapshot", "{\"pid\":$2,\"record\":{},\"noWait\":true}" },
		{ "csight.Tail", "{\"pid\":$1,\"maxTime\":1000000}" },
		{ "csight.EndRecording", "{\"id\":\"$4\"}" },
		{ "csight.Wait", "{\"id\":\"$4\"}" },
		{ "csight.ListSnapshots", "{\"first\":1}" },
		{ "csight.GetSnapshot", "{\"id\":\"$4\"}" },
		{ "csight.Open", "{\"id\":\"$4\",\"file\":\"perfdata\"}" },
		{ "csight.Open", "{\"id\":\"$4\",\"file\":\"store\"}" },
		{ "csight.Keep", "{\"id\":\"$4\",\"keep\":true}" },
		{ "csight.Remove", "{\"id\":\"$4\"}" },
		{ "csight.Watch", "{\"pid\":$1,\"trigger\":\"function work longer-than 5ms every 10s group tree\","
				  "\"places\":[{\"address\":\"0x1000\",\"size\":16,\"inode\":7,\"device\":\"8:1\","
				  "\"ends\":[\"0x1010\"],\"loops\":true}]}" },
		{ "csight.Watch", "{\"pid\":$1,\"trigger\":\"signal SEGV once group cgroup keep 3 min-history 1ms\"}" },
		{ "csight.Watch",
		  "{\"pid\":$2,\"trigger\":\"syscall read longer-than p99 max 5 exec \\\"echo x\\\"\"}" },
		{ "csight.Watch", "{\"pid\":$3,\"trigger\":\"address 0x400000 after 1s group unit\"}" },
		{ "csight.Watch", "{\"pid\":$3,\"trigger\":\"exit-status 3\"}" },
		{ "csight.Watch", "{\"pid\":$1,\"trigger\":\"crash or address 0x400000 or function f\","
				  "\"places\":[{\"address\":\"0x1000\",\"condition\":2}]}" },
		{ "csight.Watch",
		  "{\"pid\":$3,\"trigger\":\"signal 10 and address 0x400000 and function f within 5ms max 0\","
		  "\"places\":[{\"address\":\"0x1000\",\"condition\":2}]}" },
		{ "csight.ListTriggers", "{}" },
		{ "csight.SetTrigger", "{\"id\":1,\"enabled\":false}" },
		{ "csight.RemoveTrigger", "{\"id\":1}" },
		{ "csight.Subscribe", "{}" },
		{ "csight.Pause", "{\"pause\":false}" },
		{ "csight.Reload", "{}" },
		{ "varlink.service.GetInfo", "{}" },
		{ "varlink.service.GetInterfaceDescription", "{\"interface\":\"org.csight\"}" },
	};
	static const char two[] =
	    "0{\"method\":\"org.csight.Watch\",\"parameters\":{\"pid\":$1,\"trigger\":\"crash\"}}\0"
	    "{\"method\":\"org.csight.Subscribe\",\"more\":true,\"oneway\":true}\0"
	    "{\"method\":\"org.csight.Nothing\",\"upgrade\":true}";

	for (size_t i = 0; i < ELEMENTS(calls); i++)
		seed_call(calls[i][0], calls[i][1]);
	fuzz_seed(two, sizeof(two));
}

static void seed_entry(const uint8_t *kinds, const struct emu_message *messages, size_t n)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_add(&b, "1", 1);
	for (size_t i = 0; i < n; i++) {
		buf_add(&b, &kinds[i], 1);
		buf_add(&b, &messages[i], sizeof(messages[i]));
	}
	fuzz_require(buf_error(&b) == 0);
	fuzz_seed(b.data, b.size);
}

void fuzz_seeds(void)
{
	static const struct emu_message messages[] = {
		{ .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_HELLO },
		{ .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_FILE, .value = 1 },
		{ .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_HITS },
	};
	static const struct emu_message old = { .magic = EMU_MAGIC, .version = EMU_VERSION - 1, .type = EMU_HELLO };
	static const struct emu_message notes = { .magic = NOTES_MAGIC, .version = NOTES_VERSION };

	seed_calls();
	seed_sequences();
	seed_subscription();
	seed_many();
	seed_all_hits();
	seed_entry((const uint8_t[]){ 1, 5, 0 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 1, 4, 6 | 0x80 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 3, 0, 0 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 2 }, &notes, 1);
	seed_entry((const uint8_t[]){ 6 }, &notes, 1);
	seed_entry((const uint8_t[]){ 1, 0x85, 7 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 7, 5, 0 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 1 }, &old, 1);
	seed_entry((const uint8_t[]){ 1, 3 }, (const struct emu_message[]){ messages[0], notes }, 2);
	seed_entry((const uint8_t[]){ 1, 5 }, (const struct emu_message[]){ messages[0], messages[0] }, 2);
}
