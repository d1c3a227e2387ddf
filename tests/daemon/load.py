#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A random load of many users on csightd, and a model of what the ledger must say after each step. Needs root for more than
one user.

usage: load.py SOCKET SEED STEPS [--users N] [--connections N] [--targets N] [--seconds N]

Each step is one of: connect, disconnect, begin a program, end one, take a snapshot, remove one. After each, when no decode
waits or runs, Status must name for each user exactly what the model has. Prints the facts as JSON; "differences" lists
where ledger and model disagree. At the end all is returned, and every use must be zero.
"""
import argparse, json, os, random, signal, sys, time

import attacks
from attacks import Client, Program, end

FIRST = 62001


class User:
    def __init__(self, uid):
        self.uid, self.clients, self.programs, self.snapshots = uid, [], {}, {}

    def model(self):
        sizes = sum(self.snapshots.values())
        return {"connections": len(self.clients), "targets": len(self.programs), "stored": len(self.snapshots), "spool": sizes,
                "waiting": 0, "pending": 0, "requests": 0, "registrations": 0, "memory": 0, "descriptors": 0}


class Load:
    def __init__(self, path, seed, options):
        self.path, self.random, self.options = path, random.Random(seed), options
        root = os.getuid() == 0
        self.users = [User(FIRST + n if root else os.getuid()) for n in range(options.users if root else 1)]
        self.monitor = Client(path)
        self.differences, self.beyond, self.steps, self.refused, self.began = [], [], 0, 0, time.monotonic()
        self.stopped = False
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_):
        """The load ends with its verdict."""
        self.stopped = True

    def log(self, what):
        print("%6.0f s: %d steps, %s" % (time.monotonic() - self.began, self.steps, what), file=sys.stderr, flush=True)

    def connect(self, u):
        self.become(u.uid)
        try:
            c = Client(self.path)
            if "error" in c.call("Status"):
                raise OSError
            u.clients.append(c)
        except OSError:
            self.refused += 1
        self.become(0)

    @staticmethod
    def become(uid):
        """For connections: their peer is the effective uid at the time of connect()."""
        if os.getuid() == 0:
            os.seteuid(uid)

    def disconnect(self, u):
        if u.clients:
            u.clients.pop(self.random.randrange(len(u.clients))).s.close()

    def start(self, u, make):
        """Registers a program in a process of its own, which has none of the connections. select() is for few descriptors."""
        r, w = os.pipe()
        process = os.fork()
        if process == 0:
            os.setpgid(0, 0)
            os.dup2(w, 3)
            os.closerange(4, 1 << 16)
            if os.getuid() == 0:
                attacks.become(u.uid)
            try:
                p = make()
                os.write(3, json.dumps({"answer": p.hello(), "pid": os.getpid()}).encode())
            except OSError:
                os.write(3, b"{}")
            signal.pause()
        os.close(w)
        said = os.read(r, 4096)
        os.close(r)
        return process, json.loads(said or b"{}")

    def begin(self, u):
        size = self.random.choice((64, 128, 256)) << 10

        process, said = self.start(u, lambda: Program(self.path, version=attacks.VERSION, rings=1, ring_size=size, bytes_each=size // 2))
        if said.get("answer") == 0:
            u.programs[said["pid"]] = process
        else:
            end(process)
            self.refused += 1

    def end_program(self, u):
        if u.programs:
            end(u.programs.pop(self.random.choice(sorted(u.programs))))

    def snapshot(self, u):
        if not u.programs:
            return
        self.become(u.uid)
        c = Client(self.path)
        self.become(0)
        got = c.call("Snapshot", {"pid": self.random.choice(sorted(u.programs))})
        c.s.close()
        if "error" in got:
            self.refused += 1

    def remove(self, u):
        if u.snapshots:
            self.monitor.call("Remove", {"id": self.random.choice(sorted(u.snapshots))})

    def step(self):
        u = self.random.choice(self.users)
        steps = [self.connect, self.disconnect, self.begin, self.end_program, self.snapshot, self.snapshot, self.remove]
        step = self.random.choice(steps if self.options.seconds else steps + [self.connect])
        # A long load stays below the limit of all connections, where idle ones would be closed for others. Users who have none
        # close none, so that there would be more and more.
        if self.options.seconds and step == self.connect and sum(len(v.clients) for v in self.users) >= self.options.connections:
            step = self.disconnect
        if self.options.seconds and step == self.begin and sum(len(v.programs) for v in self.users) >= self.options.targets:
            step = self.end_program
        step(u)

    def statement(self):
        """What Status says of each user, when nothing is under way."""
        for _ in range(2000):
            s = self.monitor.call("Status")["parameters"]
            machine = s.get("machine", s["use"])
            use = {x["resource"]: x["used"] for x in machine}
            # What has just been charged is refused, and what is in use is kept, whatever else is wanted.
            self.beyond += [[self.steps, x["resource"], x["used"], x["limit"]] for x in machine if x["used"] > x.get("limit", x["used"])]
            if s["jobs"] == 0 and use["requests"] == 0:
                break
            time.sleep(0.005)
        users = {v["uid"]: v["use"] for v in s.get("users", [{"uid": os.getuid(), "use": s["use"]}])}
        return {uid: {x["resource"]: x["used"] for x in use} for uid, use in users.items()}

    def listed(self):
        """All pages of the list."""
        out, first = [], 0
        while first is not None:
            page = self.monitor.call("ListSnapshots", {"first": first})["parameters"]
            out += page["snapshots"]
            first = page.get("next")
        return out

    def compare(self):
        """The daemon hears of closed connections and ended programs later: what differs must agree soon."""
        for attempt in range(200):
            said = self.statement()
            listed = self.listed()
            for u in self.users:
                u.snapshots = {s["id"]: s["size"] for s in listed if s["uid"] == u.uid}
            found = []
            for u in self.users:
                for resource, wanted in u.model().items():
                    got = said.get(u.uid, {}).get(resource, 0) - self.own(u, resource)
                    if got != wanted:
                        found.append([self.steps, u.uid, resource, got, wanted])
            if not found:
                return
            time.sleep(0.02)
        self.differences += found

    def own(self, u, resource):
        """The monitor's own connection."""
        return int(resource == "connections" and u.uid == os.getuid())

    def run(self):
        self.fill()
        until = time.monotonic() + self.options.seconds if self.options.seconds else None
        while not self.stopped and (self.steps < self.options.steps or (until and time.monotonic() < until)):
            self.step()
            self.steps += 1
            if self.options.users <= 20 or self.steps % 500 == 0:
                self.compare()
            if self.options.seconds and self.steps % 500 == 0:
                self.log("%d snapshots, %d differences" % (sum(len(u.snapshots) for u in self.users), len(self.differences)))
            if len(self.differences) > 5:
                break
        self.compare()
        held = {r: sum(u.model()[r] for u in self.users) for r in ("connections", "targets", "stored")}
        for u in self.users:
            while u.clients:
                self.disconnect(u)
            while u.programs:
                self.end_program(u)
            for s in list(u.snapshots):
                self.monitor.call("Remove", {"id": s})
        self.compare()
        left = [[uid, r, n] for uid, use in self.statement().items() if uid != 0 or os.getuid() for r, n in use.items()
                if n and r not in ("rings", "snapshots", "decoder", "connections")]
        return {"steps": self.steps, "differences": self.differences, "left": left, "beyond": self.beyond[:5], "stopped": self.stopped,
                "refused": self.refused, **held}

    def fill(self):
        """For the long form: many of all before the first step."""
        for n in range(self.options.connections):
            if self.stopped:
                break
            self.connect(self.users[n % len(self.users)])
        for n in range(self.options.targets):
            if self.stopped:
                break
            self.begin(self.users[n % len(self.users)])
        if self.options.seconds:
            self.log("filled")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("socket")
    p.add_argument("seed", type=int)
    p.add_argument("steps", type=int)
    for name, default in ("users", 4), ("connections", 0), ("targets", 0), ("seconds", 0):
        p.add_argument("--" + name, type=int, default=default)
    options = p.parse_args()
    print(json.dumps(Load(options.socket, options.seed, options).run()))


if __name__ == "__main__":
    main()
