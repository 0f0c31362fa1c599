#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# measure: the rate that the program in the kernel shows beside the one that the bits predict. What
# is measured is what asking for each key finds; the exit status is the answer; nothing that a filter
# counts is touched.
#
# The filters' secrets are drawn anew each time, so that one measurement in 20 says `disagree` by
# chance, and no test here wants `agree`. They want the answer to be the one that the interval gives,
# and the measured rate within five standard deviations of the predicted one (once in 1.7 million).

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

build_net

ITEMS=100000
PORTS=4000

awk -v n=$ITEMS 'BEGIN { for (i = 0; i < n; i++) printf "10.%d.%d.%d\n", i / 65536, i / 256 % 256, i % 256 }' \
	>$T/v4
awk -v n=$ITEMS 'BEGIN { for (i = 0; i < n; i++) printf "2001:db8:%x::%x\n", i / 65536, i % 65536 }' >$T/v6
cat $T/v4 $T/v6 >$T/both
# Scattered, as 7 and 65,536 have no common divisor.
awk -v n=$PORTS 'BEGIN { for (i = 0; i < n; i++) print i * 7 % 65536 }' >$T/ports
seq 0 65535 | sort >$T/all
sort $T/ports | comm -13 - $T/all >$T/absent

# ---- what it says ----

# measured [OPTION...]: the object of `measure --json`, in $T/m.
measured() {
	run xb measure --json "$@"
	printf '%s\n' "$OUT" >$T/m
}
of_m() { json "$1" <$T/m; }

# Whether a Python expression is true of m, the last measurement.
holds() { # DESCRIPTION EXPRESSION
	"$PYTHON" -c '
import json, sys
m = json.load(open(sys.argv[1]))
sys.exit(not eval("(" + sys.argv[2] + ")"))' $T/m "$2" 2>$T/why
	note_result $? "$1" && return
	diag "$2"
	diag "$(<$T/m) $(<$T/why)"
	return 1
}

# sound DESCRIPTION: the status is the answer, the answer is what the interval says, the interval is
# Wilson's, and the rates are as near to each other as they have to be.
sound() {
	is "$RC" "$([ "$(of_m agree)" = true ]; echo $?)" "$1: the status is the answer"
	holds "$1: the answer is that of the interval" \
		'm["agree"] == (m["ci_low"] <= m["fp_predicted"] <= m["ci_high"])'
	holds "$1: the interval is Wilson's" '(lambda n, p, z=1.959964: all(
		abs(got - (p + z*z/2/n + sign*z*(p*(1-p)/n + z*z/4/n/n)**.5) / (1 + z*z/n)) < 1e-6
		for sign, got in ((-1, m["ci_low"]), (1, m["ci_high"]))))(m["probes"], m["fp_measured"])'
	holds "$1: measured and predicted are near each other" '(lambda p, n:
		abs(m["fp_measured"] - p) < 5 * (p * (1 - p) / n) ** .5 + 1 / n)(
		m["fp_predicted"], m["probes"])'
}

# ---- what is refused ----

refused "no such filter" 'no filter f' xb measure f
expect 0 "a filter" xb create f --from $T/both
refused "no name" 'name of one filter' xb measure
refused "two names" 'name of one filter' xb measure f g
refused "a list that is not there" "$T/none" xb measure f --from $T/none
refused "a list of another shape, by file and line" "$T/ports:1: '0'" xb measure f --from $T/ports
(cat $T/v4 && echo 192.0.2.1,53) >$T/bad
refused "even at its end" "$T/bad:$((ITEMS + 1)): '192.0.2.1,53'" \
	xb measure f --from $T/v4 --from $T/bad
: >$T/empty
refused "an empty list" "$T/empty holds no key" xb measure f --from $T/empty
for probes in 0 -1 1.5 x ""; do
	refused "${probes@Q} probes" "--probes '$probes'" xb measure f --probes "$probes"
done
for seconds in 0 -1 x nan 86401 ""; do
	refused "${seconds@Q} seconds" "--seconds '$seconds'" xb measure f --seconds "$seconds"
done

# ---- both layouts, both ways of verifying ----

for layout in split classic; do
	expect 0 "$layout: a filter" xb create $layout --from $T/both --layout $layout --fp 2%
	measured $layout
	sound "$layout, by space"
	is "$(of_m verified) $(of_m space_bits) $(of_m listed)" "space 128 0" \
		"$layout: drawn from all IPv6 addresses"
	holds "$layout: as many keys as make the interval narrow" 'm["narrow"] and
		m["ci_high"] - m["ci_low"] <= 0.1 * m["fp_measured"] and
		1400 < m["false_positives"] < 2500'
	is "$(of_m fp_predicted)" "$(field $layout fp_predicted)" "$layout: the prediction is that of show"
	measured $layout --from $T/v4 --from $T/v6
	sound "$layout, by lists"
	is "$(of_m verified)" list "$layout: verified by the lists"
	# Half of them are IPv4 addresses, of which one in 43,000 is listed: 70 expected.
	measured $layout --from $T/both --probes 6M
	holds "$layout: drawn keys that are listed are not counted" '20 < m["listed"] < 140'
	holds "$layout: as many absent keys as were asked for" 'm["probes"] == 6000000'
	sound "$layout, 6,000,000 keys"
done

measured f --probes 1000
holds "a thousand probes are a thousand" 'm["probes"] == 1000 and not m["narrow"]'
like "$(xb measure f --probes 1000)" \
	'note +the interval is wider than a tenth of the rate: --probes [0-9]+k would make' \
	"and it says how many would do, not how long so few tell that they would take"
like "$(xb measure f --probes 110k)" \
	'note +the interval is wider than a tenth of the rate: --probes [0-9]+k, some [1-9] s' \
	"of more it does"
expect 0 "a filter that is hardly ever wrong" xb create rare --items 1000000 --fp 1e-6
expect 0 "with a key" xb add rare 192.0.2.1
measured rare --seconds 0.2
holds "time ends it" '0.2 <= m["seconds"] < 5 and m["false_positives"] == 0 and m["agree"]'
measured f --seconds 1e-9
holds "however little time there is, it says nothing of no probe" \
	'm["probes"] > 1000 and m["false_positives"] > 0'
sound "no time"
like "$(xb measure rare --seconds 0.2)" 'a day would not be enough' "and it says that more is no use"

awk 'BEGIN { for (i = 0; i < 1000; i++) printf "192.0.2.1,198.51.100.1,%d,443,tcp\n", i }' >$T/flows
expect 0 "a filter of flows" xb create flows --key 5tuple --from $T/flows --fp 5%
measured flows
sound "five fields, by space"
is "$(of_m space_bits)" 289 "five fields: two IPv6 addresses, two ports, TCP or UDP"
measured flows --from $T/flows
sound "five fields, by the list"

# ---- by an exact map ----

expect 0 "a filter with an exact map" xb create exact --from $T/both --fp 10% --confirm
measured exact --probes 1M
sound "an exact map"
is "$(of_m verified)" exact "it is asked, where there is no list"
holds "what is measured is the filter's own rate, not what the map lets through" \
	'm["false_positives"] > 80000'
measured exact --from $T/both
is "$(of_m verified)" list "a list goes before it"

# ---- a small space: every port is asked for ----

expect 0 "a filter of ports" xb create p --key dport --from $T/ports --fp 3%
refused "drawn ports may be listed: a list is needed" '2\^16 keys.*--from' xb measure p
measured p --from $T/ports --probes 65536
is "$(of_m listed) $(of_m probes)" "$PORTS $((65536 - PORTS))" "each port is drawn once"
is "$(of_m false_positives)" "$(xb test p --from $T/absent | grep -c ^maybe)" \
	"and those that are wrong are the ones that asking for each key finds"
sound "all ports"
run xb measure p --from $T/all
like "$RC $OUT" '^1 p: disagree.* 0 of .*the list has keys that are not in the filter' \
	"a list that has too many keys: they disagree, and it says why"
expect 0 "a filter of all ports" xb create every --key dport --from $T/all
refused "nothing absent is left to ask for" 'every key of this shape is listed' \
	xb measure every --from $T/all
expect 0 "one that is seldom wrong" xb create p2 --key dport --from $T/ports --fp 0.1%
like "$(xb measure p2 --from $T/ports)" 'there are no more keys of this shape' \
	"it says when there are not enough keys"

# ---- it says no ----

head -n $((PORTS / 2)) $T/ports >$T/half
measured p --from $T/half
is "$RC $(of_m agree)" "1 false" "a list that lacks half of the keys: they disagree, status 1"
run xb measure p --from $T/half
like "$RC $OUT" '^1 p: disagree.*the filter holds keys that are not in the list' "and it says why"

# ---- an empty filter ----

expect 0 "an empty filter" xb create e --items 1000
expect 0 "is measured" xb measure e
is "$OUT" "filter e is empty: its rate is 0" "and it says so"
measured e
is "$RC $(of_m fp_predicted) $(of_m probes) $(of_m agree)" "0 0 0 true" "also as JSON"

# ---- for people ----

run xb measure split
like "$OUT" "^split: (agree|disagree)" "the answer comes first"
like "$OUT" "measured +[0-9.]+ % of absent keys are called maybe: [0-9,]+ of [0-9,]+, in" "what was measured"
like "$OUT" "interval +[0-9.]+ % to [0-9.]+ %: .* 95 of 100" "its interval, and what that means"
like "$OUT" "predicted +[0-9.]+ %" "what was predicted"
like "$OUT" 'verified +drawn from 2\^128 keys' "how that is known"
is "$ERR" "" "and nothing else, where stderr is no terminal"

# 2,000,000 probes of 2 % make an interval of a fiftieth of the rate: as text it must still be one that
# tells where the prediction lies.
xb measure split --probes 2M >$T/text
ok "the text has digits enough for its answer" "$PYTHON" -c '
import re, sys
text = open(sys.argv[1]).read()
low, high = map(float, re.search(r"interval +(\S+) % to (\S+) %", text).groups())
predicted = float(re.search(r"predicted +(\S+) %", text)[1])
for digits in re.findall(r"(?:measured|interval|to|predicted) +(\S+) %", text):
    assert len(digits.replace(".", "").strip("0")) >= 3, digits
assert high - low < 0.06 * high, text
assert (low <= predicted <= high) == text.startswith("split: agree"), text' $T/text

# ---- nothing is disturbed ----

counters() { xb show "$1" --json | json counters; }

# work DESCRIPTION create OPTION...: a filter that has counted packets, and is measured.
work() {
	local what=$1 before pins

	shift
	expect 0 "$what: create" xb create work --from $T/both "$@"
	expect 0 "$what: attach" xb attach work s0
	udp_passes 198.51.100.7
	udp_passes 10.0.0.7
	measured work --probes 100k
	sound "$what: at work"
	# So that nothing else is counted.
	expect 0 "$what: detach" xb detach s0
	before=$(counters work)
	pins=$(find $BPFFS -printf '%p %i\n' | sort)
	like "$before" '"packets": [1-9]' "$what: it has counted"
	measured work
	measured work --from $T/both
	is "$(counters work)" "$before" "$what: its counters are as before"
	is "$(find $BPFFS -printf '%p %i\n' | sort)" "$pins" "$what: nothing was left behind"
	is "$(xb test work 10.0.0.7)" "maybe 10.0.0.7" "$what: and its keys are in it"
	expect 0 "$what: destroy" xb destroy work
}

work "block" --policy block
work "allow in shadow" --policy allow --shadow
work "with an exact map" --confirm

rm $BPFFS/xdp-bloom/f/stats
refused "a damaged filter is not measured" damaged xb measure f

# ---- when memory is short ----

expect 0 "create" xb create short --from $T/both --confirm
no_room="no room for a ring buffer: one line, and what it was"
if [ -n "${SANITIZED-}" ]; then
	skip "$no_room" "AddressSanitizer reserves terabytes of address space, which no limit allows"
else
	refused "$no_room" 'ring buffer of 16 MiB' \
		sh -c 'ulimit -v 60000; exec "$@"' sh "$XDP_BLOOM" measure short
fi
xb destroy short >/dev/null

done_testing
