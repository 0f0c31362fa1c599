#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""plan: what it says, in text, in JSON and in pictures; what it refuses; and what it leaves of an
older picture when drawing fails. Needs no root and no namespaces. Rates are checked against
published values and against formulas of this file's own."""

import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.environ.get("XDP_BLOOM", f"{ROOT}/build/xdp-bloom")
SANITIZED = os.environ.get("XDP_BLOOM_SAN", f"{ROOT}/build/san/xdp-bloom")
PATIENCE = 30  # seconds that nothing here takes

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


def skip(what, why):
    global tests
    tests += 1
    print("ok", tests, "-", what, "# SKIP", why)


# ---- running the tool ----


def plan(*arguments, tool=TOOL, **options):
    return subprocess.run(
        [tool, "plan", *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=PATIENCE, **options)


def answer(*arguments):
    done = plan(*arguments, "--json")
    if done.returncode or done.stderr:
        raise RuntimeError(f"plan {arguments}: {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def is_refused(done, pattern):
    """Status 2, one line on stderr that matches, and nothing on stdout."""
    return (done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
            and re.search(pattern, done.stderr))


def refused(what, pattern, *arguments, **options):
    done = plan(*arguments, **options)
    ok(is_refused(done, pattern), what, arguments, f"wanted: 2, /{pattern}/", done)


# ---- the formulas, written once more ----


def split_rate(blocks, keys):
    """Fan-in of a block by Poisson, eight words of 64 bits; and, where that is not so, 32 bits of
    hash alike."""
    mean = keys / blocks
    total = 0
    for i in range(int(mean + 12 * math.sqrt(mean) + 60)):
        weight = math.exp(i * math.log(mean) - mean - math.lgamma(i + 1))
        total += weight * (1 - (63 / 64) ** i) ** 8
    return total + (1 - total) * mean / 2**32


def classic_rate(bits, k, keys):
    return (1 - math.exp(-k * keys / bits)) ** k


def rate(plan_, keys):
    if plan_["layout"] == "split":
        return split_rate(plan_["blocks"], keys)
    return classic_rate(plan_["bits"], plan_["k"], keys)


def close(got, wanted, relative):
    return abs(got - wanted) <= relative * wanted


REQUESTS = (
    ("--items", "1M"),
    ("--items", "1M", "--layout", "classic"),
    ("--items", "123456", "--fp", "0.1%"),
    ("--items", "50k", "--fp", "30%"),
    ("--items", "50k", "--fp", "1e-6", "--layout", "classic"),
    ("--items", "10k", "--bits-per-key", "8", "--layout", "classic", "--hashes", "6"),
    ("--items", "2G", "--bits-per-key", "12"),
    ("--items", "100"),
    ("--items", "1"),
)


def title(arguments):
    return " ".join(arguments)


def published_values():
    # So many keys fill whole blocks at each number of bits, and nothing is rounded.
    shown = answer("--items", 512000)
    rows = {row["bits_per_key"]: row for row in shown["table"]}
    for bits, wanted in (10, 0.010490), (12, 0.004223), (16, 0.000909):
        got = rows[bits]["split"]
        ok(abs(got - wanted) <= 1e-6, f"split, {bits} bits per key: {wanted}", got)
    for bits, k, wanted in (4, 3, 0.1469), (8, 6, 0.0216), (12, 8, 0.0031), (16, 11, 0.0005):
        got = rows[bits]["classic"]
        ok(abs(got - wanted) <= 5e-5 and rows[bits]["classic_k"] == k,
           f"classic, {bits} bits per key: {wanted} with k {k}", rows[bits])
    for k, wanted in (1, 0.1175), (2, 0.0489), (6, 0.0216), (12, 0.0483), (20, 0.1803):
        shown = answer("--items", "10k", "--bits-per-key", 8, "--layout", "classic", "--hashes", k)
        got = shown["fp_predicted"]
        ok(abs(got - wanted) <= 5e-5 and shown["bits"] == 80000 and shown["k"] == k,
           f"classic, 8 bits per key, k {k}: {wanted}", shown)


def figures_agree():
    for request in REQUESTS:
        what = title(request)
        shown = answer(*request)
        items, layout = shown["items"], shown["layout"]
        fields = ("k", "bits", "blocks", "bytes", "bits_per_key", "fp_predicted")
        same({f: shown["layouts"][layout].get(f) for f in fields}, {f: shown[f] for f in fields},
             f"{what}: layouts.{layout} is what was asked for")
        ok(close(shown["fp_predicted"], rate(shown, items), 1e-6), f"{what}: fp_predicted",
           shown["fp_predicted"], rate(shown, items))
        ok("--bits-per-key" in request and shown["fp_target"] == shown["fp_predicted"]
           or shown["fp_predicted"] <= shown["fp_target"], f"{what}: within fp_target")

        twice = shown["twice_rate"]
        limit = 2 * rate(shown, items)
        ok(rate(shown, twice["items"]) <= limit * (1 + 1e-9)
           and rate(shown, twice["items"] + 1) > limit * (1 - 1e-9)
           and twice["items"] >= items and close(twice["load"], twice["items"] / items, 1e-6),
           f"{what}: twice the rate at that load, and not before",
           twice, limit, rate(shown, twice["items"]), rate(shown, twice["items"] + 1))

        other = "classic" if layout == "split" else "split"
        bits = request[request.index("--bits-per-key") + 1:][:1] if "--bits-per-key" in request \
            else None
        asked = ["--items", items, "--layout", other]
        asked += ["--bits-per-key", bits[0]] if bits else ["--fp", shown["fp_target"]]
        done = plan(*asked, "--json")
        if done.returncode == 0:
            alone = json.loads(done.stdout)
            same(shown["layouts"][other], {f: alone[f] for f in fields},
                 f"{what}: layouts.{other} is what is planned for it alone")
        else:
            same(f"xdp-bloom: {shown['layouts'][other]['error']}\n", done.stderr,
                 f"{what}: layouts.{other}.error says why not")


def the_table():
    for request in REQUESTS:
        what = title(request)
        shown = answer(*request)
        table, items = shown["table"], shown["items"]
        same([row["bits_per_key"] for row in table], list(range(4, 25)), f"{what}: 4 to 24 bits")
        good = all(row["bytes"] % 64 == 0 and row["bytes"] * 8 >= row["bits_per_key"] * items
                   and row["bytes"] * 8 - 512 < row["bits_per_key"] * items for row in table)
        for before, row in zip(table, table[1:]):
            good &= row["bytes"] >= before["bytes"] and row["split"] <= before["split"]
            if row["classic"] is not None:
                good &= row["classic"] < before["classic"]
                good &= row["classic_k"] >= before["classic_k"]
        ok(good, f"{what}: more bits cost more and err less", json.dumps(table))
    # A row is what plan says of such a budget.
    for items in 7, 1000, 999983:
        for row in answer("--items", items)["table"][::5]:
            asked = ("--items", items, "--bits-per-key", row["bits_per_key"], "--layout")
            split, classic = answer(*asked, "split"), answer(*asked, "classic")
            same((row["bytes"], row["split"], row["classic"], row["classic_k"]),
                 (split["bytes"], split["fp_predicted"], classic["fp_predicted"], classic["k"]),
                 f"{items} keys: the row of {row['bits_per_key']} bits is the plan for them")


def what_one_layout_cannot_hold():
    shown = answer("--items", "1G")
    ok("2^32" in shown["layouts"]["classic"]["error"] and len(shown["layouts"]["classic"]) == 1,
       "1G keys: classic cannot hold them, and says so", shown["layouts"])
    ok(shown["layouts"]["split"]["blocks"] > 10**9 * 9 / 512, "1G keys: split can")
    same([row["classic"] for row in shown["table"]][1:], [None] * 20,
         "1G keys: nor has it a rate in the table, past 4 bits a key")
    text = plan("--items", "1G")
    ok(text.returncode == 0 and re.search(r"^classic +cannot hold them.*2\^32", text.stdout, re.M),
       "1G keys: the text says so on its line", text)
    refused("1G keys, classic asked for: refused", r"2\^32", "--items", "1G", "--layout", "classic")
    text = plan("--items", "10k", "--bits-per-key", "1.6", "--layout", "classic")
    ok(text.returncode == 0 and re.search(r"^split +is no filter: ", text.stdout, re.M),
       "1.6 bits a key: the text says that split is no filter", text)


def the_text():
    for extra in (), ("--confirm",):
        for request in REQUESTS + (("--items", "10G", "--fp", "1e-9"),):
            if extra and request[1] in ("2G", "10G"): # more than an exact map holds
                continue
            text = plan(*request, *extra)
            lines = text.stdout.splitlines()
            wide = [line for line in lines if len(line) > 79]
            ok(text.returncode == 0 and not text.stderr and not wide and len(lines) <= 24,
               f"{title(request + extra)}: fits into 80x24", text, len(lines), *wide)
    text = plan("--items", "1M").stdout
    shown = answer("--items", "1M")
    twice = shown["twice_rate"]
    ok(f"twice the rate at {twice['load'] * 100:.0f} % of the keys: {twice['items']:,}\n" in text,
       "the text says where the rate is doubled", text, twice)
    for layout in "split", "classic":
        ok(re.search(fr"^{layout} +1\.\d MiB +{shown['layouts'][layout]['bits_per_key']:.2f} bits "
                     fr"per key +k +{shown['layouts'][layout]['k']} +rate 1 %$", text, re.M),
           f"the text has a line for {layout}", text)
    ok(re.search(r"^ +10 +1\.2 MiB +1\.049 % +0\.8194 % +7$", text, re.M),
       "the text has a table", text)


def the_exact_map():
    plain = answer("--items", "1M")
    ok("exact_keys" not in plain and "exact_bytes" not in plain, "no --confirm: no exact map")
    sizes = {}
    for key, words in ("dport", 1), ("src", 3), ("5tuple", 5):
        shown = answer("--items", "1M", "--confirm", "--key", key)
        same(shown["exact_keys"], 1250000, f"--key {key}: room for a quarter more")
        # Elements, and 2^21 buckets; the spare ones for each CPU are less than a percent.
        ok(close(shown["exact_bytes"], 1250000 * (48 + 8 * words + 8) + 2**21 * 16, 0.001),
           f"--key {key}: the kernel's arithmetic", shown["exact_bytes"])
        sizes[key] = shown["exact_bytes"]
        same({**shown, "exact_keys": 0, "exact_bytes": 0}, {**plain, "exact_keys": 0,
             "exact_bytes": 0}, f"--key {key}: the filter is the same")
    same(answer("--items", "1M", "--confirm")["exact_bytes"], sizes["src"], "the usual key is src")
    shown = answer("--items", "1M", "--confirm", "--confirm-max", "120M")
    ok(1000000 <= shown["exact_keys"] < 1250000 and 119.9e6 < shown["exact_bytes"] <= 120e6,
       "--confirm-max takes from the room", shown["exact_keys"], shown["exact_bytes"])
    refused("--confirm-max below what the keys take", "--confirm-max", "--items", "1M", "--confirm",
            "--confirm-max", "90M")
    text = plan("--items", "1M", "--confirm").stdout
    ok(re.search(r"^exact map +\d+\.\d MiB, room for 1,250,000 keys$", text, re.M),
       "the text has the exact map", text)


def a_list(directory):
    """Its keys are counted, and its prefixes priced: three look-ups for the rate that was asked."""
    path = f"{directory}/list"
    with open(path, "w") as file:
        file.write("198.18.0.0/16\n198.19.7.0/25\n198.19.7.128/25\n203.0.113.8/30\n192.0.2.7\n"
                   "192.0.2.7\n2001:db8:a:2::77\n")
        for i in range(500):
            file.write(f"2001:db8:{2 * i:x}::/48\n2001:db9:{3 * i:x}:1::/64\n")
    shown = answer("--from", path)
    # The /25s are one /24. Four addresses, two hosts, and the prefixes of IPv6.
    same(shown["items"], 4 + 2 + 1000, "a list: distinct keys")
    same(shown["prefixes"], {"nets4": 257, "nets4_bytes": 2 << 20, "hosts4": 4, "keys6": 1000,
                             "plens6": [128, 64, 48]}, "a list: its prefixes")
    same((shown["list"]["keys"], shown["list"]["prefixes"], shown["list"]["merged"],
          shown["list"]["duplicates"]), (3, 1004, 1, 1), "a list: what was read")
    look = rate(shown, shown["items"])
    ok(close(shown["fp_predicted"], 1 - (1 - look) ** 3, 1e-6), "the rate is that of three looks",
       look, shown["fp_predicted"])
    ok(0.008 < shown["fp_predicted"] <= 0.01, "which is what was asked for", shown["fp_predicted"])
    ok(close(1 - (1 - rate(shown, shown["twice_rate"]["items"])) ** 3, 2 * shown["fp_predicted"],
             0.01), "and doubles where the plan says so")
    hosts = answer("--items", shown["items"])
    ok("list" not in hosts and "prefixes" not in hosts, "no list: nothing of it")
    ok(hosts["bytes"] < shown["bytes"], "and as many hosts take less")
    text = plan("--from", path).stdout
    ok(re.search(r"^prefixes +257 /24s in an exact map of 2.0 MiB: a look-up more", text, re.M)
       and re.search(r"1,000 IPv6 keys, asked for under /128, /64, /48: 3 look-ups a packet", text),
       "the text says what they cost", text)
    same(answer("--from", path, "--items", "5000")["items"], 5000, "room for more")
    refused("fewer than there are", "1006 distinct keys", "--from", path, "--items", "1000")
    refused("prefixes of another key", f"{path}:1: ", "--from", path, "--key", "src,dport")
    refused("no such list", "nowhere", "--from", f"{directory}/nowhere")
    with open(path, "w") as file:
        for plen in (20, 29, 36, 44, 56):
            file.write(f"2001:db8::/{plen}\n" if plen == 29 else f"2{plen:03x}::/{plen}\n")
    refused("too many keys", r"/128, /56, /44, /29.*of /20.*--expand-max", "--from", path,
            "--expand-max", "700")
    with open(path, "w") as file:
        file.write("192.0.2.0/24\n")
    same(answer("--from", path)["items"], 1024, "prefixes alone leave room for single addresses")


def bad_input():
    for pattern, *arguments in (
            ("--items N",),
            ("--items", "--items", "0"),
            ("--items", "--items", "many"),
            ("--items", "--items", "-5"),
            ("--items", "--items", "1.5"),
            ("needs a value", "--items"),
            ("--fp", "--items", "1M", "--fp", "0"),
            ("rate|--fp", "--items", "1M", "--fp", "60%"),
            ("rate|--fp", "--items", "1M", "--fp", "1e-10"),
            ("two ways", "--items", "1M", "--fp", "1%", "--bits-per-key", "10"),
            ("maybe", "--items", "1M", "--bits-per-key", "1"),
            ("--layout|layout", "--items", "1M", "--layout", "cuckoo"),
            ("8 hashes", "--items", "1M", "--hashes", "5"),
            ("argument 'f'", "--items", "1M", "f"),
            ("--frob", "--items", "1M", "--frob"),
            ("of --confirm", "--items", "1M", "--confirm-max", "64M"),
            ("of --confirm", "--items", "1M", "--key", "src"),
            ("--confirm-max", "--items", "1M", "--confirm", "--confirm-max", "0"),
            ("--confirm-max", "--items", "1M", "--confirm", "--confirm-max", "64Q"),
            ("--confirm-max", "--items", "1M", "--confirm", "--confirm-max", "1"),
            ("colour", "--items", "1M", "--confirm", "--key", "src,colour"),
            (r"2\^27", "--items", "1G", "--confirm"),
            (r"2\^32", "--items", "1000G")):
        refused(f"refused: {title(arguments)}", pattern, *arguments)


# ---- pictures ----


class Place:
    """A directory with an older picture in it."""

    OLD = "<svg><!-- older --></svg>\n"

    def __init__(self, directory, name="rate.svg"):
        self.directory = tempfile.mkdtemp(dir=directory)
        self.path = os.path.join(self.directory, name)
        with open(self.path, "w", encoding="utf8") as file:
            file.write(self.OLD)

    def content(self):
        with open(self.path, encoding="utf8") as file:
            return file.read()

    def is_as_before(self):
        return (os.listdir(self.directory) == [os.path.basename(self.path)]
                and self.content() == self.OLD)


def fake_gnuplot(directory, script):
    """A PATH where gnuplot is this shell script."""
    path = tempfile.mkdtemp(dir=directory)
    with open(f"{path}/gnuplot", "w", encoding="utf8") as file:
        file.write(f"#!/bin/sh\n{script}\n")
    os.chmod(f"{path}/gnuplot", 0o755)
    return {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}


SVG = "{http://www.w3.org/2000/svg}"


def curves(svg):
    """The titles of all that is drawn in the panels: lines of many points, and points. What stands
    in the legend alone is no curve."""
    found = []
    for group in xml.etree.ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if not group.get("id", "").startswith("gnuplot_plot_"):
            continue
        points = sum(path.get("d").count(",") for path in group.iter(f"{SVG}path"))
        marks = len(list(group.iter(f"{SVG}use")))
        # Each has a sample in the legend: a line of two points, or one mark.
        if points > 2 + 1 or marks > 1:
            found.append(group.find(f"{SVG}title").text)
    return found


def pictures(directory):
    both = ["split", "classic, best k", "this plan", "split", "classic", "this plan", "twice"]
    for wanted, *request in (
            (both, "--items", "1M"),
            (both, "--items", "1M", "--layout", "classic", "--fp", "1e-6"),
            (both, "--items", "10"),
            (both, "--items", "200k", "--bits-per-key", "40"),
            # Classic cannot hold them, and so many bits are beyond the left panel's edge.
            (["split", "classic, best k", "split", "this plan", "twice"],
             "--items", "1G", "--fp", "1e-9"),
            # Split is no filter, and the rate doubles past the right panel's edge.
            (["split", "classic, best k", "this plan", "classic", "this plan"],
             "--items", "10k", "--bits-per-key", "1.6", "--layout", "classic")):
        what = title(request)
        place = Place(directory)
        done = plan(*request, "--plot", place.path)
        same((done.stdout, done.stderr, done.returncode), (plan(*request).stdout, "", 0),
             f"picture of {what}: nothing else changes")
        svg = place.content()
        try:
            good, found = xml.etree.ElementTree.fromstring(svg).tag == f"{SVG}svg", curves(svg)
        except xml.etree.ElementTree.ParseError as error:
            good, found = False, [error]
        ok(good, f"picture of {what}: is SVG", found)
        ok(len(found) == len(wanted)
           and all(f.startswith(w) for w, f in zip(wanted, found)),
           f"picture of {what}: {len(wanted)} curves", found)
        ok("bits per key" in svg and "% of its capacity" in svg and "alarm 80 %" in svg
           and "capacity 100 %" in svg and "absent keys called maybe" in svg,
           f"picture of {what}: axes and marks are named")
        same(os.listdir(place.directory), ["rate.svg"], f"picture of {what}: nothing is left over")

    place = Place(directory, "it's \"100 %\"; `rm` $HOME\n.svg")
    done = plan("--items", "1M", "--json", "--plot", place.path)
    ok(done.returncode == 0 and "gnuplot_canvas" in place.content()
       and json.loads(done.stdout)["items"] == 10**6, "picture with an odd name, and JSON", done)

    place = Place(directory)
    os.unlink(place.path)
    plan("--items", "1M", "--plot", "new.svg", cwd=place.directory, umask=0o027)
    same(oct(os.stat(f"{place.directory}/new.svg").st_mode & 0o777), "0o640",
         "a new picture, in the current directory, with the mode of the umask")

    place = Place(directory)
    with open(f"{directory}/.gnuplot", "w", encoding="utf8") as file:
        file.write("exit status 3\n")
    done = plan("--items", "1M", "--plot", place.path,
                env={**os.environ, "HOME": directory, "GNUTERM": "nonsense"})
    ok(done.returncode == 0 and curves(place.content()), "a user's own settings have no part", done)

    # SIGXFSZ ends gnuplot, or, ignored, leaves it with errors that it does not look at.
    for restore, what in (True, "signal"), (False, "unfinished"):
        place = Place(directory)
        done = plan("--items", "1M", "--plot", place.path, restore_signals=restore,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384)))
        ok(is_refused(done, what) and place.is_as_before(),
           f"no room for the whole of it ({what}): the older picture stays", done)


def no_pictures(directory):
    for name in "rate.png", "rate", ".svg", "", "rate.svg.gz", "rate.SVG", "/", "-":
        refused(f"refused: a picture called '{name}'", "does not end in .svg",
                "--items", "1M", "--plot", name, cwd=directory)
    refused("refused: a picture where there is no directory", "No such file",
            "--items", "1M", "--plot", f"{directory}/nowhere/rate.svg")

    place = Place(directory)
    empty = tempfile.mkdtemp(dir=directory)
    done = plan("--items", "1M", "--plot", place.path, env={**os.environ, "PATH": empty})
    same((done.stderr, done.returncode, done.stdout),
         ("xdp-bloom: gnuplot is not installed (apt-get install gnuplot-nox): no picture was "
          "drawn\n", 2, ""), "no gnuplot: says so, and what to install")
    ok(place.is_as_before(), "no gnuplot: the older picture stays", os.listdir(place.directory))

    whole = "cat >/dev/null; echo '<svg></svg>'"
    for what, pattern, script in (
            ("fails", "undefined variable: x: no picture",
             f"{whole}; printf '\\ngnuplot> plot x\\n     ^\\n  undefined variable: x\\n\\n' >&2; "
             "exit 1"),
            ("fails without a word", "did not say why", f"{whole}; exit 1"),
            ("says something odd", r"a\?\[31m", f"{whole}; printf 'a\\033[31m' >&2; exit 1"),
            ("is killed", "signal 9", f"{whole}; kill -9 $$"),
            ("ends at once", "gnuplot", "exit 1"),
            ("reads nothing", "gnuplot", "exec <&-; exit 1"),
            ("writes half", "unfinished", "cat >/dev/null; echo '<svg><g>'"),
            ("writes nothing", "unfinished", "cat >/dev/null")):
        place = Place(directory)
        done = plan("--items", "1M", "--plot", place.path, env=fake_gnuplot(directory, script))
        ok(is_refused(done, pattern) and place.is_as_before(),
           f"gnuplot {what}: one line, and the older picture stays", done,
           os.listdir(place.directory))

    # A directory cannot be replaced by a picture.
    place = Place(directory)
    os.unlink(place.path)
    os.mkdir(place.path)
    done = plan("--items", "1M", "--plot", place.path, env=fake_gnuplot(directory, whole))
    ok(is_refused(done, "cannot write") and os.listdir(place.directory) == ["rate.svg"],
       "a directory that is called so: refused, and nothing is left over", done)


def interrupted(directory):
    """Ctrl-C reaches both, the tool and gnuplot."""
    place = Place(directory)
    started = f"{directory}/started"
    script = f": >'{started}'; exec sleep {PATIENCE}"
    tool = subprocess.Popen(
        [TOOL, "plan", "--items", "1M", "--plot", place.path],
        env=fake_gnuplot(directory, script), start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(started) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(tool.pid, signal.SIGINT)
    output, _ = tool.communicate(timeout=PATIENCE)
    ok(tool.returncode == -signal.SIGINT and output == b"" and place.is_as_before(),
       "Ctrl-C while gnuplot draws: ends, and the older picture stays", tool.returncode, output,
       os.listdir(place.directory))


def sanitized(directory, drawing):
    if not os.path.exists(SANITIZED):
        skip("under the sanitizers", "not built")
        return
    for request in REQUESTS:
        arguments = [*request, "--json"]
        if drawing:
            arguments += ["--plot", f"{directory}/sanitized.svg"]
        done = plan(*arguments, tool=SANITIZED)
        ok(done.returncode == 0 and not done.stderr and done.stdout == plan(*arguments).stdout,
           f"under the sanitizers: {title(request)}", done)


def has_gnuplot():
    return any(os.access(f"{part}/gnuplot", os.X_OK) for part in os.environ["PATH"].split(":"))


published_values()
figures_agree()
the_table()
what_one_layout_cannot_hold()
the_text()
the_exact_map()
bad_input()
with tempfile.TemporaryDirectory() as scratch:
    a_list(scratch)
    no_pictures(scratch)
    interrupted(scratch)
    if has_gnuplot():
        pictures(scratch)
    else:
        skip("pictures", "gnuplot is not installed")
    sanitized(scratch, has_gnuplot())
print(f"1..{tests}")
sys.exit(failed != 0)
