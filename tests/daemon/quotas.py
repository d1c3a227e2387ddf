#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What users get of csightd's resources while others want all of them. Needs root, which acts as each of them.

usage: quotas.py SOCKET DAEMON SPOOL CASE [CONFIGURATION]      prints the facts as JSON; DAEMON is its process
"""
import json, os, signal, socket, struct, sys, time

import attacks
from attacks import Client, Program, call, end, start

ANNA, BERT, CARL = 61001, 61002, 61003
MiB = 1 << 20


def as_user(uid, f):
    """Runs f(say) as a user in a process of its own; returns the process and what it says first."""
    def run(say):
        attacks.become(uid)
        f(say)
    return start(run)


def program(path, uid, **options):
    """A target of a user, and its process."""
    def run(say):
        p = Program(path, version=attacks.VERSION, **options)
        say({"answer": p.hello(), "pid": os.getpid()})
        signal.pause()
    return as_user(uid, run)


def call_as(uid, path, method, parameters=None, timeout=60):
    """The connection is the user's, by the effective uid at the time of connect()."""
    os.seteuid(uid)
    try:
        return call(path, method, parameters, timeout)
    finally:
        os.seteuid(0)


def snapshots(path, uid):
    return call_as(uid, path, "ListSnapshots")["parameters"]["snapshots"]


def settled(path, seconds=60):
    """Waits until no decode waits or runs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if call(path, "Status")["parameters"]["jobs"] == 0:
            return True
        time.sleep(0.02)
    return False


def server_of(daemon):
    """The process of csight-decode's server."""
    with open("/proc/%d/task/%d/children" % (daemon, daemon)) as f:
        return int(f.read().split()[0])


def used(path, uid, resource):
    for u in call_as(uid, path, "Status")["parameters"]["use"]:
        if u["resource"] == resource:
            return u["used"]


class Samples:
    """The most that the spool and the daemon's memory were while it runs, and the least that was free. It is a process of
    its own, since this one changes its uid."""

    def __init__(self, daemon, spool):
        self.r, w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.watch(daemon, spool, w)
            finally:
                os._exit(0)
        os.close(w)

    def watch(self, daemon, spool, w):
        over = []
        signal.signal(signal.SIGTERM, lambda *_: over.append(1))
        most, rss, free = 0, 0, 1 << 60
        while not over:
            size = 0
            for where, _, names in os.walk(spool):
                for n in names:
                    try:
                        size += os.lstat(os.path.join(where, n)).st_size
                    except OSError:
                        pass
            fs = os.statvfs(spool)
            most, free = max(most, size), min(free, fs.f_bavail * fs.f_frsize)
            with open("/proc/%d/status" % daemon) as f:
                rss = max([rss] + [int(l.split()[1]) * 1024 for l in f if l.startswith("VmRSS")])
            time.sleep(0.01)
        os.write(w, json.dumps({"spool_mib": round(most / MiB, 1), "rss_mib": rss >> 20,
                                "free_mib": round(free / MiB, 1)}).encode())

    def facts(self):
        os.kill(self.pid, signal.SIGTERM)
        said = json.loads(os.read(self.r, 4096))
        os.waitpid(self.pid, 0)
        return said


def case_spool(path, daemon, spool):
    """Anna takes 24 snapshots of 4 MiB without waiting, while Bert has three of 1 MiB."""
    b, bert = program(path, BERT, rings=1, ring_size=MiB, bytes_each=MiB)
    kept = [call_as(BERT, path, "Snapshot", {"pid": bert["pid"]})["parameters"]["snapshot"]["id"] for _ in range(3)]
    pids = [program(path, ANNA, rings=1, ring_size=4 * MiB, bytes_each=4 * MiB) for _ in range(4)]
    samples = Samples(daemon, spool)
    clients, errors = [], []
    for n in range(24):
        os.seteuid(ANNA)
        c = Client(path) if len(clients) < 12 else clients[n % 12]
        os.seteuid(0)
        if len(clients) < 12:
            clients.append(c)
        c.send("Snapshot", {"pid": pids[n % 4][1]["pid"], "noWait": True})
    for n in range(24):
        errors.append(clients[n % 12].receive().get("error", ""))
    after = call_as(BERT, path, "Snapshot", {"pid": bert["pid"]})
    settled(path)
    mine = snapshots(path, BERT)
    facts = samples.facts()
    for p, _ in pids + [(b, None)]:
        end(p)
    return {"kept": sum(s["id"] in kept for s in mine), "bert": after.get("error"), "anna_has": len(snapshots(path, ANNA)),
            "anna_refused": sorted(set(errors)), **facts}


def case_recording(path, daemon, spool):
    """Anna's log of code grows by more than the spool may have, while her program is recorded."""
    go, grown = os.pipe(), os.pipe()

    def run(say):
        p = Program(path, rings=1, ring_size=MiB, log_size=128 * MiB)
        say({"answer": p.hello(), "pid": os.getpid()})
        os.read(go[0], 1)
        for n in range(100):
            os.pwrite(p.fd, struct.pack("<2I3Q", 2, MiB, 1, (1 << 30) + n * MiB, MiB - 32), p.log + n * MiB)
        os.pwrite(p.fd, struct.pack("<Q", 100 * MiB), p.log_head)
        os.write(grown[1], b"x")
        signal.pause()
    a, anna = as_user(ANNA, run)
    samples = Samples(daemon, spool)
    got = call_as(ANNA, path, "Snapshot", {"pid": anna["pid"], "record": {}, "noWait": True})
    os.write(go[1], b"x")
    os.read(grown[0], 1)
    snapshot = got["parameters"]["snapshot"]["id"]
    call_as(ANNA, path, "EndRecording", {"id": snapshot})
    after = call_as(ANNA, path, "Wait", {"id": snapshot})["parameters"]["snapshot"]
    facts = samples.facts()
    end(a)
    return {"state": after["state"], "missing": after.get("missing", []), **facts}


def case_full(path, daemon, spool):
    """Anna fills the file system; then Bert, who has nothing, wants one snapshot."""
    a, anna = program(path, ANNA, rings=1, ring_size=4 * MiB, bytes_each=4 * MiB)
    b, bert = program(path, BERT, rings=1, ring_size=MiB, bytes_each=MiB)
    samples = Samples(daemon, spool)
    errors = {call_as(ANNA, path, "Snapshot", {"pid": anna["pid"]}).get("error") for _ in range(40)}
    settled(path)
    before = len(snapshots(path, ANNA))
    got = call_as(BERT, path, "Snapshot", {"pid": bert["pid"]})
    facts = samples.facts()
    end(a)
    end(b)
    return {"anna": sorted(str(e) for e in errors), "anna_had": before, "bert": got.get("error"),
            **facts}


def case_refused(path, daemon, spool, config):
    """A decode of Anna gets no room, since her quota is used up, while one of Bert runs and one of Carl waits."""
    uids = [BERT, ANNA, CARL]
    ps = [program(path, uid, rings=1, ring_size=MiB, bytes_each=64 << 10) for uid in uids]
    server = server_of(daemon)
    os.kill(server, signal.SIGSTOP)
    try:
        errors = [call_as(uid, path, "Snapshot", {"pid": p["pid"], "noWait": True}).get("error")
                  for uid, (_, p) in zip(uids, ps)]
        with open(config, "w") as f:
            f.write("jobs = 2\n[User %d]\nspool-per-user = 64K\n" % ANNA)
        errors.append(call(path, "Reload").get("error"))
        until = time.monotonic() + 60
        while snapshots(path, CARL)[0]["state"] == "queued" and time.monotonic() < until:
            time.sleep(0.02)
        states = [snapshots(path, uid)[0]["state"] for uid in uids]
    finally:
        os.kill(server, signal.SIGCONT)
    settled(path)
    after = [snapshots(path, uid)[0] for uid in uids]
    for p, _ in ps:
        end(p)
    return {"errors": errors, "states": states, "after": [s["state"] for s in after], "reason": after[1].get("reason")}


def case_slow(path, daemon, spool):
    """Decodes of Anna, Bert and Carl do not end, and there is place for one. Anna has two."""
    uids = [ANNA, BERT, CARL]
    ps = [program(path, uid, rings=1, ring_size=MiB, bytes_each=64 << 10) for uid in uids]
    server = server_of(daemon)
    os.kill(server, signal.SIGSTOP)
    try:
        errors = [call_as(uids[n], path, "Snapshot", {"pid": ps[n][1]["pid"], "noWait": True}).get("error")
                  for n in (0, 0, 1, 2)]
        first = [snapshots(path, uid)[0]["state"] for uid in (BERT, CARL)]
        until = time.monotonic() + 60
        while snapshots(path, CARL)[0]["state"] == "queued" and time.monotonic() < until:
            time.sleep(0.02)
        states = [sorted(s["state"] for s in snapshots(path, uid)) for uid in uids]
    finally:
        os.kill(server, signal.SIGCONT)
    settled(path)
    after = [s["state"] for uid in uids for s in snapshots(path, uid)]
    for p, _ in ps:
        end(p)
    return {"errors": errors, "first": first, "states": states, "after": after}


def case_removed(path, daemon, spool):
    """Anna removes a snapshot whose trace she has open."""
    a, anna = program(path, ANNA, rings=1, ring_size=4 * MiB, bytes_each=4 * MiB)
    snapshot = call_as(ANNA, path, "Snapshot", {"pid": anna["pid"]})["parameters"]["snapshot"]["id"]
    os.seteuid(ANNA)
    c = Client(path)
    os.seteuid(0)
    c.send("Open", {"id": snapshot, "file": "perfdata"})
    _, fds, _, _ = socket.recv_fds(c.s, 65536, 1)
    before, free = os.fstat(fds[0]).st_size, os.statvfs(spool).f_bfree
    removed = call_as(ANNA, path, "Remove", {"id": snapshot}).get("error")
    fs = os.statvfs(spool)
    end(a)
    return {"removed": removed, "mib": before >> 20, "left": os.fstat(fds[0]).st_size,
            "freed_mib": (fs.f_bfree - free) * fs.f_frsize >> 20}


def case_waiting(path, daemon, spool):
    """Anna takes snapshots until one waits for the room that her decodes have, which stand still."""
    a, anna = program(path, ANNA, rings=1, ring_size=4 * MiB, bytes_each=4 * MiB)
    server = server_of(daemon)
    os.kill(server, signal.SIGSTOP)
    phases, reply = [], {}
    try:
        while "error" not in reply and "waiting" not in phases:
            os.seteuid(ANNA)
            c = Client(path)
            os.seteuid(0)
            c.send("Snapshot", {"pid": anna["pid"], "noWait": True}, more=True)
            phases, reply = [], {"continues": True}
            while reply.get("continues") and "waiting" not in phases:
                reply = c.receive()
                phases.append(reply.get("parameters", {}).get("phase"))
    finally:
        os.kill(server, signal.SIGCONT)
    while reply.get("continues"):
        reply = c.receive()
        phases.append(reply.get("parameters", {}).get("phase"))
    end(a)
    return {"phases": phases, "error": reply.get("error"), "has": "snapshot" in reply.get("parameters", {})}


def case_connections(path, daemon, spool):
    """40 users open 16 connections each, and leave them open."""
    open_ones = []
    for n in range(40):
        for _ in range(16):
            os.seteuid(63000 + n)
            try:
                open_ones.append(Client(path))
            except OSError:
                pass
            os.seteuid(0)
    status = [call_as(uid, path, "Status", timeout=10).get("error") for uid in (BERT, 0) for _ in range(50)]
    busy = sum(c.call("Status", timeout=5).get("error") is None for c in open_ones[-32:])
    return {"refused": sum(s is not None for s in status), "newest_answered": busy}


def case_limits(path, daemon, spool):
    """The limits of the configuration: 2 targets and 3 snapshots a minute for Anna, none for Bert."""
    ps = [program(path, ANNA, rings=1, bytes_each=64) for _ in range(3)]
    first = ps[0][1]["pid"]
    got = [call_as(ANNA, path, "Snapshot", {"pid": first}) for _ in range(4)]
    rate = got[3].get("parameters", {})
    use = {u["resource"]: u for u in call_as(ANNA, path, "Status")["parameters"]["use"]}
    root = call(path, "Status")["parameters"]
    denied = call_as(BERT, path, "Status").get("error")
    os.setegid(61009)
    group = call_as(61003, path, "Status").get("error")
    os.setegid(0)
    registered = program(path, BERT, rings=1)
    for p, _ in ps + [registered]:
        end(p)
    return {"targets": [p[1].get("answer") for p in ps], "snapshots": [g.get("error") for g in got],
            "limit": [rate.get("limit"), rate.get("value"), rate.get("used")], "reason": rate.get("reason"),
            "use": [use["targets"]["used"], use["targets"]["limit"], use["targets"]["setting"], use["stored"]["used"]],
            "users": [u["uid"] for u in root["users"]], "secret": "users" in call_as(ANNA, path, "Status")["parameters"],
            "denied": [denied, group, call_as(61003, path, "Status").get("error")], "registered": registered[1].get("answer")}


def case_stored(path, daemon, spool):
    """Carl has room for 3 snapshots, and may have 5 in a minute; one that he asks for is of a process without trace."""
    c, carl = program(path, CARL, rings=1, bytes_each=64)
    e, empty = program(path, CARL, rings=1, bytes_each=0)
    taken, errors = [], []
    for n in range(12):
        got = call_as(CARL, path, "Snapshot", {"pid": (empty if n == 4 else carl)["pid"]})
        if "error" in got:
            errors.append(got["error"])
        else:
            taken.append(got["parameters"]["snapshot"]["id"])
    end(c)
    end(e)
    return {"taken": len(taken), "errors": sorted(set(errors)), "kept": sorted(s["id"] for s in snapshots(path, CARL)) == sorted(taken[-3:])}


def case_subuids(path, daemon, spool):
    """Anna has the uids from 65000 on; each of ten opens two connections, and so does Bert."""
    clients = {}
    for uid in [65000 + n for n in range(10)] + [ANNA, BERT]:
        os.seteuid(uid)
        for _ in range(2):
            c = Client(path)
            if c.call("Status", timeout=5).get("error") is None:
                clients.setdefault(uid, []).append(c)
        os.seteuid(0)
    users = {u["uid"]: {x["resource"]: x["used"] for x in u["use"]} for u in call(path, "Status")["parameters"]["users"]}
    return {"anna": sum(len(v) for uid, v in clients.items() if uid != BERT), "bert": len(clients.get(BERT, [])),
            "users": {str(uid): use["connections"] for uid, use in users.items()}}


if __name__ == "__main__":
    socket_path, daemon_pid, spool_path, case = sys.argv[1:5]
    print(json.dumps(globals()["case_" + case](socket_path, int(daemon_pid), spool_path, *sys.argv[5:])))
