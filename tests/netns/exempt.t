#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# No surprise outage: a list that names the machine's own network does not lock it out, and says so
# when it is loaded; what is exempt is never dropped, whatever else changes.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

HEAR_WARNINGS=yes
build_net
OTHER=198.51.100.7
LISTED=198.18.1.1
printf '%s\n' 192.0.2.0/24 10.1.2.3 10.0.0.0/9 $LISTED $OTHER 2001:db8:1::/64 >$T/list
# The resolvers are the machine's own; those of this test are in place of them.
printf 'nameserver 203.0.113.53\nnameserver 127.0.0.53\nnameserver 2001:db8:a::53%%s0\n' >$T/resolv
mount --bind $T/resolv /etc/resolv.conf 2>/dev/null || cannot "/etc/resolv.conf cannot be covered"

gateway_answers() { ping -q -c 1 -W 1 $CLIENT4 >/dev/null; }
exempt_is() { # WANTED DESCRIPTION
	is "$(xb show f --exempt | sort)" "$(printf '%s\n' "$1" | sort)" "$2"
}
# What the guard puts in; the link-local address is the device's own, too.
LINK_LOCAL=$(ip -6 -o addr show dev s0 scope link | awk '{ sub("/.*", "", $4); print $4 }')
GUARD="$SERVER4 own
$SERVER6 own
$LINK_LOCAL own
$CLIENT4 gateway
$CLIENT6 gateway
203.0.113.53 resolver
2001:db8:a::53 resolver"

# ---- the list that names the own network ----

run xb create f --from $T/list
is $RC 0 "a list with the own network in it makes a filter"
like "$ERR" 'covers 192\.0\.2\.0/24 \(the network of s0\): 1 entry' "that it covers the network is said"
like "$ERR" 'covers 2001:db8:1::/64 \(the network of s0\): 1 entry' "by IPv6, too"
like "$ERR" 'covers 192\.0\.2\.1 \(a gateway of s0\): 1 entry' "so is the gateway"
like "$ERR" 'covers 10\.0\.0\.0/8 \(private\): 2 entries' "and a private range, with the count"
unlike "$ERR" '198\.18|198\.51' "of the rest nothing is said"
is "$(xb show f --exempt)" "" "nothing is exempt yet"
is "$(xb test f $CLIENT4)" "maybe $CLIENT4" "the gateway is in the filter"
expect 0 "attach without the guard" xb attach f s0 --no-guard
unlike "$ERR" 'exempt' "says nothing of exemptions"
ok "locks the machine out" eval '! gateway_answers'
is "$(xb show f --exempt)" "" "as nothing is exempt"
expect 0 "detach" xb detach s0
expect 0 "attach with it" xb attach f s0
like "$ERR" '7 addresses that this machine lives by are exempt' "says what it did"
ok "does not: the gateway answers" gateway_answers
ok "by IPv6 as well" ping -q -c 1 -W 1 $CLIENT6
exempt_is "$GUARD" "what is exempt, and why"
is "$(xb show f --exempt --json | json exempt.0.why.0) $(field f guard)" "gateway true" "the same as JSON"
ok "who is listed is stopped" udp_stopped $LISTED
ok "a packet of the gateway is counted as exempt" test "$(counter f exempt)" -gt 0
run xb create g --from $T/list --policy allow --json
is "$ERR $(json covers <<<"$OUT")" " []" "a list of who may come in is not warned of"
run xb rebuild f --from $T/list --fp 2%
like "$ERR" 'covers 192\.0\.2\.0/24' "rebuild warns as well"
ok "and keeps what is exempt" gateway_answers
exempt_is "$GUARD" "all of it"
run xb add f 127.0.0.1 0.0.0.0/2
like "$ERR" 'covers 127\.0\.0\.0/8 \(loopback\): 1 entry.*' "so does add"
like "$ERR" 'covers 0\.0\.0\.0/8 \(this network\): 1 entry' "also of prefixes that cover a range"

# ---- the guard off and on ----

expect 0 "guard off" xb set f --guard off
is "$(xb show f --exempt) $(field f guard)" " false" "takes it away"
ok "and the machine is locked out" eval '! gateway_answers'
expect 0 "guard on" xb set f --guard on
ok "puts it back" gateway_answers
ip addr add 192.0.2.77/24 dev s0
expect 0 "on again" xb set f --guard on
like "$(xb show f --exempt)" '192\.0\.2\.77 own' "reads the addresses anew"
ip addr del 192.0.2.77/24 dev s0
expect 0 "and again" xb set f --guard on
exempt_is "$GUARD" "as they are now"
xb detach s0 >/dev/null
xb destroy f >/dev/null
expect 0 "a filter without the guard" xb create f --from $T/list --no-guard
expect 0 "attach" xb attach f s0
is "$(xb show f --exempt)" "" "nothing is exempt"
expect 0 "a device more" xb set f --guard on
exempt_is "$GUARD" "until it is switched on"
xb destroy f >/dev/null

# ---- the user's own ----

printf '%s\n' "# friends" $OTHER 198.18.0.0/15 2001:db8:a::/48 >$T/friends
expect 0 "born with exemptions" xb create f --from $T/list --exempt $T/friends --no-guard
exempt_is "$OTHER exempt
198.18.0.0/15 exempt
2001:db8:a::/48 exempt" "has them"
expect 0 "attach" xb attach f s0
ok "a listed host passes" udp_passes $OTHER
ok "and one in an exempt prefix" udp_passes $LISTED
ok "who is not stays stopped" eval '! gateway_answers'
echo 198.51.100.0/25 >$T/others
expect 0 "others" xb set f --exempt $T/others
exempt_is "198.51.100.0/25 exempt" "in the place of those"
ok "who is exempt no more is stopped" udp_stopped $LISTED
ok "who is passes" udp_passes $OTHER
expect 0 "the guard beside them" xb set f --guard on
exempt_is "$GUARD
198.51.100.0/25 exempt" "eight in all: constants of the program"
ok "pass" gateway_answers
awk 'BEGIN { for (i = 0; i < 300; i++) printf "198.51.%d.%d\n", 100, i % 256 }' >$T/many
expect 0 "more than eight" xb set f --exempt $T/many
is "$(xb show f --exempt | grep -c exempt)" 256 "are in the trie, each once"
ok "where the program finds them" udp_passes $OTHER
ok "and the guard" gateway_answers
ok "and nobody else" udp_stopped $LISTED
(cat $T/many && echo 198.51.100.300) >$T/bad
before=$(xb show f --exempt)
refused "a bad line" "$T/bad:301: " xb set f --exempt $T/bad
echo ::/3 >$T/wide
refused "a prefix that IPv4 lives in" 'all IPv4' xb set f --exempt $T/wide
refused "no list" "$T/none" xb set f --exempt $T/none
is "$(xb show f --exempt)" "$before" "leave what was"
expect 0 "rebuild" xb rebuild f --from $T/list --fp 3%
is "$(xb show f --exempt)" "$before" "so does a rebuild"
ok "to packets as well" udp_passes $OTHER
expect 0 "off" xb set f --exempt off --guard off
is "$(xb show f --exempt)" "" "nothing is exempt"
ok "to packets, either" udp_stopped $OTHER
is "$(find $BPFFS/xdp-bloom/f -name 'exempt*')" "" "and nothing is left of it"
xb destroy f >/dev/null

# ---- under allow ----

expect 0 "an allow filter" xb create f --items 1000 --policy allow --exempt $T/friends
expect 0 "attach" xb attach f s0
is "$(xb show f --exempt | wc -l)" 3 "has no guard, as all is dropped that is not allowed"
ok "who is exempt passes" udp_passes $OTHER
ok "who is not is stopped" udp_stopped 203.0.113.9
expect 0 "of many" xb set f --exempt $T/many
ok "passes who is one" udp_passes $OTHER
ok "stops who is not" udp_stopped 203.0.113.9
expect 0 "guard" xb set f --guard on
ok "is possible" gateway_answers

refused "exemptions of no filter" 'no filter h' xb show h --exempt
refused "of all filters" 'name of a filter' xb show --exempt
refused "--guard takes on or off" "'maybe'" xb set f --guard maybe

done_testing
