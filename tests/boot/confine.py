# SPDX-License-Identifier: MIT
# Starts a program in the sandbox of a service that systemd runs: its namespaces, control group, capabilities, limits and
# filters of system calls, copied from the running process, so that the program stays a child of its caller.
# usage: confine.py --copy PID FILE          writes what is copied; only root, and outside any filter
#        confine.py FILE PROGRAM [ARGUMENT...]
import ctypes
import json
import os
import resource
import sys

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_SECCOMP_GET_FILTER = 17, 0x4206, 0x4207, 0x420c
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 24, 38, 2
NAMESPACES = {"mnt": 0x20000, "uts": 0x4000000, "ipc": 0x8000000, "net": 0x40000000}
INSTRUCTION = 8  # bytes of a struct sock_filter
LIMITS = [n for n in dir(resource) if n.startswith("RLIMIT_") and n != "RLIMIT_OFILE"]
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def filters_of(pid):
    """The filters, in the order in which they were installed."""
    must(libc.ptrace(PTRACE_SEIZE, pid, None, None), "attach to the service")
    must(libc.ptrace(PTRACE_INTERRUPT, pid, None, None), "stop the service")
    os.waitpid(pid, 0x40000000)  # __WALL
    found = []
    while True:
        n = libc.ptrace(PTRACE_SECCOMP_GET_FILTER, pid, len(found), None)
        if n < 0:
            if ctypes.get_errno() != 2:  # ENOENT: there are no more
                must(n, "read the filters of the service")
            break
        code = ctypes.create_string_buffer(n * INSTRUCTION)
        must(libc.ptrace(PTRACE_SECCOMP_GET_FILTER, pid, len(found), code), "read a filter of the service")
        found.append(code.raw.hex())
    libc.ptrace(PTRACE_DETACH, pid, None, None)
    return found[::-1]


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def groups_of(pid):
    """The folders of its control groups, in one hierarchy or in several."""
    found = []
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
        for line in f:
            _, kind, path = line.rstrip("\n").split(":", 2)
            for top in ("/sys/fs/cgroup/" + (kind.removeprefix("name=") or "unified"), "/sys/fs/cgroup"):
                if os.access(f"{top}{path}/cgroup.procs", os.W_OK):
                    found.append(top + path)
                    break
    return found


def copy(pid, path):
    status = status_of(pid)
    sandbox = {"pid": pid, "groups": groups_of(pid), "bounding": int(status["CapBnd"], 16),
               "no_new_privileges": int(status["NoNewPrivs"]), "umask": int(status["Umask"], 8),
               "limits": {n: resource.prlimit(pid, getattr(resource, n)) for n in LIMITS}, "filters": filters_of(pid)}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(sandbox, f)
    os.chmod(path, 0o644)


def join_namespaces(pid):
    """A test that made a mount namespace for csightd, to hide or replace a file, keeps that."""
    wanted = 0
    for name, flag in NAMESPACES.items():
        own = os.readlink(f"/proc/self/ns/{name}")
        if own != os.readlink(f"/proc/{pid}/ns/{name}") and (name != "mnt" or own == os.readlink("/proc/1/ns/mnt")):
            wanted |= flag
    if wanted:
        where = os.getcwd()
        must(libc.setns(os.pidfd_open(pid), wanted), "join the namespaces of the service")
        os.chdir(where)


def confine(s):
    for group in s["groups"]:
        with open(group + "/cgroup.procs", "w", encoding="utf-8") as f:
            f.write(str(os.getpid()))
    join_namespaces(s["pid"])
    for name, (soft, hard) in s["limits"].items():
        own = resource.getrlimit(getattr(resource, name))
        if own[1] == resource.RLIM_INFINITY or hard != resource.RLIM_INFINITY and hard <= own[1]:
            resource.setrlimit(getattr(resource, name), (soft, hard))  # a test may want less
    os.umask(s["umask"])
    for capability in range(64):
        if not s["bounding"] >> capability & 1 and libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # the kernel knows no more
    if s["no_new_privileges"]:
        must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "renounce new privileges")
    codes = [bytes.fromhex(f) for f in s["filters"]]
    for code in codes:
        buffer = ctypes.create_string_buffer(code, len(code))
        f = Filter(len(code) // INSTRUCTION, ctypes.addressof(buffer))
        must(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(f), 0, 0), "install a filter")


def main():
    if sys.argv[1] == "--copy":
        copy(int(sys.argv[2]), sys.argv[3])
        return
    with open(sys.argv[1], encoding="utf-8") as f:
        sandbox = json.load(f)
    confine(sandbox)
    os.execv(sys.argv[2], [os.path.basename(sys.argv[2]), *sys.argv[3:]])


main()
