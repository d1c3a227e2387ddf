# SPDX-License-Identifier: MIT
"""Reads the Parquet files of csight by the format's specification alone, and compares them with report and grep.

usage: parquet.py CSIGHT STORE CALLS-FILE FUNCTIONS-FILE
"""
import collections
import ctypes
import json
import struct
import subprocess
import sys

zstd = ctypes.CDLL("libzstd.so.1")
zstd.ZSTD_decompress.restype = ctypes.c_size_t


class Thrift:
    """The compact protocol: structs as dicts of field numbers."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind in (5, 6):
            n = self.varint()
            return n >> 1 ^ -(n & 1)
        if kind == 8:
            n = self.varint()
            self.at += n
            return bytes(self.data[self.at - n:self.at])
        if kind == 9:
            head = self.data[self.at]
            self.at += 1
            n = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(n)]
        assert kind == 12, kind
        fields, number = {}, 0
        while self.data[self.at]:
            head = self.data[self.at]
            self.at += 1
            assert head >> 4, "long field headers are not used"
            number += head >> 4
            fields[number] = self.value(head & 15)
        self.at += 1
        return fields


def read(path):
    data = memoryview(open(path, "rb").read())
    assert data[:4] == b"PAR1" and data[-4:] == b"PAR1"
    size = struct.unpack("<I", data[-8:-4])[0]
    meta = Thrift(data, len(data) - 8 - size).value(12)
    root, *schema = meta[2]
    assert root[5] == len(schema) and all(s[3] == 0 for s in schema)
    columns = collections.OrderedDict((s[4].decode(), []) for s in schema)
    for group in meta[4]:
        assert len(group[1]) == len(schema)
        for chunk, s in zip(group[1], schema):
            about = chunk[3]
            assert about[3] == [s[4]] and about[1] == s[1] and about[5] == group[3] and about[4] == 6
            head = Thrift(data, about[9])
            page = head.value(12)
            assert page[1] == 0 and page[5][1] == group[3] and page[5][2] == 0
            assert head.at - about[9] + page[3] == about[7] and head.at - about[9] + page[2] == about[6]
            out = ctypes.create_string_buffer(page[2] + 1)
            packed = bytes(data[head.at:head.at + page[3]])
            assert zstd.ZSTD_decompress(out, ctypes.c_size_t(page[2]), packed, ctypes.c_size_t(len(packed))) == page[2]
            columns[s[4].decode()] += values(out.raw[:page[2]], s[1], group[3])
    rows = list(zip(*columns.values()))
    assert len(rows) == meta[3] and all(len(c) == meta[3] for c in columns.values())
    return [dict(zip(columns, row)) for row in rows], len(meta[4])


def values(data, kind, n):
    if kind == 0:
        assert len(data) == (n + 7) // 8
        return [bool(data[i // 8] >> i % 8 & 1) for i in range(n)]
    if kind == 2:
        return list(struct.unpack(f"<{n}q", data))
    result, at = [], 0
    for _ in range(n):
        size = struct.unpack_from("<I", data, at)[0]
        result.append(data[at + 4:at + 4 + size].decode())
        at += 4 + size
    assert at == len(data)
    return result


def run(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE).stdout.decode()


csight, store, calls_file, functions_file = sys.argv[1:]
facts = {}
calls, groups = read(calls_file)
facts["calls"], facts["groups"] = len(calls), groups
want = [(c["name"], c["thread"], c["time"], c["duration"], c.get("bound", 0), c["instructions"], c["depth"], c["whole"], c.get("caller", ""))
        for c in map(json.loads, run(csight, "grep", "--limit=0", "--json", "*", store).splitlines())]
got = [(c["function"], c["tid"], c["start_ns"], c["duration_ns"], c["bound_ns"], c["instructions"], c["depth"], c["whole"], c["caller"])
       for c in calls]
facts["as grep"] = sorted(got) == sorted(want) and bool(want)
if not facts["as grep"]:
    facts["differ"] = [str(pair) for pair in zip(sorted(got), sorted(want)) if pair[0] != pair[1]][:2] + [len(got), len(want)]
functions, _ = read(functions_file)
report = json.loads(run(csight, "report", "--limit=0", "--json", store))
want = [(f["name"], f["image"], f["calls"], f["whole"], f["total"], f["self"], f.get("wait", 0), f.get("min", 0), f.get("median", 0),
         f.get("p99", 0), f["max"], f["total_instructions"], f["self_instructions"]) for f in report["functions"]]
got = [(f["function"], f["image"], f["calls"], f["whole_calls"], f["total_ns"], f["self_ns"], f["wait_ns"], f["min_ns"], f["median_ns"],
        f["p99_ns"], f["max_ns"], f["total_instructions"], f["self_instructions"]) for f in functions]
facts["as report"] = sorted(got) == sorted(want) and bool(want)
if not facts["as report"]:
    facts["differ"] = [str(pair) for pair in zip(sorted(got), sorted(want)) if pair[0] != pair[1]][:2] + [len(got), len(want)]
for key in "host", "snapshot", "program", "build_id":
    facts[key] = sorted({row[key] for row in calls + functions})
print(json.dumps(facts))
