#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Attacks of one user on csightd, and what another user gets meanwhile. Needs root, which acts as both.

usage: attacks.py SOCKET PID-OF-CSIGHTD ATTACK FUSE-DEVICE DIRECTORY [SECONDS]      prints the facts as JSON
       attacks.py seize PID UID
       attacks.py ask SOCKET UID METHOD PARAMETERS
       attacks.py serve FUSE-DEVICE DIRECTORY [OPERATION...]             a file system that does not answer these

A program that attacks registers as csight-etm.so does (lib/emu/ring.h), with memory, logs and files of its choice.
"""
import array, ctypes, errno, fcntl, json, mmap, os, select, signal, socket, struct, sys, threading, time

ATTACKER, VICTIM = 61001, 61002
MAGIC, VERSION = 0x00314d4554455343, 5
HELLO, WELCOME, FILE, HITS = 1, 2, 3, 4
SLOT = struct.Struct("<4I16s8Q24x")
RUNNING, IDLE = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


def become(uid, setuid=False):
    """Acts as a user for good, as `su` does, and unless setuid gains nothing from setuid programs."""
    if not setuid:
        libc.prctl(38, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    libc.prctl(4, 1, 0, 0, 0)  # dumpable again: /proc/self is its own


class Client:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.connect(path)
        self.data = b""

    def send(self, method, parameters=None, **flags):
        call = {"method": "org.csight." + method, "parameters": parameters or {}, **flags}
        self.s.sendall(json.dumps(call).encode() + b"\0")

    def receive(self, timeout=60):
        self.s.settimeout(timeout)
        while b"\0" not in self.data:
            try:
                more = self.s.recv(1 << 16)
            except socket.timeout:
                return {"error": "timeout"}
            except OSError:
                more = b""
            if not more:
                return {"error": "closed"}
            self.data += more
        text, self.data = self.data.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, parameters=None, timeout=60):
        try:
            self.send(method, parameters)
        except OSError:
            return {"error": "closed"}
        return self.receive(timeout)


def call(path, method, parameters=None, timeout=60):
    try:
        return Client(path).call(method, parameters, timeout)
    except OSError as e:
        return {"error": errno.errorcode[e.errno]}


def record_map(path, file=0, inode=1, time_ns=0, addr=1 << 20):
    name = path.encode("utf-8", "surrogateescape") + b"\0"
    name += bytes(-len(name) % 8)
    body = struct.pack("<3Q4IQB20s3x", addr, 4096, 0, 5, file, 8, 1, inode, 0, bytes(20)) + name
    return struct.pack("<2IQ", 1, 16 + len(body), time_ns) + body


# Of struct emu_header, by version; of struct emu_watching.
HEAD_SIZES = {1: 8360, 2: 8376, 3: 8384, 4: 8384, 5: 8392}
WATCHING_SIZE = 119840
# In struct emu_watching: the number of hits, and the ring of them.
N_HITS = 16 + 512 + 64 * 48 + 8 + 64 * 24
HIT, HITS_MAX = struct.Struct("<QIIIIQQQII"), 2048


NOTES_MAGIC, NOTES_SIZE = 0x3145544f4e534300, 128 + 4096 * 128


def seal(fd):
    fcntl.fcntl(fd, 1033, 1 | 2 | 4)  # F_ADD_SEALS: seal, shrink, grow


def map_file(fd, access=mmap.PROT_READ, flags=mmap.MAP_SHARED):
    """Returns the address of a page of the file, none of which is read before it is accessed."""
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.pwrite.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
    return libc.mmap(None, 4096, access, flags, fd, 0)


class Program:
    """A program with rings. Its layout is that of struct emu_header, of versions 1 and 2 as well, to attack earlier builds."""

    def __init__(self, path, threads=1, rings=4, ring_size=64 << 10, slot_size=128, log=b"", log_size=None, state=IDLE,
                 bytes_each=64, version=VERSION):
        self.path, self.version = path + ".emu", version
        head = HEAD_SIZES[version]
        self.hits = head + N_HITS
        slots = head + (WATCHING_SIZE if version > 2 else 0)
        log_size = (len(log) if log_size is None else log_size) + 7 & ~7
        self.slots, self.slot_size = slots, slot_size
        log_at = slots + rings * slot_size
        self.log, self.log_head = log_at, 8344 if version > 1 else 8336
        rings_at = log_at + log_size + 4095 & ~4095
        size = rings_at + rings * ring_size
        self.fd = os.memfd_create("attack", os.MFD_CLOEXEC | 2)
        os.ftruncate(self.fd, size)
        os.pwrite(self.fd, struct.pack("<QIIQIIQQQQQ", MAGIC, version, head, size, rings, slot_size, slots, log_at, log_size,
                                       rings_at, ring_size), 0)
        os.pwrite(self.fd, struct.pack("<IIQ16s", os.getpid(), 0, time.monotonic_ns(), b"attacker"), 104)
        os.pwrite(self.fd, b"/bin/attacker", 136)
        os.pwrite(self.fd, struct.pack("<Q", len(log)), self.log_head)
        if version > 2:
            os.pwrite(self.fd, struct.pack("<Q", head), 8376)
        os.pwrite(self.fd, log, log_at)
        for n in range(threads):
            os.pwrite(self.fd, SLOT.pack(state, 0, 1000 + n, n, b"thread", 1, 0, bytes_each, 0, 0, 1, 1, 0),
                      slots + n * slot_size)
            os.pwrite(self.fd, bytes(bytes_each), rings_at + n * ring_size)

    def hello(self, seals=True):
        """Returns what csightd answers: 0, or why it refuses."""
        if seals:
            seal(self.fd)
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.connect(self.path)
        self.send(HELLO, 0, self.fd)
        got = self.s.recv(64)
        return struct.unpack("<QIIq", got)[3] if got else None

    def map(self):
        self.memory = mmap.mmap(self.fd, 0)

    def put_hit(self, n, number, watch, trigger):
        HIT.pack_into(self.memory, self.hits + 8 + n * HIT.size, number, watch, trigger, 0, 0, 0, 0, time.monotonic_ns(), 0, 0)

    def put_hits(self, n):
        struct.pack_into("<Q", self.memory, self.hits, n)

    def send(self, kind, value, *fds):
        socket.send_fds(self.s, [struct.pack("<QIIq", MAGIC, self.version, kind, value)], fds)


def version_of(path):
    """The version of the rings that this csightd accepts."""
    for version in (5, 4, 3, 2, 1):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if Program(path, version=version).hello() == 0 else 1)
        if os.waitpid(pid, 0)[1] == 0:
            return version
    raise SystemExit("csightd accepts no program")


class Silent:
    """A file system in user space with one file, /file, which never answers what is in `silent`."""
    INIT, LOOKUP, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH = 26, 1, 3, 14, 15, 17, 18, 25
    FORGET, BATCH_FORGET, INTERRUPT = 2, 42, 36

    def __init__(self, device, where, silent, own_namespace=True):
        self.silent = silent
        if own_namespace:
            uid, gid = os.geteuid(), os.getegid()
            if libc.unshare(0x10000000 | 0x20000) != 0:
                raise OSError(ctypes.get_errno(), "unshare")
            for name, text in ("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid)):
                with open("/proc/self/" + name, "w") as f:
                    f.write(text)
        self.fd = os.open(device, os.O_RDWR)
        options = "fd=%d,rootmode=40000,user_id=%d,group_id=%d" % (self.fd, os.geteuid(), os.getegid())
        if not own_namespace:
            options += ",allow_other"
        if libc.mount(b"silent", where.encode(), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        # A process of its own: one that closes a file which it serves itself would wait for ever.
        if os.fork() == 0:
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)
            self.serve()
            os._exit(0)
        os.close(self.fd)

    def attributes(self, node):
        mode = 0o040755 if node == 1 else 0o100755
        return struct.pack("<6Q10I", node, 0 if node == 1 else 8192, 16, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def serve(self):
        while True:
            try:
                q = os.read(self.fd, 1 << 17)
            except OSError:
                return
            _, op, unique, node = struct.unpack_from("<IIQQ", q)
            if op in self.silent or op in (self.FORGET, self.BATCH_FORGET, self.INTERRUPT):
                continue
            error, out = 0, b""
            if op == self.INIT:
                out = struct.pack("<4I2HI", 7, 26, 65536, 0, 16, 12, 65536) + struct.pack("<I2H8I", 1, 1, 0, *[0] * 8)
            elif op == self.LOOKUP:
                if q[40:].split(b"\0")[0] == b"file":
                    out = struct.pack("<4Q2I", 2, 0, 3600, 3600, 0, 0) + self.attributes(2)
                else:
                    error = -errno.ENOENT
            elif op == self.GETATTR:
                out = struct.pack("<Q2I", 3600, 0, 0) + self.attributes(node)
            elif op == self.OPEN:
                out = struct.pack("<Q2I", 1, 0, 0)
            elif op == self.READ:
                out = bytes(4096)
            elif op == self.STATFS:
                out = bytes(80)
            try:
                os.write(self.fd, struct.pack("<IiQ", 16 + len(out), error, unique) + out)
            except OSError:
                pass


# The attacks. Each runs as the attacker, calls ready(facts) once it is under way, and goes on until it is ended.

class Attack:
    def __init__(self, path, version, device, where):
        self.path, self.version, self.device, self.where = path, version, device, where

    def program(self, **options):
        """A target of a process of its own, since a process is one target. The process keeps what it returns open."""
        return self.programs(1, **options)

    def programs(self, n, then=None, **options):
        pids = []
        for _ in range(n):
            r, w = os.pipe()
            pid = os.fork()
            if pid == 0:
                libc.prctl(1, signal.SIGKILL, 0, 0, 0)
                p = Program(self.path, version=self.version, **options)
                os.write(w, b"%d" % p.hello())
                if then:
                    then(p)
                signal.pause()
            os.close(w)
            said = os.read(r, 32)
            os.close(r)
            if said == b"0":
                pids.append(pid)
        return pids

    def repeat(self, connections, method, parameters=lambda: {}, deep=8):
        """Pipelines calls on several connections, and reads what comes back."""
        open_ones = []
        while True:
            while len(open_ones) < connections:
                try:
                    c = Client(self.path)
                    for _ in range(deep):
                        c.send(method, parameters())
                    open_ones.append(c)
                except OSError:
                    time.sleep(0.05)
                    break
            for c in select.select([c.s for c in open_ones], [], [], 0.2)[0]:
                client = next(o for o in open_ones if o.s is c)
                try:
                    if not c.recv(1 << 20):
                        raise OSError
                    if client.data.count(b"\0") == 0:
                        client.send(method, parameters())
                except OSError:
                    open_ones.remove(client)

    def none(self, ready):
        ready({})
        signal.pause()

    def lists(self, ready):
        """Lists of programs with many threads, in memory that is sparse."""
        size = 4080 if self.version == 1 else 128
        n = self.programs(64, rings=4096, slot_size=size, threads=16) + self.programs(16, rings=4096, threads=4096, bytes_each=1)
        before = time.monotonic()
        got = call(self.path, "ListTargets")
        ready({"targets": len(n), "seconds": round(time.monotonic() - before, 2), "error": got.get("error")})
        self.repeat(14, "ListTargets")

    def names(self, ready):
        """A snapshot of a program that has mapped 1024 files with names of 4 KB and handed over none of them."""
        log = b"".join(record_map("/" + "%04d" % n + "\x01" * 4080, inode=n) for n in range(1024))
        pid = self.program(log=log)[0]
        got = [call(self.path, "Snapshot", {"pid": pid, "noWait": True}).get("error") for _ in range(3)]
        ready({"snapshots": got, "list": call(self.path, "ListSnapshots").get("error")})
        signal.pause()

    def maps(self, ready):
        """Snapshots of a program whose log has 64 K mappings of files whose names differ at their ends."""
        log = b"".join(record_map("/" + "a" * 4000 + "%06d" % (n % 1024), inode=7, file=3) for n in range(60000))
        pid = self.program(log=log)[0]
        ready({})
        while True:
            call(self.path, "Snapshot", {"pid": pid, "noWait": True})

    def freeze(self, ready):
        """Snapshots of programs that never stop to trace."""
        pids = self.programs(8, state=RUNNING)
        ready({"targets": len(pids)})
        n = iter(range(1 << 30))
        self.repeat(14, "Snapshot", lambda: {"pid": pids[next(n) % len(pids)], "noWait": True}, 1)

    def flood(self, ready):
        """Messages of a program without end, with descriptors that are no files."""
        def then(p):
            r, _ = os.pipe()
            for _ in range(2):
                os.fork()
            while True:
                try:
                    p.send(FILE, 5, r)
                except OSError:
                    time.sleep(1)
        pids = self.programs(4, then=then)
        ready({"targets": len(pids)})
        while True:
            call(self.path, "Snapshot", {"pid": pids[0], "noWait": True})
            time.sleep(0.1)

    def slow(self, ready):
        """Clients that ask for much, and read a byte a second."""
        self.programs(64, rings=4096, threads=64)
        all = []
        for _ in range(15):
            c = Client(self.path)
            c.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            for _ in range(64):
                c.send("ListTargets")
            all.append(c)
        ready({})
        left = len(all)
        while True:
            for c in list(all):
                try:
                    if not c.s.recv(1):
                        raise OSError
                except OSError:
                    all.remove(c)
            time.sleep(1)

    def unfinished(self, ready):
        """A message that never ends."""
        c = Client(self.path)
        c.s.sendall(b"{")
        ready({"reply": c.receive(60)["error"]})
        signal.pause()

    def fuse(self, ready, n=1100):
        """Files of a file system in user space that answers no close of them."""
        Silent(self.device, self.where, {Silent.FLUSH})
        programs = []
        sent = 0
        libc.prctl(4, 1, 0, 0, 0)
        while sent < n:
            p = Program(self.path, version=self.version)
            try:
                if p.hello() != 0:
                    break
                for i in range(min(n - sent, 1100)):
                    p.send(FILE, 1 + i, os.open(self.where + "/file", os.O_RDONLY))
                    sent += 1
            except OSError as e:
                break
            programs.append(p)
        ready({"sent": sent, "targets": len(programs)})
        while True:
            time.sleep(1)

    def stuck(self, ready):
        """A file that csightd cannot close, for longer than it waits for the user's files, and then a snapshot."""
        Silent(self.device, self.where, {Silent.FLUSH})
        p = Program(self.path, version=self.version)
        hello = p.hello()
        p.send(FILE, 1, os.open(self.where + "/file", os.O_RDONLY))
        time.sleep(7)
        ready({"hello": hello, "error": call(self.path, "Snapshot", {"pid": os.getpid(), "noWait": True}).get("error")})
        signal.pause()

    def stick(self):
        """A thread of csightd waits for a file system, without end."""
        Silent(self.device, self.where, {Silent.FLUSH})
        p = Program(self.path)
        p.hello()
        p.send(FILE, 1, os.open(self.where + "/file", os.O_RDONLY))
        time.sleep(1)
        p.s.close()
        print("stuck", flush=True)
        signal.pause()

    def locked(self, ready):
        """Memory whose file is locked, by a write to it from memory of a file system that does not answer."""
        Silent(self.device, self.where, {Silent.READ})
        silent = map_file(os.open(self.where + "/file", os.O_RDONLY))

        def lock(fd):
            seal(fd)
            if os.fork() == 0:
                libc.prctl(1, signal.SIGKILL, 0, 0, 0)
                libc.pwrite(fd, silent, 8, 8)
                os._exit(0)
            time.sleep(0.2)
        p = Program(self.path)
        lock(p.fd)
        notes = os.memfd_create("notes", os.MFD_CLOEXEC | 2)
        os.ftruncate(notes, NOTES_SIZE)
        lock(notes)
        got = [p.hello(seals=False)]
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(self.path + ".emu")
        socket.send_fds(s, [struct.pack("<QIIq", NOTES_MAGIC, 1, 0, 0)], [notes])
        got += [len(s.recv(64))]
        got += [call(self.path, method, {"pid": os.getpid(), **more}, 20).get("error") for method, more in (
            ("Watch", {"trigger": "signal SIGHUP"}), ("Snapshot", {"noWait": True}), ("Disarm", {}), ("Arm", {}))]
        ready({"got": got})
        signal.pause()

    def large(self, ready):
        """A program ends whose memory is larger than the history that is kept. For how long is it freed, and waits a call?"""
        size, zeros = 1100 << 20, bytes(1 << 20)

        def fill(fd, at):
            for n in range(0, size, len(zeros)):
                os.pwrite(fd, zeros, at + n)

        def ends(p):
            fill(p.fd, 1 << 20)
            os.close(p.fd)
            p.s.close()
        fd = os.memfd_create("large", os.MFD_CLOEXEC)
        fill(fd, 0)
        before = time.monotonic()
        os.close(fd)
        freed, longest = time.monotonic() - before, 0
        pid, go = self.waiting_program(ends, rings=18, ring_size=64 << 20)
        os.write(go, b"x")
        c = Client(self.path)
        ended = None
        while not ended or time.monotonic() - ended < 1:
            if not ended and os.waitpid(pid, os.WNOHANG)[0]:
                ended = time.monotonic()
            began = time.monotonic()
            c.call("Status")
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.001)
        ready({"freed_ms": round(1000 * freed), "waited_ms": round(1000 * longest)})
        signal.pause()

    def unclosed(self, ready):
        """Programs that end one after another, while what closes their memory waits for a file system."""
        Silent(self.device, self.where, {Silent.FLUSH})
        self.program(then=lambda p: p.send(FILE, 1, os.open(self.where + "/file", os.O_RDONLY)))
        time.sleep(0.5)
        accepted = 0
        for _ in range(600):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if Program(self.path, threads=0, rings=1).hello() == 0 else 1)
            accepted += os.waitpid(pid, 0)[1] == 0
        ready({"accepted": accepted})
        signal.pause()

    def directory(self, ready):
        """A perf map in a directory that is locked, by a list of it in memory of a file system that does not answer."""
        Silent(self.device, self.where, {Silent.READ})
        silent = map_file(os.open(self.where + "/file", os.O_RDONLY), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE)

        def then(p):
            libc.unshare(0x20000)
            libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None)
            if os.fork() == 0:
                libc.prctl(1, signal.SIGKILL, 0, 0, 0)
                libc.syscall(217, os.open("/tmp", os.O_RDONLY), ctypes.c_void_p(silent), 4096)  # getdents64()
                os._exit(0)
            time.sleep(0.2)
            if os.fork() == 0:
                libc.prctl(1, signal.SIGKILL, 0, 0, 0)
                os.mkdir("/tmp/new")
                os._exit(0)
            time.sleep(0.2)
            os.write(w, b"x")
        r, w = os.pipe()
        code = struct.pack("<2I3Q4s4x", 2, 40, 0, 1 << 20, 4, b"code")
        pid = self.program(log=code, then=then)[0]
        os.read(r, 1)
        threading.Thread(target=call, args=(self.path, "Snapshot", {"pid": pid, "noWait": True})).start()
        time.sleep(0.5)
        ready({})
        signal.pause()

    def read_locked(self, ready):
        """An image and a perf map on XFS whose locks are kept, by writes from memory of a file system that does not answer."""
        Silent(self.device, self.where, {Silent.READ})
        silent = map_file(os.open(self.where + "/file", os.O_RDONLY))
        xfs = self.where + ".xfs"

        def lock(path):
            with open("/bin/true", "rb") as f, open(path, "wb") as to:
                to.write(f.read())
            fd = os.open(path, os.O_RDWR)
            if os.fork() == 0:
                libc.prctl(1, signal.SIGKILL, 0, 0, 0)
                libc.pwrite(fd, silent, 8, 8)
                os._exit(0)
            return os.open(path, os.O_RDONLY)

        def then(p):
            libc.unshare(0x20000)
            libc.mount(xfs.encode(), b"/tmp", None, 0x1000, None)
            p.send(FILE, 1, lock("/tmp/image"))
            lock("/tmp/perf-%d.map" % os.getpid())
            time.sleep(0.2)
            os.write(w, b"x")
        r, w = os.pipe()
        code = struct.pack("<2I3Q4s4x", 2, 40, 0, 1 << 20, 4, b"code")
        pid = self.program(log=code + record_map("/tmp/image", file=1), then=then)[0]
        os.read(r, 1)
        got = call(self.path, "Snapshot", {"pid": pid}, 30)
        snapshot = got.get("parameters", {}).get("snapshot", {})
        ready({"state": snapshot.get("state"), "missing": snapshot.get("missing")})
        signal.pause()

    def fuse_flood(self, ready):
        """The same, as many as the daemon has descriptors."""
        Silent(self.device, self.where, {Silent.FLUSH})
        fds = [os.open(self.where + "/file", os.O_RDONLY) for _ in range(64)]
        sent = refused = 0
        end = time.monotonic() + 2
        told = False
        while True:
            p = Program(self.path, version=self.version)
            try:
                if p.hello() != 0:
                    raise OSError
                for _ in range(4000):
                    p.send(FILE, 1 + sent, fds[0])
                    sent += 1
            except OSError:
                refused += 1
                time.sleep(0.02)
            if not told and time.monotonic() > end:
                told = True
                ready({"sent": sent, "refused": refused})


    def waiting_program(self, then=lambda p: None, threads=0, rings=1, **options):
        """A target that calls then() once it gets a byte, and ends."""
        said, say = os.pipe()
        wait, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(go)
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)
            p = Program(self.path, threads=threads, rings=rings, **options)
            os.write(say, b"%d" % p.hello())
            os.read(wait, 1)
            then(p)
            os._exit(0)
        for fd in say, wait:
            os.close(fd)
        assert os.read(said, 16) == b"0"
        os.close(said)
        return pid, go

    def end(self, pid, go):
        os.write(go, b"x")
        os.close(go)
        os.waitpid(pid, 0)

    def forgotten(self, ready):
        """Calls about the oldest process that has ended, while others end or execute a setuid program, and take its place."""
        def change_user(p):
            os.dup2(os.open("/dev/null", os.O_RDWR), 0)
            os.dup2(0, 1)
            os.dup2(0, 2)
            os.set_inheritable(p.s.fileno(), True)
            os.execv("/bin/su", ["su", "-c", "true"])

        def ask(pid, live):
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)
            self.repeat(4, "Snapshot", lambda: {"pid": pid, "noArm": True, "noWait": True, "with": [live] * 250}, 2)
        rounds = 0
        for _ in range(4):
            for _ in range(8):
                self.end(*self.waiting_program())
            first = next(t["pid"] for t in call(self.path, "ListTargets")["parameters"]["targets"] if not t["running"])
            other, live = self.waiting_program(change_user), self.waiting_program()
            asking = os.fork()
            if asking == 0:
                ask(first, live[0])
            time.sleep(0.1)
            os.write(other[1], b"x")
            time.sleep(0.3)
            os.kill(asking, signal.SIGKILL)
            os.waitpid(asking, 0)
            os.waitpid(other[0], 0)
            self.end(*live)
            rounds += call(self.path, "Status", timeout=10).get("error") is None
        ready({"rounds": rounds})
        signal.pause()

    def endings(self, ready):
        """A trigger that ends with its process, as the oldest of more that have ended than are kept."""
        first = self.waiting_program()
        c = Client(self.path)
        got = [c.call("Watch", {"pid": first[0], "trigger": "exit"}).get("error")]
        other = self.waiting_program()
        got += [c.call("Watch", {"pid": other[0], "trigger": "exit"}).get("error") for _ in range(17)]
        self.end(*other)
        time.sleep(1)
        self.end(*first)
        time.sleep(1)
        left = c.call("ListTriggers").get("parameters", {}).get("triggers", [])
        ready({"refused": [e for e in got if e], "left": [t["state"] for t in left]})
        signal.pause()

    def replaced(self, ready):
        """Hits of a trigger that arrive while its process registers again, so that its target has just ended."""
        p, c = Program(self.path, threads=0, rings=1), Client(self.path)
        p.map()
        p.hello()
        trigger, other = (c.call("Watch", {"pid": os.getpid(), "trigger": t})["parameters"]["trigger"]["id"]
                          for t in ("crash or signal SIGHUP", "exit"))
        last = 1 << 40
        for n in range(HITS_MAX):
            p.put_hit(n, 1 << 60, 0, 0)
        for n in range(256):
            p.put_hit(n, last + n + 1, 0, trigger)
        flag = mmap.mmap(-1, 4096)
        if os.fork() == 0:
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)
            while True:
                try:
                    p.send(HITS, 0)
                except OSError:
                    os._exit(0)
        if os.fork() == 0:
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)
            n = 0
            while not flag[0]:
                n += HITS_MAX
                p.put_hits(n)
            p.put_hits(last + 256)
            os._exit(0)
        time.sleep(0.5)
        again = Program(self.path, threads=0, rings=1)
        again.map()

        def when_it_is_read():
            while again.memory[HEAD_SIZES[VERSION]] == 0:
                pass
            time.sleep(0.005)
            flag[0] = 1
        t = threading.Thread(target=when_it_is_read)
        t.start()
        rc = again.hello()
        t.join()
        time.sleep(1)
        left = c.call("ListTriggers").get("parameters", {}).get("triggers", [])
        ready({"hello": rc, "left": [t["state"] for t in left if t["id"] in (trigger, other)],
               "exits": [t["hits"] for t in left if t["id"] == other]})
        signal.pause()

    def unread(self, ready):
        """A process that ends with a hit that is not read yet, whose snapshot fails."""
        c = Client(self.path)

        def hit(p):
            got = call(self.path, "Watch", {"pid": os.getpid(), "trigger": "exit or signal SIGHUP"})
            p.map()
            p.put_hit(0, 1, 0, got["parameters"]["trigger"]["id"])
            p.put_hits(1)
        pid, go = self.waiting_program(hit)
        self.end(pid, go)
        until, left = time.monotonic() + 10, []
        while time.monotonic() < until and not (left and left[0]["state"] == "ended"):
            left = [t for t in c.call("ListTriggers")["parameters"]["triggers"] if t["pid"] == pid]
            time.sleep(0.05)
        ready({"ended": left[0]["state"] == "ended", "exits": left[0]["conditions"][0]["hits"]})
        signal.pause()

    def hits(self, ready):
        """Programs that report as many hits as their rings hold, with each of their messages."""
        self.wait_for_ends()
        def then(p):
            p.map()
            call(self.path, "Watch", {"pid": os.getpid(), "trigger": "signal SIGHUP"})
            for n in range(HITS_MAX):
                p.put_hit(n, 1 << 60, 0, 0)
            n = 0
            while True:
                n += HITS_MAX
                p.put_hits(n)
                p.send(HITS, 0)
        ready({"targets": len(self.programs(64, then, threads=0, rings=1))})
        signal.pause()

    def wait_for_ends(self):
        """Until csightd knows that the processes of the attack before have ended."""
        while any(t["running"] for t in call(self.path, "ListTargets")["parameters"]["targets"]):
            time.sleep(0.05)

    def tree(self, depth, leaves):
        """A process, below others, that has many targets as children."""
        r, w = os.pipe()
        if os.fork() == 0:
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)
            for _ in range(depth):
                if os.fork():
                    signal.pause()
                libc.prctl(1, signal.SIGKILL, 0, 0, 0)
            os.write(w, b"%d" % len(self.programs(leaves, rings=1)))
            signal.pause()
        os.close(w)
        return int(os.read(r, 16))

    def group(self, ready):
        """64 hits at once of triggers of a tree of processes, where many others are deep in another tree."""
        self.wait_for_ends()
        targets, triggers = self.tree(62, 250), []
        p, c = Program(self.path, rings=1), Client(self.path)
        p.map()
        p.hello()
        for _ in range(64):
            got = c.call("Watch", {"pid": os.getpid(), "trigger": "signal SIGHUP group tree"})
            triggers.append(got["parameters"]["trigger"]["id"])
        for n, trigger in enumerate(triggers):
            p.put_hit(n, n + 1, n, trigger)
        p.put_hits(len(triggers))
        p.send(HITS, 0)
        ready({"targets": targets})
        signal.pause()

    def rules(self, ready):
        """Standing targets of many trees, set and removed without end, while many targets are deep in another tree."""
        self.wait_for_ends()
        targets, roots, c = self.tree(200, 250), [], Client(self.path)
        for _ in range(8):
            pid = os.fork()
            if pid == 0:
                libc.prctl(1, signal.SIGKILL, 0, 0, 0)
                signal.pause()
            roots.append(pid)
        ready({"targets": targets})
        while True:
            ids = [c.call("ArmStanding", {"rule": {"tree": pid}})["parameters"]["standing"]["id"] for pid in roots]
            for i in ids:
                c.call("DisarmStanding", {"id": i})

    def refusals(self, ready):
        """Registrations that are refused, and snapshots that fail."""
        pid, go = self.waiting_program()
        self.end(pid, go)
        c = Client(self.path)
        for n in range(1 << 30):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(self.path + ".emu")
            s.send(struct.pack("<QIIq", MAGIC, 99, 1, 0))
            s.recv(64)
            s.close()
            c.call("Snapshot", {"pid": pid, "noArm": True})
            if n == 300:
                ready({"refused": n})


def facts_of(pid):
    with open("/proc/%d/status" % pid) as f:
        fields = dict(line.split(":", 1) for line in f)
    rss = int(fields["VmRSS"].split()[0])
    return {"rss_kib": rss, "fds": len(os.listdir("/proc/%d/fd" % pid))}


def start(run):
    """Runs in a process group of its own, and returns it with what it says first."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(r)
        try:
            run(lambda facts: os.write(w, json.dumps(facts).encode()))
        except BaseException as e:
            os.write(w, json.dumps({"failed": repr(e)}).encode())
        os._exit(0)
    os.close(w)
    said = b""
    if select.select([r], [], [], 120)[0]:
        said = os.read(r, 65536)
    os.close(r)
    return pid, json.loads(said or b"{}")


def end(pid):
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def victim(path, version, seconds, say):
    """Measures Status for some seconds, and makes one snapshot of a program of its own."""
    become(VICTIM)
    waits, refused = [], 0
    p = Program(path, version=version, log=record_map("/bin/true", file=1))
    out = {"program": p.hello()}
    done = {}
    if out["program"] == 0:
        p.send(FILE, 1, os.open("/bin/true", os.O_RDONLY))

    def snapshot():
        before = time.monotonic()
        got = call(path, "Snapshot", {"pid": os.getpid()}, 60)
        snapshot = got.get("parameters", {}).get("snapshot", {})
        done.update(state=snapshot.get("state") or got.get("error"), seconds=round(time.monotonic() - before, 2),
                    missing=snapshot.get("missing"))
    t = threading.Thread(target=snapshot)
    t.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until or t.is_alive():
        before = time.monotonic()
        got = call(path, "Status", timeout=30)
        waits.append(time.monotonic() - before)
        refused += "error" in got
        time.sleep(0.01)
    waits.sort()
    out.update(calls=len(waits), refused=refused, p99_ms=round(1000 * waits[int(len(waits) * 0.99)], 1),
               snapshot=done.get("state"), snapshot_seconds=done.get("seconds"), missing=done.get("missing"),
               kept=len(call(path, "ListSnapshots").get("parameters", {}).get("snapshots", [])))
    say(out)


def run(path, daemon, name, device, where, seconds=1.0):
    """Attacks, measures the victim meanwhile, ends the attack, and returns the facts."""
    version = version_of(path)

    def attack(say):
        become(ATTACKER, setuid=name == "forgotten")
        getattr(Attack(path, version, device, where), name)(say)
    attacker, said = start(attack)
    b, got = start(lambda say: victim(path, version, seconds, say))
    end(b)
    root = call(path, "ListSnapshots", timeout=10).get("error")
    facts = facts_of(daemon)
    end(attacker)
    after = call(path, "Status", timeout=30).get("error")
    return {"attack": name, "attacker": said, "victim": got, "root_list": root, "after": after, **facts}


def serve(device, where, silent):
    """Mounts a file system for all, as root, which does not answer what is named, and serves it until it is ended."""
    Silent(device, where, {getattr(Silent, name) for name in silent}, own_namespace=False)
    print("mounted", flush=True)
    signal.pause()


def seize(pid, uid):
    """Prints whether a process of this user may attach to the process as a debugger."""
    become(uid)
    ok = libc.ptrace(0x4206, pid, 0, 0) == 0
    print("seized" if ok else errno.errorcode[ctypes.get_errno()])


if __name__ == "__main__" and sys.argv[1] == "serve":
    serve(sys.argv[2], sys.argv[3], sys.argv[4:])
elif __name__ == "__main__" and sys.argv[1] == "seize":
    seize(int(sys.argv[2]), int(sys.argv[3]))
elif __name__ == "__main__" and sys.argv[1] == "stick":
    become(int(sys.argv[3]))
    Attack(sys.argv[2], VERSION, *sys.argv[4:6]).stick()
elif __name__ == "__main__" and sys.argv[1] == "ask":
    become(int(sys.argv[3]))
    print(call(sys.argv[2], sys.argv[4], json.loads(sys.argv[5])).get("error"))
elif __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), sys.argv[3], *sys.argv[4:6], *map(float, sys.argv[6:]))))
