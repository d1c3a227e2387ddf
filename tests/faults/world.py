# SPDX-License-Identifier: MIT
"""A daemon with a target and a snapshot, whose processes have the shim, and the judgement of what faults leave."""
import json, os, re, shutil, signal, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../daemon"))
from attacks import Client
from control import Control

# What lasts longer hangs: a machine that others use as well may need many seconds for each step.
LIMIT = 60
# What each message of a failure must have: a cause, which is that of the fault or what it led to.
CAUSE = re.compile(r"memory|No space|Input/output|Too many open|temporarily unavailable|reset by peer|buffer space|not reply|"
                   r"no csightd answers|closed the connection|ended|status \d|signal \d|protocol|cannot|short|truncat|damaged|"
                   r"incomplete|not a ", re.I)


class Defect(Exception):
    pass


def id_of(out):
    """The ID that `csight snapshot --json` has printed, or the program library."""
    o = json.loads(out)
    return o.get("snapshot", o)["id"]


class World:
    def __init__(self, build, work):
        self.build, self.work = map(os.path.abspath, (build, work))
        self.guest = self.build + "/tests/faults/guest"
        self.socket, self.spool = self.work + "/run/csight.sock", self.work + "/spool"
        os.makedirs(self.work + "/run", 0o755, True)
        self.control = Control(self.work + "/control")
        self.copy = self.work + "/copy"
        self.daemon = self.target = self.snapshot = self.first = None
        self.log = self.work + "/daemon.log"
        preload = self.build + "/tests/faults/shim.so"
        self.environment = dict(os.environ, CSIGHT_SOCKET=self.socket, CSIGHT_FAULTS=self.control.path, LD_PRELOAD=preload,
                                CSIGHT_CACHE_MAX="0", LC_ALL="C.UTF-8")
        self.plain = {k: v for k, v in self.environment.items() if k not in ("LD_PRELOAD", "CSIGHT_FAULTS")}

    # The daemon

    def spawn(self, *options):
        log = open(self.log, "ab")
        self.daemon = subprocess.Popen([self.build + "/csightd", "--socket", self.socket, "--spool", self.spool, "--verbose",
                                        "--capture=emu", "--set=history-targets=1", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=self.environment)
        log.close()

    def ready(self, limit=LIMIT):
        """Waits until the daemon answers: False if it ended instead."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self.daemon.poll() is not None:
                return False
            try:
                if "error" not in Client(self.socket).call("Status", timeout=2):
                    return True
            except OSError:
                pass
            time.sleep(0.005)
        raise Defect("csightd does not answer")

    def start(self, *options):
        self.spawn(*options)
        if not self.ready():
            raise Defect("csightd does not start")

    def died(self):
        """Whether the daemon is about to be dead, or is."""
        try:
            self.daemon.wait(1)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self):
        """Ends the daemon as an administrator does, and checks how it ends."""
        if not self.daemon:
            return
        daemon, self.daemon = self.daemon, None
        daemon.send_signal(signal.SIGTERM)
        try:
            status = daemon.wait(LIMIT)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
            raise Defect("csightd does not end")
        if status != 0 and not (status == -signal.SIGKILL and self.control.killed()):
            raise Defect("csightd ended with %d" % status)

    def end(self):
        for p in self.target, self.daemon:
            if p and p.poll() is None:
                p.kill()
                p.wait()
        self.daemon = self.target = None

    def revive(self):
        """Another daemon for the same spool, as systemd starts one; with a target of its own."""
        if self.daemon and self.daemon.poll() is None:
            self.stop()
        self.start()
        self.target.kill()
        self.target.wait()
        self.run_target()
        self.begin()

    def restart(self):
        self.control.off()
        self.end()
        shutil.rmtree(self.spool, True)
        self.start()

    def restart_all(self):
        """Begins anew after a defect, or for the first time. The first snapshot returns: which sites its export reaches
        depends on what the target did just then."""
        self.control.off()
        self.end()
        shutil.rmtree(self.spool, True)
        if self.first:
            subprocess.run(["cp", "-a", self.copy, self.spool], check=True)
            self.start()
            self.run_target()
            self.snapshot = self.first
            self.begin()
            return
        self.start_all()
        self.first = self.snapshot
        subprocess.run(["cp", "-a", self.spool, self.copy], check=True)
        for name in set(os.listdir(self.copy)) - {self.first, "images"}:
            path = self.copy + "/" + name
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def start_all(self, *options):
        self.start(*options)
        self.run_target()
        # On a busy machine it may not yet have run a function from its beginning to its end.
        for _ in range(20):
            self.snapshot = self.take()
            self.settle()
            if self.csight("explain", "turn", self.snapshot, faults=False)[0] == 0:
                break
            self.ask("Remove", {"id": self.snapshot})
        self.begin()

    def begin(self):
        """Measures what the daemon has when it is idle, with one target that has ended, whose history it keeps."""
        self.settle()
        self.csight("run", "--emu", "--ring-size", "64K", "--", self.guest, "once", faults=False)
        time.sleep(0.1)
        self.descriptors = self.count()

    # Programs

    def run_target(self):
        self.target = subprocess.Popen([self.build + "/csight", "run", "--emu", "--ring-size", "64K", "--rings", "2", "--",
                                        self.guest], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.plain)
        end = time.monotonic() + LIMIT
        # It has run its functions.
        while not self.armed(2000):
            if time.monotonic() > end:
                raise Defect("the target is not armed")
            time.sleep(0.02)

    def call(self, method, parameters=None):
        try:
            return Client(self.socket).call(method, parameters, LIMIT)
        except OSError as e:
            return {"error": str(e)}

    def ask(self, method, parameters=None):
        """A request of the driver itself, which may meet the fault as well: then it asks once more."""
        reply = self.call(method, parameters)
        if self.control.hit() and "error" in reply:
            reply = self.call(method, parameters)
        if "error" in reply:
            raise Defect("csightd answers %s with %s" % (method, json.dumps(reply)[:200]))
        return reply.get("parameters", {})

    def armed(self, least=0):
        return any(t["pid"] == self.target.pid and t["bytes"] >= least for t in self.ask("ListTargets")["targets"])

    def csight(self, *arguments, faults=True, program="csight", stdin=None):
        """Returns (status, output, messages). A status below 0: a signal."""
        path = self.build + "/csight" if program == "csight" else self.build + "/tests/faults/.libs/" + program
        environment = self.environment if faults else self.plain
        if program != "csight":
            environment = dict(environment, LD_LIBRARY_PATH=self.build + "/lib/csight/.libs")
        p = subprocess.Popen([path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=environment, cwd=self.work, start_new_session=True)
        try:
            out, err = p.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.communicate()
            raise Defect("hangs: csight %s" % " ".join(arguments))
        return p.returncode, out, err.decode("utf-8", "replace")

    def take(self):
        status, out, err = self.csight("snapshot", "--json", "--pid", str(self.target.pid), faults=False)
        if status != 0:
            raise Defect("no snapshot without a fault: %s" % err.strip())
        return id_of(out)

    # The judgement

    def count(self):
        return len(os.listdir("/proc/%d/fd" % self.daemon.pid))

    def settle(self):
        """Waits until no snapshot is in progress; returns the list, by ID."""
        end = time.monotonic() + LIMIT
        while True:
            snapshots = {s["id"]: s for s in self.ask("ListSnapshots")["snapshots"]}
            use = self.ask("Status")
            if all(s["state"] in ("ready", "raw") for s in snapshots.values()) and not use.get("snapshots_waiting"):
                return snapshots
            if time.monotonic() > end:
                raise Defect("a snapshot stays %s" % sorted(s["state"] for s in snapshots.values()))
            time.sleep(0.01)

    def judge(self, promised=(), descriptors=True):
        """What must hold after every fault. promised: the IDs that a client has been told are stored."""
        if self.daemon.poll() is not None:
            raise Defect("csightd died: %s" % self.daemon.returncode)
        snapshots = self.settle()
        for id in [self.snapshot, *promised]:
            self.whole(id, snapshots)
        self.no_remains(snapshots)
        if not self.armed():
            raise Defect("the target is no longer recorded")
        for id in set(snapshots) - {self.snapshot}:
            self.whole(id, snapshots)
            self.ask("Remove", {"id": id})
        end = time.monotonic() + LIMIT
        while descriptors and self.count() > self.descriptors:
            if time.monotonic() > end:
                raise Defect("descriptors: %d, then %d: %s" % (self.descriptors, self.count(), self.open_files()))
            time.sleep(0.01)

    def whole(self, id, snapshots):
        if id not in snapshots:
            raise Defect("lost: %s is not listed" % id)
        what = [id] if snapshots[id]["state"] == "ready" else [self.spool + "/" + id]
        status, out, err = self.csight("show", "--last=1ms", *what, faults=False)
        if status != 0:
            raise Defect("%s (%s) cannot be shown: %s" % (id, snapshots[id], err.strip()))

    def no_remains(self, snapshots, limit=LIMIT):
        """The spool has the snapshots, and nothing temporary."""
        end = time.monotonic() + limit
        while True:
            names = {n for n in os.listdir(self.spool) if not n.startswith(".")} - {"lock", "images", "targets.json"}
            extra = names - set(snapshots)
            # What cannot be read is set aside, and the log says so.
            if "targets.json.bad" in extra and "renamed to targets.json.bad" in self.log_since(0):
                os.unlink(self.spool + "/targets.json.bad")
                continue
            inner = [n + "/" + f for n in names & set(snapshots) for f in os.listdir(self.spool + "/" + n) if ".tmp" in f]
            if not extra and not inner:
                return
            if time.monotonic() > end:
                raise Defect("remains in the spool: %s" % sorted(extra | set(inner)))
            time.sleep(0.01)

    def open_files(self):
        found = []
        for n in os.listdir("/proc/%d/fd" % self.daemon.pid):
            try:
                found.append(os.readlink("/proc/%d/fd/%s" % (self.daemon.pid, n)))
            except OSError:
                pass
        return " ".join(sorted(found))

    def log_since(self, at):
        with open(self.log, "rb") as f:
            f.seek(at)
            return f.read().decode("utf-8", "replace")
