/* SPDX-License-Identifier: MIT */
/*
 * csightd as a whole: its control socket, and the socket at which programs register. Bit 0 of the first byte chooses
 * the socket; bit 1, hits of watch points, which are written to the rings of a target instead. In a message of the
 * control socket, $1 to $4 are replaced (csightd.h). After each input csightd still replies to another client.
 */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/notes/notes.h"
#include "tests/fuzz/csightd.h"
#include "tests/fuzz/fuzz.h"

enum { SMALL = 16 << 10, MESSAGES = 32 };

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
	default:
		return -1;
	}
}

static void enter(const uint8_t *data, size_t size)
{
	int fd = fuzz_connect(fuzz_csightd.emu, SOCK_SEQPACKET);
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

/* Hits, and their counts, in the rings of this process. */
static void hit(const uint8_t *data, size_t size)
{
	const struct emu_header *h = (const struct emu_header *)fuzz_csightd.rings;
	size_t at = offsetof(struct emu_watching, held_ns);

	memcpy(fuzz_csightd.rings + h->watching_offset + at, data, MIN(size, sizeof(struct emu_watching) - at));
	fuzz_send_message(fuzz_csightd.target, EMU_HITS, 0, -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > SMALL)
		return 0;
	fuzz_csightd_begin(NULL);
	if (data[0] & 2)
		hit(data + 1, size - 1);
	else if (data[0] & 1)
		enter(data + 1, size - 1);
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
	static const struct emu_message notes = { .magic = NOTES_MAGIC, .version = NOTES_VERSION };
	static uint8_t hits[4096] = { 2 };
	struct emu_hit h = { .number = 1, .trigger = 1, .tid = 1, .time_ns = 7, .value = 9 };
	uint64_t one = 1;

	seed_calls();
	seed_entry((const uint8_t[]){ 1, 5, 0 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 1, 4, 6 | 0x80 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 3, 0, 0 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 2 }, &notes, 1);
	seed_entry((const uint8_t[]){ 6 }, &notes, 1);
	memcpy(hits + 1 + offsetof(struct emu_watching, n_hits) - offsetof(struct emu_watching, held_ns), &one, 8);
	memcpy(hits + 1 + offsetof(struct emu_watching, hits) - offsetof(struct emu_watching, held_ns), &h, sizeof(h));
	fuzz_seed(hits, sizeof(hits));
}
