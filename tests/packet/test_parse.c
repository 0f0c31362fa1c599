// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the data path reads from a frame: a table of frames, and for each the key that a filter
 * must find in it, or the reason why there is none. Every row is a test of its own and is judged
 * under both policies, with shadow off and on: a filter without the row's key calls the frame
 * absent, one with exactly that key calls it maybe, and one packet with all its bytes is counted
 * in one reason and one action. Then every cut of every packet, and the switches of the reasons.
 */
#include "packet.h"

/* clang-format off */
#define SRC	XBLOOM_SRC
#define DST	XBLOOM_DST
#define SPORT	XBLOOM_SPORT
#define DPORT	XBLOOM_DPORT
#define PROTO	XBLOOM_PROTO
#define VLANID	XBLOOM_VLAN
#define TUPLE	XBLOOM_FIELDS_5TUPLE

#define S4	"192.0.2.7"
#define D4	"198.51.100.1"
#define S6	"2001:db8::7"
#define D6	"2001:db8:1::1"
#define PP	"40000,53"
#define T4(proto)	S4 "," D4 "," PP "," proto
#define T6(proto)	S6 "," D6 "," PP "," proto
/* Without ports: ICMP, GRE, ESP, ... */
#define N4(proto)	S4 "," D4 ",0,0," proto
#define N6(proto)	S6 "," D6 ",0,0," proto

#define KEY(text)	(text), NULL
#define NO_KEY(reason)	NULL, (reason)

struct row {
	const char *promise;
	uint32_t fields;
	const char *key;
	const char *reason;
	struct layer layers[FRAME_LAYERS];
};

static const struct row rows[] = {
	/* Ethernet and VLAN tags */
	{ "an untagged IPv4 packet is keyed", SRC, KEY(S4), { ETH, IP4, UDP } },
	{ "an untagged IPv6 packet is keyed", SRC, KEY(S6), { ETH, IP6, UDP } },
	{ "one 802.1Q tag is skipped", SRC, KEY(S4), { ETH, VLAN(5), IP4, UDP } },
	{ "one 802.1ad tag is skipped", SRC, KEY(S4), { ETH, QINQ(5), IP4, UDP } },
	{ "two tags are skipped", TUPLE, KEY(T4("udp")), { ETH, QINQ(7), VLAN(5), IP4, UDP } },
	{ "three tags are skipped", TUPLE, KEY(T4("udp")),
	  { ETH, QINQ(7), QINQ(6), VLAN(5), IP4, UDP } },
	{ "four tags are skipped, IPv4", TUPLE, KEY(T4("udp")),
	  { ETH, QINQ(7), QINQ(6), QINQ(5), VLAN(4), IP4, UDP } },
	{ "four tags are skipped, IPv6", TUPLE, KEY(T6("udp")),
	  { ETH, VLAN(7), VLAN(6), VLAN(5), VLAN(4), IP6, UDP } },
	{ "five 802.1Q tags are too many", SRC, NO_KEY("vlan_tags"),
	  { ETH, VLAN(7), VLAN(6), VLAN(5), VLAN(4), VLAN(3), IP4, UDP } },
	{ "five tags are too many when the last is 802.1ad", SRC, NO_KEY("vlan_tags"),
	  { ETH, VLAN(7), VLAN(6), VLAN(5), VLAN(4), QINQ(3), IP6, UDP } },
	{ "six tags are too many", VLANID, NO_KEY("vlan_tags"),
	  { ETH, VLAN(7), VLAN(6), VLAN(5), VLAN(4), VLAN(3), VLAN(2), IP4, UDP } },
	{ "the VLAN id of a tag is keyed", SRC | VLANID, KEY(S4 ",5"), { ETH, VLAN(5), IP4, UDP } },
	{ "the outermost VLAN id is keyed", SRC | VLANID, KEY(S6 ",7"),
	  { ETH, QINQ(7), VLAN(5), IP6, UDP } },
	{ "the largest VLAN id is keyed", VLANID, KEY("4094"), { ETH, VLAN(4094), IP4, UDP } },
	{ "priority and DEI are no part of the VLAN id", VLANID, KEY("5"),
	  { ETH, TAG(0x8100, 0xf005), IP6, UDP } },
	{ "an untagged packet has VLAN id 0", SRC | VLANID, KEY(S4 ",0"), { ETH, IP4, UDP } },
	{ "a priority tag has VLAN id 0", SRC | VLANID, KEY(S4 ",0"), { ETH, VLAN(0), IP4, UDP } },
	{ "EtherType 0x9100 is no tag", SRC, NO_KEY("not_ip"), { ETH, TAG(0x9100, 5), IP4, UDP } },

	/* What is not IP always passes */
	{ "ARP passes", SRC, NO_KEY("not_ip"), { ETH, ARP } },
	{ "ARP in a VLAN passes", SRC, NO_KEY("not_ip"), { ETH, VLAN(5), ARP } },
	{ "ARP under four tags passes, whatever the key", TUPLE | VLANID, NO_KEY("not_ip"),
	  { ETH, VLAN(7), VLAN(6), VLAN(5), VLAN(4), ARP } },
	{ "ARP passes under a VLAN key", VLANID, NO_KEY("not_ip"), { ETH, VLAN(5), ARP } },
	{ "LLDP passes", SRC, NO_KEY("not_ip"), { ETH, LLDP } },
	{ "an 802.3 frame with a length passes", SRC, NO_KEY("not_ip"), { ETH, LLC_802_3 } },
	{ "MPLS passes", SRC, NO_KEY("not_ip"), { ETH, NOT_IP(0x8847, 50) } },
	{ "PPPoE passes", SRC, NO_KEY("not_ip"), { ETH, NOT_IP(0x8864, 50) } },
	{ "PTP passes", SRC, NO_KEY("not_ip"), { ETH, NOT_IP(0x88f7, 46) } },
	{ "an Ethernet header alone passes", TUPLE, NO_KEY("not_ip"), { ETH, NOT_IP(0x0806, 0) } },

	/* IPv4: header and lengths */
	{ "IPv4 options are skipped", TUPLE, KEY(T4("tcp")), { ETH, IP4_OPTIONS(1), TCP } },
	{ "the longest IPv4 options are skipped", TUPLE, KEY(T4("tcp")),
	  { ETH, IP4_OPTIONS(10), TCP } },
	{ "options of a tagged packet are skipped", TUPLE | VLANID, KEY(T4("udp") ",5"),
	  { ETH, VLAN(5), IP4_OPTIONS(3), UDP } },
	{ "IHL 4 is malformed", SRC, NO_KEY("malformed"), { ETH, IP4, UDP, IHL(4) } },
	{ "IHL 0 is malformed", SRC, NO_KEY("malformed"), { ETH, IP4, UDP, IHL(0) } },
	{ "a header that ends past the frame is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP4, UDP, IHL(15) } },
	{ "a header that ends past the frame is malformed without a total length too", SRC,
	  NO_KEY("malformed"), { ETH, IP4, UDP, IHL(8), LENGTH(0) } },
	{ "a header that ends past the packet, in the padding, is malformed", SRC,
	  NO_KEY("malformed"), { ETH, IP4, UDP, PADDING(40), IHL(8) } },
	{ "a total length shorter than the header is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP4, UDP, LENGTH(19) } },
	{ "a total length shorter than the options is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP4_OPTIONS(2), UDP, LENGTH(27) } },
	{ "a total length of a bare header is legal", SRC, KEY(S4), { ETH, IP4, NEXT(17) } },
	{ "a total length one past the frame is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP4, UDP, LONGER(1) } },
	{ "a total length far past the frame is malformed", DST, NO_KEY("malformed"),
	  { ETH, IP4, UDP, LENGTH(65535) } },
	{ "a packet that lost its last byte is malformed", VLANID, NO_KEY("malformed"),
	  { ETH, VLAN(5), IP4, UDP, CUT(1) } },
	{ "total length 0 is not checked", TUPLE, KEY(T4("tcp")),
	  { ETH, IP4, TCP, DATA(40), LENGTH(0) } },
	{ "IPv4's EtherType with version 6 is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP4, UDP, DATA(40), VERSION(6) } },
	{ "IPv4's EtherType with version 0 is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP4, UDP, VERSION(0) } },

	/* Padding is not payload */
	{ "padding after a short packet is not in the way", TUPLE, KEY(T4("udp")),
	  { ETH, IP4, UDP, PADDING(18) } },
	{ "padding is not read as ports, IPv4", TUPLE, NO_KEY("malformed"),
	  { ETH, IP4, NEXT(17), PADDING(26) } },
	{ "padding is not read as half a port, IPv4", DPORT, NO_KEY("malformed"),
	  { ETH, IP4, NEXT(17), DATA(3), PADDING(23) } },
	{ "padding is not read as ports, IPv6", TUPLE, NO_KEY("malformed"),
	  { ETH, IP6, NEXT(17), PADDING(26) } },
	{ "padding is not read as half a port, IPv6", DPORT, NO_KEY("malformed"),
	  { ETH, IP6, NEXT(17), DATA(3), PADDING(23) } },
	{ "a packet that is all padding still has a source, IPv4", SRC, KEY(S4),
	  { ETH, IP4, NEXT(17), PADDING(26) } },
	{ "a packet that is all padding still has a source, IPv6", SRC, KEY(S6),
	  { ETH, IP6, NEXT(17), PADDING(26) } },
	{ "padding is not read as an extension header", PROTO, NO_KEY("malformed"),
	  { ETH, IP6, NEXT(60), PADDING(26) } },

	/* Upper layers */
	{ "TCP over IPv4 has ports", TUPLE, KEY(T4("tcp")), { ETH, IP4, TCP } },
	{ "UDP over IPv4 has ports", TUPLE, KEY(T4("udp")), { ETH, IP4, UDP } },
	{ "SCTP over IPv4 has ports", TUPLE, KEY(T4("132")), { ETH, IP4, SCTP } },
	{ "UDP-Lite over IPv4 has ports", TUPLE, KEY(T4("136")), { ETH, IP4, UDPLITE } },
	{ "DCCP over IPv4 has ports", TUPLE, KEY(T4("33")), { ETH, IP4, DCCP } },
	{ "ICMP over IPv4 has ports 0", TUPLE, KEY(N4("1")), { ETH, IP4, ICMP(8) } },
	{ "GRE over IPv4 has ports 0", TUPLE, KEY(N4("47")), { ETH, IP4, GRE } },
	{ "ESP over IPv4 has ports 0", TUPLE, KEY(N4("50")), { ETH, IP4, ESP } },
	{ "AH over IPv4 has ports 0", TUPLE, KEY(N4("51")), { ETH, IP4, AUTH, UDP } },
	{ "IPv6 in IPv4 has ports 0", TUPLE, KEY(N4("41")), { ETH, IP4, NO_PORTS(41, 0x60) } },
	{ "ICMP without a body has ports 0", TUPLE, KEY(N4("1")), { ETH, IP4, NEXT(1) } },
	{ "TCP over IPv6 has ports", TUPLE, KEY(T6("tcp")), { ETH, IP6, TCP } },
	{ "UDP over IPv6 has ports", TUPLE, KEY(T6("udp")), { ETH, IP6, UDP } },
	{ "SCTP over IPv6 has ports", TUPLE, KEY(T6("132")), { ETH, IP6, SCTP } },
	{ "UDP-Lite over IPv6 has ports", TUPLE, KEY(T6("136")), { ETH, IP6, UDPLITE } },
	{ "DCCP over IPv6 has ports", TUPLE, KEY(T6("33")), { ETH, IP6, DCCP } },
	{ "ICMPv6 has ports 0", TUPLE, KEY(N6("58")), { ETH, IP6, ICMP6(128) } },
	{ "GRE over IPv6 has ports 0", TUPLE, KEY(N6("47")), { ETH, IP6, GRE } },
	{ "ESP over IPv6 has ports 0", TUPLE, KEY(N6("50")), { ETH, IP6, ESP } },
	{ "an unknown next header is an upper layer", TUPLE, KEY(N6("253")),
	  { ETH, IP6, NO_PORTS(253, 0) } },
	{ "a TCP header of four bytes has ports", SPORT, KEY("40000"), { ETH, IP4, PORTS(6, 4) } },

	/* IPv4 fragments */
	{ "don't-fragment is no fragment", TUPLE, KEY(T4("udp")), { ETH, IP4_DF, UDP } },
	{ "a first IPv4 fragment has ports", TUPLE, KEY(T4("udp")),
	  { ETH, IP4_FRAGMENT(0, 1), UDP, DATA(16) } },
	{ "a first IPv4 fragment too short for ports is malformed", TUPLE, NO_KEY("malformed"),
	  { ETH, IP4_FRAGMENT(0, 1), NEXT(17), DATA(3) } },
	{ "a middle IPv4 fragment has no ports", TUPLE, NO_KEY("fragment"),
	  { ETH, IP4_FRAGMENT(1, 1), NEXT(17), DATA(64) } },
	{ "the last IPv4 fragment has no ports", SPORT, NO_KEY("fragment"),
	  { ETH, IP4_FRAGMENT(0x1fff, 0), NEXT(6), DATA(64) } },
	{ "every bit of the IPv4 fragment offset counts", DPORT, NO_KEY("fragment"),
	  { ETH, IP4_FRAGMENT(0x1000, 0), NEXT(6), DATA(64) } },
	{ "a later IPv4 fragment of ICMP is a fragment under a port key", TUPLE,
	  NO_KEY("fragment"), { ETH, IP4_FRAGMENT(185, 0), NEXT(1), DATA(64) } },
	{ "a later IPv4 fragment has a source", SRC, KEY(S4),
	  { ETH, IP4_FRAGMENT(185, 0), NEXT(17), DATA(64) } },
	{ "a later IPv4 fragment has a destination and a VLAN", DST | VLANID, KEY(D4 ",5"),
	  { ETH, VLAN(5), IP4_FRAGMENT(185, 0), NEXT(17), DATA(64) } },
	{ "a later IPv4 fragment has a protocol", PROTO, KEY("udp"),
	  { ETH, IP4_FRAGMENT(185, 0), NEXT(17), DATA(64) } },
	{ "a later IPv4 fragment of one byte has a source", SRC, KEY(S4),
	  { ETH, IP4_FRAGMENT(185, 0), NEXT(17), DATA(1), PADDING(25) } },

	/* IPv6: header and lengths */
	{ "IPv6's EtherType with version 4 is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP6, UDP, VERSION(4) } },
	{ "IPv6's EtherType with version 15 is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP6, UDP, VERSION(15) } },
	{ "a payload length one past the frame is malformed", SRC, NO_KEY("malformed"),
	  { ETH, IP6, UDP, LONGER(1) } },
	{ "an IPv6 packet that lost its last byte is malformed", DST, NO_KEY("malformed"),
	  { ETH, IP6, UDP, CUT(1) } },
	{ "padding after a short IPv6 packet is not in the way", TUPLE, KEY(T6("udp")),
	  { ETH, IP6, UDP, PADDING(8) } },
	{ "a jumbogram's length is not checked", TUPLE, KEY(T6("tcp")),
	  { ETH, IP6, HOPOPTS, TCP, DATA(40), LENGTH(0) } },
	{ "payload length 0 without hop-by-hop options is an empty packet", PROTO, KEY("udp"),
	  { ETH, IP6, NEXT(17), PADDING(40) } },

	/* IPv6 extension headers */
	{ "hop-by-hop options are skipped", TUPLE, KEY(T6("udp")), { ETH, IP6, HOPOPTS, UDP } },
	{ "a routing header is skipped", TUPLE, KEY(T6("udp")), { ETH, IP6, ROUTING, UDP } },
	{ "destination options are skipped", TUPLE, KEY(T6("udp")), { ETH, IP6, DSTOPTS, UDP } },
	{ "a mobility header is skipped", TUPLE, KEY(T6("udp")), { ETH, IP6, MOBILITY, UDP } },
	{ "an authentication header is skipped", TUPLE, KEY(T6("tcp")), { ETH, IP6, AUTH, TCP } },
	{ "AH counts its length in words of four bytes", TUPLE, KEY(T6("tcp")),
	  { ETH, IP6, EXT(51, 1, 12), TCP } },
	{ "an atomic fragment is skipped", TUPLE, KEY(T6("udp")), { ETH, IP6, FRAGMENT(0, 0), UDP } },
	{ "the longest extension header is skipped", TUPLE, KEY(T6("udp")),
	  { ETH, IP6, EXT(60, 255, 2048), UDP } },
	{ "the chain of RFC 8200 is skipped", TUPLE, KEY(T6("tcp")),
	  { ETH, IP6, HOPOPTS, DSTOPTS, ROUTING, FRAGMENT(0, 1), AUTH, DSTOPTS, MOBILITY, TCP } },
	{ "the chain of RFC 8200 in a VLAN is skipped", PROTO | VLANID, KEY("tcp,5"),
	  { ETH, VLAN(5), IP6, HOPOPTS, DSTOPTS, ROUTING, FRAGMENT(0, 1), AUTH, DSTOPTS, TCP } },
	{ "the fields of a short header and the next do not mix", TUPLE, KEY(T6("udp")),
	  { ETH, IP6, HOPOPTS, EXT(60, 0, 8), UDP } },
	{ "eight extension headers are skipped", TUPLE, KEY(T6("udp")),
	  { ETH, IP6, HOPOPTS, DSTOPTS, ROUTING, DSTOPTS, AUTH, DSTOPTS, MOBILITY, DSTOPTS, UDP } },
	{ "nine extension headers are too many for a port key", TUPLE, NO_KEY("exthdr"),
	  { ETH, IP6, HOPOPTS, DSTOPTS, ROUTING, DSTOPTS, AUTH, DSTOPTS, MOBILITY, DSTOPTS, DSTOPTS,
	    UDP } },
	{ "nine extension headers are too many for a protocol key", PROTO, NO_KEY("exthdr"),
	  { ETH, IP6, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS,
	    FRAGMENT(0, 0), UDP } },
	{ "an extension header past the packet is malformed for a port key", TUPLE,
	  NO_KEY("malformed"), { ETH, IP6, EXT(60, 9, 8), UDP, PADDING(80) } },
	{ "an extension header past the packet is malformed for a protocol key", PROTO,
	  NO_KEY("malformed"), { ETH, IP6, EXT(60, 9, 8), UDP } },
	{ "an extension header of half a header is malformed", PROTO, NO_KEY("malformed"),
	  { ETH, IP6, EXT(0, 0, 7), PADDING(20) } },
	{ "extension headers to the end leave no ports", SPORT | DPORT, NO_KEY("malformed"),
	  { ETH, IP6, HOPOPTS, DSTOPTS, NEXT(6), PADDING(20) } },
	{ "extension headers to the end still name the protocol", PROTO, KEY("tcp"),
	  { ETH, IP6, HOPOPTS, DSTOPTS, NEXT(6), PADDING(20) } },
	{ "no next header is legal", TUPLE, KEY(N6("59")), { ETH, IP6, NO_NEXT_HEADER } },
	{ "what follows no next header is not read", TUPLE, KEY(N6("59")),
	  { ETH, IP6, NO_NEXT_HEADER, DATA(40) } },
	{ "no next header may follow others", PROTO, KEY("59"),
	  { ETH, IP6, HOPOPTS, DSTOPTS, NO_NEXT_HEADER } },

	/* A listed address cannot hide behind what nobody had to read */
	{ "a source behind nine extension headers is found", SRC, KEY(S6),
	  { ETH, IP6, HOPOPTS, DSTOPTS, ROUTING, DSTOPTS, AUTH, DSTOPTS, MOBILITY, DSTOPTS, DSTOPTS,
	    UDP } },
	{ "a source behind an extension header past the packet is found", SRC, KEY(S6),
	  { ETH, IP6, EXT(60, 9, 8), UDP } },
	{ "a source behind half an extension header is found", SRC, KEY(S6),
	  { ETH, IP6, EXT(0, 0, 7) } },
	{ "a source behind no extension header at all is found", SRC, KEY(S6),
	  { ETH, IP6, NEXT(0), DATA(1) } },
	{ "addresses and VLAN behind a bad extension header are found", SRC | DST | VLANID,
	  KEY(S6 "," D6 ",5"), { ETH, VLAN(5), IP6, EXT(43, 200, 24), TCP } },

	/* IPv6 fragments */
	{ "a first IPv6 fragment has ports", TUPLE, KEY(T6("udp")),
	  { ETH, IP6, FRAGMENT(0, 1), UDP, DATA(16) } },
	{ "a first IPv6 fragment too short for ports is malformed", TUPLE, NO_KEY("malformed"),
	  { ETH, IP6, FRAGMENT(0, 1), NEXT(17), DATA(3) } },
	{ "a middle IPv6 fragment has no ports", TUPLE, NO_KEY("fragment"),
	  { ETH, IP6, FRAGMENT(1, 1), NEXT(17), DATA(64) } },
	{ "the last IPv6 fragment has no ports", SPORT, NO_KEY("fragment"),
	  { ETH, IP6, FRAGMENT(0x1fff, 0), NEXT(6), DATA(64) } },
	{ "every bit of the IPv6 fragment offset counts", DPORT, NO_KEY("fragment"),
	  { ETH, IP6, FRAGMENT(0x1000, 0), NEXT(6), DATA(64) } },
	{ "a later IPv6 fragment behind other headers has no ports", TUPLE, NO_KEY("fragment"),
	  { ETH, IP6, HOPOPTS, ROUTING, FRAGMENT(185, 1), NEXT(17), DATA(64) } },
	{ "a later IPv6 fragment of ICMPv6 is a fragment under a port key", TUPLE,
	  NO_KEY("fragment"), { ETH, IP6, FRAGMENT(185, 0), NEXT(58), DATA(64) } },
	{ "a later IPv6 fragment has a source", SRC, KEY(S6),
	  { ETH, IP6, FRAGMENT(185, 0), NEXT(17), DATA(64) } },
	{ "a later IPv6 fragment names its protocol", PROTO, KEY("udp"),
	  { ETH, IP6, FRAGMENT(185, 0), NEXT(17), DATA(64) } },
	{ "a later IPv6 fragment behind other headers names its protocol", SRC | PROTO,
	  KEY(S6 ",tcp"), { ETH, IP6, HOPOPTS, FRAGMENT(185, 0), NEXT(6), DATA(64) } },
	{ "a later IPv6 fragment of extension headers does not name its protocol", PROTO,
	  NO_KEY("fragment"), { ETH, IP6, FRAGMENT(185, 0), NEXT(60), DATA(64) } },
	{ "a later IPv6 fragment of extension headers has a source", SRC, KEY(S6),
	  { ETH, IP6, FRAGMENT(185, 0), NEXT(60), DATA(64) } },
	{ "a later IPv6 fragment of AH does not name its protocol", SRC | PROTO,
	  NO_KEY("fragment"), { ETH, IP6, FRAGMENT(1, 1), NEXT(51), DATA(64) } },

	/* Neighbour discovery always passes, under every key */
	{ "a router solicitation passes", SRC, NO_KEY("ndp"), { ETH, IP6_HOPS(255), ICMP6(133) } },
	{ "a router advertisement passes", DST, NO_KEY("ndp"), { ETH, IP6_HOPS(255), ICMP6(134) } },
	{ "a neighbour solicitation passes", TUPLE, NO_KEY("ndp"),
	  { ETH, IP6_HOPS(255), ICMP6(135) } },
	{ "a neighbour advertisement passes", PROTO, NO_KEY("ndp"),
	  { ETH, IP6_HOPS(255), ICMP6(136) } },
	{ "a redirect passes", SPORT, NO_KEY("ndp"), { ETH, IP6_HOPS(255), ICMP6(137) } },
	{ "a neighbour solicitation in a VLAN passes", VLANID, NO_KEY("ndp"),
	  { ETH, VLAN(5), IP6_HOPS(255), ICMP6(135) } },
	{ "a neighbour solicitation behind options passes", SRC, NO_KEY("ndp"),
	  { ETH, IP6_HOPS(255), HOPOPTS, DSTOPTS, ICMP6(135) } },
	{ "a router solicitation from afar is keyed", TUPLE, KEY(N6("58")),
	  { ETH, IP6, ICMP6(133) } },
	{ "a router advertisement from afar is keyed", SRC, KEY(S6),
	  { ETH, IP6_HOPS(254), ICMP6(134) } },
	{ "a neighbour solicitation from afar is keyed", SRC, KEY(S6), { ETH, IP6, ICMP6(135) } },
	{ "a neighbour advertisement from afar is keyed", PROTO, KEY("58"),
	  { ETH, IP6_HOPS(0), ICMP6(136) } },
	{ "a redirect from afar is keyed", SRC, KEY(S6), { ETH, IP6, ICMP6(137) } },
	{ "ICMPv6 type 132 is not neighbour discovery", SRC, KEY(S6),
	  { ETH, IP6_HOPS(255), ICMP6(132) } },
	{ "ICMPv6 type 138 is not neighbour discovery", SRC, KEY(S6),
	  { ETH, IP6_HOPS(255), ICMP6(138) } },
	{ "an echo request with hop limit 255 is keyed", TUPLE, KEY(N6("58")),
	  { ETH, IP6_HOPS(255), ICMP6(128) } },
	{ "UDP with hop limit 255 is keyed", SRC, KEY(S6), { ETH, IP6_HOPS(255), NO_PORTS(17, 135) } },
	{ "fragmented neighbour discovery is keyed (RFC 6980)", SRC, KEY(S6),
	  { ETH, IP6_HOPS(255), FRAGMENT(0, 1), ICMP6(135) } },
	{ "an atomic fragment of neighbour discovery is keyed (RFC 6980)", TUPLE, KEY(N6("58")),
	  { ETH, IP6_HOPS(255), FRAGMENT(0, 0), ICMP6(135) } },
	{ "a later fragment of ICMPv6 is not neighbour discovery", SRC, KEY(S6),
	  { ETH, IP6_HOPS(255), FRAGMENT(1, 0), ICMP6(135) } },
	{ "neighbour discovery behind nine headers is keyed", SRC, KEY(S6),
	  { ETH, IP6_HOPS(255), DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS,
	    DSTOPTS, ICMP6(135) } },
	{ "ICMPv6 over IPv4 is not neighbour discovery", TUPLE, KEY(N4("58")),
	  { ETH, IP4, ICMP6(135) } },
};
/* clang-format on */

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* ---- filters ---- */

enum ruling { BLOCK, ALLOW, BLOCK_SHADOW, ALLOW_SHADOW, RULINGS };

/*
 * One filter for each set of fields and each ruling, made when it is first asked for and kept:
 * loading its program takes a thousand times as long as a frame through it.
 */
static struct xbloom *filters[XBLOOM_FIELDS_ALL + 1][RULINGS];

/* The filter with these rules, empty. */
static struct xbloom *given_filter(uint32_t fields, enum ruling ruling)
{
	struct xbloom **filter = &filters[fields][ruling];

	if (!*filter) {
		bool allow = ruling == ALLOW || ruling == ALLOW_SHADOW;
		struct xbloom_rules rules =
			packet_rules(fields, allow ? XBLOOM_POLICY_ALLOW : XBLOOM_POLICY_BLOCK,
				     ruling == BLOCK_SHADOW || ruling == ALLOW_SHADOW);
		char name[XBLOOM_NAME_MAX];

		snprintf(name, sizeof(name), "parse-%u-%u", fields, ruling);
		*filter = filter_create_named(name, &rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	}
	filter_clear(*filter);
	return *filter;
}

static int destroy_filters(void **state)
{
	size_t fields, ruling;

	(void)state;
	for (fields = 0; fields <= XBLOOM_FIELDS_ALL; fields++)
		for (ruling = 0; ruling < RULINGS; ruling++)
			if (filters[fields][ruling])
				filter_destroy(filters[fields][ruling]);
	return 0;
}

/* ---- the table ---- */

static void row_is_judged(void **state)
{
	const struct row *row = *state;
	struct frame frame;
	unsigned int ruling;

	frame_build(&frame, row->layers);
	for (ruling = 0; ruling < RULINGS; ruling++) {
		struct xbloom *filter = given_filter(row->fields, ruling);

		if (row->key) {
			expect(filter, &frame, "absent");
			filter_add(filter, row->key);
			expect(filter, &frame, "maybe");
		} else {
			expect(filter, &frame, row->reason);
		}
	}
}

/* ---- neighbour discovery and the list ---- */

static void neighbour_discovery_of_a_listed_address_passes(void **state)
{
	unsigned int ruling;
	struct frame frame;
	uint32_t type;

	(void)state;
	for (ruling = BLOCK; ruling <= ALLOW; ruling++) {
		struct xbloom *filter = given_filter(SRC, ruling);

		filter_add(filter, S6);
		for (type = 133; type <= 137; type++) {
			FRAME(&frame, ETH, IP6_HOPS(255), ICMP6(type));
			expect(filter, &frame, "ndp");
		}
		/* From the same address, what only looks like it is in the list. */
		FRAME(&frame, ETH, IP6, ICMP6(135));
		expect(filter, &frame, "maybe");
	}
}

/* ---- switches ---- */

/* One frame for each unkeyed reason, under a port key. */
static const struct {
	const char *reason;
	uint32_t bit;
	struct layer layers[FRAME_LAYERS];
} unkeyed[] = {
	{ "malformed", 1u << XBLOOM_MALFORMED, { ETH, IP4, UDP, CUT(1) } },
	{ "fragment", 1u << XBLOOM_FRAGMENT, { ETH, IP4_FRAGMENT(185, 0), NEXT(17), DATA(64) } },
	{ "exthdr",
	  1u << XBLOOM_EXTHDR,
	  { ETH, IP6, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS, DSTOPTS,
	    DSTOPTS, UDP } },
	{ "vlan_tags",
	  1u << XBLOOM_VLAN_TAGS,
	  { ETH, VLAN(1), VLAN(2), VLAN(3), VLAN(4), VLAN(5), IP4, UDP } },
};

#define UNKEYED (sizeof(unkeyed) / sizeof(unkeyed[0]))

/* Each reason obeys its own switch and no other. */
static void expect_of_switches(struct xbloom *filter, uint32_t on, enum fate drops)
{
	struct xbloom_error error = { "" };
	struct xbloom_rules rules;
	struct frame frame;
	size_t i;

	xbloom_rules(filter, &rules);
	rules.shadow = drops == WOULD_DROP;
	rules.unkeyed_drop = on;
	if (xbloom_set_rules(filter, &rules, &error) < 0)
		fail_msg("set rules: %s", error.text);

	for (i = 0; i < UNKEYED; i++) {
		frame_build(&frame, unkeyed[i].layers);
		expect_fate(filter, &frame, unkeyed[i].reason,
			    on & unkeyed[i].bit ? drops : PASSES);
	}
	/* They have no say in what is keyed, nor in what is not IP. */
	FRAME(&frame, ETH, IP4, UDP);
	expect(filter, &frame, "absent");
	FRAME(&frame, ETH, ARP);
	expect(filter, &frame, "not_ip");
}

static void each_unkeyed_reason_has_its_own_switch(uint32_t policy)
{
	struct xbloom_rules rules = packet_rules(TUPLE, policy, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	size_t i;

	expect_of_switches(filter, 0, DROPS);
	for (i = 0; i < UNKEYED; i++) {
		expect_of_switches(filter, unkeyed[i].bit, DROPS);
		expect_of_switches(filter, XBLOOM_UNKEYED_ALL & ~unkeyed[i].bit, DROPS);
	}
	expect_of_switches(filter, XBLOOM_UNKEYED_ALL, DROPS);
	expect_of_switches(filter, XBLOOM_UNKEYED_ALL, WOULD_DROP);
	filter_destroy(filter);
}

static void each_unkeyed_reason_has_its_own_switch_under_block(void **state)
{
	(void)state;
	each_unkeyed_reason_has_its_own_switch(XBLOOM_POLICY_BLOCK);
}

static void each_unkeyed_reason_has_its_own_switch_under_allow(void **state)
{
	(void)state;
	each_unkeyed_reason_has_its_own_switch(XBLOOM_POLICY_ALLOW);
}

static void unkeyed_packets_pass_under_block_and_drop_under_allow(void **state)
{
	(void)state;
	assert_int_equal(xbloom_unkeyed_default(XBLOOM_POLICY_BLOCK), 0);
	assert_int_equal(xbloom_unkeyed_default(XBLOOM_POLICY_ALLOW), XBLOOM_UNKEYED_ALL);
}

/* ---- cuts ---- */

/* IPv4 total length 0, and IPv6 payload length 0 before hop-by-hop options, say nothing. */
static bool says_its_length(const struct frame *frame)
{
	const uint8_t *ip = frame->b + frame->l3;

	if (ip[0] >> 4 == 4)
		return ip[2] || ip[3];
	return ip[4] || ip[5] || ip[6] != 0;
}

/*
 * Run the first bytes of a frame, from `from` of them up to one less than `to`, and expect the
 * same of all of them. The kernel runs no frame shorter than an Ethernet header.
 */
static void expect_of_cuts(const struct xbloom *filter, const struct frame *frame, size_t from,
			   size_t to, const char *reason)
{
	struct xbloom_stats before = stats_now(filter), after;
	struct outcome expected, seen;
	struct xbloom_rules rules;
	uint32_t verdict = XDP_PASS, first = XDP_PASS;
	uint64_t packets = 0, bytes = 0;
	size_t len;

	xbloom_rules(filter, &rules);
	for (len = from; len < to; len++) {
		verdict = run_frame(filter, frame->b, len);
		if (len == from)
			first = verdict;
		if (verdict != first)
			fail_msg("%s at %zu bytes, %s at %zu of %zu", verdict_text(first), from,
				 verdict_text(verdict), len, frame->len);
		packets++;
		bytes += len;
	}
	if (!packets)
		return;
	after = stats_now(filter);
	expected = outcome_expected(reason, fate_of(reason, rules.policy, rules.shadow), packets,
				    bytes);
	seen = outcome_seen(verdict, &before, &after);
	assert_string_equal(seen.text, expected.text);
}

struct cut_case {
	const char *name;
	uint32_t fields;
	enum ruling ruling;
};

/*
 * The length in the IP header is checked against the frame before anything else is made of it, so
 * a cut anywhere makes a packet malformed, whatever the key and whatever the whole packet was.
 */
static void every_cut_is_malformed(void **state)
{
	const struct cut_case *c = *state;
	struct xbloom *filter = given_filter(c->fields, c->ruling);
	unsigned int frames = 0;
	struct frame frame;
	size_t i;

	for (i = 0; i < ROWS; i++) {
		const char *reason = rows[i].reason ? rows[i].reason : "";

		if (!strcmp(reason, "not_ip") || !strcmp(reason, "vlan_tags"))
			continue;
		frame_build(&frame, rows[i].layers);
		if (!says_its_length(&frame))
			continue;
		expect_of_cuts(filter, &frame, FRAME_ETH_LEN,
			       frame.len < frame.ip_end ? frame.len : frame.ip_end, "malformed");
		frames++;
	}
	assert_in_range(frames, 100, ROWS);
}

static struct cut_case cut_cases[] = {
	{ "every cut of a packet is malformed: src, block", SRC, BLOCK },
	{ "every cut of a packet is malformed: src, allow", SRC, ALLOW },
	{ "every cut of a packet is malformed: dst, block", DST, BLOCK },
	{ "every cut of a packet is malformed: dst, allow", DST, ALLOW },
	{ "every cut of a packet is malformed: 5tuple, block", TUPLE, BLOCK },
	{ "every cut of a packet is malformed: 5tuple, allow", TUPLE, ALLOW },
	{ "every cut of a packet is malformed: sport,dport, block", SPORT | DPORT, BLOCK },
	{ "every cut of a packet is malformed: sport,dport, allow", SPORT | DPORT, ALLOW },
	{ "every cut of a packet is malformed: proto, block", PROTO, BLOCK },
	{ "every cut of a packet is malformed: proto, allow", PROTO, ALLOW },
	{ "every cut of a packet is malformed: vlan, block", VLANID, BLOCK },
	{ "every cut of a packet is malformed: vlan, allow", VLANID, ALLOW },
	{ "every cut of a packet is malformed: all fields, block", XBLOOM_FIELDS_ALL, BLOCK },
	{ "every cut of a packet is malformed: all fields, allow", XBLOOM_FIELDS_ALL, ALLOW },
};

#define CUT_CASES (sizeof(cut_cases) / sizeof(cut_cases[0]))

/* A packet that does not say its length is malformed only where the key's own bytes are cut. */
static void a_cut_of_a_packet_without_length_is_malformed_where_the_key_is_missing(void **state)
{
	static const struct {
		uint32_t fields;
		size_t ipv4; /* bytes of the frame below that its key needs */
		size_t jumbogram;
	} needs[] = {
		{ SRC, 14 + 20, 14 + 40 },
		{ DST, 14 + 20, 14 + 40 },
		{ VLANID, 14 + 20, 14 + 40 },
		{ PROTO, 14 + 20, 14 + 40 + 8 },
		{ SPORT, 14 + 20 + 4, 14 + 40 + 8 + 4 },
		{ DPORT, 14 + 20 + 4, 14 + 40 + 8 + 4 },
		{ TUPLE, 14 + 20 + 4, 14 + 40 + 8 + 4 },
	};
	struct frame ipv4, jumbogram;
	unsigned int ruling;
	size_t i;

	(void)state;
	FRAME(&ipv4, ETH, IP4, TCP, DATA(20), LENGTH(0));
	FRAME(&jumbogram, ETH, IP6, HOPOPTS, TCP, DATA(20), LENGTH(0));
	for (i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		size_t v4 = needs[i].ipv4, v6 = needs[i].jumbogram;

		for (ruling = BLOCK; ruling <= ALLOW; ruling++) {
			struct xbloom *filter = given_filter(needs[i].fields, ruling);

			expect_of_cuts(filter, &ipv4, FRAME_ETH_LEN, v4, "malformed");
			expect_of_cuts(filter, &ipv4, v4, ipv4.len, "absent");
			expect_of_cuts(filter, &jumbogram, FRAME_ETH_LEN, v6, "malformed");
			expect_of_cuts(filter, &jumbogram, v6, jumbogram.len, "absent");
		}
	}
}

int main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(neighbour_discovery_of_a_listed_address_passes),
		cmocka_unit_test(unkeyed_packets_pass_under_block_and_drop_under_allow),
		cmocka_unit_test(each_unkeyed_reason_has_its_own_switch_under_block),
		cmocka_unit_test(each_unkeyed_reason_has_its_own_switch_under_allow),
		cmocka_unit_test(
			a_cut_of_a_packet_without_length_is_malformed_where_the_key_is_missing),
	};
	enum { OTHERS = sizeof(others) / sizeof(others[0]) };
	static struct CMUnitTest tests[ROWS + CUT_CASES + OTHERS];
	size_t i, n = 0;

	packet_isolate();
	for (i = 0; i < ROWS; i++, n++) {
		tests[n].name = rows[i].promise;
		tests[n].test_func = row_is_judged;
		tests[n].initial_state = (void *)&rows[i];
	}
	for (i = 0; i < CUT_CASES; i++, n++) {
		tests[n].name = cut_cases[i].name;
		tests[n].test_func = every_cut_is_malformed;
		tests[n].initial_state = &cut_cases[i];
	}
	memcpy(tests + n, others, sizeof(others));
	return cmocka_run_group_tests_name("parse", tests, NULL, destroy_filters);
}
