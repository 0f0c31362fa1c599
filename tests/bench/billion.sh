#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# billion.sh [ITEMS]: a filter of ITEMS (1,000,000,000) IPv4 addresses at 12 bits each, from a pipe of
# raw addresses: how long that takes and how much memory, what a packet costs then, and whether any of
# 10,000,000 of its keys is absent. In namespaces of its own; nothing is left.
set -eu

ROOT=$(cd "$(dirname "$0")/../.." && pwd)
XDP_BLOOM=${XDP_BLOOM:-$ROOT/build/xdp-bloom}
ITEMS=${1:-1000000000}
CHECKED=10000000

if [ -z "${XDP_BLOOM_BENCH_INSIDE:-}" ]; then
	XDP_BLOOM_BENCH_INSIDE=yes exec unshare --mount --net --pid --fork --mount-proc --kill-child \
		bash "$0" "$@"
fi
mount --make-rprivate /
mount -t bpf -o mode=0700 bpf /sys/fs/bpf

python3 - "$XDP_BLOOM" "$ROOT/build/tests/bench" "$ITEMS" "$CHECKED" <<'END'
import json, os, resource, subprocess, sys, time

tool, built, items, checked = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
began = time.monotonic()
keys = subprocess.Popen([f"{built}/addresses", str(items), "raw4"], stdout=subprocess.PIPE)
filler = subprocess.Popen([tool, "create", "billion", "--from", "-", "--format", "raw4", "--items",
                           str(items), "--bits-per-key", "12", "--policy", "block", "--json"],
                          stdin=keys.stdout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
keys.stdout.close()
made = filler.stdout.read()
_, status, usage = os.wait4(filler.pid, 0)
took = time.monotonic() - began
if status or keys.wait():
    sys.exit(f"the filter was not made (status {status})")
made = json.loads(made)
answer = subprocess.run([f"{built}/billion", "billion", str(items), checked],
                        stdout=subprocess.PIPE, text=True)
if answer.returncode > 1 or not answer.stdout:
    sys.exit("the filter could not be asked")
a = json.loads(answer.stdout)
mib = 2**20
print(f"""{items:,} IPv4 addresses from a pipe, {made['bits_per_key']:.1f} bits each
  filter     {made['bytes'] / mib:,.0f} MiB; {made['fp_predicted'] * 100:.3f} % of absent keys are called maybe
  made in    {took:.1f} s ({took * 1e9 / items:.0f} ns a key; {usage.ru_utime + usage.ru_stime:.1f} s of CPU)
  memory     {usage.ru_maxrss / 1024:,.0f} MiB at most, of which the filter itself is {made['bytes'] / mib:,.0f}
  a packet   {a['absent_ns']:.0f} ns absent, {a['present_ns']:.0f} ns present, above parsing it
  checked    {a['checked']:,} of its keys: {a['false_negatives']} absent; the kernel asked for {a['asked_present']:,}: {a['absent_in_kernel']} absent""")
subprocess.run([tool, "destroy", "billion"], stdout=subprocess.DEVNULL, check=True)
sys.exit(answer.returncode)
END
