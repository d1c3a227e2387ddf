#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Snapshots while the disk is full, read-only or slow, while the clock jumps, and of targets that are stopped, exec, change
their user or are frozen.

usage: conditions.py BUILD DIRECTORY CONDITION      exits with 0; 1 and the reason; or 77 and why it is skipped
"""
import json, os, select, shutil, signal, subprocess, sys, threading, time

from world import Defect, LIMIT, World, id_of


class Skip(Exception):
    pass


def try_snapshot(w, pid=None):
    """Returns (status, the ID or None, messages)."""
    status, out, err = w.csight("snapshot", "--json", "--pid", str(pid or w.target.pid))
    return status, id_of(out) if out else None, err


def mount(w, *options):
    if subprocess.run(["mount", "-t", "tmpfs", *options, "csight-test", w.spool], capture_output=True).returncode:
        raise Skip("only root can mount a tmpfs")


def unmount(w):
    subprocess.run(["umount", "-l", w.spool], capture_output=True)


def full_disk(w):
    os.makedirs(w.spool, 0o700)
    mount(w, "-o", "size=24m,mode=700")
    try:
        w.start_all("--set=spool-keep-free=0")
        # Otherwise it is what is removed to make room.
        w.ask("Keep", {"id": w.snapshot, "keep": True})
        filler = os.open(w.spool + "/.filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, bytes(4096)):
                pass
        except OSError:
            os.close(filler)
        for _ in range(5):
            status, _, err = try_snapshot(w)
            if status == 0 or "spool" not in err:
                raise Defect("full: status %d, %r" % (status, err))
            w.judge()
        os.unlink(w.spool + "/.filler")
        status, id, err = try_snapshot(w)
        if status:
            raise Defect("with room: %s" % err)
        w.judge([id])
    finally:
        w.end()
        unmount(w)


def read_only(w):
    os.makedirs(w.spool, 0o700)
    mount(w, "-o", "size=24m,mode=700")
    try:
        w.start_all("--set=spool-keep-free=0")
        subprocess.run(["mount", "-o", "remount,ro", w.spool], check=True, capture_output=True)
        for _ in range(3):
            status, _, err = try_snapshot(w)
            if status == 0 or "spool" not in err:
                raise Defect("read-only: status %d, %r" % (status, err))
            w.judge()
        subprocess.run(["mount", "-o", "remount,rw", w.spool], check=True, capture_output=True)
        status, id, err = try_snapshot(w)
        if status:
            raise Defect("writable: %s" % err)
        w.judge([id])
    finally:
        w.end()
        unmount(w)


def slow_disk(w):
    """Each open, write and sync of csightd takes 20 ms; Status does not wait for them."""
    w.start_all()
    w.control.delay(20000)
    done = []
    thread = threading.Thread(target=lambda: done.append(try_snapshot(w)))
    thread.start()
    asked = 0
    while thread.is_alive():
        w.ask("Status")
        asked += 1
    thread.join()
    w.control.delay(0)
    status, id, err = done[0]
    if status:
        raise Defect("slow: %s" % err)
    if asked < 10:
        raise Defect("only %d replies while one snapshot was written" % asked)
    w.judge([id])


def clock_jumps(w):
    w.start_all()
    ids = []
    for hours in 5, -7, 30, -30, 0:
        w.control.clock(hours * 3600)
        status, id, err = try_snapshot(w)
        if status:
            raise Defect("%d hours away: %s" % (hours, err))
        ids.append(id)
    w.control.clock(0)
    w.judge(ids)
    w.stop()
    w.revive()


def stopped(w):
    w.start_all()
    w.target.send_signal(signal.SIGSTOP)
    status, id, err = try_snapshot(w)
    w.target.send_signal(signal.SIGCONT)
    if status and not err.strip():
        raise Defect("no reason")
    w.judge([id] if id else [])
    status, id, err = try_snapshot(w)
    if status:
        raise Defect("continued: %s" % err)
    w.judge([id])


def frozen(w):
    group = "/sys/fs/cgroup/csight-test-%d" % os.getpid()
    for base, name, on, off in ("", "cgroup.freeze", "1", "0"), ("/freezer", "freezer.state", "FROZEN", "THAWED"):
        group = "/sys/fs/cgroup%s/csight-test-%d" % (base, os.getpid())
        try:
            os.mkdir(group)
        except OSError:
            continue
        if os.path.exists(group + "/" + name):
            break
        os.rmdir(group)
    else:
        raise Skip("no cgroup that can freeze processes is writable")

    def write(file, text):
        with open(group + "/" + file, "w") as f:
            f.write(text)

    try:
        w.start_all()
        write("cgroup.procs", str(w.target.pid))
        write(name, on)
        status, id, err = try_snapshot(w)
        write(name, off)
        if status and not err.strip():
            raise Defect("no reason")
        w.judge([id] if id else [])
    finally:
        w.end()
        time.sleep(0.1)
        os.rmdir(group)


def ends(w):
    """Targets that end, exec or are killed while a snapshot of them is taken."""
    w.start_all()
    for name, arguments in ("guest", ["once"]), ("execs", []), ("forks", []):
        program = w.guest if name == "guest" else w.build + "/tests/programs/" + name
        for pause in 0.0, 0.01, 0.05:
            p = subprocess.Popen([w.build + "/csight", "run", "--emu", "--ring-size", "64K", "--", program, *arguments],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=w.plain)
            end = time.monotonic() + 5
            while time.monotonic() < end and not any(t["pid"] == p.pid for t in w.ask("ListTargets")["targets"]):
                time.sleep(0.002)
            time.sleep(pause)
            status, id, err = try_snapshot(w, p.pid)
            if status and not err.strip() and not id:
                raise Defect("%s: no reason" % name)
            if pause:
                p.kill()
            p.wait()
            w.judge([id] if id else [], descriptors=False)


def run_as(uid, *words):
    return ["setpriv", "--reuid=%d" % uid, "--regid=%d" % uid, "--clear-groups", *words]


class Changing:
    """A target of the user OLD that becomes the user NEW at change()."""
    OLD, NEW = 61001, 61002

    def __init__(self, w, old=OLD):
        self.w, self.OLD = w, old
        may = ["--inh-caps=+setuid", "--ambient-caps=+setuid"]
        self.process = subprocess.Popen(run_as(self.OLD, *may, w.build + "/csight", "run", "--emu", "--ring-size", "64K", "--", w.guest, str(self.NEW)),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=w.plain)
        self.pid = self.process.pid
        if not select.select([self.process.stdout], [], [], LIMIT)[0] or not self.process.stdout.readline():
            raise Defect("it does not catch SIGUSR1")
        end = time.monotonic() + LIMIT
        while not any(t["pid"] == self.pid and t["bytes"] > 2000 for t in w.ask("ListTargets")["targets"]):
            if time.monotonic() > end:
                raise Defect("it is not armed")
            time.sleep(0.02)

    def change(self):
        os.kill(self.pid, signal.SIGUSR1)
        end = time.monotonic() + LIMIT
        while "Uid:\t%d\t%d" % (self.NEW, self.NEW) not in open("/proc/%d/status" % self.pid).read():
            if time.monotonic() > end:
                raise Defect("it does not change its user")
            time.sleep(0.002)

    def ask(self, uid):
        return subprocess.run(run_as(uid, self.w.build + "/csight", "snapshot", "--json", "--pid", str(self.pid)), env=self.w.plain,
                              cwd="/", capture_output=True, timeout=LIMIT)

    def follow(self, verb):
        return subprocess.Popen(run_as(self.OLD, self.w.build + "/csight", verb, "--json", "--pid", str(self.pid)), env=self.w.plain,
                                cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def refuse(self, when):
        for uid in self.OLD, self.NEW:
            p = self.ask(uid)
            if p.returncode == 0 or not p.stderr:
                raise Defect("%s: uid %d gets %r %r" % (when, uid, p.stdout, p.stderr))
        found = [s for s in self.w.ask("ListSnapshots")["snapshots"] if s["pid"] == self.pid]
        if len(found) > 1:
            raise Defect("%s: there is a snapshot: %s" % (when, found))


    def owner(self):
        return [t["uid"] for t in self.w.ask("ListTargets")["targets"] if t["pid"] == self.pid and t["state"] == "armed"]

    def stay_roots(self):
        """The emulator changes the user of the program's threads, not of its own, which registers: it is root's as before."""
        end = time.monotonic() + LIMIT
        while self.owner() != [0]:
            if time.monotonic() > end:
                raise Defect("after a restart, it is not root's target: %s" % self.owner())
            time.sleep(0.02)
        p = self.ask(self.NEW)
        if p.returncode == 0:
            raise Defect("after a restart, its new user gets what root's program did")
        p = self.ask(0)
        if p.returncode:
            raise Defect("after a restart, root gets none: %s" % p.stderr)
        id = id_of(p.stdout)
        self.w.settle()
        if self.w.csight("grep", "become", id, faults=False)[0]:
            raise Defect("after a restart, what was before it is lost")
        self.w.ask("Remove", {"id": id})


def changes_user(w):
    """No user gets the trace of a process that became another's, neither while it runs nor afterwards."""
    if os.getuid() or not shutil.which("setpriv"):
        raise Skip("only root can run programs of several users")
    w.start_all("--system", "--set=decode-user=daemon")
    for asked_between in True, False:
        t = Changing(w)
        try:
            p = t.ask(t.OLD)
            if p.returncode:
                raise Defect("its own user gets none: %s" % p.stderr)
            t.change()
            if asked_between:
                t.refuse("running")
        finally:
            t.process.kill()
            t.process.wait()
        t.refuse("ended")
        w.judge([id_of(p.stdout)], descriptors=False)
    # Root's target stays root's, also when csightd is started again.
    t = Changing(w, 0)
    try:
        t.change()
        w.stop()
        w.start("--system", "--set=decode-user=daemon")
        t.stay_roots()
    finally:
        t.process.kill()
        t.process.wait()


def follows_changing(w):
    """A tail and a recording end when the process becomes another user's, with nothing of what that user ran."""
    if os.getuid() or not shutil.which("setpriv"):
        raise Skip("only root can run programs of several users")
    w.start_all("--system", "--set=decode-user=daemon")
    t = Changing(w)
    try:
        tail, recording = t.follow("tail"), t.follow("stream")
        first = tail.stdout.readline()
        time.sleep(0.5)
        t.change()
        calls, err = tail.communicate(timeout=LIMIT)
        calls = first + calls
        if tail.returncode or b'"turn"' not in calls or b'"become"' in calls:
            raise Defect("a tail: status %d, %r, %r" % (tail.returncode, calls[-500:], err))
        out, err = recording.communicate(timeout=LIMIT)
        s = json.loads(out)["snapshot"] if out else {}
        if s.get("recording", {}).get("ended") != "user" or s.get("uid") != t.OLD:
            raise Defect("a recording: %r, %r" % (out, err))
    finally:
        t.process.kill()
        t.process.wait()
    if w.csight("grep", "turn", s["id"], faults=False)[0] or not w.csight("grep", "become", s["id"], faults=False)[0]:
        raise Defect("the recording has another user's calls, or none")
    w.judge([s["id"]], descriptors=False)


CONDITIONS = {f.__name__: f for f in (full_disk, read_only, slow_disk, clock_jumps, stopped, frozen, ends, changes_user,
                                         follows_changing)}


def main():
    w = World(sys.argv[1], sys.argv[2])
    try:
        CONDITIONS[sys.argv[3]](w)
        if w.daemon:
            w.stop()
    except Skip as e:
        print(e)
        return 77
    except Defect as e:
        print(e)
        return 1
    finally:
        w.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
