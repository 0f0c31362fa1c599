#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""How long a list takes from text to a live filter, and what it takes of memory, beside the sets that
people load today: ipset and nftables.

    load.py [--items N] [--rounds R] [--nft-items N] [--tool PATH] [--addresses PATH]

Each loader reads the same N random addresses (its own syntax) from memory, in a network and mount
namespace of its own with a bpf file system of its own, which end with this program. Rounds are
interleaved; the figures are medians, the ratios medians of each round's ratio.

  time     from the start of the command to its end, when the set is in force
  tool     the largest resident memory of the command
  kernel   what stays: of a filter the memory that the kernel charges its maps with (all of them), of an
           ipset "Size in memory", of an nftables set by how much the memory in use grew
           (MemTotal - MemFree - Buffers - Cached - SReclaimable, when it has come to rest)
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKED = 100_000
REST_KIB = 1024  # memory that changes by less between two looks is at rest
REST_TRIES = 50
INSIDE = "XDP_BLOOM_BENCH_INSIDE"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nft-items", type=int, default=1_000_000,
                        help="for nft at most so many, and its figures scaled (1,000,000)")
    parser.add_argument("--tool", default=f"{ROOT}/build/xdp-bloom")
    parser.add_argument("--addresses", default=f"{ROOT}/build/tests/bench/addresses")
    return parser.parse_args()


def enter_namespaces():
    """Run again where nothing that is made outlives this program, or is anybody else's."""
    if os.environ.get(INSIDE) == os.readlink("/proc/self/ns/net"):
        sys.exit("not in namespaces of its own")
    if INSIDE not in os.environ:
        os.environ[INSIDE] = os.readlink("/proc/self/ns/net")
        os.execvp("unshare", ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc",
                              "--kill-child", sys.executable, *sys.argv])
    for command in (["mount", "--make-rprivate", "/"],
                    ["mount", "-t", "bpf", "-o", "mode=0700", "bpf", "/sys/fs/bpf"],
                    ["mount", "-t", "tmpfs", "tmpfs", "/run"]):
        subprocess.run(command, check=True)


def meminfo():
    with open("/proc/meminfo", encoding="ascii") as f:
        return {line.split(":")[0]: int(line.split()[1]) for line in f}


def in_use():
    """KiB, when it has come to rest."""
    last = None
    for _ in range(REST_TRIES):
        m = meminfo()
        now = (m["MemTotal"] - m["MemFree"] - m["Buffers"] - m["Cached"] - m["SReclaimable"])
        if last is not None and abs(now - last) < REST_KIB:
            return now
        last = now
        time.sleep(0.2)
    return last


def run(command, stdin=None):
    """Seconds, and KiB at most; the command's own words when it fails."""
    with open(stdin or os.devnull, "rb") as source:
        began = time.monotonic()
        child = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        out, err = child.communicate()
        took = time.monotonic() - began
    if child.returncode:
        sys.exit(f"{' '.join(command)}: {err.decode()[:500]}")
    return took, out.decode()


def measured(command, stdin=None):
    """The same in a child of its own, whose children's memory is this command's."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        took, _ = run(command, stdin)
        rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        os.write(write, json.dumps([took, rss]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as result:
        text = result.read()
    if os.waitpid(pid, 0)[1] or not text:
        sys.exit(1)
    return json.loads(text)


class Bloom:
    name = "xdp-bloom create"
    file = "plain"

    def __init__(self, args):
        self.tool, self.items = args.tool, args.items

    def load(self, path):
        # Nobody wants to hear which of random addresses are private.
        return measured([self.tool, "create", "bench", "--from", path, "--policy", "allow"])

    def kernel(self):
        maps = json.loads(run(["bpftool", "map", "show", "-j"])[1])
        pinned = set()
        for name in os.listdir("/sys/fs/bpf/xdp-bloom/bench"):
            path = f"/sys/fs/bpf/xdp-bloom/bench/{name}"
            shown = subprocess.run(["bpftool", "-j", "map", "show", "pinned", path],
                                   capture_output=True, text=True)
            if not shown.returncode:
                pinned.add(json.loads(shown.stdout)["id"])
        return sum(m.get("bytes_memlock", 0) for m in maps if m["id"] in pinned)

    def check(self, addresses):
        answers = run([self.tool, "test", "bench", "--from", addresses])[1].split("\n")
        if sum(answer.startswith("maybe ") for answer in answers) != CHECKED:
            sys.exit("a listed address is absent")

    def unload(self):
        run([self.tool, "destroy", "bench"])


class Ipset:
    name = "ipset restore"
    file = "ipset"

    def __init__(self, args):
        self.items = args.items

    def load(self, path):
        return measured(["ipset", "restore"], path)

    def kernel(self):
        for line in run(["ipset", "list", "-t", "bench"])[1].split("\n"):
            if line.startswith("Size in memory:"):
                return int(line.split()[-1])
        return 0

    def check(self, addresses):
        with open(addresses, encoding="ascii") as f:
            run(["ipset", "test", "bench", f.readline().strip()])

    def unload(self):
        run(["ipset", "destroy", "bench"])


class Nft:
    name = "nft -f"
    file = "nft"

    def __init__(self, args):
        # Of 10,000,000 it did not come to its end in eight minutes: it is asked for fewer, and its
        # figures are scaled in proportion, which flatters it.
        self.items = min(args.items, args.nft_items)
        self.before = 0

    def load(self, path):
        self.before = in_use()
        return measured(["nft", "-f", path])

    def kernel(self):
        return (in_use() - self.before) * 1024

    def check(self, addresses):
        with open(addresses, encoding="ascii") as f:
            run(["nft", "get", "element", "inet", "bench", "listed", "{", f.readline().strip(), "}"])

    def unload(self):
        run(["nft", "delete", "table", "inet", "bench"])


def main():
    args = arguments()
    enter_namespaces()
    loaders = [Bloom(args), Ipset(args), Nft(args)]
    for loader in loaders:
        with open(f"/run/{loader.file}", "wb") as f:
            subprocess.run([args.addresses, str(loader.items), loader.file], stdout=f, check=True)
    with open("/run/checked", "wb") as f:
        subprocess.run([args.addresses, str(min(CHECKED, args.items)), "plain"], stdout=f, check=True)

    rounds = []
    for number in range(args.rounds):
        figures = []
        for loader in loaders:
            print(f"round {number + 1} of {args.rounds}: {loader.name}", file=sys.stderr)
            took, tool = loader.load(f"/run/{loader.file}")
            kernel = loader.kernel()
            loader.check("/run/checked")
            loader.unload()
            scale = args.items / loader.items
            figures.append((took * scale, tool * 1024 * scale, kernel * scale))
        rounds.append(figures)

    print(f"{args.items:,} IPv4 addresses as text, {args.rounds} rounds; {os.cpu_count()} CPUs")
    print()
    print("| | time, s | tool, MiB | kernel, MiB | xdp-bloom is faster | takes less of the kernel |")
    print("|---|---|---|---|---|---|")
    for i, loader in enumerate(loaders):
        took, tool, kernel = (statistics.median(r[i][f] for r in rounds) for f in range(3))
        faster = statistics.median(r[i][0] / r[0][0] for r in rounds)
        less = statistics.median(r[i][2] / r[0][2] for r in rounds)
        ratios = f"x {faster:.0f} | x {less:.0f}" if i else " | "
        note = "" if loader.items == args.items else f" (of {loader.items:,}, scaled)"
        name = f"**{loader.name}**" if not i else f"`{loader.name}`"
        print(f"| {name}{note} | {took:.2f} | {tool / 2**20:.0f} | {kernel / 2**20:.1f} | {ratios} |")


main()
