# SPDX-License-Identifier: MIT
# csightd as its units start it: what survives a restart, an upgrade, a crash and a hang. Python, run by guest.py.
import signal
import socket

# Only the sockets are active: the first client starts csightd.
succeeds("csightd.socket listens", "systemctl", "start", "csightd.socket")
ok("csightd does not run yet", unit("csightd", "ActiveState") == "inactive")
succeeds("alice's first question starts it", "csight", "status", user="alice")
ok("it is active", unit("csightd", "ActiveState") == "active")
for user in USERS:
    succeeds(f"{user} asks for its status", "csight", "status", user=user)
ok("systemctl shows targets and snapshots", until(lambda: "0 targets, 0 snapshots" in unit("csightd", "StatusText"), 5),
   unit("csightd", "StatusText"))

# The restrictions, from the kernel's side.
CAPABILITIES = {"SETGID": 6, "SETUID": 7, "KILL": 5, "NET_ADMIN": 12}


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def decoders():
    return [int(p) for p in run("pgrep", "-x", "csight-decode").stdout.split()]


bounding = int(status_of(main_pid())["CapBnd"], 16)
for name, bit in CAPABILITIES.items():
    ok(f"csightd has no CAP_{name}", not bounding >> bit & 1, hex(bounding))
ok("a decode server runs in its own unit", until(lambda: len(decoders()) == 1), decoders())
status = status_of(decoders()[0])
ok("as the user csight", status["Uid"].split()[0] == str(pwd.getpwnam("csight").pw_uid), status["Uid"])
ok("without capabilities", int(status["CapBnd"], 16) == 0 and int(status["CapPrm"], 16) == 0, status["CapBnd"])


def refused(path, user):
    code = f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect({path!r})"
    r = run(sys.executable, "-c", code, user=user)
    return "PermissionError" in r.stdout or "Permission denied" in r.stdout


for path in ("/run/csight-decode.sock", "/run/csight-opener.sock", "/run/csight-keeper.sock", "/run/csight-runner.sock",
             "/run/csight-kernel.sock"):
    ok(f"alice may not connect to {path}", refused(path, "alice"))

# One snapshot of each user under the restrictions, with the sandbox whole; of a stripped program its names are in a file
# that only its owner can read.
for user in USERS:
    home = pwd.getpwnam(user).pw_dir
    run("sh", "-c", f"mkdir -p {home}/bin/.debug && cp {PROGRAMS}/stripped {home}/bin/ && "
        f"cp {PROGRAMS}/stripped.debug {home}/bin/.debug/ && chmod 700 {home}/bin {home}/bin/.debug && "
        f"chown -R {user}:{user} {home}/bin", check=True)
    for name, program in (("a program", PROGRAMS + "/steps"), ("a stripped program", home + "/bin/stripped")):
        p = Program(user, program=program)
        until(lambda: p.pid in armed())
        p.send("b")
        time.sleep(0.2)
        s = p.snapshot()
        good = isinstance(s, dict) and s["state"] == "ready"
        ok(f"{user}: a snapshot of {name} is decoded", good, s)
        if good:
            ok(f"{user}: its functions have names", p.calls(s["id"], "before_event") == 1)
            ok(f"{user}: the sandbox is whole", len(s["decode"]["cage"]) == 6, s["decode"]["cage"])
            other = USERS[1 - USERS.index(user)]
            ok(f"{other} may not see it", run("csight", "show", s["id"], user=other).returncode != 0)
        p.end()


# csight-opener ends when nobody has asked for a while, and however often it is started, its socket stays.
p = Program("alice", program=pwd.getpwnam("alice").pw_dir + "/bin/stripped")
until(lambda: p.pid in armed())
p.send("b")
for n in range(8):
    run("systemctl", "stop", "csight-opener.service")
    s = p.snapshot()
    if not isinstance(s, dict) or p.calls(s["id"], "before_event") != 1:
        break
ok("csight-opener starts as often as it is needed", n == 7, unit("csight-opener.socket", "Result"))
time.sleep(2)
ok("it does not end after each file", unit("csight-opener", "ActiveState") == "active", unit("csight-opener", "ActiveState"))
p.end()


# The command of a trigger, as its user.
p = Program("alice", program=PROGRAMS + "/steps")
until(lambda: p.pid in armed())
seen = pwd.getpwnam("alice").pw_dir + "/seen"
succeeds("alice sets a trigger with a command", "csight", "watch", f"--pid={p.pid}", "--exit", "--background",
         f"--exec=id >{seen}.tmp; grep -E 'Cap|NoNew' /proc/self/status >>{seen}.tmp; mv {seen}.tmp {seen}; sleep 1000 & sleep 0",
         user="alice")
p.end()
ok("the command runs", until(lambda: os.path.exists(seen), 20), run("journalctl", "-b", "-n", "30", "--no-pager").stdout)
if os.path.exists(seen):
    with open(seen, encoding="utf-8") as f:
        text = f.read()
    ok("as alice", "(alice)" in text.split()[0] and "(root)" not in text, text)
    ok("without capabilities", "CapPrm:\t0000000000000000" in text and "CapEff:\t0000000000000000" in text, text)
ok("what it leaves running ends with it", until(lambda: run("pgrep", "-u", "alice", "-f", "sleep 1000").stdout == "", 10))


def restart(programs):
    run("systemctl", "restart", "csightd")


def kill_daemon(programs):
    old = main_pid()
    os.kill(old, signal.SIGKILL)
    until(lambda: main_pid() not in (0, old))


def kill_keeper(programs):
    run("systemctl", "start", "csight-keeper.service")
    pid = main_pid("csight-keeper")
    if pid:
        os.kill(pid, signal.SIGKILL)


def kill_decoder(programs):
    for pid in decoders():
        os.kill(pid, signal.SIGKILL)
    until(lambda: decoders() and not asked("status")["warnings"])


def configure(text):
    os.makedirs(CONFIG + ".d", exist_ok=True)
    with open(CONFIG + ".d/boot.conf", "w", encoding="utf-8") as f:
        f.write(text)


def reload_right(programs):
    configure("jobs = 2\n")
    succeeds("a right configuration is applied", "systemctl", "reload", "csightd")


def reload_wrong(programs):
    configure("jobs = many\n")
    r = run("systemctl", "reload", "csightd")
    ok("a wrong configuration fails the reload", r.returncode != 0)
    log = run("journalctl", "-b", "-u", "csightd", "-q", "--no-pager").stdout
    ok("and its line is in the journal", "boot.conf:1: jobs must be a number" in log)
    configure("")


def restart_during_snapshots(programs):
    results = []

    def take(p):
        results.append(p.snapshot())

    threads = [threading.Thread(target=take, args=(p,)) for p in programs]
    for t in threads:
        t.start()
    time.sleep(0.05)
    run("systemctl", "restart", "csightd")
    for t in threads:
        t.join()
    return results


def hang_decoder(programs):
    """systemd ends a server of csight-decode that stands still; snapshots that wait for it are decoded by the next."""
    results = []
    stopped = decoders()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    threads = [threading.Thread(target=lambda p=p: results.append(p.snapshot())) for p in programs]
    for t in threads:
        t.start()
    ok("it is ended, and another one serves", until(lambda: decoders() and not set(decoders()) & set(stopped)), decoders())
    for t in threads:
        t.join()
    ok("the snapshots that waited for it are decoded", len(results) == len(programs), results)
    return results


def hang(programs):
    """systemd ends a csightd whose loop does not turn. The test has a short time for it."""
    old = main_pid()
    os.kill(old, signal.SIGSTOP)
    until(lambda: main_pid() not in (0, old))


event("reload, right", 4, reload_right)
event("reload, wrong", 4, reload_wrong)
event("restart", 4, restart)
event("restart during snapshots", 6, restart_during_snapshots)
event("kill -9 of csightd", 4, kill_daemon)
event("kill -9 of csight-keeper", 4, kill_keeper)
event("kill -9 of csight-decode", 4, kill_decoder)
event("upgrade by restart", 20, restart)
run("mkdir", "-p", "/etc/systemd/system/csightd.service.d", check=True)
with open("/etc/systemd/system/csightd.service.d/boot.conf", "w", encoding="utf-8") as f:
    f.write("[Service]\nWatchdogSec=2\n")
run("mkdir", "-p", "/etc/systemd/system/csight-decode@.service.d", check=True)
with open("/etc/systemd/system/csight-decode@.service.d/boot.conf", "w", encoding="utf-8") as f:
    f.write("[Service]\nWatchdogSec=2\n")
run("systemctl", "daemon-reload")
run("systemctl", "restart", "csightd")
event("watchdog", 4, hang)
event("watchdog of csight-decode", 4, hang_decoder)
ok("the watchdog ended it", "watchdog" in run("journalctl", "-b", "-u", "csight-decode@*", "-q", "--no-pager").stdout.lower())
ok("the watchdog ended it", "watchdog" in run("journalctl", "-b", "-u", "csightd", "-q", "--no-pager").stdout.lower())
succeeds("the units stop", "systemctl", "stop", "csightd.socket", "csightd.service")
ok("and are inactive, not failed", unit("csightd", "ActiveState") == "inactive", unit("csightd", "ActiveState"))
ok("nothing of them is left", until(lambda: run("pgrep", "^csight").returncode == 1), run("pgrep", "-a", "^csight").stdout)
