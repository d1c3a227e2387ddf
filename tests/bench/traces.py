# SPDX-License-Identifier: MIT
"""The traces that tests/bench/engines and tests/bench/commands measure: programs run once under the emulated trace unit, kept in
CSIGHT_BENCH_CACHE (~/.cache/csight-bench), some hundred MB. Debian's arm64 programs are downloaded (tests/rig/rig programs).
sys.argv[1] is the build directory."""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.path.abspath(sys.argv[1])
csight = os.path.join(build, "csight")
cache = os.environ.get("CSIGHT_BENCH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                                                             "csight-bench")
corpus = os.environ.get("CSIGHT_CORPUS") or os.path.join(top, "..", "shared", "corpus")
env = dict(os.environ, CSIGHT_SOCKET="")

PYTHON = r"""
class Node:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None
def insert(root, key):
    while True:
        if key < root.key:
            if root.left is None:
                root.left = Node(key)
                return
            root = root.left
        else:
            if root.right is None:
                root.right = Node(key)
                return
            root = root.right
words, seed, root = {}, 1, Node(1 << 30)
for i in range(9600):
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    insert(root, seed)
    word = "".join(chr(97 + (seed >> s) % 26) for s in (0, 7, 14))
    words[word] = words.get(word, 0) + len(str(seed))
print(len(words), max(sorted(words, key=words.get)))
"""
SQL = """
CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
  INSERT INTO t SELECT i, (i * 7919) % 10007, printf('%08x-%d', i * 2654435761 % 4294967296, i) FROM n;
CREATE INDEX b ON t (b);
SELECT count(*), sum(length(c)) FROM t WHERE c LIKE '%ab%';
SELECT b % 100 AS g, count(*), max(c) FROM t GROUP BY g ORDER BY 3 DESC LIMIT 3;
UPDATE t SET c = upper(c) WHERE b BETWEEN 100 AND 4000;
SELECT count(*) FROM t x JOIN t y ON x.b = y.b AND x.a < y.a;
"""


def drawn():
    """A program in C of 1280 functions that branch on what they draw: nothing of it comes again soon."""
    step = "if (s >> %d & 1) { r += s >> 3; __asm__ volatile(\"\" : \"+r\"(r)); }"
    functions = [f"static unsigned f{i}(unsigned s) {{ unsigned r = {i}; s = s * 1664525u + 1013904223u; "
                 + " ".join(step % (8 + (i * 7 + k * 5) % 24) for k in range(3 + i % 6)) + " sum += r; return s; }" for i in range(1280)]
    return "\n".join(["#include <stdlib.h>", "static volatile unsigned sum;", *functions, "static unsigned (*const all[])(unsigned) = {",
                      ", ".join(f"f{i}" for i in range(1280)) + "};", "int main(int argc, char **argv) { unsigned s = 1;",
                      "for (long n = argc > 1 ? atol(argv[1]) : 1; n; n--) s = all[(s >> 8) % 1280](s);", "return s == 0; }", ""])


# Threads that call functions all the time.
THREADS = r"""
#include <pthread.h>
#include <stdlib.h>
static volatile unsigned sum;
__attribute__((noinline)) static unsigned leaf(unsigned v) { return v * 1664525u + 1013904223u; }
__attribute__((noinline)) static unsigned walk(unsigned v, unsigned depth)
{
	unsigned l = leaf(v), r = depth ? walk(l, depth - 1) : v;
	return l & 64 ? r + leaf(r) : r ^ l;
}
static long times;
static void *work(void *seed)
{
	unsigned v = (unsigned)(size_t)seed;
	for (long i = 0; i < times; i++)
		v = walk(v, v >> 28);
	sum += v;
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t all[64];
	int n = argc > 1 ? atoi(argv[1]) : 1;
	times = argc > 2 ? atol(argv[2]) : 1;
	for (int i = 0; i < n && i < 64; i++)
		pthread_create(&all[i], NULL, work, (void *)(size_t)(i + 1));
	for (int i = 0; i < n && i < 64; i++)
		pthread_join(all[i], NULL);
	return 0;
}
"""
# Containers and algorithms of C++, which are made of inlined functions.
INLINES = r"""
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>
#include <cstdlib>
struct item { unsigned key; std::string name; std::shared_ptr<int> value; };
static std::map<unsigned, std::vector<item>> index_of(const std::vector<item> &items)
{
	std::map<unsigned, std::vector<item>> m;
	for (const auto &i : items)
		m[i.key % 97].push_back(i);
	return m;
}
int main(int argc, char **argv)
{
	std::vector<item> items;
	unsigned seed = 1;
	for (int n = argc > 1 ? atoi(argv[1]) : 1; n; n--) {
		seed = seed * 1664525u + 1013904223u;
		items.push_back({seed >> 8, std::to_string(seed), std::make_shared<int>(n)});
	}
	std::sort(items.begin(), items.end(), [](const item &a, const item &b) { return a.name < b.name; });
	auto m = index_of(items);
	unsigned long sum = 0;
	for (auto &[key, list] : m) {
		std::stable_sort(list.begin(), list.end(), [](const item &a, const item &b) { return a.key < b.key; });
		sum += std::accumulate(list.begin(), list.end(), 0ul, [](unsigned long s, const item &i) { return s + *i.value; });
	}
	return sum == 0;
}
"""


def programs(system):
    """Name, and what to run: what stays as it was traced. cc1 compiles what the cross compiler's preprocessor makes of a program of the tests."""
    source = os.path.join(cache, "signals.i")
    return {
        "cc1": [system + "/usr/lib/gcc/aarch64-linux-gnu/12/cc1", "-quiet", "-O2", source, "-o", "/dev/null"],
        "python3": [system + "/usr/bin/python3.11", "-S", "-c", PYTHON],
        "sqlite3": [system + "/usr/bin/sqlite3", ":memory:", SQL],
        "indirect": [os.path.join(cache, "indirect"), "5600000"],
        "drawn": [os.path.join(cache, "drawn"), "4800000"],
        "threads": [os.path.join(cache, "threads"), "16", "60000"],
        "inlines": [os.path.join(cache, "inlines"), "30000"],
    }


# What a trace is recorded with; where an option is not known, there are no such traces.
WAYS = {
    "plain": ["--retstack", "off"],
    "return-stack": ["--retstack", "on"],
    "cycles": ["--retstack", "off", "--cycles"],
    "broadcast": ["--retstack", "off", "--branch-broadcast"],
}


def run(*args, **kw):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, env=env, **kw).stdout


def knows(option):
    help_text = subprocess.run([csight, "run", "--help"], stdout=subprocess.PIPE, check=False, env=env).stdout.decode()
    return not option.startswith("--") or option in help_text


def start_daemon(work):
    env["CSIGHT_SOCKET"] = os.path.join(work, "csight.sock")
    daemon = subprocess.Popen([os.path.join(build, "csightd"), "--socket", env["CSIGHT_SOCKET"], "--spool", os.path.join(work, "spool")],
                              stderr=subprocess.DEVNULL)
    for _ in range(100):
        if subprocess.run([csight, "status"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env).returncode == 0:
            break
        time.sleep(0.1)
    return daemon


def record(name, way, program, system):
    """A snapshot of the program's whole run, moved into the cache."""
    to = os.path.join(cache, f"{name}-{way}")
    if os.path.exists(to):
        return
    work = tempfile.mkdtemp(prefix="csight-bench-")
    daemon = start_daemon(work)
    try:
        print(f"# recording {name}, {way}", flush=True)
        subprocess.run([csight, "run", "--emu", "--ring-size", "512M", "--rings", "2", "--sysroot", system, *WAYS[way], "--snapshot", "--",
                        *program], check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        last = json.loads(run(csight, "list", "--json"))["snapshots"][-1]["path"]
        for made in ("store", "trace.pftrace"):
            if os.path.exists(os.path.join(last, made)):
                os.remove(os.path.join(last, made))
        shutil.move(last, to)
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(work, ignore_errors=True)


def processor_time(*args):
    """Seconds of the processor that a command and its processes took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*args, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def prepare():
    """Makes what the programs need; returns the directory of Debian's."""
    cross = os.environ.get("AARCH64_CC") or "aarch64-linux-gnu-gcc"
    os.makedirs(cache, exist_ok=True)
    system = run(os.path.join(top, "tests", "rig", "rig"), "programs").decode().strip()
    if not os.path.exists(os.path.join(cache, "signals.i")):
        run(cross, "-E", os.path.join(top, "tests", "programs", "signals.c"), "-o",
            os.path.join(cache, "signals.i"))
    if not os.path.exists(os.path.join(cache, "drawn")):
        run(cross, "-O2", "-static", "-x", "c", "-", "-o", os.path.join(cache, "drawn"), input=drawn().encode())
    for name, compiler, text in (("threads", "c", THREADS), ("inlines", "c++", INLINES)):
        if not os.path.exists(os.path.join(cache, name)):
            run(cross.replace("gcc", "g++"), "-O2", "-g", "-static", "-pthread", "-x", compiler, "-", "-o", os.path.join(cache, name),
                input=text.encode())
    if not os.path.exists(os.path.join(cache, "indirect")):
        shutil.copy(os.path.join(build, "tests", "programs", "indirect"), cache)
    return system
