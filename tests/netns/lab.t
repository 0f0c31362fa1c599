#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# `lab`: the essay's four experiments come out of our own filter, in the kernel. Predictions are the
# essay's to four decimals (and those of layout split what its formula gives here, in another
# language); what is measured is where it should be; the interval is the one that its counts give;
# the same seed gives the same, to the byte; and all of it fits a terminal of 80x24.
#
# No result here is left to chance: what is measured follows from --seed, which is written below.
# Whoever changes a hash, a position or a draw takes another sample, of which each figure lies
# outside its 99.99 % interval with a probability of 1e-4, and any of 19 with 0.002; and then it
# fails every time.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

require tmux gnuplot setpriv
build_net

SEED=2
# Fewer than usual, where the figures do not matter.
QUICK="--seeds 5"

lab() { "$XDP_BLOOM" lab "$@"; }

# ---- figures ----

# check JSON-FILE: print "ok" or "not ok", a description, and after a tab what was seen.
check() {
	"$PYTHON" - "$1" <<'END'
import json, math, sys

lab = json.load(open(sys.argv[1]))
EXPERIMENTS = ["one direction", "bits per key", "hashes", "overfill"]
ROW = ["layout", "keys", "bits", "k", "false_negatives", "false_positives", "fp_predicted",
       "fp_measured", "ci_low", "ci_high", "agree"]
# number: (bits, k, keys, predicted), from the essay
CLASSIC = {
    1: [(80000, 6, 10000, "0.0216")],
    2: [(40000, 3, 10000, "0.1469"), (80000, 6, 10000, "0.0216"),
        (120000, 8, 10000, "0.0031"), (160000, 11, 10000, "0.0005")],
    3: [(80000, 1, 10000, "0.1175"), (80000, 2, 10000, "0.0489"), (80000, 6, 10000, "0.0216"),
        (80000, 12, 10000, "0.0483"), (80000, 20, 10000, "0.1803")],
    4: [(80000, 6, 10000, "0.0216"), (80000, 6, 30000, "0.5126")],
}
# number: (bits in whole blocks of 512, keys)
SPLIT = {
    1: [(79872, 10000)],
    2: [(39936, 10000), (79872, 10000), (119808, 10000), (159744, 10000)],
    3: [],
    4: [(79872, 10000), (79872, 30000)],
}
# Student's t for 19 degrees of freedom: 0.975 and 0.99995.
T_95, T_9999 = 2.0930, 4.8974

def result(good, what, seen=""):
    print("%s\t%s\t%s" % ("ok" if good else "not ok", what, seen))

def rate_split(bits, keys):
    mean = 512 * keys / bits
    rate = sum(math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) *
               (1 - (63 / 64) ** i) ** 8 for i in range(0, int(mean) * 3))
    return rate + (1 - rate) * mean / 2 ** 32

def interval(row):
    rates = [n / lab["absent"] for n in row["false_positives"]]
    mean = sum(rates) / len(rates)
    error = math.sqrt(sum((r - mean) ** 2 for r in rates) / (len(rates) - 1) / len(rates))
    return mean, error

def near(a, b, tolerance):
    return abs(a - b) <= tolerance * abs(b)

result(list(lab) == ["seed", "seeds", "keys", "absent", "false_negatives", "intervals", "agreeing",
                     "agree", "experiments"], "the object's fields", list(lab))
result((lab["seeds"], lab["keys"], lab["absent"], lab["intervals"]) == (20, 10000, 20000, 19),
       "20 seeds, 10,000 keys, 20,000 absent ones, 19 intervals")
result([(e["number"], e["name"]) for e in lab["experiments"]] ==
       list(enumerate(EXPERIMENTS, 1)), "four experiments",
       [e["name"] for e in lab["experiments"]])

rows = [(e["number"], r) for e in lab["experiments"] for r in e["rows"]]
result(all(list(r) == ROW for n, r in rows), "each row has the same fields")
for number in CLASSIC:
    of = lambda layout: [r for n, r in rows if n == number and r["layout"] == layout]
    seen = [(r["bits"], r["k"], r["keys"], "%.4f" % r["fp_predicted"]) for r in of("classic")]
    result(seen == CLASSIC[number], "experiment %d: classic predicts as the essay does" % number,
           seen)
    seen = [(r["bits"], r["keys"]) for r in of("split")]
    result(seen == SPLIT[number] and
           all(r["k"] == 8 and near(r["fp_predicted"], rate_split(r["bits"], r["keys"]), 1e-6)
               for r in of("split")),
           "experiment %d: split predicts what its formula gives" % number, seen)

result(lab["false_negatives"] == 0 and all(r["false_negatives"] == 0 for n, r in rows),
       "no key that was put in is called absent")
for n, r in rows:
    mean, error = interval(r)
    what = "experiment %d, %s, %d bits, k %d, %d keys" % (
        n, r["layout"], r["bits"], r["k"], r["keys"])
    off = (mean - r["fp_predicted"]) / error
    result(abs(off) < T_9999 and len(r["false_positives"]) == 20,
           what + ": measured as predicted", "%.6f, predicted %.6f, %+.2f standard errors" %
           (mean, r["fp_predicted"], off))
    result(near(r["fp_measured"], mean, 1e-6) and
           near(r["ci_low"], mean - T_95 * error, 1e-5) and
           near(r["ci_high"], mean + T_95 * error, 1e-5) and
           r["agree"] == (r["ci_low"] <= r["fp_predicted"] <= r["ci_high"]),
           what + ": the interval is that of the counts", r)
    # The spread cannot be less than that of so many coins; far more, and seeds are no seeds. The
    # chi-squared distribution of 19 degrees of freedom is outside 0.19 .. 3.0 times its mean with
    # a probability of 1e-4; filters differ, too, so that split has some more.
    coins = math.sqrt(r["fp_predicted"] * (1 - r["fp_predicted"]) / lab["absent"] / 20)
    result(0.19 < (error / coins) ** 2 < 8, what + ": the seeds differ as they should",
           "variance %.2f of a coin's" % (error / coins) ** 2)
# "each one more a key takes about a third off the rate"
for layout in "classic", "split":
    rates = [r["fp_predicted"] for n, r in rows if n == 2 and r["layout"] == layout]
    off = [1 - (b / a) ** (1 / 4) for a, b in zip(rates, rates[1:])]
    result(all(0.3 < o < 0.5 for o in off), layout + ": a bit takes about a third off", off)
agreeing = sum(r["agree"] for n, r in rows)
result(lab["agreeing"] == agreeing and lab["agree"], "nearly all predictions lie in their interval",
       "%d of %d" % (agreeing, len(rows)))
END
}

expect 0 "lab --json" lab --seed $SEED --json
printf '%s\n' "$OUT" >$T/lab.json
is "$ERR" "" "nothing on stderr without a terminal"
while IFS=$'\t' read -r status what seen; do
	[ "$status" = ok ]
	note_result $? "$what" || diag "seen: $seen"
done < <(check $T/lab.json)

# ---- repeatable ----

expect 0 "lab --seed 3" lab $QUICK --seed 3 --json
printf '%s\n' "$OUT" >$T/three
expect 0 "once more" lab $QUICK --seed 3 --json
is "$OUT" "$(<$T/three)" "the same seed gives the same, to the byte"
expect 0 "lab --seed $SEED" lab $QUICK --seed $SEED --json
printf '%s\n' "$OUT" >$T/few

# counts FILE N: the first N counts of each row.
counts() {
	"$PYTHON" -c '
import json, sys
for e in json.load(open(sys.argv[1]))["experiments"]:
    for row in e["rows"]:
        print(row["false_positives"][:int(sys.argv[2])])' "$@"
}

is "$(counts $T/few 5)" "$(counts $T/lab.json 5)" "more seeds add to those of fewer"
is "$(paste -d= <(counts $T/few 5) <(counts $T/three 5) | grep -cE '^(.*)=\1$')" 0 \
	"another seed gives other figures, in each row"

# ---- a picture ----

if expect 0 "lab --plot" lab $QUICK --plot $T/lab.svg; then
	printf '%s\n' "$OUT" >$T/screen
fi

# The same by the tool that was built under AddressSanitizer and UndefinedBehaviorSanitizer.
expect 0 "lab --plot, sanitized" "${XDP_BLOOM_SAN:-$ROOT/build/san/xdp-bloom}" lab $QUICK \
	--plot $T/san.svg
is "$OUT" "$(<$T/screen)" "it says the same"
ok "and draws the same" cmp $T/lab.svg $T/san.svg

# What an SVG file says: all its text, in a line.
svg_text() {
	"$PYTHON" -c '
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
print(" ".join("".join(root.itertext()).split()))' "$1"
}

expect 0 "the picture is well-formed" svg_text $T/lab.svg
for panel in "1 It errs in one direction: 0 of 100,000 keys lost" "2 Bits are the price" \
	"3 Too few hashes lose, and so do too many" "4 Overfilling is silent"; do
	like "$OUT" "$panel" "the picture has panel $panel"
done
# Each experiment's points are drawn, with what a pair of layouts has of them.
points=$(grep -o '<use [^>]*>' $T/lab.svg | grep -c "gpPt[0-9]")
is $((points >= 2 * 5 + 2 * 4 + 5 + 2 * 2)) 1 "the picture has $points points"

# ---- a terminal of 80x24 ----

cat >$T/tmux.conf <<'END'
set -g status off
END
tm() { tmux -S $T/tmux.socket -f $T/tmux.conf "$@"; }
trap 'tm kill-server 2>/dev/null' EXIT
screen() { tm capture-pane -p -t lab; }
on_screen() { screen | grep -qE "$1"; }
last_line_is() { [ "$(screen | sed '/^$/d' | tail -n 1)" = "$1" ]; }

PROMPT='ready:'
tm new-session -d -s lab -x 80 -y 24 "env PS1='$PROMPT' bash --norc --noprofile"
ok "a terminal" wait_until 10 last_line_is "$PROMPT"
# A command line of one line.
ln -s "$XDP_BLOOM" $T/xdp-bloom
tm send-keys -t lab "$T/xdp-bloom lab $QUICK" Enter
ok "lab says what came of it" wait_until 60 on_screen "intervals hold the prediction"
ok "and ends" wait_until 10 last_line_is "$PROMPT"
screen >$T/seen
is "$(head -n 1 $T/seen)" "$PROMPT$T/xdp-bloom lab $QUICK" "with its command still on the screen"
is "$(sed "1d; /^$PROMPT/,\$d" $T/seen)" "$(<$T/screen)" \
	"the whole output is on the screen, each line in one"
for heading in "1 It errs in one direction: of 100,000 keys put in, 0 are called absent" \
	"2 Bits are the price" "3 The best k is a minimum" "4 Overfilling is silent"; do
	like "$(<$T/seen)" $'\n'"$heading" "heading: ${heading%%:*}"
done
is "$(awk 'length > 79' $T/seen)" "" "no line is wider than 79"

tm send-keys -t lab "clear; $T/xdp-bloom lab --seeds 1000" Enter
ok "a long run shows how far it is" \
	wait_until 30 on_screen '^lab  \[[#.]+\] +[0-9]+ %  [0-9,]+ keys$'
tm send-keys -t lab C-c
ok "Ctrl-C ends it" wait_until 10 last_line_is "$PROMPT"
not_ok "and leaves nothing" test -e $BPFFS/xdp-bloom
tm kill-server

# ---- bad input ----

for seeds in 0 1 4 1001 -5 x 5.5 "" 1e99; do
	refused "--seeds ${seeds@Q}" "--seeds" lab --seeds "$seeds"
done
for seed in 0 -1 x 1.5 "" 9007199254740993k; do
	refused "--seed ${seed@Q}" "--seed " lab --seed "$seed"
done
refused "--seed without a value" "seed" lab --seed
refused "an argument" "'stray'" lab stray
refused "an unknown option" "fast" lab --fast
refused "--plot of something else than SVG" "svg" lab --plot $T/lab.png
refused "--plot where there is no directory: said before the long part" "No such file" \
	lab --plot $T/nowhere/lab.svg
mkdir $T/directory.svg
refused "--plot in a directory's place" "directory.svg: Is a directory" lab --plot $T/directory.svg
mkdir $T/bin
refused "--plot without gnuplot: said before the long part" "gnuplot.*apt-get" \
	env PATH=$T/bin "$XDP_BLOOM" lab --plot $T/other.svg
is "$(ls $T/other.svg* 2>/dev/null)" "" "and no picture"
refused "as an ordinary user" "root" \
	setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$XDP_BLOOM" lab
expect 0 "lab --help" lab --help

done_testing
