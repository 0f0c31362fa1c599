#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What gets through a filter: ping, UDP and TCP over IPv4 and IPv6, VLAN tags, fragments, jumbo
# frames, keys with ports; under both policies, in shadow, in native and in generic mode. Which
# packets a filter decides on is tested frame by frame elsewhere (tests/packet); here real stacks
# talk through it.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

build_net
start_tcp_server

# At this rate, a false positive among a few hundred sources does not happen.
SURE=(--items 1000 --fp 1e-9)

for i in $(seq 1 100); do echo "198.18.1.$i"; done >$T/listed4
for i in $(seq 1 100); do echo "198.18.2.$i"; done >$T/unlisted4
for i in $(seq 1 100); do printf '2001:db8:a:1::%x\n' "$i"; done >$T/listed6
for i in $(seq 1 100); do printf '2001:db8:a:2::%x\n' "$i"; done >$T/unlisted6
for f in 4 6; do
	sort -o $T/listed$f $T/listed$f
	sort -o $T/unlisted$f $T/unlisted$f
	sort $T/listed$f $T/unlisted$f >$T/all$f
done

LISTED4=198.18.1.7
UNLISTED4=198.18.2.7
LISTED6=2001:db8:a:1::7
UNLISTED6=2001:db8:a:2::7

# exactly DESCRIPTION PASSING STOPPED 4|6: of two lists the first gets through, by each protocol.
exactly() {
	local what=$1 passing=$2 stopped=$3 family=$4 in out

	in=$(head -7 "$T/$passing$family" | tail -1)
	out=$(head -7 "$T/$stopped$family" | tail -1)
	ok "$what: ping from $in" ping_passes "$in"
	not_ok "$what: no ping from $out" ping_passes "$out"
	ok "$what: TCP from $in, 3 MB" tcp_passes "$in" --bytes 3000000
	not_ok "$what: no TCP from $out" tcp_passes "$out"
	is "$(arrivals $T/all$family | md5sum)" "$(md5sum <$T/$passing$family)" \
		"$what: UDP from exactly the 100 $passing sources (IPv$family)"
}

everybody() { # DESCRIPTION
	local family

	for family in 4 6; do
		is "$(arrivals $T/all$family | md5sum)" "$(md5sum <$T/all$family)" \
			"$1: all 200 sources (IPv$family)"
	done
	ok "$1: TCP from a listed source" tcp_passes $LISTED4 --bytes 3000000
	ok "$1: ping from a listed source" ping_passes $LISTED6
}

# Each packet is in one reason, and passed or dropped.
counters_add_up() { # NAME DESCRIPTION
	local odd

	odd=$(xb show "$1" --json | "$PYTHON" -c '
import json, sys
c = json.load(sys.stdin)["counters"]
actions = ("passed", "dropped", "would_drop")
for unit in ("packets", "bytes"):
    reasons = sum(v[unit] for k, v in c.items() if k not in actions)
    total = c["passed"][unit] + c["dropped"][unit]
    if reasons != total or not total:
        print(unit, "by reason:", reasons, "by action:", total)')
	is "$odd" "" "$2"
}

# ---- block, allow, shadow, in both modes ----

for mode in native generic; do
	expect 0 "$mode: create a block filter of both families" \
		xb create f --fp 1e-9 --from $T/listed4 --from $T/listed6
	everybody "$mode: before attach"
	expect 0 "$mode: attach" xb attach f s0 --mode $mode
	is "$(attached_mode s0)" $mode "$mode: ip link says so"
	exactly "$mode, block" unlisted listed 4
	exactly "$mode, block" unlisted listed 6
	is "$(counter f maybe)" "$(counter f dropped)" "$mode: what was dropped is what may be listed"
	counters_add_up f "$mode: the counters add up"

	expect 0 "$mode: set --shadow on" xb set f --shadow on
	dropped=$(counter f dropped)
	is "$(counter f would_drop)" 0 "$mode: nothing would have dropped yet"
	everybody "$mode, shadow"
	is "$(counter f dropped)" "$dropped" "$mode, shadow: nothing was dropped"
	is "$(($(counter f would_drop) >= 202))" 1 "$mode, shadow: what would drop was counted"
	counters_add_up f "$mode, shadow: the counters add up"
	expect 0 "$mode: set --shadow off" xb set f --shadow off
	exactly "$mode, block again" unlisted listed 4

	expect 0 "$mode: set --policy allow" xb set f --policy allow
	is "$(field f policy)" allow "$mode: show says allow"
	exactly "$mode, allow" listed unlisted 4
	exactly "$mode, allow" listed unlisted 6
	counters_add_up f "$mode, allow: the counters add up"

	expect 0 "$mode: back to block" xb set f --policy block
	exactly "$mode, block after allow" unlisted listed 6
	expect 0 "$mode: detach" xb detach s0
	everybody "$mode: after detach"
	expect 0 "$mode: destroy" xb destroy f
done

# ---- an add is seen by the next packet ----

expect 0 "create an empty block filter" xb create f "${SURE[@]}"
expect 0 "attach" xb attach f s0
ok "a source is in nobody's way" udp_passes $LISTED4
expect 0 "add it" xb add f $LISTED4
ok "it is stopped" udp_stopped $LISTED4
expect 0 "test says maybe" xb test f $LISTED4
is "$OUT" "maybe $LISTED4" "in these words"
expect 1 "test says absent of another" xb test f $UNLISTED4
is "$OUT" "absent $UNLISTED4" "in these words"
ok "the other passes" udp_passes $UNLISTED4
expect 0 "destroy" xb destroy f

# ---- an empty allow filter leaves the network its neighbours ----

neighbour() { # NAMESPACE-OPTIONS... ADDRESS DEVICE: known and reachable
	ip "${@:1:$#-2}" neigh show "${@: -2:1}" dev "${@: -1}" |
		grep -q 'lladdr.*\(REACHABLE\|STALE\|DELAY\)'
}

forget_neighbours() {
	ip neigh del $CLIENT4 dev s0
	ip neigh del $CLIENT6 dev s0
	ip -n client neigh del $SERVER4 dev c0
	ip -n client neigh del $SERVER6 dev c0
}

for mode in native generic; do
	expect 0 "$mode: create an empty allow filter" xb create f "${SURE[@]}" --policy allow
	expect 0 "$mode: attach it" xb attach f s0 --mode $mode
	forget_neighbours 2>/dev/null
	not_ok "$mode: ping does not pass" ping_passes $CLIENT4
	not_ok "$mode: nor over IPv6" ping_passes $CLIENT6
	ok "$mode: ARP has resolved the server" wait_until 5 neighbour -n client $SERVER4 c0
	ok "$mode: neighbour discovery, too" wait_until 5 neighbour -n client $SERVER6 c0
	# The answers to the server's own questions come through the filter.
	forget_neighbours 2>/dev/null
	ping -c 1 -W 0.3 $CLIENT4 >/dev/null
	ping -c 1 -W 0.3 $CLIENT6 >/dev/null
	ok "$mode: the server resolves the client by ARP" wait_until 5 neighbour $CLIENT4 s0
	ok "$mode: and by neighbour discovery" wait_until 5 neighbour $CLIENT6 s0
	is "$(($(counter f not_ip) > 0 && $(counter f ndp) > 0))" 1 "$mode: both were counted"
	expect 0 "$mode: allow the client" xb add f $CLIENT4 $CLIENT6
	ok "$mode: now it reaches the server" ping_passes $CLIENT4
	ok "$mode: over IPv6, too" ping_passes $CLIENT6
	expect 0 "$mode: destroy" xb destroy f
done
static_neighbours

# ---- fragments and jumbo frames ----

for mode in native generic; do
	expect 0 "$mode: create by source" xb create f --fp 1e-9 --from $T/listed4 --from $T/listed6
	expect 0 "$mode: attach" xb attach f s0 --mode $mode
	ok "$mode: fragments of an unlisted source" ping_passes $UNLISTED4 -s 4000
	not_ok "$mode: not of a listed one" ping_passes $LISTED4 -s 4000
	ok "$mode: the same over IPv6" ping_passes $UNLISTED6 -s 4000
	not_ok "$mode: not of a listed one over IPv6" ping_passes $LISTED6 -s 4000

	ip link set s0 mtu 9000
	ip -n client link set c0 mtu 9000
	ok "$mode: an unlisted source with 9000 bytes" ping_passes $UNLISTED4 -s 8000 -M "do"
	not_ok "$mode: not a listed one" ping_passes $LISTED4 -s 8000 -M "do"
	ok "$mode: TCP in jumbo frames" tcp_passes $UNLISTED4 --bytes 3000000
	ip link set s0 mtu 1500
	ip -n client link set c0 mtu 1500
	expect 0 "$mode: destroy" xb destroy f
done

# A fragment that is not the first has no ports: it passes a block filter and not an allow one.
expect 0 "create by 5-tuple" xb create f "${SURE[@]}" --key 5tuple
expect 0 "attach" xb attach f s0
ok "block: fragments without ports pass" ping_passes $UNLISTED4 -s 4000
is "$(($(counter f fragment) >= 2))" 1 "and are counted"
expect 0 "set --policy allow" xb set f --policy allow
expect 0 "add the ping's own tuple" xb add f $UNLISTED4,$SERVER4,0,0,icmp
ok "allow: a small ping passes" ping_passes $UNLISTED4
not_ok "allow: one in fragments does not" ping_passes $UNLISTED4 -s 4000
expect 0 "destroy" xb destroy f

# ---- keys with ports ----

expect 0 "create by 5-tuple" xb create f "${SURE[@]}" --key 5tuple
expect 0 "attach" xb attach f s0
expect 0 "add a flow" xb add f "198.51.100.1,$SERVER4,40000,$UDP_PORT,udp"
ok "5tuple: the flow is stopped" udp_stopped 198.51.100.1 --sport 40000
ok "5tuple: another source port passes" udp_passes 198.51.100.1 --sport 40001
ok "5tuple: another source passes" udp_passes 198.51.100.2 --sport 40000
expect 0 "add a TCP flow over IPv6" xb add f "$UNLISTED6,$SERVER6,40000,$TCP_PORT,tcp"
not_ok "5tuple: the TCP flow is stopped" tcp_passes $UNLISTED6 --sport 40000
ok "5tuple: its neighbour passes" tcp_passes $UNLISTED6 --sport 40001
ok "5tuple: UDP of the listed TCP flow passes" udp_passes $UNLISTED6 --sport 40000
expect 0 "destroy" xb destroy f

expect 0 "create by destination port" xb create f "${SURE[@]}" --key dport
expect 0 "attach" xb attach f s0
expect 0 "add a port" xb add f $UDP_PORT
ok "dport: nobody reaches it" udp_stopped $UNLISTED4
ok "dport: not over IPv6 either" udp_stopped $UNLISTED6
ok "dport: TCP on another port passes" tcp_passes $UNLISTED4
ok "dport: ping passes" ping_passes $UNLISTED4
expect 0 "destroy" xb destroy f

expect 0 "create by source and destination port" xb create f "${SURE[@]}" --key src,dport
expect 0 "attach" xb attach f s0
expect 0 "add one" xb add f $LISTED4,$TCP_PORT $LISTED6,$UDP_PORT
not_ok "src,dport: stopped" tcp_passes $LISTED4
ok "src,dport: the source reaches another port" udp_passes $LISTED4
ok "src,dport: another source reaches the port" tcp_passes $UNLISTED4
ok "src,dport: stopped over IPv6" udp_stopped $LISTED6
ok "src,dport: but not on another port" tcp_passes $LISTED6
expect 0 "destroy" xb destroy f

expect 0 "create by destination" xb create f "${SURE[@]}" --key dst
expect 0 "attach" xb attach f s0 --no-guard
expect 0 "add the server's IPv6 address" xb add f $SERVER6
ok "dst: it is not reached" udp_stopped $UNLISTED6
ok "dst: its IPv4 address is" udp_passes $UNLISTED4
expect 0 "destroy" xb destroy f

# ---- VLAN tags ----

# The frames that a packet socket on s0 sees of one sent from SOURCE with these tags ("-": none).
vlan_arrivals() { # SOURCE TAGS [frame-send OPTION...]
	local source=$1 tags=$2 to=$SERVER4 receiver

	shift 2
	[[ $source != *:* ]] || to="[$SERVER6]"
	[ "$tags" = - ] || set -- --vlan "$tags" "$@"
	rm -f $T/frames
	"$TRAFFIC" frame-recv --barrier s0 --out $T/frames --timeout 10000 >/dev/null &
	receiver=$!
	wait_until 5 test -e $T/frames
	client "$TRAFFIC" frame-send --dev c0 --from "$source" --to "$to:$UDP_PORT" --barrier c0 \
		"$@" >/dev/null || return
	wait $receiver || return
	# Others, such as neighbour discovery, are no part of this.
	awk -v source="$source" '$1 == source' $T/frames
}

vlan_passes() { # SOURCE TAGS [frame-send OPTION...]
	[ "$(vlan_arrivals "$@")" = "$1 $2" ]
}

vlan_stopped() { # SOURCE TAGS [frame-send OPTION...]
	local arrived

	arrived=$(vlan_arrivals "$@") && [ -z "$arrived" ]
}

for mode in native generic; do
	expect 0 "$mode: create by source and VLAN" xb create f "${SURE[@]}" --key src,vlan
	expect 0 "$mode: attach" xb attach f s0 --mode $mode
	expect 0 "$mode: add a source in VLAN 5, one untagged" \
		xb add f 198.51.100.5,5 2001:db8:a::5,5 198.51.100.6,0
	ok "$mode: the source in VLAN 5 is stopped" vlan_stopped 198.51.100.5 5
	ok "$mode: in VLAN 6 it passes" vlan_passes 198.51.100.5 6
	ok "$mode: untagged it passes" vlan_passes 198.51.100.5 -
	ok "$mode: the source in VLAN 5 is stopped over IPv6" vlan_stopped 2001:db8:a::5 5
	ok "$mode: in VLAN 6 it passes over IPv6" vlan_passes 2001:db8:a::5 6
	ok "$mode: another source in VLAN 5 passes" vlan_passes 198.51.100.7 5
	ok "$mode: an untagged source is stopped" vlan_stopped 198.51.100.6 -
	ok "$mode: tagged it passes" vlan_passes 198.51.100.6 5
	ok "$mode: of two tags the outer counts" vlan_stopped 198.51.100.5 5,9
	ok "$mode: and not the inner" vlan_passes 198.51.100.5 9,5
	ok "$mode: the outer may be 802.1ad" vlan_stopped 198.51.100.5 5,9 --tpid 8021ad
	ok "$mode: four tags are read" vlan_stopped 198.51.100.5 5,6,7,8
	ok "$mode: a fifth makes a frame that has no key" vlan_passes 198.51.100.5 5,6,7,8,9
	is "$(counter f vlan_tags)" 1 "$mode: and is counted"
	expect 0 "$mode: destroy" xb destroy f

	expect 0 "$mode: create by source alone" xb create f "${SURE[@]}"
	expect 0 "$mode: attach" xb attach f s0 --mode $mode
	expect 0 "$mode: add a source" xb add f 198.51.100.5
	ok "$mode: it is stopped behind a tag" vlan_stopped 198.51.100.5 5
	ok "$mode: and behind four" vlan_stopped 198.51.100.5 5,6,7,8
	ok "$mode: another passes" vlan_passes 198.51.100.6 5
	expect 0 "$mode: destroy" xb destroy f
done

# The same between the stacks of two VLAN devices, where the kernel has them. The tag is in the
# frame only if the sender does not hand it over beside the frame.
if ip link add link s0 name s0.5 type vlan id 5 2>/dev/null && command -v ethtool >/dev/null; then
	client ethtool -K c0 txvlan off >/dev/null
	ip -n client link add link c0 name c0.5 type vlan id 5
	ip addr add 192.0.2.129/28 dev s0.5
	ip -n client addr add 192.0.2.130/28 dev c0.5
	ip -n client addr add 192.0.2.131/28 dev c0.5
	ip link set s0.5 up
	ip -n client link set c0.5 up
	over_vlan() { client ping -q -c 1 -W "$(seconds $PATIENCE_MS)" -I "$1" 192.0.2.129 >/dev/null; }
	ok "VLAN device: reachable" wait_until 5 over_vlan 192.0.2.130
	expect 0 "create by source and VLAN" xb create f "${SURE[@]}" --key src,vlan
	expect 0 "attach" xb attach f s0
	expect 0 "add a source in VLAN 5" xb add f 192.0.2.130,5
	not_ok "VLAN device: the source is stopped" over_vlan 192.0.2.130
	ok "VLAN device: another passes" over_vlan 192.0.2.131
	expect 0 "destroy" xb destroy f
	ip link del s0.5
	ip -n client link del c0.5
else
	skip "VLAN devices" "this kernel has none, or there is no ethtool"
fi

done_testing
