#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# --confirm: an exact map beside the filter is asked after each maybe. So at a target of 10 % no
# packet of an unlisted source is lost, every listed one is dropped, and the refuted packets tell
# the false positive rate exactly. The map cannot overflow by half, nor a killed tool leave it so
# that a key is lost.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

[ -x "$KILLAT" ] || cannot "$KILLAT is not built"
require bpftool timeout
build_net

HERE=$BPFFS/xdp-bloom
SPORT=40000

addresses() { # FORMAT FIRST COUNT
	awk -v format="$1\n" -v first="$2" -v count="$3" 'BEGIN {
		for (i = first; i < first + count; i++)
			printf format, i / 250, 1 + i % 250
	}'
}
SOURCES=20000
addresses 198.18.%d.%d 0 2000 >$T/listed4
addresses 198.19.%d.%d 0 $SOURCES >$T/unlisted4
addresses 2001:db8:a:1:%x::%x 0 2000 >$T/listed6
addresses 2001:db8:a:2:%x::%x 0 $SOURCES >$T/unlisted6

# The keys of a list of sources.
as_keys() { # FIELDS FILE
	local server=$SERVER4

	[ "$1" = 5tuple ] || { cat "$2" && return; }
	[[ $2 != *6 ]] || server=$SERVER6
	sed "s/\$/,$server,$SPORT,$UDP_PORT,udp/" "$2"
}

# What the cable itself has lost, on a machine that is too busy.
cable() { ip -n client -s -j link show dev c0 | json 0.stats64.tx.dropped; }

# send_all LIST [udp-send OPTION...]: one packet of each; sets ARRIVED and MISSING.
send_all() {
	local before count

	before=$(cable)
	count=$(wc -l <"$1")
	ARRIVED=$(arrivals "$@" --sport $SPORT --rate 50000 | wc -l)
	MISSING=$((count - ARRIVED - $(cable) + before))
}

# Whether so many refuted packets agree with the prediction: one packet a source, and each source
# is a false positive with that probability, so the number is binomial. Wrong once in 10^6 times.
agrees() { # REFUTED ASKED PREDICTED
	"$PYTHON" -c '
import math, sys
k, n, p = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
def point(i):
    return math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)
                    + i * math.log(p) + (n - i) * math.log1p(-p))
below = math.fsum(map(point, range(k + 1)))
above = math.fsum(map(point, range(k, n + 1)))
sys.exit(min(below, above) < 0.5e-6)' "$1" "$2" "$3"
}

bits() { bpftool map dump pinned $HERE/"$1"/filter | md5sum; }

# ---- nobody unlisted is lost, everybody listed is dropped, and the rate is as predicted ----

for how in src:split:native src:classic:generic 5tuple:classic:native 5tuple:split:generic; do
	IFS=: read -r fields layout mode <<<"$how"
	what="$fields, $layout, $mode"
	as_keys $fields $T/listed4 >$T/keys
	as_keys $fields $T/listed6 >>$T/keys
	expect 0 "$what: create at 10 %" xb create f --confirm --key $fields --layout $layout --fp 0.1 \
		--from $T/keys
	like "$OUT" "exact map of .*, room for [0-9,]+ keys" "$what: create says what it takes"
	is "$(field f confirm) $(field f fp_live)" "true null" "$what: no packet, no live rate"
	expect 0 "$what: attach" xb attach f s0 --mode $mode
	predicted=$(field f fp_predicted)
	is "$(awk '{ print ($1 > 0.08 && $1 < 0.12) }' <<<"$predicted")" 1 "$what: 10 % it is"
	refuted=0
	for family in 4 6; do
		send_all $T/unlisted$family
		is "$MISSING" 0 "$what: no packet of $SOURCES unlisted sources is lost (IPv$family)"
		now=$(counter f refuted)
		ok "$what: $((now - refuted)) of them were refuted, as predicted (IPv$family)" \
			agrees $((now - refuted)) $ARRIVED "$predicted"
		refuted=$now
	done
	is "$(counter f dropped)" 0 "$what: nothing was dropped"
	is "$((refuted + $(counter f absent)))" $((2 * SOURCES)) "$what: absent or refuted"
	is "$(counter f maybe)" 0 "$what: no maybe was left unasked"
	is "$(field f fp_live | awk -v r="$refuted" -v a="$(counter f absent)" \
		'{ d = $1 - r / (r + a); print (d < 1e-8 && d > -1e-8) }')" 1 "$what: show has their rate"
	like "$(xb show f)" "live rate [0-9.]+ % of the packets not listed.* predicted [0-9.]+ %" \
		"$what: beside the prediction"
	for family in 4 6; do
		send_all $T/listed$family
		is "$ARRIVED" 0 "$what: every listed one is dropped (IPv$family)"
	done
	is "$(counter f confirmed) $(counter f dropped)" "4000 4000" "$what: as confirmed"
	is "$(counter f refuted)" "$refuted" "$what: none of them was refuted"

	expect 0 "$what: shadow on" xb set f --shadow on
	for family in 4 6; do
		send_all $T/listed$family
		is "$ARRIVED" 2000 "$what: in shadow all pass (IPv$family)"
	done
	is "$(counter f would_drop) $(counter f dropped)" "4000 4000" "$what: and were counted"
	is "$(counter f confirmed)" 8000 "$what: as confirmed"
	refused "$what: no allow with an exact map" "allow" xb set f --policy allow
	is "$(field f policy) $(field f shadow)" "block true" "$what: nothing has changed"
	expect 0 "$what: destroy" xb destroy f
done

# ---- from the moment add returns ----

for mode in native generic; do
	expect 0 "$mode: create" xb create f --confirm --items 1000 --fp 0.1
	expect 0 "$mode: attach" xb attach f s0 --mode $mode
	late=0 heard=0
	for i in 1 2 3 4 5; do
		source=198.18.0.$i
		start_receiver
		start_sender --from $source --rate 20000
		wait_until 5 logged 4000 && heard=$((heard + 1))
		before=$(counter f confirmed)
		run xb add f $source
		returned=${EPOCHREALTIME/./}
		[ $RC = 0 ] || diag "$ERR"
		stopped() { [ "$(counter f confirmed)" -ge $((before + 1000)) ]; }
		wait_until 5 stopped || late=$((late + 1))
		stop_traffic
		late=$((late + $(awk -v t="$returned" '$3 > t' $T/log | wc -l)))
	done
	is $heard 5 "$mode: five sources were heard before they were added"
	is $late 0 "$mode: and none of what they sent after add had returned"
	expect 0 "$mode: destroy" xb destroy f
done

# ---- what does not fit ----

expect 0 "create for 1,000" xb create f --confirm --items 1000 --fp 1e-9
room=$(field f exact_keys)
is "$((room >= 1000 && room <= 1250))" 1 "the exact map has room for them and no more than a quarter more"
addresses 198.18.%d.%d 0 900 >$T/some
expect 0 "900 keys" xb add f --from $T/some
expect 0 "the same again take no room" xb add f --from $T/some
addresses 198.18.%d.%d 800 $((room - 799)) >$T/toomany
before="$(field f inserted) $(bits f)"
refused "one key too many, in a list with 100 old ones: refused" "exact map" xb add f --from $T/toomany
is "$(field f inserted) $(bits f)" "$before" "and none of the list is in the filter"
addresses 198.18.%d.%d 900 $((room - 900)) | xb test f --from - >$T/answers
is "$(grep -c ^maybe $T/answers)" 0 "nor called maybe"
expect 0 "what fits goes in" xb add f --from <(head -n -1 $T/toomany)
refused "now it is full" "exact map" xb add f 203.0.113.1
expect 0 "old keys are welcome" xb add f --from $T/some
refused "--strict comes first" "sized for 1,000" xb add f --strict 203.0.113.1
expect 0 "destroy" xb destroy f

: >$T/empty
addresses 198.18.%d.%d 0 10000 >$T/list
refused "--confirm-max too small for the list" "confirm-max" \
	xb create f --confirm --confirm-max 100k --from $T/list
refused "--confirm-max too small for --items, told before any list is read" "confirm-max" \
	xb create f --confirm --confirm-max 100k --items 10000 --from $T/nolist
refused "--confirm-max without --confirm" "confirm" xb create f --confirm-max 1M --items 10
refused "--confirm with --policy allow" "block" xb create f --confirm --policy allow --items 10
for bad in 0 -1 x "" 1.5 1e99 1T; do
	refused "--confirm-max ${bad@Q}" "confirm-max" \
		xb create f --confirm --confirm-max "$bad" --items 10
done
expect 0 "a limit that the keys and not the spare quarter keep" \
	xb create f --confirm --from $T/list --confirm-max \
	"$(xb create g --confirm --items 8500 --json | json exact_bytes)"
is "$(field f exact_keys | awk '{ print ($1 >= 10000 && $1 < 12500) }')" 1 "takes less room"
is "$(($(field f exact_bytes) <= $(field g exact_bytes)))" 1 "and no more than the limit"
xb destroy g >/dev/null
expect 0 "destroy" xb destroy f

# What show says of the memory is what the kernel has charged, as near as its rounding.
for fields in src 5tuple dport; do
	expect 0 "$fields: create for 100,000" xb create f --confirm --key $fields --items 100000
	charged=$(bpftool -j map show pinned $HERE/f/confirm | json bytes_memlock)
	shown=$(field f exact_bytes)
	is "$(awk -v a="$charged" -v b="$shown" 'BEGIN { print (b > 0.9 * a && b < 1.1 * a) }')" 1 \
		"$fields: the exact map's memory is as shown" || diag "charged $charged, shown $shown"
	expect 0 "$fields: destroy" xb destroy f
done

# ---- killed ----

# Each key of the list is dropped.
all_dropped() { # LIST
	local arrived

	arrived=$(arrivals "$1") && [ -z "$arrived" ]
}

# Some keys that are in, and at each step some more.
addresses 198.18.%d.%d 0 300 >$T/finished
expect 0 "create" xb create f --confirm --items 5000 --fp 0.01
expect 0 "add some" xb add f --from $T/finished
expect 0 "attach" xb attach f s0
# LeakSanitizer, where the tool has it, cannot look at a process that is traced.
export ASAN_OPTIONS=detect_leaks=0
wrong="" step=0 status=137
while [ $status = 137 ]; do
	step=$((step + 1))
	{
		tail -3 $T/finished
		addresses 198.19.%d.%d $((step * 10)) 6
	} >$T/killed
	"$KILLAT" $step "$XDP_BLOOM" add f --from $T/killed >/dev/null 2>&1 9>$T/kill.log
	status=$?
	all_dropped $T/finished || wrong+="$(<$T/kill.log): a key of a finished add passes"$'\n'
	said=$(timeout 5 "$XDP_BLOOM" add f --from $T/killed 2>&1 >/dev/null) ||
		wrong+="$(<$T/kill.log): $said"$'\n'
	all_dropped $T/killed || wrong+="$(<$T/kill.log): after a whole add a key passes"$'\n'
	cat $T/killed >>$T/finished
done
is "$wrong" "" "add, killed at each of $((step - 1)) steps, and repeated"
is $status 0 "add: not killed, it succeeds"
ok "add: there was something to kill" test $step -gt 12
expect 0 "destroy" xb destroy f

wrong="" step=0 status=137
while [ $status = 137 ]; do
	step=$((step + 1))
	"$KILLAT" $step "$XDP_BLOOM" create f --confirm --from $T/finished >/dev/null 2>&1 9>$T/kill.log
	status=$?
	if xb show f >/dev/null 2>&1; then
		xb attach f s0 >/dev/null
		all_dropped $T/finished || wrong+="$(<$T/kill.log): a key of a made filter passes"$'\n'
	fi
	xb destroy f >/dev/null 2>&1
	[ -z "$(ls $HERE 2>/dev/null)" ] || wrong+="$(<$T/kill.log): left: $(ls $HERE)"$'\n'
done
is "$wrong" "" "create --confirm, killed at each of $((step - 1)) steps"
is $status 0 "create --confirm: not killed, it succeeds"

# By the clock, too: a long add spends its time between the system calls.
awk 'BEGIN { for (i = 0; i < 100000; i++)
	printf "10.%d.%d.%d\n", i / 65536, i / 256 % 256, i % 256 }' >$T/many
shuf -n 3000 $T/many >$T/few
expect 0 "create" xb create f --confirm --items 110000
expect 0 "add some" xb add f --from $T/finished
expect 0 "attach" xb attach f s0
killed=0 wrong=""
for ms in $(seq 20 20 200); do
	{ timeout -s KILL "0.$(printf %03d "$ms")" "$XDP_BLOOM" add f --from $T/many >/dev/null; } 2>/dev/null
	[ $? != 137 ] || killed=$((killed + 1))
	all_dropped $T/finished || wrong+="after $ms ms a key of a finished add passes"$'\n'
done
is "$((killed > 0))" 1 "add of 100,000 keys: some were killed"
is "$wrong" "" "add of 100,000 keys, killed $killed times by the clock"
expect 0 "then it succeeds" xb add f --from $T/many
ok "and every key is dropped" all_dropped $T/few
expect 0 "destroy" xb destroy f

done_testing
