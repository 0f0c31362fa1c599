#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# --ttl: keys leave by themselves, not before their time and not long after it, with no tool at work;
# what is added again stays; and a tool that dies in a turn from one array to the next does no harm.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

build_net
KEY=198.18.1.1
TTL=2

# Milliseconds since the last `since=$(now)`.
now() { echo $((${EPOCHREALTIME/./} / 1000)); }
absent() { [ "$(xb test f "$1")" = "absent $1" ]; }

# ---- what is refused ----

refused "no time" "'0'" xb create f --items 10 --ttl 0
refused "what is no time" "'1y'" xb create f --items 10 --ttl 1y
refused "too long" "367d" xb create f --items 10 --ttl 367d
refused "one array" "one array cannot forget" xb create f --items 10 --ttl 1h --lives 1
refused "too many" "--lives '5'" xb create f --items 10 --ttl 1h --lives 5
refused "arrays without a time" "--ttl" xb create f --items 10 --lives 3
refused "an exact map" "does not forget" xb create f --items 10 --ttl 1h --confirm

# ---- what it says ----

expect 0 "a filter with a time to live" xb create f --items 100000 --ttl 90m
is "$(field f ttl) $(field f lives) $(field f arrays | "$PYTHON" -c '
import json, sys
a = json.load(sys.stdin)
print(len(a), a[0]["current"], 10700 < a[0]["expires_in"] <= 10800, a[1]["expires_in"])')" \
	"5400 2 2 True True 0" "of two arrays, of which one is live: for two times 90 minutes"
like "$(xb show f)" 'keys leave after 90 min to 3 h 0 min|keys leave after 90 min to 180 min' "show says so"
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "11.%d.%d.%d\n", i / 65536, i / 256 % 256, i % 256 }' >$T/keys
expect 0 "filled to its capacity" xb add f --from $T/keys
is "$(field f fp_predicted | awk '{ print ($1 < 0.0055 && $1 > 0.0045) }')" 1 \
	"one array is wrong half as often as all may be"
# Within five standard deviations, which chance passes once in 1.7 million.
xb measure f --json >$T/m
is "$("$PYTHON" -c '
import json, sys
m = json.load(open(sys.argv[1]))
p, n = m["fp_predicted"], m["probes"]
print(abs(m["fp_measured"] - p) < 5 * (p * (1 - p) / n) ** .5)' $T/m)" True "which is what measure finds" ||
	diag "$(<$T/m)"
xb destroy f >/dev/null

# ---- keys leave, no sooner and not much later ----

for layout in split classic; do
	for key in $KEY 2001:db8:a::7 203.0.113.0/24 2001:db8:a:1::/64; do
		addr=${key%/*}
		expect 0 "$layout, $key: a filter" xb create f --items 1000 --ttl $TTL --layout $layout
		expect 0 "attach" xb attach f s0 --no-guard
		since=$(now)
		expect 0 "add" xb add f $key
		ok "it is stopped" udp_stopped $addr
		# Nobody but the kernel's own clock: no tool opens the filter until it passes.
		stopped=0
		asked=$(($(now) - since))
		while udp_stopped $addr; do
			stopped=$asked
			asked=$(($(now) - since))
		done
		left=$(($(now) - since))
		ok "for longer than its time ($stopped ms)" test $left -gt $((TTL * 1000))
		ok "and gone after twice as long" test $stopped -le $((2 * TTL * 1000))
		ok "test says so, too" absent $key
		xb destroy f >/dev/null
		[ "$key" = $KEY ] || [ $layout = split ] || break
	done
done

# ---- turns ----

expect 0 "a filter of three arrays" xb create f --items 1000 --ttl 2 --lives 3
expect 0 "attach" xb attach f s0 --no-guard
xb add f $KEY
since=$(now)
turns=0 lost=0
# Somebody adds it again and again: it stays, through more turns than there are arrays.
while [ $(($(now) - since)) -lt 8000 ]; do
	xb add f $KEY >/dev/null
	udp_stopped $KEY || lost=$((lost + 1))
	current=$(field f arrays | "$PYTHON" -c '
import json, sys
print([a["current"] for a in json.load(sys.stdin)].index(True))')
	[ "$current" = "${last-}" ] || turns=$((turns + 1))
	last=$current
done
is $lost 0 "a key that is added again stays"
ok "through $turns turns" test $turns -ge 5
is "$(field f inserted)" 1 "each array counts it once"
xb destroy f >/dev/null

# ---- rebuild ----

expect 0 "a filter from a list" xb create f --from $T/keys --ttl 1h --lives 4
expect 0 "the same list again" xb rebuild f --from $T/keys
is "$(field f generation) $(field f ttl) $(field f lives)" "2 3600 4" "is put in again: its time begins anew"
xb destroy f >/dev/null

# ---- a tool that dies in a turn ----

head -500 $T/keys >$T/few
wrong="" steps=0
for ((step = 1; ; step++)); do
	xb create f --items 1000 --ttl 1 --lives 3 >/dev/null
	xb add f --from $T/few >/dev/null
	# The period of an array is half a second, and its time a second and a half.
	wait_until 5 eval '[ "$(xb show f | grep -c "for another 0 s")" = 1 ]'
	"$KILLAT" $step "$XDP_BLOOM" add f $KEY >/dev/null 2>&1
	status=$?
	# What was there is, until its time is over; and what is added then is in it.
	xb test f --from $T/few >/dev/null || [ "$(field f arrays.0.expires_in)" = 0 ] ||
		wrong+="step $step: a key is gone before its time"$'\n'
	said=$(timeout 5 "$XDP_BLOOM" add f 198.18.9.9 2>&1 >/dev/null) || wrong+="step $step: $said"$'\n'
	absent 198.18.9.9 && wrong+="step $step: what was added is absent"$'\n'
	[ "$(field f inserted)" -le 2 ] || wrong+="step $step: $(field f inserted) were inserted"$'\n'
	xb destroy f >/dev/null
	[ $status = 137 ] || break
	steps=$((steps + 1))
done
is "$wrong" "" "killed at each of $steps steps of an add that turns"
is $status 0 "which otherwise succeeds"
ok "there was something to kill" test $steps -gt 8

done_testing
