#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""expect.py [-k FIELDS] [-c COLUMN] FORMAT FILE: the set that a list stands for, sorted, one entry a
line as "FAMILY ADDRESS/LENGTH", or as fields with commas where the key has several. Written from what
the formats' own tools document, with the standard library only, and sharing nothing with the library
under test: slow and obvious. It expects good lists."""

import argparse
import csv
import gzip
import io
import ipaddress
import json
import re


def address(text):
    """An address as it is meant: one that is mapped into IPv6 is IPv4."""
    a = ipaddress.ip_address(text)
    return getattr(a, "ipv4_mapped", None) or a


def networks(text):
    """The networks of ADDRESS, ADDRESS/LENGTH, ADDRESS/NETMASK or FIRST-LAST."""
    text = text.strip()
    if "-" in text:
        first, last = (address(part.strip()) for part in text.split("-"))
        return list(ipaddress.summarize_address_range(first, last))
    if "/" not in text:
        return [ipaddress.ip_network(address(text))]
    network = ipaddress.ip_network(text, strict=False)
    mapped = getattr(ipaddress.ip_interface(text).ip, "ipv4_mapped", None)
    if mapped and network.prefixlen >= 96:
        network = ipaddress.ip_network(f"{mapped}/{network.prefixlen - 96}", strict=False)
    return [network]


def key(text, fields):
    """The entries of "a", or of "a,proto:port" and the like for several fields."""
    if len(fields) == 1:
        return {f"{n.version} {n.network_address}/{n.prefixlen}" for n in networks(text)}
    proto = re.search(r",([a-z]+):", text)
    if proto:
        text = text.replace(proto[1] + ":", "") + ("," + proto[1] if "proto" in fields else "")
    parts = text.split(",")
    assert len(parts) == len(fields), text
    return {",".join(str(address(p)) if f in ("src", "dst") else p for f, p in zip(fields, parts))}


def concatenated(parts, fields):
    """nftables' concatenations: by what each part is."""
    proto = [p for p in parts if p.isalpha()]
    wanted = sorted((p for p in parts if p not in proto), key=str.isdigit)
    return key(",".join(wanted + (proto if "proto" in fields else [])), fields)


# ---- formats ----


def plain(text, fields, _):
    for line in text.splitlines():
        line = re.split("[#;]", line)[0].strip()
        spaced = re.match(r"(\S+\s+-\s+\S*[.:]\S*)", line)
        if line:
            yield from key(spaced[1] if spaced else line.split()[0], fields)


def ipset(text, fields, _):
    for line in text.splitlines():
        bare = re.sub(r'"[^"]*"', "", line).split()
        if bare and bare[0] == "add" and "nomatch" not in bare:
            yield from key(bare[2], fields)


def nft(text, fields, _):
    text = re.sub(r'"[^"]*"', "", text)
    for elements in re.findall(r"(?:elements\s*=|add element \w+ \w+ \w+)\s*{([^}]*)}", text):
        for element in elements.split(","):
            element = re.split(r"\s(?:timeout|expires|counter|comment)\b", element)[0].strip()
            if " . " in element:
                yield from concatenated(element.split(" . "), fields)
            elif element:
                yield from key(element, fields)


def nft_value(value):
    """An element as text, or the list of its parts."""
    if not isinstance(value, dict):
        return str(value)
    (kind, inside), = value.items()
    if kind == "elem":
        return nft_value(inside["val"])
    if kind == "prefix":
        return f"{inside['addr']}/{inside['len']}"
    if kind == "range":
        return "-".join(inside)
    assert kind == "concat", kind
    return [nft_value(v) for v in inside]


def nft_json(text, fields, _):
    for item in json.loads(text)["nftables"]:
        item = item.get("add", item)
        for element in (item.get("set") or item.get("element") or {}).get("elem", []):
            value = nft_value(element)
            yield from (concatenated if isinstance(value, list) else key)(value, fields)


def spamhaus_json(text, fields, _):
    for line in text.splitlines():
        record = json.loads(line)
        if "cidr" in record:
            yield from key(record["cidr"], fields)


def crowdsec(text, fields, _):
    for item in json.loads(text) or []:
        for decision in (item["decisions"] or []) if "decisions" in item else [item]:
            if decision["scope"].lower() in ("ip", "range") and not decision.get("simulated"):
                yield from key(decision["value"], fields)


def comma_separated(text, fields, column):
    text = "".join(line for line in text.splitlines(True) if not line.startswith("#"))
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    header = rows.pop(0)
    at = int(column) - 1 if column.isdigit() else header.index(column)
    for row in rows:
        if row[at].strip():
            yield from key(row[at].strip(), fields)


def raw(data, length):
    for i in range(0, len(data), length):
        yield from key(str(address(data[i:i + length])), ["src"])


FORMATS = {
    "plain": plain, "ipset": ipset, "nft": nft, "nft-json": nft_json,
    "spamhaus-json": spamhaus_json, "crowdsec": crowdsec, "csv": comma_separated,
}


def expected(path, form, fields=("src",), column=None):
    with open(path, "rb") as f:
        data = f.read()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    if form.startswith("raw"):
        return set(raw(data, {"raw4": 4, "raw6": 16}[form]))
    return set(FORMATS[form](data.decode("utf-8-sig"), list(fields), column))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="src", metavar="FIELDS")
    parser.add_argument("-c", metavar="COLUMN")
    parser.add_argument("format", choices=[*FORMATS, "raw4", "raw6"])
    parser.add_argument("file")
    arguments = parser.parse_args()
    for entry in sorted(expected(arguments.file, arguments.format, arguments.k.split(","),
                                 arguments.c)):
        print(entry)
