#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Devices: attaching in each mode, beside what others have attached, by the tools that people have;
# all devices or none; trials that end by themselves, whatever is killed; detaching.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

require bpftool script setsid pgrep
build_net
start_tcp_server
for i in 1 2 3; do join s$i c$i || cannot "cannot add a device"; done

LISTED=198.18.1.1
UNLISTED=198.18.2.1

filtered() {
	udp_passes $UNLISTED && udp_stopped $LISTED
}

open_to_all() {
	udp_passes $UNLISTED && udp_passes $LISTED
}

unattached() { # DEVICE...
	local device

	for device; do
		[ "$(attached_mode "$device")" = none ] || return 1
	done
}

# The devices of a filter as `show` has them: "s0 native, s1 generic".
devices() {
	xb show "$1" --json | "$PYTHON" -c '
import json, sys
devices = json.load(sys.stdin)["devices"]
print(", ".join(sorted(d["name"] + " " + d["mode"] for d in devices)))'
}

expect 0 "create a filter" xb create f --items 1000 --fp 1e-9
expect 0 "and another" xb create g --items 1000 --fp 1e-9
expect 0 "with one source" xb add f $LISTED

# ---- modes ----

for mode in native generic; do
	expect 0 "$mode: attach" xb attach f s0 --mode $mode
	is "$(attached_mode s0)" $mode "$mode: ip link says so"
	is "$(devices f)" "s0 $mode" "$mode: show says so"
	like "$(ip -d link show dev s0)" "prog/xdp id [0-9]+ name xdp_bloom " \
		"$mode: ip -d link names the program"
	ok "$mode: it filters" filtered
	id=$(attached_id s0)
	expect 0 "$mode: attach again" xb attach f s0 --mode $mode
	is "$(attached_id s0)" "$id" "$mode: changes nothing"
	expect 0 "$mode: detach" xb detach s0
	is "$(attached_mode s0)" none "$mode: nothing is attached"
	is "$(devices f)" "" "$mode: show has no device"
	ok "$mode: all pass" open_to_all
done

expect 0 "auto: attach" xb attach f s0
is "$(attached_mode s0)" native "auto: native where the device can"
expect 0 "native to generic in one command" xb attach f s0 --mode generic
is "$(attached_mode s0)" generic "ip link says so"
ok "it filters" filtered
expect 0 "and back" xb attach f s0 --mode native
is "$(attached_mode s0)" native "ip link says so"
ok "it filters" filtered
expect 0 "detach" xb detach s0

# A bridge has no native XDP.
ip link add br0 type bridge && ip link set br0 up
refused "native: a bridge refuses, and generic is offered" "br0 .*native.*generic" \
	xb attach f br0 --mode native
expect 0 "auto: it gets generic mode" xb attach f br0
like "$ERR" "br0.*generic" "and the tool says so"
is "$ERR_LINES" 1 "in one line"
is "$(attached_mode br0)" generic "ip link says so"
is "$(devices f)" "br0 generic" "show says so"
expect 0 "detach" xb detach br0
refused "native: a good device beside it is left alone" "br0" xb attach f s0 br0 --mode native

# ---- several devices ----

expect 0 "one filter on three devices" xb attach f s0 s1 s2
is "$(devices f)" "s0 native, s1 native, s2 native" "show has them all"
expect 0 "detach two" xb detach s1 s2
is "$(devices f)" "s0 native" "show has the third"
refused "a bad device among good ones: none is attached" "nosuch" xb attach f s1 nosuch s2
refused "whatever the order" "nosuch" xb attach f nosuch s1
refused "what was attached stays" "nosuch" xb attach f s0 nosuch
ok "and filters" filtered
expect 0 "detach" xb detach s0

# ---- with the tools that people have ----

expect 0 "ip link ... xdp pinned" ip link set dev s0 xdp pinned $BPFFS/xdp-bloom/f/prog
is "$(devices f)" "s0 native" "show notices"
ok "it filters" filtered
expect 0 "ip link ... xdp off" ip link set dev s0 xdp off
is "$(devices f)" "" "show notices"
ok "all pass" open_to_all

for mode in native generic; do
	keyword=xdp
	[ $mode = native ] || keyword=xdpgeneric
	expect 0 "$mode: ip link ... xdp obj" ip link set dev s0 $keyword obj "$ENTRY_OBJECT" sec xdp
	ok "$mode: without a filter all pass" open_to_all
	is "$(devices f)" "" "$mode: it belongs to no filter"
	expect 0 "$mode: attach adopts it" xb attach f s0
	like "$ERR" "s0.*adopt" "$mode: and says so"
	is "$(devices f)" "s0 $mode" "$mode: show has it, in the mode that it had"
	ok "$mode: it filters" filtered
	expect 0 "$mode: detach" xb detach s0
done

expect 0 "attach" xb attach f s0
like "$(bpftool net show dev s0)" "s0\([0-9]+\) driver id [0-9]+" "bpftool net shows it"
entry=$(attached_id s0)
like "$(bpftool prog show id "$entry")" "xdp +name xdp_bloom " "bpftool prog: the entry program"
slot=$(bpftool -j map dump pinned $BPFFS/xdp-bloom/f/slots | "$PYTHON" -c '
import json, sys
value = json.load(sys.stdin)[0]["value"]
if isinstance(value, list):
    value = int.from_bytes([int(byte, 16) for byte in value], sys.byteorder)
print(value)')
like "$(bpftool prog show id "$slot")" "xdp +name xdp_bloom_slot " \
	"bpftool prog: the filter program"
expect 0 "set puts another in its place" xb set f --shadow on
is "$(attached_id s0)" "$entry" "the entry program stays"
expect 0 "set it back" xb set f --shadow off
expect 0 "detach" xb detach s0

# ---- other people's programs ----

for keyword in xdp xdpgeneric; do
	ip link set dev s0 $keyword obj "$FOREIGN_OBJECT" sec xdp || cannot "cannot load $FOREIGN_OBJECT"
	id=$(attached_id s0)
	refused "$keyword: a foreign program is not replaced" "s0.*foreign_pass.*id $id.*--force" \
		xb attach f s0
	refused "$keyword: not in the other mode either" "foreign_pass" xb attach f s0 --mode generic
	refused "$keyword: nor for a trial" "foreign_pass" xb attach f s0 --try 5
	refused "$keyword: a good device beside it is left alone" "foreign_pass" xb attach f s1 s0
	is "$(attached_id s0)" "$id" "$keyword: it runs on"
	refused "$keyword: detach leaves it" "s0.*foreign_pass.*id $id" xb detach s0
	expect 0 "$keyword: --force replaces it" xb attach f s0 --force
	like "$(ip -d link show dev s0)" "name xdp_bloom " "$keyword: ours runs"
	ok "$keyword: and filters" filtered
	expect 0 "$keyword: detach" xb detach s0
done

expect 0 "attach a filter" xb attach f s0
refused "another filter does not push it off" "s0.*f" xb attach g s0
expect 0 "it does with --force" xb attach g s0 --force
is "$(devices f);$(devices g)" ";s0 native" "show has it under the other"
expect 0 "detach" xb detach s0

# ---- refusals ----

refused "attach: an unknown device" "nosuch" xb attach f nosuch
refused "attach: an unknown filter" "nofilter" xb attach nofilter s0
refused "attach: an unknown mode" "mode.*fast|fast.*mode" xb attach f s0 --mode fast
refused "detach: an unknown device" "nosuch" xb detach nosuch
refused "detach: a device without a program" "s0" xb detach s0
refused "confirm: no trial is running" "s0" xb attach --confirm-try s0

# ---- trials ----

# Ask for processes of the tool in this PID namespace: the trials' watchers.
watchers() {
	pgrep -x "$(basename "$XDP_BLOOM" | cut -c1-15)"
}

now_ms() {
	echo $((${EPOCHREALTIME/./} / 1000))
}

# s0: the watcher is killed. The kernel's own program lets everything pass after the deadline.
start=$(now_ms)
expect 0 "trial: attach" xb attach f s0 --try 6
like "$(ip -d link show dev s0)" "name xdp_bloom_try " "trial: the program's name says it"
is "$(devices f)" "s0 native" "trial: show has the device"
pid=$(watchers)
like "$pid" '^[0-9]+$' "trial: one process watches it"
kill -KILL "$pid"
wait_until 5 eval '! kill -0 '"$pid"' 2>/dev/null'
ok "trial: with the watcher dead it filters until the deadline" filtered

# s1: nothing happens to it. s2: its terminal is killed, with the session. s3: it is confirmed.
expect 0 "trial: attach for two seconds" xb attach f s1 --try 2
start1=$(now_ms)
# shellcheck disable=SC2016
TOOL=$XDP_BLOOM SHELL_PID=$T/shell_pid setsid script -qec \
	'"$TOOL" attach f s2 --try 2; echo $$ >"$SHELL_PID"; sleep 1000' /dev/null \
	>/dev/null </dev/null 2>&1 &
terminal=$!
disown $terminal
ok "trial: attach in a terminal" wait_until 5 test -s $T/shell_pid
is "$(attached_mode s2)" native "trial: it is attached"
session=$(ps -o sid= -p "$(<$T/shell_pid)" | tr -d ' ')
for pid in $(ps -o pid= -s "$session") $terminal; do kill -KILL "$pid"; done
session_is_gone() { [ -z "$(ps -o pid= -s "$session")" ]; }
ok "trial: the terminal's session is gone" wait_until 5 session_is_gone
expect 0 "trial: attach a third" xb attach f s3 --try 2
expect 0 "trial: confirm it" xb attach --confirm-try s3
like "$(ip -d link show dev s3)" "name xdp_bloom " "trial: the lasting program runs there"
refused "trial: a second confirmation finds none" "s3" xb attach --confirm-try s3
refused "trial: no trial of what is attached for good" "s3" xb attach f s3 --try 2

ok "trial: it ends by itself" wait_until 5 unattached s1
is "$(($(now_ms) - start1 >= 1900))" 1 "trial: and not early"
ok "trial: it ends with its terminal dead, too" wait_until 5 unattached s2
ok "trial: no process is left" wait_until 5 eval '! watchers >/dev/null'
is "$(attached_mode s3)" native "trial: what was confirmed stays"
ok "trial: with the watcher dead all pass after the deadline" wait_until 9 open_to_all
is "$(($(now_ms) - start >= 5900))" 1 "trial: and not early"
is "$(attached_mode s0)" native "trial: though the program is still there"
is "$(xb show f --json | json devices.0.trial_left)" 0 "trial: show says that it is over"
refused "trial: and it cannot be confirmed any more" "s0" xb attach --confirm-try s0
ok "trial: all still pass" open_to_all
expect 0 "trial: attach it for good" xb attach f s0
ok "trial: it filters" filtered
expect 0 "detach both" xb detach s0 s3

# A trial puts back what was there.
ip link set dev s0 xdp obj "$FOREIGN_OBJECT" sec xdp
id=$(attached_id s0)
expect 0 "trial: in place of a foreign program" xb attach f s0 --try 1 --force
ok "trial: it filters" filtered
foreign_is_back() { [ "$(attached_id s0)" = "$id" ]; }
ok "trial: the foreign program comes back" wait_until 5 foreign_is_back
ip link set dev s0 xdp off

# A trial over a trial would lose what the first one is to put back.
expect 0 "trial: attach" xb attach f s0 --try 1
refused "trial: not another one over it" "trial" xb attach f s0 --try 20s
ok "trial: it ends" wait_until 5 eval '! watchers >/dev/null'
ok "trial: and nothing is attached" unattached s0

# The command line of the trial again, with --confirm-try: the name is passed over.
expect 0 "trial: attach" xb attach f s0 --try 1
expect 0 "trial: create another filter" xb create other --items 5
refused "trial: not with the name of another filter" "other" xb attach other s0 --confirm-try
expect 0 "trial: destroy it" xb destroy other
expect 0 "trial: confirm with the filter's name" xb attach f s0 --confirm-try
refused "detach: a device that is named twice" "twice" xb detach s0 s0
is "$(attached_mode s0)" native "detach: and it stays"
expect 0 "detach" xb detach s0

# What a filter's trial is to put back may be gone by then.
expect 0 "trial: create another filter" xb create other --items 5
expect 0 "trial: attach it" xb attach other s0
expect 0 "trial: in its place" xb attach f s0 --try 1 --force
expect 0 "trial: destroy it meanwhile" xb destroy other
ok "trial: the trial ends" wait_until 5 eval '! watchers >/dev/null'
ok "trial: and puts back no program without a filter" unattached s0
expect 0 "trial: where SIGCHLD is ignored" sh -c 'trap "" CHLD; exec "$@"' sh "$XDP_BLOOM" attach f s0 --try 1
ok "trial: it ends" wait_until 5 unattached s0

# A live filter that is pinned elsewhere is no entry program without a filter.
mkdir $T/elsewhere && mount -t bpf bpf $T/elsewhere
expect 0 "elsewhere: create" env XDP_BLOOM_BPFFS=$T/elsewhere "$XDP_BLOOM" create e --items 5
expect 0 "elsewhere: attach" env XDP_BLOOM_BPFFS=$T/elsewhere "$XDP_BLOOM" attach e s0
refused "elsewhere: it is not adopted" "elsewhere|pinned" xb attach f s0
expect 0 "elsewhere: destroy" env XDP_BLOOM_BPFFS=$T/elsewhere "$XDP_BLOOM" destroy e
ok "elsewhere: nothing is attached" unattached s0
umount $T/elsewhere

# Detaching during a trial ends it, and what others attach meanwhile is left alone.
expect 0 "trial: attach" xb attach f s0 --try 1
expect 0 "trial: detach meanwhile" xb detach s0
ip link set dev s0 xdp obj "$FOREIGN_OBJECT" sec xdp
id=$(attached_id s0)
ok "trial: its watcher ends" wait_until 5 eval '! watchers >/dev/null'
is "$(attached_id s0)" "$id" "trial: a program attached meanwhile stays"
ip link set dev s0 xdp off

# The device may get another name during a trial, or go.
expect 0 "trial: attach to two devices" xb attach f s1 s2 --try 1
ip link set s1 down && ip link set s1 name renamed
ip link del s2
ok "trial: on the renamed device it ends" wait_until 5 unattached renamed
ok "trial: its watcher ends, though one device is gone" wait_until 5 eval '! watchers >/dev/null'
ip link set renamed name s1 && ip link set s1 up
join s2 c2
expect 0 "attach to a device" xb attach f s2
ip link del s2
is "$(devices f)" "" "the device goes, and show has none"
join s2 c2

# ---- destroy ----

expect 0 "attach to two devices" xb attach f s0 s1
expect 0 "one of them on trial" xb attach f s2 --try 30
expect 0 "destroy while attached" xb destroy f
ok "nothing is attached" unattached s0 s1 s2
ok "all pass" open_to_all
ok "TCP passes" tcp_passes $LISTED
is "$(find $BPFFS/xdp-bloom -mindepth 1 -maxdepth 1 -printf '%f ')" "g " "the other filter is there"
refused "it cannot be destroyed twice" "f" xb destroy f
expect 0 "destroy the other" xb destroy g

done_testing
