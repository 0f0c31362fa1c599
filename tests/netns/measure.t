#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# xdp-bloom measure: the rate that the program in the kernel really has, beside the one that the bits
# predict. However the keys are verified the two agree; where the list is not that of the filter they
# must not; and the filter's own counters see nothing of it.
#
# A right measurement disagrees in 5 of 100 runs: that is what a 95 % interval means. So where they are
# to agree, it is made up to five times until they do: ten such places fail by chance in 3 of a
# million runs. Where they must not agree, they are so far apart that chance has no part in it.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

ATTEMPTS=5

agrees() { # DESCRIPTION measure ARGUMENTS...: some attempt has status 0, and none has 2.
	local what=$1 attempt

	shift
	for ((attempt = 1; attempt <= ATTEMPTS; attempt++)); do
		run xb measure "$@"
		[ $RC = 1 ] || break
	done
	[ $RC = 0 ]
	note_result $? "$what" && return
	diag "xdp-bloom measure $*: status $RC"
	diag "$OUT"
	diag "$ERR"
}

between() { # LOW VALUE HIGH DESCRIPTION
	awk -v low="$1" -v x="$2" -v high="$3" 'BEGIN { exit !(x != "" && low <= x && x <= high) }'
	note_result $? "$4" || diag "$2 is not in $1 .. $3"
}

awk 'BEGIN {
	for (i = 0; i < 50000; i++)
		printf "198.18.%d.%d\n2001:db8:%x:%x::1\n", i / 256, i % 256, i / 256, i % 256
}' >$T/list
awk 'BEGIN {
	for (i = 0; i < 20000; i++)
		printf "198.18.%d.%d,203.0.113.7,%d,53,udp\n", i / 256, i % 256, i
}' >$T/tuples
seq 1000 4000 >$T/ports

# ---- agreement, however it is verified ----

for layout in split classic; do
	expect 0 "$layout: create" xb create f --from $T/list --layout $layout
	counters=$(xb show f --json | json counters)
	agrees "$layout: by the space of keys" f
	like "$OUT" '^f: agree' "$layout: it says so"
	like "$OUT" 'drawn from 2\^128 keys' "$layout: and how it was verified"
	unlike "$OUT" 'note' "$layout: the interval is narrow enough"
	agrees "$layout: by the list" f --from $T/list
	like "$OUT" 'by the list; [0-9,]+ drawn keys' "$layout: it says by the list"
	is "$(xb show f --json | json counters)" "$counters" "$layout: no counter has moved"
	agrees "$layout: as JSON" f --json
	between 0.009 "$(json fp_predicted <<<"$OUT")" 0.011 "$layout: predicted as planned"
	between "$(json ci_low <<<"$OUT")" "$(json fp_predicted <<<"$OUT")" \
		"$(json ci_high <<<"$OUT")" "$layout: predicted in the interval"
	between "$(json ci_low <<<"$OUT")" "$(json fp_measured <<<"$OUT")" \
		"$(json ci_high <<<"$OUT")" "$layout: measured in the interval"
	is "$(json agree <<<"$OUT") $(json verified <<<"$OUT") $(json narrow <<<"$OUT")" \
		"true space true" "$layout: agree, verified, narrow"
	is "$(json false_positives <<<"$OUT")" "$(awk -v p="$(json probes <<<"$OUT")" \
		-v r="$(json fp_measured <<<"$OUT")" 'BEGIN { printf "%.0f", p * r }')" \
		"$layout: probes, false positives and rate are of one measurement"
	expect 0 "$layout: destroy" xb destroy f
done

expect 0 "5tuple: create" xb create f --from $T/tuples --key 5tuple --fp 5%
agrees "5tuple: agree" f
like "$OUT" '2\^289 keys' "5tuple: the space of keys"
expect 0 "destroy" xb destroy f

expect 0 "with an exact map: create" xb create f --from $T/list --fp 10% --confirm
agrees "with an exact map: it is asked" f
like "$OUT" 'by the exact map' "with an exact map: it says so"
between 0.08 "$(xb measure f --json | json fp_measured)" 0.12 \
	"with an exact map: the filter's own rate is measured, not what is confirmed"
expect 0 "destroy" xb destroy f

# ---- a filter at work ----

build_net
expect 0 "create a filter in shadow" xb create f --from $T/list --shadow --policy allow
expect 0 "attach it" xb attach f s0
ok "traffic passes" udp_passes 203.0.113.9
agrees "under allow and in shadow as well" f
ok "traffic passes as before" udp_passes 203.0.113.9
expect 0 "detach" xb detach s0
before=$(xb show f --json | json counters)
agrees "measure once more" f --probes 10k
is "$(xb show f --json | json counters)" "$before" "and not one packet was counted for it"
expect 0 "destroy" xb destroy f

# ---- disagreement ----

# Ports are so few that all of them are asked for, the listed ones too.
expect 0 "create a filter of ports" xb create p --from $T/ports --key dport
agrees "ports: all 65,536 of them are asked, the listed left out" p --from $T/ports
like "$OUT" '3,001 drawn keys' "ports: each listed one was met"
run xb measure p --from $T/ports --json
is "$(json probes <<<"$OUT") $(json listed <<<"$OUT")" "$((65536 - 3001)) 3001" \
	"ports: no key was asked for twice"
head -n 1500 $T/ports >$T/some-ports
expect 1 "a list that is not the filter's: disagree, status 1" xb measure p --from $T/some-ports
like "$OUT" '^p: disagree' "and it says so"
refused "ports without a list: too few to draw from" '2\^16 keys.*--from' xb measure p
expect 0 "destroy" xb destroy p

# ---- limits ----

expect 0 "create" xb create f --from $T/list --fp 1e-6
agrees "a rate of 1e-6 in half a second: nothing speaks against it" f --seconds 0.5 --json
is "$(json narrow <<<"$OUT")" false "but the interval is wide"
between 0.4 "$(json seconds <<<"$OUT")" 4 "and the time is kept"
run xb measure f --seconds 0.2
like "$OUT" 'note .*wider than a tenth' "which is said"
run xb measure f --probes 12345 --json
is "$(json probes <<<"$OUT")" 12345 "--probes is exact"
run xb measure f --probes 54321 --from $T/list --json
is "$(json probes <<<"$OUT")" 54321 "also beside listed keys"
expect 0 "destroy" xb destroy f

expect 0 "create an empty filter" xb create f --items 1000
expect 0 "measure it" xb measure f
is "$OUT" "filter f is empty: its rate is 0" "it is empty, its rate is 0"
expect 0 "as JSON" xb measure f --json
is "$(json fp_measured <<<"$OUT") $(json probes <<<"$OUT") $(json agree <<<"$OUT")" "0 0 true" \
	"rate 0, no probes, agree"

# ---- bad input ----

refused "no name" 'needs the name' xb measure
refused "two names" 'needs the name of one' xb measure f g
refused "no such filter" 'no filter nosuch' xb measure nosuch
refused "no probes" "between 1 and" xb measure f --probes 0
refused "no seconds" "above 0" xb measure f --seconds 0
refused "more than a day" "more than a day" xb measure f --seconds 90000
refused "a list of another shape" 'tuples:1: ' xb measure f --from $T/tuples
refused "a list that is not there" 'nosuchfile' xb measure f --from $T/nosuchfile
printf '# nothing\n' >$T/nothing
refused "a list without a key" 'no key' xb measure f --from $T/nothing
rm $BPFFS/xdp-bloom/f/stats
refused "a damaged filter" 'damaged' xb measure f

done_testing
