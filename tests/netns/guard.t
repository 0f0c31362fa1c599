#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The guard where networks are less simple: addresses on VLANs and bridges over the device, next
# hops that routes name by number, devices in another namespace, devices that leave, policies that
# change, tables that change while they are read, and readers beside writers.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

[ -x "$KILLAT" ] || cannot "$KILLAT is not built"
HEAR_WARNINGS=yes
build_net
mount --bind /dev/null /etc/resolv.conf 2>/dev/null || cannot "/etc/resolv.conf cannot be covered"
echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 198.18.0.0/15 >$T/list

answers() { ping -q -c 1 -W 1 "$1" >/dev/null; }
silent() { not_ok "$2" answers "$1"; }
exempt_has() { # WANTED-LINE DESCRIPTION
	like $'\n'"$(xb show f --exempt)"$'\n' $'\n'"$1"$'\n' "$2"
}
exempt_lacks() { # ADDRESS DESCRIPTION
	unlike $'\n'"$(xb show f --exempt)" $'\n'"$1 " "$2"
}

# ---- devices upon the device ----

# A macvlan for the traffic, as kernels without the VLAN module have that.
ip link add link s0 name upper type macvlan mode bridge || cannot "this kernel has no macvlan"
ip addr add 198.18.7.2/24 dev upper
ip link set upper up
ip -n client addr add 198.18.7.1/24 dev c0
ip route add 198.19.7.0/24 via 198.18.7.1 dev upper
ip link add link s0 name s0.7 type vlan id 7 2>/dev/null &&
	ip addr add 198.18.6.2/24 dev s0.7
xb create f --from $T/list >/dev/null 2>&1
ok "a gateway behind a device upon s0 answers" answers 198.18.7.1
expect 0 "attach to s0, without the guard" xb attach f s0 --no-guard
silent 198.18.7.1 "stops it"
xb detach s0 >/dev/null
expect 0 "attach with it" xb attach f s0
exempt_has "198\.18\.7\.2 own" "exempts the upper device's own address"
exempt_has "198\.18\.7\.1 gateway" "and its gateway"
ok "which answers" answers 198.18.7.1
if [ -e /sys/class/net/s0.7 ]; then
	exempt_has "198\.18\.6\.2 own" "a VLAN's as well"
else
	skip "a VLAN's as well" "this kernel has no VLANs"
fi
expect 0 "detach" xb detach s0
is "$(xb show f --exempt)" "" "takes all of it away again"

join s1 c1
ip link add br0 type bridge
ip link set s1 master br0
ip link add link br0 name br0up type macvlan
ip addr add 198.18.8.2/24 dev br0
ip addr add 198.18.9.2/24 dev br0up
ip link set br0 up
ip link add p0 type veth peer name p1
ip addr add 198.18.11.2/24 dev p1
ip link set p0 up
ip link set p1 up
expect 0 "attach to a bridge's port" xb attach f s1
exempt_has "198\.18\.8\.2 own" "exempts the bridge's address"
exempt_has "198\.18\.9\.2 own" "and that of a device on it"
exempt_lacks "$SERVER4" "but not another device's"
expect 0 "attach to an end of a cable as well" xb attach f p0
exempt_lacks "198\.18\.11\.2" "does not exempt the other end"

# ---- devices that leave ----

expect 0 "attach to a third" xb attach f s0
exempt_has "$SERVER4 own" "exempts what that one lives by"
exempt_has "198\.18\.8\.2 own" "beside the others'"
expect 0 "detach of one" xb detach s1
exempt_lacks "198\.18\.8\.2" "takes away what it lived by"
exempt_has "$SERVER4 own" "and nothing else"
exempt_has "198\.18\.7\.1 gateway" "of the rest"
refused "detach of one that has no filter" 's1 runs no XDP program' xb detach s0 s1
exempt_has "$SERVER4 own" "leaves the guard as it is"
xb detach p0 >/dev/null

# ---- next hops by number ----

if echo 0 2>/dev/null >/proc/sys/net/ipv4/nexthop_compat_mode; then
	ip addr add 198.18.10.2/24 dev s0
	ip nexthop add id 9 via 198.18.10.1 dev s0
	ip route add 198.19.9.0/24 nhid 9
	unlike "$(ip -d route show 198.19.9.0/24)" "via 198.18.10.1 .*via" "a route need not say its gateway"
	expect 0 "guard on" xb set f --guard on
	exempt_has "198\.18\.10\.1 gateway" "exempts a next hop by number"
else
	skip "next hops by number" "this kernel has none"
fi

# ---- another namespace ----

expect 0 "attach in another namespace" client "$XDP_BLOOM" attach f c0
exempt_has "$CLIENT4 own gateway" "exempts what is there, for both reasons"
exempt_has "$SERVER4 own( gateway)?" "beside what is here"
exempt_has "198\.18\.7\.1 own gateway" "all of it"
ok "whose gateway answers" answers 198.18.7.1
expect 0 "detach there" client "$XDP_BLOOM" detach c0
exempt_has "$CLIENT4 gateway" "leaves what is exempt for a reason here"
exempt_has "$SERVER4 own" "and all else"
exempt_has "198\.18\.7\.1 gateway" "that is of here"
xb destroy f >/dev/null

# ---- a filter that begins to block ----

xb create f --from $T/list --policy allow >/dev/null 2>&1
xb attach f s0 >/dev/null 2>&1
is "$(xb show f --exempt)" "" "a filter that allows has no guard"
expect 0 "when it begins to block" xb set f --policy block
like "$ERR" 'this machine lives by are exempt' "it gets one, and says so"
ok "and the gateway answers" answers 198.18.7.1
echo $CLIENT4 >$T/one
xb destroy f >/dev/null
xb create f --from $T/list --policy allow --no-guard >/dev/null 2>&1
xb attach f s0 >/dev/null 2>&1
xb set f --policy block >/dev/null 2>&1
is "$(xb show f --exempt)" "" "one that was not to have it has none"
xb destroy f >/dev/null

# ---- all or nothing, and all ----

xb create f --from $T/list --confirm --exempt $T/one >/dev/null 2>&1
xb attach f s0 >/dev/null 2>&1
before=$(xb show f --exempt)
echo 203.0.113.0/24 >$T/two
refused "rules that cannot be" 'policy allow drops none' xb set f --exempt $T/two --guard off --policy allow
is "$(xb show f --exempt) $(field f guard)" "$before true" "leave what is exempt as it was"
ok "to packets, too" answers 198.18.7.1
echo 0.0.0.0/0 >$T/all
expect 0 "all of IPv4" xb set f --exempt $T/all
like "$ERR" 'warning: 0\.0\.0\.0/0 is exempt' "can be exempt, and that is said"
printf '%s\n' 192.0.2.1 ::/5 >$T/wide
refused "an IPv6 prefix that IPv4 lives in" "$T/wide:2: .*all IPv4" xb set f --exempt $T/wide
xb destroy f >/dev/null

# ---- tables that change while they are read ----

for ((i = 1; i <= 250; i++)); do
	for ((j = 1; j <= 4; j++)); do
		echo "addr add 198.19.$((100 + j)).$i/32 dev p1"
	done
done | ip -batch -
xb create f --from $T/list >/dev/null 2>&1
xb attach f s0 >/dev/null 2>&1
cat >$T/change <<END
ip addr del 203.0.113.200/32 dev p1 2>/dev/null || ip addr add 203.0.113.200/32 dev p1
END
wrong=
for ((step = 1; ; step++)); do
	"$KILLAT" --run "sh $T/change" $step "$XDP_BLOOM" set f --guard on >$T/out 2>&1 9>$T/step
	status=$?
	[ $status != 126 ] || break
	[ $status = 0 ] || wrong+="$(head -1 $T/step): $(<$T/out)"$'\n'
done
is "$wrong" "" "addresses that change at any of $((step - 1)) steps do not end the guard"
ok "there were steps" test $step -gt 20
ok "and the gateway answers" answers 198.18.7.1
xb destroy f >/dev/null

# ---- readers beside writers ----

echo 198.51.100.7 >$T/a
echo 198.51.100.8 >$T/b
xb create f --items 1000 --exempt $T/a >/dev/null
cat >$T/turn <<END
if "$XDP_BLOOM" show f --exempt | grep -q '^198\.51\.100\.7 '; then
	"$XDP_BLOOM" set f --exempt $T/b
else
	"$XDP_BLOOM" set f --exempt $T/a
fi >/dev/null
END
wrong=
for ((step = 1; ; step++)); do
	"$KILLAT" --run "sh $T/turn" $step "$XDP_BLOOM" show f --exempt >$T/out 2>&1 9>$T/step
	status=$?
	[ $status != 126 ] || break
	[ $status = 0 ] && grep -qx '198\.51\.100\.[78] exempt' $T/out ||
		wrong+="$(head -1 $T/step): $(<$T/out)"$'\n'
done
is "$wrong" "" "who reads while the exemptions change, at any of $((step - 1)) steps, has one set or the other"
ok "there were steps" test $step -gt 20

done_testing
