#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What csightd's audit has of the actions of users. Needs root, which acts as several users.

usage: audit.py receive FILE              the journal's socket in a mount namespace of its own; each message is a line of JSON
       audit.py act SOCKET                acts as several users; prints what the events must say as JSON
       audit.py refused SOCKET NUMBER     is refused the same thing again and again, and one other
       audit.py many SOCKET NUMBER        opens a snapshot again and again
       audit.py expire SOCKET NUMBER      takes snapshots; prints their ids
"""
import json, os, signal, socket, struct, sys

import attacks
from attacks import Client, end
from quotas import ANNA, BERT, program, settled, start

LOGIN = 4242


def fields(data):
    """A message of the journal's protocol: NAME=VALUE, or NAME, the size and the bytes of the value."""
    found = []
    while data:
        line, _, rest = data.partition(b"\n")
        if b"=" in line:
            name, value = line.split(b"=", 1)
        else:
            name, size = line, struct.unpack("<Q", rest[:8])[0]
            value, rest = rest[8:8 + size], rest[9 + size:]
        found.append((name.decode(), value.decode("utf-8", "backslashreplace")))
        data = rest
    return found


def receive(path):
    if attacks.libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, None) != 0:
        raise SystemExit("cannot mount on /run")
    os.makedirs("/run/systemd/journal")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind("/run/systemd/journal/socket")
    with open(path, "w") as f:
        while True:
            got = fields(s.recv(1 << 16))
            d = dict(got)
            d["repeated"] = len(got) - len(d)
            f.write(json.dumps(d) + "\n")
            f.flush()


def call_as(uid, path, method, parameters, login=None):
    """A call of a process of its own; returns its pid and the reply."""
    def run(say):
        if login is not None:
            try:
                with open("/proc/self/loginuid", "w") as f:
                    f.write(str(login))
            except OSError:
                pass
        with open("/proc/self/loginuid") as f:
            known = int(f.read())
        attacks.become(uid)
        say({"pid": os.getpid(), "login": known, "reply": attacks.call(path, method, parameters)})
    pid, said = start(run)
    os.waitpid(pid, 0)
    return said


def act(path):
    process, anna = program(path, ANNA, rings=1)
    at = {"pid": anna["pid"]}
    facts = {"target": anna["pid"]}
    for name, uid, method, parameters in (
            ("follow", ANNA, "Tail", at),
            ("take", ANNA, "Snapshot", at),
            ("disarm", ANNA, "Disarm", at),
            ("failed", ANNA, "Snapshot", at),
            ("denied", BERT, "Arm", at),
            ("denied_again", BERT, "Arm", at),
            ("arm", 0, "Arm", at),
            ("reload", 0, "Reload", {}),
            ("unloaded", BERT, "Reload", {})):
        facts[name] = call_as(uid, path, method, parameters, LOGIN if uid == ANNA else None)
    settled(path)
    facts["id"] = of = facts["take"]["reply"]["parameters"]["snapshot"]["id"]
    for name, uid, method, parameters in (
            ("open", ANNA, "Open", {"id": of, "file": "json"}),
            ("export", 0, "Open", {"id": of, "file": "perfdata"}),
            ("peeked", BERT, "Open", {"id": of, "file": "json"}),
            ("looked", BERT, "GetSnapshot", {"id": of}),
            ("taken", BERT, "Remove", {"id": of}),
            ("remove", ANNA, "Remove", {"id": of})):
        facts[name] = call_as(uid, path, method, parameters)
    second, _ = program(path, ANNA, rings=1)
    third, facts["limited"] = program(path, ANNA, rings=1)
    for p in process, second, third:
        end(p)
    return facts


def refused(path, number):
    process, anna = program(path, ANNA, rings=1)

    def run(say):
        attacks.become(BERT)
        c = Client(path)
        for _ in range(number):
            c.call("Arm", {"pid": anna["pid"]})
        c.call("Disarm", {"pid": anna["pid"]})
        say({"pid": os.getpid()})
    pid, said = start(run)
    os.waitpid(pid, 0)
    end(process)
    return said


def many(path, number):
    process, anna = program(path, ANNA, rings=1)

    def run(say):
        attacks.become(ANNA)
        c = Client(path)
        of = c.call("Snapshot", {"pid": anna["pid"]})["parameters"]["snapshot"]["id"]
        opened = sum("error" not in c.call("Open", {"id": of, "file": "json"}) for _ in range(number))
        say({"pid": os.getpid(), "opened": opened})
    pid, said = start(run)
    os.waitpid(pid, 0)
    end(process)
    return said


def expire(path, number):
    process, anna = program(path, ANNA, rings=1)
    ids = []
    for _ in range(number):
        got = call_as(ANNA, path, "Snapshot", {"pid": anna["pid"]})
        ids.append(got["reply"]["parameters"]["snapshot"]["id"])
    end(process)
    return {"ids": ids}


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2])
    elif sys.argv[1] == "act":
        print(json.dumps(act(sys.argv[2])))
    elif sys.argv[1] == "expire":
        print(json.dumps(expire(sys.argv[2], int(sys.argv[3]))))
    elif sys.argv[1] == "many":
        print(json.dumps(many(sys.argv[2], int(sys.argv[3]))))
    else:
        print(json.dumps(refused(sys.argv[2], int(sys.argv[3]))))
