#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes each call of the allocator and the kernel of each program fail, one in each run, and judges what is left.

usage: sweep.py BUILD DIRECTORY [--only PROGRAM] [--sample N] [--kill] [--site ID] [--verbose]

The first pass records the sites (control.h) that a scenario reaches: a site is a call with its callers. Then, for each
site and each of its errors, the step of the scenario that reaches it is run once more. Prints the facts as JSON.
"""
import argparse, json, os, re, signal, sys, time

from control import CALLS, places
from world import CAUSE, Defect, World, id_of


class Step:
    """One command of the scenario. It needs what World.restart_all() has made, and leaves it as it was."""

    def __init__(self, name, arguments, program="csight", promises=False):
        self.name, self.arguments, self.program, self.promises = name, arguments, program, promises

    def run(self, w):
        """Returns (status, output, messages)."""
        words = {"@id": w.snapshot, "@pid": str(w.target.pid), "@dir": w.spool + "/" + w.snapshot, "@guest": w.guest,
                 "@trace": w.spool + "/" + w.snapshot + "/trace.perf.data"}
        return w.csight(*[words.get(a, a) for a in self.arguments], program=self.program)


class Start(Step):
    """The daemon from its start to its end."""

    def __init__(self):
        super().__init__("start", [])

    def run(self, w):
        w.stop()
        at = os.path.getsize(w.log)
        w.spawn()
        alive = w.ready()
        if alive:
            w.csight("status")
            w.stop()
        else:
            w.daemon.wait()
        return w.daemon.returncode if w.daemon else 0, b"", w.log_since(at)


STEPS = [
    Step("status", ["status"]),
    Step("targets", ["targets"]),
    Step("list", ["list"]),
    Step("version", ["version"]),
    Step("show", ["show", "--last=1ms", "@id"]),
    Step("show-json", ["show", "--json", "@id"]),
    Step("report", ["report", "@id"]),
    Step("grep", ["grep", "turn", "@id"]),
    Step("explain", ["explain", "turn", "@id"]),
    Step("diff", ["diff", "@id", "@id"]),
    Step("wait", ["wait", "@id"]),
    Step("info", ["info", "@trace"]),
    Step("snapshot", ["snapshot", "--json", "--pid", "@pid"], promises=True),
    Step("no-wait", ["snapshot", "--json", "--no-wait", "--pid", "@pid"], promises=True),
    Step("stream", ["stream", "--json", "--max=100K", "--for=1s", "--pid", "@pid"], promises=True),
    Step("tail", ["tail", "--json", "--for=300ms", "--pid", "@pid"]),
    Step("library", ["@pid"], "library", promises=True),
    Step("export", ["export", "@id", "-o", "trace.pftrace"]),
    Step("export-all", ["export", "@id", "-t", "fxt", "-o", "t.fxt", "-t", "speedscope", "-o", "t.json", "-t", "pprof", "-o",
                        "t.pb", "-t", "folded", "-o", "t.folded", "-t", "chrome", "-o", "t.chrome", "-t", "tree", "-o", "t.tree"]),
    Step("export-raw", ["export", "@id", "-t", "autofdo", "-o", "t.afdo"]),
    Step("perfdata", ["export", "@id", "-t", "perfdata", "-o", "t.data"]),
    Step("decode", ["decode", "@dir", "-o", "t.elements"]),
    Step("decode-calls", ["decode", "--engine=opencsd", "-t", "calls", "-o", "t.calls", "@dir"]),
    Step("doctor", ["doctor"]),
    Step("run", ["run", "--emu", "--ring-size", "64K", "--", "@guest", "once"]),
    Step("run-snapshot", ["run", "--emu", "--snapshot", "--ring-size", "64K", "--", "@guest", "once"]),
    Step("remove", ["remove", "@id"]),
    Start(),
]


# Where a library that csight uses ends the process.
KNOWN = {
    ("decoder_user", "malloc"): "the name service of glibc 2.36 ends the process where memory runs out",
    ("find_user", "malloc"): "the same",
    ("add_owner", "malloc"): "the same",
    ("run", "read"): "libevent ends the process if its own socket of signals cannot be read",
}


# Where the timing of other threads decides whether a call is made at all, so that no scenario makes it each time.
RARE = (
    # The state of the targets changes once more, at the end, while it is written.
    "begin_write < deliver_finished",
)
# How often all steps are tried for a site that none has reached.
ROUNDS = 12


def log(text):
    print(text, file=sys.stderr, flush=True)


class Sweep:
    def __init__(self, options):
        self.options = options
        self.w = World(options.build, options.work)
        self.sites, self.defects, self.known, self.rare, self.visited, self.again, self.runs = {}, [], [], [], set(), set(), 0

    def prepare(self, step):
        """What the step takes away from the world is made anew."""
        if step.name == "remove":
            self.kept = self.w.snapshot
            self.w.snapshot = self.w.take()
            self.w.settle()

    def restore(self, step):
        if step.name == "remove":
            self.w.snapshot = self.kept
        if isinstance(step, Start):
            self.w.revive()

    def record(self, step):
        self.prepare(step)
        self.w.control.record()
        status, out, err = step.run(self.w)
        if self.w.daemon:
            self.w.settle()
        self.w.control.off()
        if status != 0 and step.name not in ("doctor",) and not step.name.startswith("run"):
            raise SystemExit("%s without a fault: %d, %s" % (step.name, status, err))
        found = self.w.control.sites()
        self.restore(step)
        if step.promises:
            self.w.judge([id_of(out)])
        return found

    def record_all(self):
        self.w.restart_all()
        for _ in range(2):
            for step in STEPS:
                began = time.monotonic()
                for key, site in self.record(step).items():
                    if key in self.sites:
                        self.again.add(key)
                    else:
                        self.sites[key] = site, step
                if self.options.verbose:
                    log("# %s: %d sites in all, %.2f s" % (step.name, len(self.sites), time.monotonic() - began))

    def variants(self, site):
        return [None] if self.options.kill else CALLS[site.call][1]

    def arm(self, site, error):
        self.runs += 1
        if self.options.kill:
            self.w.control.kill(site)
        else:
            self.w.control.fail(site, error)

    def run_cold(self, site, step, error):
        """The same for a site that only a daemon's first target and snapshot reach."""
        w = self.w
        w.restart()
        self.arm(site, error)
        try:
            w.run_target()
            w.snapshot = w.take()
            step.run(w)
        except Defect:
            # The fault was in this.
            pass
        hits = w.control.off()
        if w.daemon.poll() is not None and not self.options.kill:
            raise Defect("csightd died: %d" % w.daemon.returncode)
        if hits:
            w.restart_all()
        return hits > 0

    def run_full(self, site, step, error):
        """The same for a site that only the start with a snapshot of an ended process reaches: it says where that ended."""
        self.w.csight("run", "--emu", "--snapshot", "--ring-size", "64K", "--", self.w.guest, "once", faults=False)
        return self.run(site, step, error)

    def run(self, site, step, error):
        """Returns whether the site was reached; raises Defect."""
        w = self.w
        self.prepare(step)
        self.arm(site, error)
        failure = None
        try:
            status, out, err = step.run(w)
            if w.daemon and w.daemon.poll() is None:
                w.settle()
        except Defect as e:
            # What it asks itself of a daemon that is killed has no answer.
            failure = None if self.options.kill and w.daemon and w.died() else e
            status, out, err = 0, b"", ""
        hits = w.control.off()
        if failure:
            raise failure
        self.check_end(site, step, status, err + out.decode("utf-8", "replace") * step.promises, hits)
        if step.name == "remove":
            self.check_removed(status, hits)
            return hits > 0
        if self.options.kill and site.program == "csightd":
            w.revive()
        else:
            self.restore(step)
        promised = []
        if step.promises and out:
            promised = [id_of(out)]
        w.judge(promised)
        return hits > 0

    def check_end(self, site, step, status, err, hits):
        if self.options.kill:
            return
        if status < 0:
            raise Defect("%s died: signal %d: %s" % (step.name, -status, err.strip()))
        if "AddressSanitizer" in err or "runtime error" in err or "LeakSanitizer" in err:
            raise Defect("%s: %s" % (step.name, err))
        # The doctor reports what this machine lacks.
        if hits and status != 0 and step.name != "doctor" and not CAUSE.search(err):
            raise Defect("%s exits with %d and does not say why: %r" % (step.name, status, err.strip()))

    def check_removed(self, status, hits):
        w = self.w
        removed, w.snapshot = w.snapshot, self.kept
        if w.daemon.poll() is not None and self.options.kill:
            w.revive()
        elif status == 0 and removed in w.settle():
            raise Defect("removed, but listed")
        w.judge()

    def attempts(self, site, step):
        """How to reach a site that is reached only sometimes, such as by the growth of a buffer."""
        yield from [(self.run, step)] * 3
        if isinstance(step, Start):
            yield self.run_full, step
        for _ in range(ROUNDS):
            if site.program == "csightd" and not isinstance(step, Start):
                yield self.run_cold, step
            yield from ((self.run, other) for other in STEPS)
            yield from [(self.run, step)] * 10

    def place(self, site):
        binary = self.w.build + ("/tests/faults/.libs/library" if site.program == "library" else "/" + site.program)
        return places(site, binary, self.w.build + "/lib/csight/.libs/libcsight.so")

    def restart(self):
        for tries_left in 2, 1, 0:
            try:
                return self.w.restart_all()
            except Defect:
                if not tries_left:
                    raise

    def visit(self, site, step, error):
        name = "kill" if self.options.kill else error or "short"
        for run, step in self.attempts(site, step):
            at = os.path.getsize(self.w.log)
            try:
                reached = run(site, step, error)
            except (Defect, OSError, ValueError, KeyError) as e:
                self.w.control.off()
                place = self.place(site)
                if (place.split(" ")[0], CALLS[site.call][0]) in KNOWN:
                    self.known.append("%s in %s" % (site, place))
                    self.restart()
                    return True
                text = "%s: %s: %s in %s" % (site, step.name, name, place)
                self.defects.append({"site": text, "defect": "%s" % e})
                log("DEFECT %s\n    %s: %s" % (text, type(e).__name__, e))
                if self.options.verbose:
                    log(self.w.log_since(at)[-1500:])
                self.restart()
                return True
            if reached:
                return True
        return False

    def sweep(self):
        todo = sorted(self.sites.items(), key=lambda i: (STEPS.index(i[1][1]), i[0]))
        if self.options.only:
            todo = [i for i in todo if i[0][0] in self.options.only]
        if self.options.call:
            todo = [i for i in todo if CALLS[i[1][0].call][0] in self.options.call]
        if self.options.site:
            todo = [i for i in todo if i[0][1] == int(self.options.site, 16)]
        if self.options.sample is not None:
            todo = self.sample(todo)
        if self.options.part:
            n, of = map(int, self.options.part.split("/"))
            todo = todo[n - 1::of]
        began = time.monotonic()
        missed = []
        for n, (key, (site, step)) in enumerate(todo):
            reached = [self.visit(site, step, error) for error in self.variants(site)]
            if any(reached):
                self.visited.add(key)
            else:
                place = self.place(site)
                callers = re.sub(r" \([^)]*\)", "", place)
                (self.rare if any(r in callers for r in RARE) else missed).append("%s in %s: %s" % (site, step.name, place))
            if n % 100 == 99:
                log("# %d of %d sites, %d defects, %d s" % (n + 1, len(todo), len(self.defects), time.monotonic() - began))
        return todo, missed

    def sample(self, todo):
        """Sites at even distances, of each program as many as its part of the whole, and those that each pass reaches."""
        n, todo = self.options.sample, [i for i in todo if i[0] in self.again]
        return [todo[i * len(todo) // n] for i in range(min(n, len(todo)))]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("work")
    p.add_argument("--only", action="append")
    p.add_argument("--call", action="append")
    p.add_argument("--sample", type=int)
    p.add_argument("--site")
    p.add_argument("--part", help="N/M: each M-th site, from the N-th on")
    p.add_argument("--kill", action="store_true")
    p.add_argument("--verbose", action="store_true")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    s = Sweep(p.parse_args())
    try:
        s.record_all()
        todo, missed = s.sweep()
        s.w.stop()
    finally:
        s.w.end()
    counts = {}
    for program, _ in s.sites:
        counts[program] = counts.get(program, 0) + 1
    visited = {}
    for program, _ in s.visited:
        visited[program] = visited.get(program, 0) + 1
    print(json.dumps({"sites": counts, "visited": visited, "chosen": len(todo), "missed": missed, "runs": s.runs, "known": s.known, "rare": s.rare,
                      "defects": s.defects}, indent=1))


if __name__ == "__main__":
    main()
