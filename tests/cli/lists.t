#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Lists in the formats that people have: each file of tests/lists/good loads to exactly the set that
tests/lists/expect.py says it stands for, packed or not, however it is cut and by however many
threads; its near-miss in tests/lists/bad is refused at the right line; and what is no list at all ends
in one line. Needs no privilege: tests/tools/readlist.c prints what the library reads."""

import bz2
import gzip
import lzma
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", f"{ROOT}/build")
READERS = [f"{BUILD}/tools/readlist", f"{BUILD}/san/tools/readlist"]
LISTS = f"{ROOT}/tests/lists"
PATIENCE = 60  # seconds that nothing here takes

sys.path.insert(0, LISTS)
sys.dont_write_bytecode = True
import expect  # noqa: E402

# ---- TAP ----

tests = failed = 0


def ok(good, what, *details):
    """One result; the details are printed when it is not good."""
    global tests, failed
    tests += 1
    print("ok" if good else "not ok", tests, "-", what)
    if not good:
        failed += 1
        for detail in details:
            print("#", *str(detail).splitlines(), sep="\n# ")
    return good


def same(got, wanted, what):
    ok(got == wanted, what, f"   got: {got}", f"wanted: {wanted}")


# ---- running the reader ----


def run(*arguments, tool=READERS[0], **options):
    return subprocess.run([tool, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=PATIENCE, **options)


def read(*arguments, **options):
    """The set, and the statistics; or the message."""
    r = run(*arguments, **options)
    if r.returncode:
        return r.stderr.decode("utf-8", "replace"), {}
    lines = r.stdout.decode().splitlines()
    stats = dict(line.split()[1:] for line in lines if line.startswith("#"))
    return {line for line in lines if not line.startswith("#")}, stats


def refused(what, place, says, *arguments, **options):
    """Then it ends with one line that starts with the place, and says this."""
    r = run(*arguments, **options)
    text = r.stderr.decode("utf-8", "replace")
    ok(r.returncode == 2 and text.startswith(place) and says in text and text.count("\n") == 1,
       what, f"status {r.returncode}: {text}", f"wanted: {place} ... {says}")


directory = tempfile.TemporaryDirectory(prefix="xbloom-lists.")


def give(data, name="list"):
    path = os.path.join(directory.name, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


# ---- the files ----

PORTS = "src,dport,proto"
# Of each: its format, the key, the line of the near-miss and what is said of it.
FILES = {
    "plain.txt": ("plain", "src", 8, "'198.51.100.0/33'"),
    "netset.netset": ("plain", "src", 14, "'192.0.2.265'"),
    "drop.txt": ("plain", "src", 5, "'203.0.113.064'"),
    "drop.json": ("spamhaus-json", "src", 2, "'198.51.100.0/240'"),
    "ipset.save": ("ipset", "src", 5, "'timeut'"),
    "ipset-port.save": ("ipset", PORTS, 4, "'65536'"),
    "set.nft": ("nft", "src", 16, "map"),
    "set-port.nft": ("nft", PORTS, 5, "'192.0.2.2 . 53'"),
    "set.nft.json": ("nft-json", "src", 6, "'192.0.2.101-192.0.2.100' runs backwards"),
    "set-port.nft.json": ("nft-json", PORTS, 4, "'530000'"),
    "ranges.txt": ("plain", "src", 7, "'255.0.255.0'"),
    "feed.csv": ("csv", "src", 8, "'2001:db8::g'"),
    "decisions.json": ("crowdsec", "src", 31, "'2001:db8::44/129'"),
    "addresses.raw4": ("raw4", "src", " byte 12", "addresses of 4 bytes"),
    "addresses.raw6": ("raw6", "src", " byte 48", "addresses of 16 bytes"),
}
COLUMNS = {"feed.csv": "dst_ip"}

for name, (form, fields, line, says) in FILES.items():
    good = f"{LISTS}/good/{name}"
    # Raw addresses cannot be told by their content.
    asked = form if form.startswith("raw") else "auto"
    wanted = expect.expected(good, form, fields.split(","), COLUMNS.get(name))
    for tool in READERS:
        got, _ = read("-k", fields, "-f", asked, good, tool=tool)
        same(got, wanted, f"{name}: {len(wanted)} entries, as expected "
                          f"({'sanitized' if '/san/' in tool else asked})")
        refused(f"{name}: the near-miss is refused at {line}",
                f"{LISTS}/bad/{name}:{line}: ", says, "-k", fields, "-f", asked,
                f"{LISTS}/bad/{name}", tool=tool)
    same(read("-k", fields, "-f", form, good)[0], wanted, f"{name}: the same when asked for")

    data = open(good, "rb").read()
    half = len(data) // 2
    packed = {
        "gzip": gzip.compress(data),
        "gzip of several members": gzip.compress(data[:half]) + gzip.compress(b"")
                                   + gzip.compress(data[half:]) + bytes(512),
        "zstd": subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE).stdout,
    }
    packed["zstd of several frames"] = b"".join(
        subprocess.run(["zstd", "-qc"], input=part, stdout=subprocess.PIPE).stdout
        for part in (data[:half], data[half:]))
    if form.startswith("raw"):
        packed = {}
    for how, content in packed.items():
        same(read("-k", fields, "-f", asked, give(content))[0], wanted, f"{name}: {how}")
    for how in ("gzip", "zstd") if packed else ():
        worst = 0
        for cut in range(5, len(packed[how]), 37):
            r = run("-k", fields, "-f", asked, give(packed[how][:cut]))
            worst |= r.returncode != 2 or not r.stderr.startswith(directory.name.encode())
        ok(not worst, f"{name}: {how} that is cut off anywhere is refused by name")
    different = [n for n in [1, 2, 3, 5, 7, 16, 64, 100, 1000]
                 if read("-k", fields, "-f", asked, "-n", n, "-t", 3, good,
                         tool=READERS[n % 2])[0] != wanted]
    same(different, [], f"{name}: the same in chunks of any size")
    if not form.startswith("raw"):
        crlf = data.replace(b"\n", b"\r\n")
        same(read("-k", fields, give(b"\xef\xbb\xbf" + crlf.rstrip()))[0], wanted,
             f"{name}: the same with CRLF, a byte order mark and no last line end")
        utf16 = data.decode().encode("utf-16")
        refused(f"{name}: UTF-16 is told", f"{give(utf16, 'utf16')}:1: ", "UTF-16", "-k", fields,
                give(utf16, "utf16"))
        utf16 = data.decode().encode("utf-16-be")
        refused(f"{name}: and without its mark", f"{give(utf16, 'utf16')}:1: ", "UTF-16", "-k",
                fields, give(utf16, "utf16"))

# ---- packed data with any byte changed ----

data = open(f"{LISTS}/good/plain.txt", "rb").read()
wanted = expect.expected(f"{LISTS}/good/plain.txt", "plain")
for how, packed in (("gzip", gzip.compress(data)),
                    ("zstd", subprocess.run(["zstd", "-qc"], input=data,
                                            stdout=subprocess.PIPE).stdout)):
    wrong = []
    for at in range(len(packed)):
        path = give(packed[:at] + bytes([packed[at] ^ 1 << at % 8]) + packed[at + 1:])
        # Some bytes of the headers mean nothing here, as the time does.
        got, _ = read(path, tool=READERS[1 if at % 16 == 0 else 0])
        if got != wanted and not str(got).startswith(path):
            wrong.append((at, got))
    same(wrong, [], f"{how} with any of {len(packed)} bytes changed: refused, or the same list")

# ---- JSON that is cut off anywhere ----

for name in ("drop.json", "set.nft.json", "decisions.json"):
    form, fields = FILES[name][:2]
    data = open(f"{LISTS}/good/{name}", "rb").read().rstrip()
    whole = []
    for cut in range(1, len(data), 11):
        # An object a line is whole at each line's end.
        if form == "spamhaus-json" and data[:cut].rstrip()[-1:] == b"}":
            continue
        r = run("-f", form, give(data[:cut]))
        if r.returncode != 2 or f"{give(data[:cut])}:".encode() not in r.stderr:
            whole.append(cut)
    same(whole, [], f"{name}: cut off anywhere it is refused")

# ---- the statistics ----

for name, wanted in {
    "plain.txt": {"lines": 14, "keys": 8, "prefixes": 5, "masked": 2},
    "ipset.save": {"lines": 8, "keys": 3, "prefixes": 2, "masked": 0, "create": 2, "nomatch": 1,
                   "timeout": 2, "comment": 3},
    "feed.csv": {"lines": 10, "keys": 3, "prefixes": 1, "masked": 0, "header": 1, "empty": 1},
    "decisions.json": {"lines": 5, "keys": 2, "prefixes": 1, "masked": 0, "scope": 1,
                       "simulated": 1, "timeout": 3},
    "drop.json": {"lines": 5, "keys": 0, "prefixes": 4, "masked": 0, "metadata": 1},
}.items():
    same(read(f"{LISTS}/good/{name}")[1], {k: str(v) for k, v in wanted.items()},
         f"{name}: what was counted")

# ---- strict ----

for name, line in {"ipset.save": 1, "feed.csv": 4, "decisions.json": 29, "drop.json": 5,
                   "set.nft": 1}.items():
    refused(f"{name}: strict names the first line that would be ignored",
            f"{LISTS}/good/{name}:{line}: ", "strict", "-s", f"{LISTS}/good/{name}")
same(read("-s", f"{LISTS}/good/netset.netset")[0],
     read(f"{LISTS}/good/netset.netset")[0], "strict has nothing against comments")

# ---- CSV: which column ----

TWO = give("name,src_ip,dst_ip\na,192.0.2.1,198.51.100.1\nb,192.0.2.2,198.51.100.2\n", "two.csv")
same(read("-c", "src_ip", TWO)[0], {"4 192.0.2.1/32", "4 192.0.2.2/32"}, "a column by its name")
same(read("-c", "DST_IP", TWO)[0], {"4 198.51.100.1/32", "4 198.51.100.2/32"},
     "in letters of any size")
same(read("-c", "3", TWO)[0], {"4 198.51.100.1/32", "4 198.51.100.2/32"}, "by its number")
refused("two that could be meant are refused", f"{TWO}:1: ", "--column", TWO)
refused("a name that is not there", f"{TWO}:1: ", "'adress'", "-c", "adress", TWO)
refused("a number that is not there", f"{TWO}:1: ", "column 4", "-c", "4", TWO)
refused("a column of something else", f"{TWO}:2: ", "'a'", "-c", "name", TWO)
bare = give("FR,192.0.2.1\nDE,192.0.2.2\n", "bare.csv")
same(read(bare)[0], {"4 192.0.2.1/32", "4 192.0.2.2/32"}, "without a header, the one of addresses")
ends = give("192.0.2.0,192.0.2.255,FR\n", "ends.csv")
refused("a file of first and last addresses is not read as the first ones", f"{ends}:1: ",
        "--column", ends)
ends = give("FR,192.0.2.0,192.0.2.255\n", "ends.csv")
refused("wherever they stand", f"{ends}:1: ", "--column", ends)
refused("a plain list of ports is not read as a column of addresses",
        f"{give('192.0.2.1,443')}:1: ", "too many fields", give("192.0.2.1,443\n"))
semicolons = give('id;"ip address"\n1;192.0.2.1\n2;"192.0.2.2"\n', "semicolons.csv")
same(read("-f", "csv", semicolons)[0], {"4 192.0.2.1/32", "4 192.0.2.2/32"}, "semicolons separate")
refused("a quote without an end", f"{give('ip,a')}:2: ", "quote",
        give('ip,a\n192.0.2.1,"x\n192.0.2.2,y\n'))
refused("a line with fewer columns", f"{give('')}:3: ", "no column 2",
        give("a,ip\nx,192.0.2.1\n192.0.2.2\n"))

# ---- nftables and ipset: what a list cannot say ----

for text, line, says in [
    ("add element inet t s { 192.0.2.1 }\ndelete element inet t s { 192.0.2.1 }\n", 2, "only adds"),
    ("define bad = { 192.0.2.1 }\n", 1, "define"),
    ("table ip t {\n\tset s {\n\t\telements = { 192.0.2.1,\n", 4, "cut off"),
    ("table ip t {\n\tset s {\n\t\telements = { 192.0.2.1 }\n\t}\n", 5, "cut off"),
    ("add element inet t s { 192.0.2.1,, 192.0.2.2 }\n", 1, "comma"),
    ("add element inet t s { 192.0.2.1\n\t192.0.2.2 }\n", 1, "192.0.2.1 192.0.2.2"),
    ("add element inet t s { 192.0.2.1 - 2001:db8::1 }\n", 1, "family"),
    ("create s hash:ip family inet\nadd s 192.0.2.1\ndel s 192.0.2.1\n", 3, "del s"),
    ("create s hash:net,port family inet\nadd s 192.0.2.0/24,tcp:80\n", 2, "192.0.2.0/24,tcp:80"),
    ('create s hash:ip family inet\nadd s 192.0.2.1 comment "x\n', 2, "quote"),
    ("add s\n", 1, "no entry"),
    ("192.0.2.9-192.0.2.1\n", 1, "backwards"),
    ("192.0.2.9-2001:db8::1\n", 1, "family"),
    ("2001:db8::/129\n", 1, "0 to 128"),
    ("{\"a\": 1}\n", 1, "JSON"),
    ("[1]\n", 1, "lone value"),
    ("[{\"a\": " + "[" * 100000, 1, "nested"),
    ("[{\"value\": \"192.0.2.1\"}]", 1, "scope"),
    ("[{\"decisions\": [{\"value\": \"192.0.2.1\",\n\"scope\": \"Ip\"},\n{\"value\": \"192.0.2\",\n"
     "\"scope\": \"Ip\"}]}]", 3, "'192.0.2'"),
    ("{\"cidr\": \"192.0.2.0/24\"}\n{\"cdir\": \"192.0.2.0/24\"}\n", 2, "cidr"),
    ("{\"cidr\": \"192.0.2.0/24\"}\nnonsense\n", 2, "not JSON"),
    ("{\"nftables\": [{\"map\": {\"elem\": [[\"192.0.2.1\", {\"accept\": null}]]}}]}", 1, "map"),
    ("{\"nftables\": [{\"delete\": {\"element\": {\"elem\": [\"192.0.2.1\"]}}}]}", 1, "only adds"),
    ("{\"nftables\": [{\"set\": {\"elem\": [{\"&\": [1, 2]}]}}]}", 1, "'&'"),
    ("{\"nftables\": [{\"set\": {\"elem\": [null]}}]}", 1, "null"),
]:
    path = give(text)
    refused(f"{text[:50]!r}: line {line}", f"{path}:{line}: ", says, path, tool=READERS[1])

same(read(give("create element hash:ip\nadd element 192.0.2.1\n"))[0], {"4 192.0.2.1/32"},
     "a set of ipset may be called element")
same(read("-k", "src,dport", give("create s hash:ip,port\nadd s 192.0.2.1,udp:53\n"))[0],
     {"192.0.2.1,53"}, "without a protocol in the key, the port is that of all")
refused("a number before the port is no protocol", f"{give('')}:1: ", "'80:90'", "-k", "src,dport",
        give("192.0.2.1,80:90\n"))
refused("prefixes go only with one address", f"{give('')}:1: ",
        "'10.0.0.0/8,443': a prefix goes only with the key src or dst alone", "-k", "src,dport",
        give("10.0.0.0/8,443\n"))
refused("raw addresses too", give(b"1234"), "src or dst", "-k", "src,dport", "-f", "raw4",
        give(b"1234"))
same(read("-f", "raw4", give(bytes([31, 139, 8, 0, 40, 181, 47, 253])))[0],
     {"4 31.139.8.0/32", "4 40.181.47.253/32"}, "raw addresses may begin as a packed file does")
same(read("-k", "dst", give("192.0.2.0/24\n"))[0], {"4 192.0.2.0/24"}, "prefixes of destinations")
for line, text in [(1, "0.0.0.0/0"), (2, "192.0.2.1\n::/0"),
                   (1, "0.0.0.0-255.255.255.255")]:
    refused(f"{text!r}: every address there is", f"{give('')}:{line}: ", "every address there is",
            give(text + "\n"))
same(read("-e", give("0.0.0.0/0\n::/0\n"))[0], {"4 0.0.0.0/0", "6 ::/0"}, "by force it is taken")
same(read("-e", give("0.0.0.0-255.255.255.255\n::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\n"))[0],
     {"4 0.0.0.0/0", "6 ::/0"}, "as ranges, too")

# ---- what is no list at all ----

for what, data, place, says in [
    ("a program", open(READERS[0], "rb").read(), ":", "zero byte"),
    ("zeros", bytes(1 << 20), ":1: ", "zero byte"),
    ("one long line", b"1" * (3 << 20), ":1: ", "more than 65536 bytes"),
    ("one long line behind others", b"192.0.2.1\n" * 9 + b"1" * (3 << 20), ":10: ", "65536 bytes"),
    ("one long string of JSON", b'[{"value": "' + b"1" * (3 << 20), ":1: ", "1048576 bytes"),
    ("one long line of CSV", b"ip,b\n192.0.2.1," + b"1" * (3 << 20), ":2: ", "65536 bytes"),
    ("xz", lzma.compress(b"192.0.2.1\n"), " is packed", "xz -dc"),
    ("bzip2", bz2.compress(b"192.0.2.1\n"), " is packed", "bzip2 -dc"),
    ("HTML", b"<!DOCTYPE html>\n<html>404</html>\n", ":1: ", "'<!DOCTYPE'"),
    ("gzip with rubbish behind it", gzip.compress(b"192.0.2.1\n") + b"192.0.2.2\n", ": ", "damaged"),
    ("damaged gzip", gzip.compress(bytes(range(33, 120)) * 50)[:60] + b"x" * 99, ": ", "damaged"),
]:
    for tool in READERS:
        path = give(data, "rubbish")
        refused(f"{what}: one line", path + place, says, "-t", 2, path, tool=tool)
for data in (b"", b"\n", b"# nothing\n", b"[]", b"null\n", gzip.compress(b"")):
    got, stats = read(give(data))
    ok(got == set() and stats["keys"] == "0", f"{data[:12]!r} is an empty list", got)

# ---- threads: the same set, and the first error of the file ----

chance = random.Random(20240101)


def some_line():
    a = "198.%d.%d.%d" % (chance.randrange(18, 20), chance.randrange(256), chance.randrange(256))
    b = "2001:db8:%x::%x" % (chance.randrange(65536), chance.randrange(65536))
    return chance.choice([
        a, a, a, a, b, f"{a}/{chance.randrange(16, 33)}", f"{b}/{chance.randrange(32, 129)}",
        f"  {a} # 1.2.3.4", f"{a}\r", "# " + "x" * chance.randrange(300), "", f"{a};{b}",
        f"{a}/255.255.255.{chance.choice([0, 128, 240, 255])}", f"{a} - 198.19.255.255",
        f"{b}-2001:db8:ffff::"])


lines = [some_line() for _ in range(20000)]
path = give("\n".join(lines), "random")
wanted = expect.expected(path, "plain")
for threads, chunk in ((1, 1 << 20), (2, 4096), (4, 1000), (16, 97), (0, 65536)):
    same(read("-t", threads, "-n", chunk, path, tool=READERS[threads % 2])[0] ^ wanted, set(),
         f"a random list, {threads or 'all'} threads, chunks of {chunk}: {len(wanted)} entries")
lines[12345] = "192.0.2.300"
lines[12400] = lines[15000] = lines[19999] = "192.0.2.400"
path = give("\n".join(lines), "random")
said = {run("-q", "-t", 4, "-n", chunk, path).stderr.decode()
        for chunk in (50, 500, 5000) for _ in range(10)}
same(said, {f"{path}:12346: '192.0.2.300' is not an IPv4 or IPv6 address\n"},
     "of several errors the file's first is told, whatever the threads do")
cut = gzip.compress("\n".join(lines).encode())
path = give(cut[:len(cut) * 9 // 10], "random.gz")
said = {run("-q", "-t", 4, "-n", 500, path).stderr.decode() for _ in range(10)}
same(said, {f"{path}:12346: '192.0.2.300' is not an IPv4 or IPv6 address\n"},
     "also when the file ends too early behind it")
path = give(cut[:len(cut) // 2], "random.gz")
said = {run("-q", "-t", 4, "-n", 500, path).stderr.decode() for _ in range(10)}
same(said, {f"{path}: the compressed data end too early: fetch the file again\n"},
     "and that it ends too early is told when that comes first")

# ---- standard input ----

slow = subprocess.Popen([READERS[0], "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for byte in gzip.compress(b"192.0.2.1\n192.0.2.2\n"):
    slow.stdin.write(bytes([byte]))
    slow.stdin.flush()
slow.stdin.close()
same(slow.stdout.read().decode().splitlines()[:2], ["4 192.0.2.1/32", "4 192.0.2.2/32"],
     "packed data may come from a pipe byte by byte")
slow.wait()

print(f"1..{tests}")
sys.exit(failed > 0)
