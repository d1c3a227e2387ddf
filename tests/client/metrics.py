# SPDX-License-Identifier: MIT
"""Parses OpenMetrics text strictly, written from the specification (1.0) alone; prints the samples as JSON.

usage: metrics.py FILE
"""
import json
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)?\}})? (-?[0-9]+(?:\.[0-9]+)?|\+Inf|NaN)")
SUFFIXES = {"gauge": [""], "counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}


def parse(text):
    if not text.endswith("# EOF\n"):
        raise ValueError("no # EOF at the end")
    families, samples, family = {}, {}, None
    for line in text[: -len("# EOF\n")].splitlines():
        if line.startswith("# "):
            match = re.fullmatch(rf"# (TYPE|UNIT|HELP) ({NAME}) (.*)", line)
            if not match:
                raise ValueError(f"bad descriptor: {line}")
            kind, name, value = match.groups()
            if kind == "TYPE":
                if name in families or value not in SUFFIXES:
                    raise ValueError(f"repeated family, or unknown type: {line}")
                family = families[name] = {"name": name, "type": value}
            elif not family or family["name"] != name or kind in family:
                raise ValueError(f"descriptor of another family: {line}")
            if kind == "UNIT" and not name.endswith("_" + value):
                raise ValueError(f"unit is no suffix: {line}")
            family[kind] = value
            continue
        match = SAMPLE.fullmatch(line)
        if not match or not family:
            raise ValueError(f"bad sample: {line}")
        name, labels = match[1], re.findall(LABEL, match[2] or "")
        if name not in [family["name"] + s for s in SUFFIXES[family["type"]]]:
            raise ValueError(f"sample of another family: {line}")
        if len({k for k, _ in labels}) != len(labels):
            raise ValueError(f"repeated label: {line}")
        key = name + "".join("|" + k + "=" + re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), v) for k, v in labels)
        if key in samples:
            raise ValueError(f"repeated sample: {line}")
        samples[key] = float(match[match.lastindex])
        if family["type"] != "gauge" and samples[key] < 0:
            raise ValueError(f"negative: {line}")
    for f in families.values():
        if f["type"] == "histogram":
            check_histogram(f["name"], samples)
    return samples


def check_histogram(name, samples):
    prefix = name + "_bucket|le="
    buckets = [(float(k[len(prefix):]), v) for k, v in samples.items() if k.startswith(prefix)]
    if buckets != sorted(buckets) or [v for _, v in buckets] != sorted(v for _, v in buckets):
        raise ValueError(f"{name}: buckets are not cumulative")
    if buckets[-1][0] != float("inf") or buckets[-1][1] != samples[name + "_count"]:
        raise ValueError(f"{name}: its count is not that of le=+Inf")


print(json.dumps(parse(open(sys.argv[1], encoding="utf-8").read())))
