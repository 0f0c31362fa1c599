#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Write the golden vectors of the filter: tests/golden/golden.h.

This is a second opinion. It is written from the paper on SipHash and from the words of the comments
in include/xbloom/key.h and layout.h, on byte strings and unbounded integers, and shares no line
with the C it is to judge. Before it says anything it checks itself against the vectors that the
authors of SipHash published, and, where this Python hashes with SipHash too, against that.

    golden.py                 print the header
    golden.py --check FILE    exit status 1, and a diff, if FILE is not what would be printed
"""

import difflib
import hashlib
import ipaddress
import itertools
import math
import os
import subprocess
import sys

# ---- SipHash-c-d, section 2 of the paper: a string of bytes under a key of 16 bytes ----


def rotate(x, left):
    return (x << left | x >> (64 - left)) % 2**64


def sip_round(v):
    v0, v1, v2, v3 = v
    v0 = (v0 + v1) % 2**64
    v2 = (v2 + v3) % 2**64
    v1 = rotate(v1, 13) ^ v0
    v3 = rotate(v3, 16) ^ v2
    v0 = rotate(v0, 32)
    v2 = (v2 + v1) % 2**64
    v0 = (v0 + v3) % 2**64
    v1 = rotate(v1, 17) ^ v2
    v3 = rotate(v3, 21) ^ v0
    v2 = rotate(v2, 32)
    return [v0, v1, v2, v3]


def siphash(c, d, key, message):
    k0 = int.from_bytes(key[:8], "little")
    k1 = int.from_bytes(key[8:], "little")
    # "somepseudorandomlygeneratedbytes", the paper's constant, read as four big-endian words.
    text = b"somepseudorandomlygeneratedbytes"
    v = [int.from_bytes(text[i : i + 8], "big") for i in range(0, 32, 8)]
    v = [v[0] ^ k0, v[1] ^ k1, v[2] ^ k0, v[3] ^ k1]

    # Pad with zeros to one byte short of a multiple of eight, and close with the length mod 256.
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for i in range(0, len(padded), 8):
        m = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= m
        for _ in range(c):
            v = sip_round(v)
        v[0] ^= m

    v[2] ^= 0xFF
    for _ in range(d):
        v = sip_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


# SipHash-2-4 of the first n of the bytes 00 01 02 ... under the key 00 01 ... 0f, as its authors
# published them; for 15 bytes also in the paper itself, appendix A.
PUBLISHED_24 = {
    0: 0x726FDB47DD0E0E31,
    1: 0x74F839C593DC67FD,
    2: 0x0D6C8009D9A94F5A,
    3: 0x85676696D7FB7E2D,
    4: 0xCF2794E0277187B7,
    5: 0x18765564CD99A68D,
    6: 0xCBC9466E58FEE3CE,
    7: 0xAB0200F58B01D137,
    8: 0x93F5F5799A932462,
    9: 0x9E0082DF0BA9E4B0,
    15: 0xA129CA6149BE45E5,
    16: 0x3F2ACC7F57C29BDB,
    17: 0x699AE9F52CBE4794,
    24: 0xB8AD50C6F649AF94,
    31: 0x32D892FAD841C342,
    32: 0x7127512F72F27CCE,
    33: 0xA7F32346F95978E3,
    40: 0x0E3EA96B5304A7D0,
    48: 0xE612A3CB9ECBA951,
    63: 0x958A324CEB064572,
}
PAPER_KEY = bytes(range(16))


def fail(text):
    sys.exit(f"golden.py: {text}")


def check_published():
    for length, expected in PUBLISHED_24.items():
        got = siphash(2, 4, PAPER_KEY, bytes(range(length)))
        if got != expected:
            fail(f"SipHash-2-4 of {length} bytes is {got:016x}, published is {expected:016x}")


def check_this_python():
    """CPython hashes bytes with SipHash, under the zero key when PYTHONHASHSEED is 0."""
    rounds = {"siphash13": (1, 3), "siphash24": (2, 4)}.get(sys.hash_info.algorithm)
    if sys.implementation.name != "cpython" or sys.hash_info.width != 64 or not rounds:
        return
    program = "print(*[hash(bytes(range(n))) for n in range(1, 64)])"
    env = dict(os.environ, PYTHONHASHSEED="0")
    out = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True)
    for length, got in enumerate(map(int, out.stdout.split()), start=1):
        expected = siphash(*rounds, bytes(16), bytes(range(length)))
        # The one value that CPython keeps for itself is -1: it says -2 instead.
        if got % 2**64 != expected and not (expected == 2**64 - 1 and got == -2):
            fail(f"{sys.hash_info.algorithm} of {length} bytes differs from this Python's own")


# ---- key words: the comment at the head of key.h, as bytes ----

FIELDS = ["src", "dst", "sport", "dport", "proto", "vlan"]
PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "dccp": 33, "gre": 47, "esp": 50, "ah": 51}
PROTOCOLS.update({"icmpv6": 58, "sctp": 132, "udplite": 136})


def address(text):
    """Family, prefix length of a host, and the bytes on the wire."""
    a = ipaddress.ip_address(text.split("/")[0])
    if a.version == 6 and a.ipv4_mapped:
        a = a.ipv4_mapped
    return a.version, a.max_prefixlen, a.packed


def key_message(fields, flow):
    """The bytes of the key words, each word little-endian."""
    ports = b"".join(
        int(flow[f]).to_bytes(2, "big") if f in fields else bytes(2) for f in ("sport", "dport")
    )
    family, plen, addresses = 0, 0, []
    for f in ("src", "dst"):
        if f in fields:
            family, plen, raw = address(flow[f])
            addresses.append(raw)
    vlan = int(flow["vlan"]) if "vlan" in fields else 0
    proto = protocol(flow["proto"]) if "proto" in fields else 0

    # Bytes 4 to 7 of word 0: prefix length; family and the low nibble of the VLAN id; its high
    # byte; protocol.
    tail = bytes([plen, family | vlan % 16 << 4, vlan // 16, proto])
    if family != 4:
        return ports + tail + b"".join(addresses)
    message = addresses[0] + tail
    if len(addresses) == 2 or "sport" in fields or "dport" in fields:
        message += (addresses[1] if len(addresses) == 2 else bytes(4)) + ports
    return message


def protocol(text):
    return PROTOCOLS[text] if text in PROTOCOLS else int(text)


# ---- positions: the comments of layout.h, in exact integers ----


def pi_fraction(bits):
    """floor((pi - 3) * 2^bits), by Machin's formula with bits to spare."""
    one = 1 << (bits + 64)

    def arctan_inverse(n):
        total, power = 0, one // n
        for i in itertools.count():
            if not power:
                return total
            total += (-power if i % 2 else power) // (2 * i + 1)
            power //= n * n

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return (pi - 3 * one) >> 64


def multipliers():
    """The first 256 bits of the fraction of pi, in eight pieces of 32, each made odd."""
    raw = pi_fraction(256).to_bytes(32, "big")
    return [int.from_bytes(raw[i : i + 4], "big") | 1 for i in range(0, 32, 4)]


MULTIPLIERS = multipliers()
# 2^64 / golden ratio = 2^64 (sqrt(5) - 1) / 2, rounded down; it is odd.
GOLDEN = (math.isqrt(5 << 128) - 2**64) // 2


def split_positions(h, blocks):
    high, low = divmod(h, 2**32)
    return high * blocks // 2**32, [low * m % 2**32 // 2**26 for m in MULTIPLIERS]


def classic_positions(h, bits, k):
    high, low = divmod(h, 2**32)
    step = (low * 2**32 + high) * GOLDEN % 2**64
    step += 1 - step % 2
    positions = []
    for _ in range(k):
        positions.append(h * bits // 2**64)
        h = (h + step) % 2**64
        step = step * GOLDEN % 2**64
    return positions


# ---- what to ask ----


def digest(label, size):
    """Numbers that nobody chose."""
    return hashlib.sha256(label.encode()).digest()[:size]


SECRET = digest("the secret of the golden keys", 16)

HASH_KEYS = [PAPER_KEY, bytes(16), b"\xff" * 16, digest("key a", 16), digest("key b", 16)]
WORDS_MAX = 5

# Each is a whole flow, in text. Of each only the keyed fields are written out, and the rest must
# not matter.
FLOWS_4 = [
    ("192.0.2.7", "198.51.100.1", 40000, 443, "tcp", 100),
    ("10.0.0.0", "255.255.255.255", 68, 67, "udp", 1),
    ("203.0.113.255", "1.2.3.4", 0, 65535, "sctp", 4094),
    ("0.0.0.0", "127.0.0.1", 65535, 0, "255", 0xABC),
]
FLOWS_6 = [
    ("2001:db8::1", "2001:db8:0:1:2:3:4:5", 40000, 443, "tcp", 100),
    ("fe80::1234:5678:9abc:def0", "ff02::1", 546, 547, "udp", 1),
    ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 0, 65535, "icmpv6", 4094),
    ("64:ff9b::c000:207", "::1", 65535, 0, "0", 0xABC),
]
# Forms that must come out as a plain one does.
ODD_FORMS = [
    (["src"], {"src": "::ffff:192.0.2.7"}),
    (["src"], {"src": "::ffff:c000:207"}),
    (["dst"], {"dst": "::FFFF:198.51.100.1"}),
    (["src"], {"src": "192.0.2.7/32"}),
    (["src"], {"src": "2001:db8::1/128"}),
    (["src"], {"src": "2001:0DB8:0000:0000:0000:0000:0000:0001"}),
    (["src"], {"src": "2001:db8::192.0.2.7"}),
    (["src", "dst"], {"src": "::ffff:192.0.2.7", "dst": "198.51.100.1"}),
    (["src", "dport"], {"src": "::ffff:192.0.2.7", "dport": 443}),
    (FIELDS[:5], {"src": "192.0.2.7", "dst": "::ffff:198.51.100.1", "proto": "6"}),
    (["proto"], {"proto": "0"}),
    (["proto"], {"proto": "17"}),
    (["vlan"], {"vlan": 0}),
    (["sport", "dport"], {"sport": 0, "dport": 0}),
] + [(["proto"], {"proto": name}) for name in sorted(PROTOCOLS)]


def key_rows():
    """Every non-empty set of fields, over both families; then the odd forms."""
    sets = [
        [f for i, f in enumerate(FIELDS) if mask >> i & 1] for mask in range(1, 2 ** len(FIELDS))
    ]
    for number, fields in enumerate(sets):
        yield fields, dict(zip(FIELDS, FLOWS_4[number % len(FLOWS_4)]))
        if "src" in fields or "dst" in fields:
            yield fields, dict(zip(FIELDS, FLOWS_6[number % len(FLOWS_6)]))
    for fields, changes in ODD_FORMS:
        family = address(changes["src"])[0] if "src" in changes else 4
        base = FLOWS_4[0] if family == 4 else FLOWS_6[0]
        yield fields, {**dict(zip(FIELDS, base)), **changes}


HASHES = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 2**32, 2**64 - 1] + [
    int.from_bytes(digest(f"hash {i}", 8), "little") for i in range(5)
]
SPLIT_BLOCKS = [1, 2, 3, 1000, 2**20 + 7, 2**32 - 1]
CLASSIC_BITS = [1, 80000, 2**20, 3 * 10**9, 2**32]
CLASSIC_K = [1, 6, 11, 30]

# ---- the header ----

PREAMBLE = """\
/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Golden vectors: what every world must make of a key, a hash and a position. Written by
 * tests/golden/golden.py, which is independent of the C that is tested; do not edit. The unit test
 * `golden` holds user space to them, the packet test `golden` the kernel's BPF.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <stdint.h>

/* clang-format off */

struct golden_hash {
	uint64_t key[2];
	unsigned int n;	/* words */
	uint64_t words[5];
	uint64_t sip13, sip24;
};

/*
 * A key as text, and the whole flow it is from: fields that are not keyed are there too, and must
 * not matter. Addresses are the bytes of the wire; the hash is under golden_secret.
 */
struct golden_key {
	const char *text;
	uint32_t fields;
	uint8_t family, plen, proto;
	uint16_t vlan, sport, dport;
	uint8_t src[16], dst[16];
	unsigned int n;	/* words */
	uint64_t words[5];
	uint64_t hash;
};

struct golden_split {
	uint64_t hash, blocks;
	uint64_t block;
	uint32_t bit[8];	/* in each word */
};

struct golden_classic {
	uint64_t hash, bits;
	unsigned int k;
	uint64_t bit[30];
};
"""


def u64(x):
    return f"0x{x:016x}"


def words_of(message):
    return [int.from_bytes(message[i : i + 8], "little") for i in range(0, len(message), 8)]


def braces(items, indent="", per_line=8):
    """A brace list, on one line if it has no more than per_line items."""
    items = [str(i) for i in items] or ["0"]
    if len(items) <= per_line:
        return "{ " + ", ".join(items) + " }"
    lines = [
        indent + "\t" + ", ".join(items[i : i + per_line]) + ","
        for i in range(0, len(items), per_line)
    ]
    return "{\n" + "\n".join(lines) + "\n" + indent + "}"


TABS = "\t\t"


def row(*lines):
    return "\t{\n" + "".join(f"{TABS}{line},\n" for line in lines) + "\t},\n"


def table(kind, rows):
    return f"\nstatic const struct golden_{kind} golden_{kind}[] = {{\n" + "".join(rows) + "};\n"


def hash_row(key, message):
    words = words_of(message)
    return row(
        f"{braces(map(u64, words_of(key)))}, {len(words)}",
        braces(map(u64, words), TABS, 3),
        f"{u64(siphash(1, 3, key, message))}, {u64(siphash(2, 4, key, message))}",
    )


def hash_rows():
    for key in HASH_KEYS:
        for n in range(WORDS_MAX + 1):
            yield hash_row(key, bytes(range(8 * n)))
            if n:
                yield hash_row(key, digest(f"{key.hex()} {n} a", 32).ljust(40, b"\xff")[: 8 * n])


def key_row(fields, flow):
    text = ",".join(str(flow[f]) for f in fields)
    mask = sum(1 << FIELDS.index(f) for f in fields)
    # Of a flow without a keyed address too, family and prefix length are there and do not matter.
    family, plen, src = address(flow["src"])
    dst = address(flow["dst"])[2]
    message = key_message(fields, flow)
    words = words_of(message)
    return row(
        f'"{text}"',
        f"0x{mask:02x}, {family}, {plen}, {protocol(flow['proto'])}, "
        f"{flow['vlan']}, {flow['sport']}, {flow['dport']}",
        braces((f"0x{b:02x}" for b in src), TABS),
        braces((f"0x{b:02x}" for b in dst), TABS),
        f"{len(words)}, {braces(map(u64, words), TABS, 3)}",
        u64(siphash(1, 3, SECRET, message)),
    )


def split_row(h, blocks):
    block, bits = split_positions(h, blocks)
    return f"\t{{ {u64(h)}, {blocks}u, {block}u, {braces(bits)} }},\n"


def classic_row(h, bits, k):
    positions = [f"{p}u" for p in classic_positions(h, bits, k)]
    return row(f"{u64(h)}, {bits}ull, {k}", braces(positions, TABS, 5))


def header():
    return "".join(
        [
            PREAMBLE,
            table("hash", hash_rows()),
            "\nstatic const uint64_t golden_secret[2] = "
            + braces(map(u64, words_of(SECRET)))
            + ";\n",
            table("key", [key_row(fields, flow) for fields, flow in key_rows()]),
            table("split", [split_row(h, b) for b in SPLIT_BLOCKS for h in HASHES]),
            table(
                "classic",
                [classic_row(h, b, k) for b in CLASSIC_BITS for k in CLASSIC_K for h in HASHES],
            ),
            "\n/* clang-format on */\n\n#endif /* GOLDEN_H */\n",
        ]
    )


def check(path, expected):
    with open(path, encoding="utf-8") as file:
        found = file.read()
    if found == expected:
        return 0
    sys.stdout.writelines(
        difflib.unified_diff(
            found.splitlines(True), expected.splitlines(True), path, "what golden.py prints"
        )
    )
    return 1


def main(arguments):
    check_published()
    check_this_python()
    if not arguments:
        sys.stdout.write(header())
        return 0
    if len(arguments) == 2 and arguments[0] == "--check":
        return check(arguments[1], header())
    fail("usage: golden.py [--check FILE]")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
