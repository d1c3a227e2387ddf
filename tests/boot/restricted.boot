# SPDX-License-Identifier: MIT
# tree: the container has this source and build tree
# The tests that start csightd, with csightd in the sandbox of its own unit: a service that systemd starts from
# csightd.service is its model, which confine.py copies. It decodes and opens files through its units, too. Python, run by
# guest.py. TESTS names the tests.
UNIT = "/etc/systemd/system/csightd-model.service"
WORK = "/csight-tests"
SANDBOX = WORK + "/sandbox.json"
BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
# Of the model: it does nothing, and csightd's sockets and spools are where the tests have them.
MODEL = f"""[Unit]
Requires=
[Service]
Type=exec
ExecStart=
ExecStart=/bin/sleep infinity
ExecReload=
WatchdogSec=0
RuntimeDirectory=
StateDirectory=
ReadWritePaths={WORK}
"""
WRAPPER = f"""#!/bin/sh
# Only root's csightd is the system's; a user's own one is in no unit.
[ "$(id -u)" -eq 0 ] || exec {BUILD}/free/csightd "$@"
exec {sys.executable} {SOURCE}/tests/boot/confine.py {SANDBOX} {BUILD}/free/csightd --set=decoder=/run/csight-decode.sock \\
  --set=opener=/run/csight-opener.sock "$@"
"""


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)


def start_model():
    os.makedirs(WORK + "/tmp", exist_ok=True)
    os.chmod(WORK + "/tmp", 0o1777)
    run("cp", unit("csightd", "FragmentPath"), UNIT, check=True)
    os.makedirs(UNIT + ".d", exist_ok=True)
    write(UNIT + ".d/model.conf", MODEL)
    run("systemctl", "daemon-reload", check=True)
    for name in ("csight-decode.socket", "csight-opener.socket"):
        succeeds(f"{name} listens", "systemctl", "start", name)
    succeeds("a service with the sandbox of csightd.service starts", "systemctl", "start", "csightd-model")
    succeeds("its sandbox is copied", sys.executable, SOURCE + "/tests/boot/confine.py", "--copy",
             str(main_pid("csightd-model")), SANDBOX)


def replace_csightd():
    """In the container's own copy of the build tree."""
    os.makedirs(BUILD + "/free")
    os.rename(BUILD + "/csightd", BUILD + "/free/csightd")
    os.symlink("../csight-decode", BUILD + "/free/csight-decode")
    write(BUILD + "/csightd", WRAPPER, 0o755)


def sandbox_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    return [status[k] for k in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Umask")] + [
        os.readlink(f"/proc/{pid}/ns/{n}") for n in ("mnt", "net", "uts", "ipc")]


def compare_sandboxes():
    """A csightd of a test has the same as the model."""
    os.makedirs(WORK + "/probe", exist_ok=True)
    with subprocess.Popen((BUILD + "/csightd", "--socket", WORK + "/probe/s", "--spool", WORK + "/probe/spool"),
                          stderr=subprocess.PIPE, text=True) as p:
        started = until(lambda: run(BUILD + "/csight", "status", "--socket", WORK + "/probe/s").returncode == 0, 20)
        own, model = sandbox_of(p.pid), sandbox_of(main_pid("csightd-model"))
        p.terminate()
        ok("csightd starts in it", started, p.communicate()[1])
    ok("it has the capabilities, filters and namespaces of the unit", own == model, f"{own}\n{model}")


def run_test(test):
    """A TAP program. Its checks are counted, and those that fail are named."""
    program = f"{SOURCE}/{test}" if test.endswith(".test") else f"{BUILD}/{test}"
    r = run("timeout", "-k", "5", "900", program, cwd=BUILD)
    passed = skipped = 0
    bad = False
    for line in r.stdout.splitlines():
        if line.startswith("ok ") and "# SKIP" in line:
            skipped += 1
            note(f"{test}: {line}")
        elif line.startswith("ok "):
            passed += 1
        elif line.startswith("not ok ") and "# TODO" not in line:
            bad = True
            ok(f"{test}: {line.partition(' - ')[2]}", False)
    lines = r.stdout.splitlines()
    wrong = [n for n, line in enumerate(lines) if not line.startswith("ok ")]
    why = [line for n, line in enumerate(lines) if any(n - 3 <= w <= n for w in wrong)]
    ok(f"{test}: {passed} checks passed, {skipped} skipped", r.returncode == 0 and not bad, "\n".join(why[-100:]))
    rows.append((test, str(passed), str(skipped), "" if r.returncode == 0 and not bad else f"FAILED ({r.returncode})"))


start_model()
replace_csightd()
compare_sandboxes()
os.environ.update(TMPDIR=WORK + "/tmp", CSIGHT_UNITS="1", HOME="/root")
for name in os.environ["TESTS"].split():
    run_test(name)
head = ("TEST UNDER THE RESTRICTIONS", "PASSED", "SKIPPED", "")
