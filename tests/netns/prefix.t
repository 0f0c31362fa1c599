#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Prefixes, from a list to frames on a wire: created with the filter or added to one at work, by
# verb and by packet; what show says that they cost; measured beside what is predicted, by family,
# with a list of prefixes for the truth; and whoever adds the first ones may be killed anywhere.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

[ -x "$KILLAT" ] || cannot "$KILLAT is not built"
require timeout
build_net

cat >$T/list <<-'END'
	198.18.0.0/16
	198.19.7.0/24
	198.19.8.0/25
	198.19.9.130/31
	192.0.2.7
	2001:db8:a:1::/64
	2001:db8:b::/48
	2001:db8:a:2::77
END

plens6() { field f prefixes.plens6; }

check_traffic() { # WHAT
	local source

	for source in 198.18.0.1 198.18.255.254 198.19.7.255 198.19.8.127 198.19.9.131 192.0.2.7 \
		2001:db8:a:1::1 2001:db8:a:1:ffff::1 2001:db8:a:2::77; do
		ok "$1: $source is dropped" udp_stopped $source
	done
	for source in 198.19.0.1 198.19.6.255 198.19.8.128 198.19.9.132 2001:db8:a:2::76 \
		2001:db8:a:3::1; do
		ok "$1: $source passes" udp_passes $source
	done
}

# ---- with the filter ----

expect 0 "create" xb create f --from $T/list --fp 1e-6
is "$(field f prefixes.nets4) $(field f prefixes.nets4_bytes) $(plens6)" "257 2097152 [128, 64, 48]" \
	"show says what became of them"
like "$(xb show f)" "prefixes +257 /24s in an exact map of 2.*IPv6 asked for under /128, /64, /48: 3 look-ups" \
	"and what that costs"
is "$(field f fp_ipv4)" "$(field f fp_look)" "an IPv4 packet asks once"
is "$(field f fp_ipv6)" "$(field f fp_predicted)" "the rate is that of the worst packet"
expect 0 "attach" xb attach f s0
check_traffic "created with"
expect 0 "test of the whole list" xb test f --from $T/list
expect 1 "test of what is not all in it" xb test f 198.19.8.0/24 198.18.0.0/15 2001:db8:a::/48
is "$(grep -c absent <<<"$OUT")" 3 "is absent, three times"
expect 0 "destroy" xb destroy f

# ---- to one at work ----

expect 0 "create with hosts" xb create f --items 10000 --fp 1e-6
is "$(field f prefixes.nets4_bytes) $(plens6)" "0 [128]" "a filter without prefixes has no map"
unlike "$(xb show f)" prefixes "and show does not speak of it"
expect 0 "attach" xb attach f s0
ok "all pass" udp_passes 198.18.0.1
expect 0 "add" xb add f --from $T/list
check_traffic "added to"
is "$(field f prefixes.nets4) $(plens6)" "257 [128, 64, 48]" "show says so"
expect 0 "rules change" xb set f --shadow on
ok "in shadow they pass" udp_passes 198.18.0.1
expect 0 "and back" xb set f --shadow off
ok "and are dropped again" udp_stopped 198.18.0.1
expect 0 "a length more" xb add f 2001:db8:c::/40
is "$(plens6)" "[128, 64, 48]" "is expanded where that is little"
expect 0 "another" xb add f 2001:db8:8000::/33
is "$(plens6)" "[128, 64, 48, 33]" "and is a length of its own where it is much"
refused "a fifth" "rebuild.*--expand-max|--expand-max.*rebuild" xb add f 2001:e00::/27 --expand-max 10
expect 0 "destroy" xb destroy f

# ---- watched ----

# Everything that is sent, of either family: in prefixes of the list and beside them.
for source in 198.18.1 198.19.7; do
	for ((i = 1; i < 200; i++)); do echo $source.$i; done
done >$T/inside
for ((i = 1; i < 200; i++)); do echo 198.19.6.$i; done >$T/outside
for ((i = 1; i < 200; i++)); do printf '2001:db8:a:1::%x\n' $i; done >$T/inside6
# All of one /48, which is one trial and not many.
for ((i = 1; i < 200; i++)); do printf '2001:db8:a:2:1::%x\n' $i; done >$T/outside6
for how in "" --confirm; do
	what="watch ${how:-by the list}"
	from=(--from $T/list)
	[ -z "$how" ] || from=()
	expect 0 "$what: create" xb create f --items 10000 --fp 1e-6 --shadow $how
	expect 0 "$what: attach" xb attach f s0
	expect 0 "$what: sample" xb set f --sample 1/1
	"$XDP_BLOOM" watch f "${from[@]}" --interval 60 --json >$T/line 2>$T/watch.err &
	WATCH=$!
	ok "$what: it begins" wait_until 10 grep -q "^xdp-bloom: watching" $T/watch.err
	# Its first prefixes come while it is watched.
	expect 0 "$what: add" xb add f --from $T/list
	sleep 1
	for list in inside outside inside6 outside6; do
		is "$(arrivals $T/$list | wc -l)" "$(wc -l <$T/$list)" "$what: $list passes in shadow"
	done
	kill -TERM $WATCH
	wait $WATCH
	is "$?" 0 "$what: it ends"
	is "$(json keys <$T/line) $(json false_positives <$T/line) $(json missing <$T/line)" "200 0 0" \
		"$what: 199 absent addresses and one of a /48, none of them a false positive" ||
		diag "$(cat $T/line $T/watch.err)"
	expect 0 "$what: destroy" xb destroy f
done

# ---- killed ----

UNADDED=198.19.1.1

prepare() {
	xb destroy f >/dev/null 2>&1
	xb create f --items 10000 --fp 1e-9 >/dev/null && xb add f 192.0.2.7 >/dev/null 2>&1 &&
		xb attach f s0 >/dev/null 2>&1
}

must() { # COMMAND...
	local said

	said=$("$@" 2>&1 >/dev/null) || echo "$* failed: $said"
}

check_killed() {
	must xb test f 192.0.2.7
	must xb show f
	must timeout 10 "$XDP_BLOOM" measure f --from $T/list --probes 10000
	udp_stopped 192.0.2.7 || echo "a listed source passes"
	udp_passes $UNADDED || echo "an unlisted source is dropped"
	must timeout 5 "$XDP_BLOOM" add f --from $T/list
	must xb test f --from $T/list
	udp_stopped 198.18.3.3 || echo "a source in a prefix passes after add"
	udp_passes $UNADDED || echo "an unlisted source is dropped after add"
}

wrong=
for ((step = 1; ; step++)); do
	prepare || wrong+="step $step: it could not be prepared"$'\n'
	ASAN_OPTIONS=detect_leaks=0 "$KILLAT" $step "$XDP_BLOOM" add f --from $T/list >/dev/null 2>$T/kill.err 9>$T/kill.log
	status=$?
	[ $status = 137 ] || break
	said=$(check_killed)
	[ -z "$said" ] || wrong+="$(<$T/kill.log): $said"$'\n'
done
is "$wrong" "" "add of the first prefixes, killed at each of $((step - 1)) steps"
is $status 0 "not killed, it succeeds" || diag "$(<$T/kill.err)"
ok "there was something to kill" test $step -gt 10
is "$(check_killed)" "" "and then all is well, too"
expect 0 "destroy" xb destroy f
is "$(find $BPFFS/xdp-bloom -mindepth 1 2>/dev/null)" "" "nothing is left"

# ---- measured ----

awk 'BEGIN { for (i = 0; i < 3000; i++) printf "2001:db8:%x::/48\n2001:%x::/32\n", 3 * i, 4096 + 3 * i
	for (i = 0; i < 3000; i++) printf "198.18.%d.%d\n", i / 250, i % 250
	print "32.0.0.0/6" }' >$T/many
for how in "" --confirm; do
	what="${how:-plain}"
	expect 0 "$what: create" xb create f --from $T/many --fp 0.05 $how
	is "$(plens6)" "[128, 48, 32]" "$what: three lengths"
	ok "$what: asked for is kept for an IPv6 packet" \
		awk -v p="$(field f fp_ipv6)" 'BEGIN { exit !(p > 0.04 && p < 0.06) }'
	run xb measure f --from $T/many --probes 200000 --json
	like "$RC" "^[01]$" "$what: measure"
	is "$(json verified <<<"$OUT")" list "$what: by the list"
	ok "$what: measured and predicted are within a tenth, in each family" "$PYTHON" -c '
import json, sys
m = json.loads(sys.argv[1])
for f in m["families"].values():
    assert abs(f["fp_measured"] / f["fp_predicted"] - 1) < 0.1, f
v4, v6 = m["families"]["ipv4"], m["families"]["ipv6"]
assert 2.5 < v6["fp_predicted"] / v4["fp_predicted"] < 3.1, m
# 32.0.0.0/6 is a sixty-fourth of all addresses.
assert 1300 < v4["listed"] < 1850, m' "$OUT"
	[ -z "$how" ] || {
		run xb measure f --probes 200000 --json
		is "$(json verified <<<"$OUT")" exact "$what: or by the exact map"
		ok "$what: which knows the same of prefixes" "$PYTHON" -c '
import json, sys
m = json.loads(sys.argv[1])
assert abs(m["fp_measured"] / m["fp_predicted"] - 1) < 0.1, m
assert 1300 < m["families"]["ipv4"]["listed"] < 1850, m' "$OUT"
	}
	[ -n "$how" ] || {
		run xb measure f --probes 200000
		like "$RC $OUT" "^[01].*drawn from 2.128 keys" "$what: drawn at random, none is listed"
		expect 0 "$what: a short prefix" xb add f 2600::/16
		refused "$what: of which too many would be listed" "give the list with --from" \
			xb measure f
	}
	expect 0 "$what: destroy" xb destroy f
done

done_testing
