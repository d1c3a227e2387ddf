# SPDX-License-Identifier: MIT
"""Reads the events of an fxt file. As a program: prints type, begin, end of a call, name and arguments of each."""
import collections
import sys

TYPES = ["instant", "counter", "begin", "end", "call", "span", None, "ended"]
Event = collections.namedtuple("Event", "type tid time end name arguments")


def events(path):
    data, at, strings, threads = open(path, "rb").read(), 8, {}, {}
    word = lambda at: int.from_bytes(data[at:at + 8], "little")
    text = lambda at, size: data[at:at + size].decode()
    assert word(0) == 0x0016547846040010
    while at < len(data):
        head, size = word(at), (word(at) >> 4 & 0xfff) * 8
        kind = head & 15
        assert size and at + size <= len(data)
        if kind == 1:
            assert word(at + 8) == 10 ** 9
        elif kind == 2:
            strings[head >> 16 & 0x7fff] = text(at + 8, head >> 32 & 0x7fff)
        elif kind == 3:
            threads[head >> 16 & 255] = word(at + 16)
        elif kind == 4:
            to, arguments, event = at + 16, {}, TYPES[head >> 16 & 15]
            for _ in range(head >> 20 & 15):
                assert word(to) & 15 == (4 if event == "counter" else 6)
                name = word(to) >> 16 & 0x7fff
                value = to + 8 + (name + 7) // 8 * 8
                arguments[text(to + 8, name)] = word(value) if event == "counter" else text(value, word(to) >> 32 & 0x7fff)
                to += (word(to) >> 4 & 0xfff) * 8
            yield Event(event, threads[head >> 24 & 255], word(at + 8), word(to) if event == "call" else None,
                        strings[head >> 48], arguments)
        else:
            assert kind in (5, 7)
        at += size


if __name__ == "__main__":
    for e in events(sys.argv[1]):
        print(e.type, e.time, e.end, e.name, *("%s=%s" % a for a in e.arguments.items()))
