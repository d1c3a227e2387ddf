# SPDX-License-Identifier: MIT
"""The file that the shim shares with the driver (control.h), and the calls that it can fail, with their errors."""
import errno, mmap, os, struct, subprocess

OFF, RECORD, FAIL, KILL = range(4)
PROGRAMS = {"csightd": 1, "csight-decode": 2, "csight": 3, "library": 4}
# By the number of enum call in shim.c: the name and the errors; 0 is a short read or write.
CALLS = [("malloc", ["ENOMEM"]), ("open", ["EMFILE"]), ("read", ["EIO", 0]), ("write", ["ENOSPC", 0]), ("send", ["ENOBUFS"]),
         ("recv", ["ECONNRESET"]), ("fork", ["EAGAIN"]), ("pthread_create", ["EAGAIN"]), ("mmap", ["ENOMEM"]),
         ("fsync", ["EIO"]), ("rename", ["ENOSPC"]), ("ftruncate", ["ENOSPC"]), ("descriptor", ["EMFILE"]),
         ("mkdir", ["ENOSPC"])]
HEAD = struct.Struct("<IIQIIIIqII")
SITE = struct.Struct("<QIIII12Q")
SITES_MAX, OWN, LIBRARY = 16384, 1 << 63, 1 << 62


class Site:
    """One site of a program: where a call is, as the addresses of its callers."""

    def __init__(self, program, fields):
        self.program, self.id, self.call, self.hits = program, fields[0], fields[2], fields[3]
        self.frames = fields[5:5 + fields[4]]

    def own(self):
        """The addresses in csight's own code, the innermost first, and whether they are libcsight's."""
        return [((f & ~(OWN | LIBRARY)) - 1, bool(f & LIBRARY)) for f in self.frames if f & OWN]

    def __str__(self):
        return "%s %s %016x" % (self.program, CALLS[self.call][0], self.id)


class Control:
    def __init__(self, path):
        self.path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        os.fchmod(fd, 0o666)
        os.ftruncate(fd, HEAD.size + SITES_MAX * SITE.size)
        self.map = mmap.mmap(fd, HEAD.size + SITES_MAX * SITE.size)
        os.close(fd)
        self.off()

    def set(self, mode, program=0, id=0, call=0, error=0, times=1):
        clock, delay, sites = HEAD.unpack_from(self.map)[7:]
        # The mode comes last: no process may see it with other fields that are old.
        HEAD.pack_into(self.map, 0, OFF, program, id, call, error, times, 0, clock, delay, sites)
        struct.pack_into("<I", self.map, 0, mode)

    def off(self):
        """Returns how often the site has been reached."""
        hits = HEAD.unpack_from(self.map)[6]
        struct.pack_into("<I", self.map, 0, OFF)
        return hits

    def hit(self):
        return HEAD.unpack_from(self.map)[6] > 0

    def killed(self):
        return HEAD.unpack_from(self.map)[0] == KILL and self.hit()

    def record(self, program=None):
        struct.pack_into("<I", self.map, HEAD.size - 4, 0)
        self.set(RECORD, PROGRAMS.get(program, 0))

    def fail(self, site, error, times=1):
        self.set(FAIL, PROGRAMS[site.program], site.id, site.call, getattr(errno, error) if error else 0, times)

    def kill(self, site):
        self.set(KILL, PROGRAMS[site.program], site.id, site.call)

    def clock(self, seconds):
        struct.pack_into("<q", self.map, 32, seconds * 10 ** 9)

    def delay(self, microseconds):
        struct.pack_into("<I", self.map, 40, microseconds)

    def sites(self):
        names = {v: k for k, v in PROGRAMS.items()}
        found = {}
        for n in range(min(HEAD.unpack_from(self.map)[9], SITES_MAX)):
            f = SITE.unpack_from(self.map, HEAD.size + n * SITE.size)
            if f[1] in names:
                found[names[f[1]], f[0]] = Site(names[f[1]], f)
        return found


def places(site, binary, library):
    """The functions and lines of a site, for a person."""
    found = []
    for address, in_library in site.own():
        got = subprocess.run(["addr2line", "-sfe", library if in_library else binary, "%#x" % address], capture_output=True,
                             text=True).stdout.split("\n")
        found.append("%s (%s)" % tuple(got[:2]))
    return " < ".join(found)
