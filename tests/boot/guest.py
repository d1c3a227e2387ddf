# SPDX-License-Identifier: MIT
# Runs a boot test inside the container: TAP without numbers, two users, emulated programs that wait for their input, and
# the table of events. usage: guest.py SCRIPT
import json
import os
import pwd
import subprocess
import sys
import threading
import time

HERE = "/boot-test"
PROGRAMS = "/usr/local/lib/csight-boot"
CONFIG = os.environ["CSIGHT_CONFIG"]
USERS = ("alice", "bob")
WAIT_SECONDS = 60
failed = False
head = ("EVENT", "TARGETS KEPT", "HISTORY KEPT", "SNAPSHOTS LOST", "CLIENT ERRORS")
rows = []


def ok(name, passed, why=""):
    global failed
    print(f"{'ok' if passed else 'not ok'} - {name}")
    if not passed:
        failed = True
        for line in str(why).splitlines():
            print("# " + line)
    return passed


def note(text):
    for line in str(text).splitlines():
        print("# " + line)


def run(*command, user=None, **options):
    """Runs a command, as root or as a user with nothing of root's. Returns its result, with text."""
    if user:
        command = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps=-all", *command)
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **options)


def succeeds(name, *command, **options):
    r = run(*command, **options)
    return ok(name, r.returncode == 0, r.stdout)


def until(condition, seconds=WAIT_SECONDS):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def asked(*command):
    """The JSON document of a command of csight, or None."""
    r = run("csight", *command, "--json")
    try:
        return json.loads(r.stdout) if r.returncode == 0 else None
    except ValueError:
        return None


def unit(name, what):
    return run("systemctl", "show", "-P", what, name).stdout.strip()


def main_pid(name="csightd"):
    return int(unit(name, "MainPID") or 0)


def armed():
    d = asked("targets")
    return {t["pid"] for t in d["targets"] if t["state"] == "armed"} if d else set()


def snapshots():
    d = asked("list")
    return {s["id"]: s for s in d["snapshots"]} if d else {}


class Program:
    """An emulated program of a user: it calls before_event() or after_event() for each letter that it is sent."""

    def __init__(self, user, ring="64K", program=PROGRAMS + "/steps"):
        self.user = user
        self.process = subprocess.Popen(
            ("setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps=-all", "csight", "run", "--emu",
             f"--ring-size={ring}", "--", program),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.pid = self.process.pid

    def send(self, letter):
        self.process.stdin.write(letter.encode())
        self.process.stdin.flush()

    def snapshot(self, *options):
        """Its snapshot, decoded; or the text of the error."""
        r = run("csight", "snapshot", "--no-arm", "--json", *options, "--pid", str(self.pid), user=self.user)
        try:
            return json.loads(r.stdout)["snapshot"]
        except ValueError:
            return r.stdout

    def calls(self, snapshot, function):
        r = run("csight", "grep", "--json", function, snapshot, user=self.user)
        return len(r.stdout.splitlines()) if r.returncode == 0 else -1

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(count):
    """Programs of both users in turn, armed."""
    programs = [Program(USERS[n % len(USERS)]) for n in range(count)]
    until(lambda: {p.pid for p in programs} <= armed())
    return programs


class Clients:
    """Each user asks again and again, as long as it is wanted; errors are counted."""

    def __init__(self):
        self.wanted = True
        self.errors = []
        self.calls = 0
        self.threads = [threading.Thread(target=self.ask, args=(user, what)) for user in USERS
                        for what in ("status", "list")]
        for t in self.threads:
            t.start()

    def ask(self, user, what):
        while self.wanted:
            r = run("csight", what, user=user)
            self.calls += 1
            if r.returncode:
                self.errors.append(f"{user}: {r.stdout.splitlines()[0]}")

    def end(self):
        self.wanted = False
        for t in self.threads:
            t.join()


def event(name, count, action, strict=("kept", "history", "lost", "errors")):
    """
    A row of the table: what an event costs that happens while programs are traced, snapshots exist and clients ask.
    strict: what must be as if nothing had happened.
    """
    programs = start(count)
    pids = {p.pid for p in programs}
    ok(f"{name}: {count} programs are armed", pids <= armed(), run("csight", "targets").stdout)
    for p in programs:
        p.send("b")
    before = set(snapshots())
    clients = Clients()
    begun = action(programs) or []
    until(lambda: pids <= armed())
    kept = len(pids & armed())
    clients.end()
    for p in programs:
        p.send("a")
    time.sleep(0.3)
    history = 0
    for p in programs:
        s = p.snapshot()
        if not isinstance(s, dict) or s.get("state") != "ready":
            note(f"{name}: {p.user}'s program: {s['state'] if isinstance(s, dict) else s}")
            continue
        got = [p.calls(s["id"], f) for f in ("before_event", "after_event")]
        if got == [1, 1]:
            history += 1
        else:
            note(f"{name}: {p.user}'s program {p.pid} has {got[0]} calls before and {got[1]} after the event")
    lost = len(before - set(snapshots())) + sum(1 for s in begun if not isinstance(s, dict) or s["state"] != "ready")
    for s in begun:
        if not isinstance(s, dict):
            note(f"{name}: a snapshot during it: {s}")
    for e in sorted(set(clients.errors)):
        note(f"{name}: {clients.errors.count(e)} times {e}")
    for p in programs:
        p.end()
    rows.append((name, f"{kept}/{count}", f"{history}/{count}", str(lost), f"{len(clients.errors)}/{clients.calls}"))
    if "kept" in strict:
        ok(f"{name}: all targets are kept", kept == count, f"{kept} of {count}")
    if "history" in strict:
        ok(f"{name}: so is their history", history == count, f"{history} of {count}")
    if "lost" in strict:
        ok(f"{name}: no snapshot is lost", lost == 0, lost)
    if "errors" in strict:
        ok(f"{name}: no client gets an error", not clients.errors)


def print_table():
    widths = [max(len(r[n]) for r in [head, *rows]) for n in range(len(head))]
    for r in (head, *rows):
        print("#| " + "  ".join(c.ljust(w) if n == 0 else c.rjust(w) for n, (c, w) in enumerate(zip(r, widths))).rstrip())


def prepare():
    open(HERE + "/booted", "w").close()
    for user in USERS:
        try:
            pwd.getpwnam(user)
        except KeyError:
            run("useradd", "--create-home", user, check=True)
    os.makedirs(PROGRAMS, exist_ok=True)
    run("cp", "-r", HERE + "/programs/.", PROGRAMS, check=True)
    run("chmod", "-R", "a+rX", PROGRAMS, check=True)


def main():
    prepare()
    try:
        with open(sys.argv[1], encoding="utf-8") as f:
            exec(compile(f.read(), sys.argv[1], "exec"), globals())
        print_table()
    finally:
        with open(HERE + "/journal", "w", encoding="utf-8") as f:
            f.write(run("journalctl", "-b", "--no-pager", "-o", "short-monotonic", "-u", "csight*").stdout)
    with open(HERE + "/ended", "w", encoding="utf-8") as f:
        f.write("done\n")
    sys.exit(1 if failed else 0)


main()
