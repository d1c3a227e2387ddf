# SPDX-License-Identifier: MIT
"""tail.py FILE [OTHER]: checks the order of a tail's records, and that its bytes are those of another perf.data of the
same threads at the same offsets; prints sums as JSON. For tests/daemon/tail.test."""
import json
import struct
import sys

COMM, EXIT, MMAP2, AUX, INFO, AUXTRACE = 3, 4, 10, 11, 70, 71
RAW, CONTINUES, GAP = 0x100, 1 << 62, 1 << 63


def records(data):
    """Each record: its type, its bytes, and the bytes of trace behind it; of a file that may be cut."""
    at = struct.unpack_from("<Q", data, 40)[0]
    size = struct.unpack_from("<Q", data, 48)[0]
    end = at + size if size else len(data)
    while at + 8 <= end:
        kind, _, size = struct.unpack_from("<IHH", data, at)
        trace = struct.unpack_from("<Q", data, at + 8)[0] if kind == AUXTRACE and at + 16 <= end else 0
        if at + size + trace > end:
            return
        yield kind, data[at : at + size], data[at + size : at + size + trace]
        at += size + trace


def fail(text, *values):
    sys.exit("# " + " ".join([text, *map(str, values)]))


def check(data):
    """Returns the pieces of each thread, (tid, offset, bytes), and the sums."""
    sums = dict(bytes=0, lost=0, gaps=0, exits=0, threads=0, maps=0)
    pieces, ends, named, exited, aux = [], {}, set(), set(), None
    if data[:8] != b"PERFILE2" or struct.unpack_from("<Q", data, 48)[0] or any(data[72:104]):
        fail("the header is not that of a tail")
    for number, (kind, r, trace) in enumerate(records(data)):
        if (number == 0) != (kind == INFO):
            fail("AUXTRACE_INFO is record", number)
        if aux and kind != AUXTRACE:
            fail("a slice has no bytes")
        if kind == COMM:
            named.add(struct.unpack_from("<I", r, 12)[0])
        elif kind == MMAP2:
            sums["maps"] += 1
        elif kind == EXIT:
            sums["exits"] += 1
            tid = struct.unpack_from("<I", r, 16)[0]
            exited |= {index for index, (_, of) in ends.items() if of == tid}
        elif kind == AUX:
            offset, size, flags = struct.unpack_from("<3Q", r, 8)
            tid = struct.unpack_from("<I", r, 36)[0]
            if flags & GAP:
                index = flags >> 32 & (1 << 30) - 1
                sums["gaps"] += 1
                sums["lost"] += size
                if index in ends and ends[index][0] != offset:
                    fail("a gap at", offset, "does not follow", ends[index])
                ends[index] = offset + size, tid
            else:
                aux = offset, size, flags, tid
        elif kind == AUXTRACE:
            size, offset, _, index, tid = struct.unpack_from("<3Q2I", r, 8)
            if not aux or aux[0] != offset or size != (aux[1] + 7) // 8 * 8 or aux[3] != tid:
                fail("a slice does not follow its AUX record at", offset, aux)
            if not sums["maps"] or tid not in named:
                fail("trace precedes the mappings, or the name of", tid)
            if index in exited:
                fail("trace of a thread that has ended", tid)
            if index in ends and ends[index][0] != offset:
                fail("a slice at", offset, "does not follow", ends[index])
            if aux[2] & CONTINUES and index not in ends:
                fail("a first slice continues", tid)
            pieces.append((tid, offset, trace[: aux[1]]))
            sums["bytes"] += aux[1]
            ends[index] = offset + aux[1], tid
            aux = None
    sums["threads"] = len(ends)
    return pieces, sums


def other_pieces(data):
    aux = None
    for kind, r, trace in records(data):
        if kind == AUX:
            aux = struct.unpack_from("<3Q", r, 8)
        elif kind == AUXTRACE:
            size, offset, _, _, tid = struct.unpack_from("<3Q2I", r, 8)
            # Without its AUX record before it, a slice of the last copy may be padded.
            direct = aux and aux[0] == offset and (aux[1] + 7) // 8 * 8 == size
            yield tid, offset, trace[: aux[1] if direct else max(size - 7, 0)]
            aux = None


def compare(pieces, others):
    """Returns how many bytes both have, which must be equal."""
    streams, common = {}, 0
    for tid, offset, trace in pieces:
        streams.setdefault(tid, []).append((offset, trace))
    for tid, offset, trace in others:
        for at, mine in streams.get(tid, []):
            first, last = max(at, offset), min(at + len(mine), offset + len(trace))
            if first < last:
                if mine[first - at : last - at] != trace[first - offset : last - offset]:
                    fail("the bytes of", tid, "differ from", first, "to", last)
                common += last - first
    return common


def main():
    pieces, sums = check(open(sys.argv[1], "rb").read())
    if len(sys.argv) > 2:
        sums["common"] = compare(pieces, other_pieces(open(sys.argv[2], "rb").read()))
    print(json.dumps(sums))


main()
