# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
#
# A network to try xdp-bloom on, for the tests and the demonstration. Who sources this file and
# calls enter_namespaces runs again inside namespaces of its own (mount, network, processes), and
# is the server there; a second network namespace, "client", is joined to it by veth:
#
#     client  c0 192.0.2.1, 2001:db8:1::1   ------   server  s0 192.0.2.2, 2001:db8:1::2
#
# The client may also speak from any address of 198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24,
# 10.0.0.0/8 and 2001:db8:a::/48, and the server answers them through it. Nothing outside is
# touched, and nothing has to be undone: interfaces, processes, the bpf file system and all files
# go with the namespaces, whatever ends the script. The caller defines cannot MESSAGE, which does
# not return.

set -u
export LC_ALL=C # decimal points, and messages that can be matched

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
XDP_BLOOM=${XDP_BLOOM:-$ROOT/build/xdp-bloom}
TRAFFIC=${TRAFFIC:-$ROOT/build/tools/traffic}
KILLAT=${KILLAT:-$ROOT/build/tools/killat}
KILLFILL=${KILLFILL:-$ROOT/build/tools/killfill}
ENTRY_OBJECT=$ROOT/build/xdp_bloom.bpf.o
FOREIGN_OBJECT=$ROOT/build/gen/netns/pass.bpf.o

BPFFS=/sys/fs/bpf
CLIENT4=192.0.2.1
SERVER4=192.0.2.2
CLIENT6=2001:db8:1::1
SERVER6=2001:db8:1::2
CLIENT_MAC=02:00:00:00:00:01
SERVER_MAC=02:00:00:00:00:02
UDP_PORT=9000
TCP_PORT=9001

# ---- namespaces ----

require() {
	local tool

	for tool; do
		command -v "$tool" >/dev/null || cannot "$tool is not installed"
	done
}

# Run the script again inside namespaces of its own. The PID namespace ends every process that it
# leaves behind; --kill-child ends it with who called it.
enter_namespaces() {
	local net mnt outer_net outer_mnt

	net=$(readlink /proc/self/ns/net) && mnt=$(readlink /proc/self/ns/mnt) ||
		cannot "/proc/self/ns cannot be read"
	if [ -n "${XDP_BLOOM_OUTSIDE:-}" ]; then
		# The one place that stands between this script and somebody's network.
		read -r outer_net outer_mnt <<<"$XDP_BLOOM_OUTSIDE"
		if [ "$net" = "$outer_net" ] || [ "$mnt" = "${outer_mnt:-$mnt}" ] || [ $$ != 1 ]; then
			cannot "not in namespaces of our own"
		fi
		unset XDP_BLOOM_OUTSIDE
		prepare_mounts
		return
	fi
	require unshare ip nsenter ping
	[ -x "$XDP_BLOOM" ] || cannot "$XDP_BLOOM is not built"
	[ -x "$TRAFFIC" ] || cannot "$TRAFFIC is not built"
	XDP_BLOOM_OUTSIDE="$net $mnt" exec unshare --mount --net --pid --fork --mount-proc \
		--kill-child bash "$0" "$@"
}

prepare_mounts() {
	mount --make-rprivate / &&
		mount -t sysfs sysfs /sys &&
		mount -t bpf -o mode=0700 bpf "$BPFFS" &&
		mount -t tmpfs -o mode=0755 tmpfs /run &&
		mkdir -p /run/netns /run/test || cannot "cannot mount inside the namespace"
	# All files of the script: in memory, and gone with it.
	T=/run/test
}

# Commands of the client. Not `ip netns exec`, which hides the bpf file system.
client() {
	nsenter --net=/run/netns/client "$@"
}

# join SERVER_DEVICE CLIENT_DEVICE: one more cable.
join() {
	ip link add "$1" numtxqueues 1 numrxqueues 1 type veth \
		peer name "$2" numtxqueues 1 numrxqueues 1 netns client &&
		ip link set "$1" up && ip -n client link set "$2" up
}

build_net() {
	local prefix

	ip netns add client || cannot "cannot make the client's namespace"
	# No duplicate address detection: addresses are usable at once.
	echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
	echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
	echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter
	# Nor does it say anything of its own accord for long (router solicitations, multicast
	# reports): a filter is asked for those, too, and who counts packets must not hear them.
	client sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
		echo 0 >/proc/sys/net/ipv6/conf/default/router_solicitations
		echo 1 >/proc/sys/net/ipv6/conf/default/mldv2_unsolicited_report_interval
		echo 1 >/proc/sys/net/ipv6/ip_nonlocal_bind'
	join s0 c0
	ip link set lo up
	ip link set s0 address $SERVER_MAC
	ip addr add $SERVER4/24 dev s0
	ip addr add $SERVER6/64 dev s0
	ip -n client link set lo up
	ip -n client link set c0 address $CLIENT_MAC
	ip -n client addr add $CLIENT4/24 dev c0
	ip -n client addr add $CLIENT6/64 dev c0
	static_neighbours
	for prefix in 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 10.0.0.0/8; do
		ip -n client route add local $prefix dev lo
		ip route add $prefix via $CLIENT4
	done
	ip -n client -6 route add local 2001:db8:a::/48 dev lo
	ip -6 route add 2001:db8:a::/48 via $CLIENT6
	wait_until 5 reaches_server4 || cannot "the client does not reach the server"
	wait_until 5 reaches_server6 || cannot "the client does not reach the server by IPv6"
}

reaches_server4() { client ping -q -c 1 -W 1 $SERVER4 >/dev/null; }
reaches_server6() { client ping -q -c 1 -W 1 $SERVER6 >/dev/null; }

# So that an empty allow filter does not also mean: no ARP, no test.
static_neighbours() {
	ip neigh replace $CLIENT4 lladdr $CLIENT_MAC dev s0 nud permanent
	ip neigh replace $CLIENT6 lladdr $CLIENT_MAC dev s0 nud permanent
	ip -n client neigh replace $SERVER4 lladdr $SERVER_MAC dev c0 nud permanent
	ip -n client neigh replace $SERVER6 lladdr $SERVER_MAC dev c0 nud permanent
}

# ---- waiting ----

# wait_until SECONDS COMMAND...: poll until the command succeeds; 1 when it does not in time.
wait_until() {
	local end=$((${EPOCHREALTIME/./} + $1 * 1000000))

	shift
	until "$@"; do
		[ "${EPOCHREALTIME/./}" -lt $end ] || return 1
		sleep 0.02
	done
}
