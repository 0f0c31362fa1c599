# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
#
# What the tests between network namespaces share; each *.t sources it first. It moves the test
# into namespaces of its own (mount, network, processes), where the test is the server; a second
# one, "client", is joined to it by veth:
#
#     client  c0 192.0.2.1, 2001:db8:1::1   ------   server  s0 192.0.2.2, 2001:db8:1::2
#
# The client may also speak from any address of 198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24,
# 10.0.0.0/8 and 2001:db8:a::/48, and the server answers them through it. Nothing outside is
# touched, and nothing has to be undone: interfaces, processes, the bpf file system and all files
# go with the namespaces, whatever ends the test. Results are printed as TAP, for prove.

set -u

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
XDP_BLOOM=${XDP_BLOOM:-$ROOT/build/xdp-bloom}
TRAFFIC=${TRAFFIC:-$ROOT/build/tools/traffic}
KILLAT=${KILLAT:-$ROOT/build/tools/killat}
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

skip_all() {
	echo "1..0 # SKIP $*"
	exit 0
}

bail_out() {
	echo "Bail out! $*"
	exit 2
}

require() {
	local tool

	for tool; do
		command -v "$tool" >/dev/null || bail_out "$tool is not installed"
	done
}

# Run the test again inside namespaces of its own. The PID namespace ends every process that the
# test leaves behind; --kill-child ends the test when prove does.
enter_namespaces() {
	local net mnt outer_net outer_mnt

	net=$(readlink /proc/self/ns/net) && mnt=$(readlink /proc/self/ns/mnt) ||
		bail_out "/proc/self/ns cannot be read"
	if [ -n "${XDP_BLOOM_OUTSIDE:-}" ]; then
		# The one place that stands between these tests and somebody's network.
		read -r outer_net outer_mnt <<<"$XDP_BLOOM_OUTSIDE"
		if [ "$net" = "$outer_net" ] || [ "$mnt" = "${outer_mnt:-$mnt}" ] || [ $$ != 1 ]; then
			bail_out "not in namespaces of our own"
		fi
		unset XDP_BLOOM_OUTSIDE
		return
	fi
	[ "$(id -u)" = 0 ] || skip_all "needs root, for namespaces and BPF"
	require unshare ip nsenter ping python3
	[ -x "$XDP_BLOOM" ] || bail_out "$XDP_BLOOM is not built"
	[ -x "$TRAFFIC" ] || bail_out "$TRAFFIC is not built"
	XDP_BLOOM_OUTSIDE="$net $mnt" exec unshare --mount --net --pid --fork --mount-proc \
		--kill-child bash "$0" "$@"
}

prepare_mounts() {
	mount --make-rprivate / &&
		mount -t sysfs sysfs /sys &&
		mount -t bpf -o mode=0700 bpf "$BPFFS" &&
		mount -t tmpfs -o mode=0755 tmpfs /run &&
		mkdir -p /run/netns /run/test || bail_out "cannot mount inside the namespace"
	# All files of the test: in memory, and gone with it.
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
	ip netns add client || bail_out "cannot make the client's namespace"
	{
		# No duplicate address detection: addresses are usable at once.
		echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
		echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
		echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter
		client sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
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
		local prefix
		for prefix in 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 10.0.0.0/8; do
			ip -n client route add local $prefix dev lo
			ip route add $prefix via $CLIENT4
		done
		ip -n client -6 route add local 2001:db8:a::/48 dev lo
		ip -6 route add 2001:db8:a::/48 via $CLIENT6
	} || bail_out "cannot build the network"
	wait_until 5 reaches_server4 || bail_out "the client does not reach the server"
	wait_until 5 reaches_server6 || bail_out "the client does not reach the server by IPv6"
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

# ---- TAP ----

TESTS=0
FAILED=0

diag() {
	printf '%s\n' "$*" | sed 's/^/# /'
}

note_result() { # STATUS DESCRIPTION
	TESTS=$((TESTS + 1))
	if [ "$1" = 0 ]; then
		echo "ok $TESTS - $2"
		return 0
	fi
	FAILED=$((FAILED + 1))
	echo "not ok $TESTS - $2"
	return 1
}

# ok DESCRIPTION COMMAND...: the command succeeds.
ok() {
	local what=$1 status output

	shift
	output=$("$@" 2>&1)
	status=$?
	note_result $status "$what" && return
	diag "command: $*"
	diag "status: $status"
	[ -z "$output" ] || diag "$output"
	return 1
}

# not_ok DESCRIPTION COMMAND...: it fails.
not_ok() {
	local what=$1 output

	shift
	output=$("$@" 2>&1)
	note_result $((! $?)) "$what" && return
	diag "should have failed: $*"
	[ -z "$output" ] || diag "$output"
	return 1
}

is() { # GOT WANTED DESCRIPTION
	[ "$1" = "$2" ]
	note_result $? "$3" && return
	diag "     got: $1"
	diag "  wanted: $2"
	return 1
}

like() { # GOT REGULAR-EXPRESSION DESCRIPTION
	[[ $1 =~ $2 ]]
	note_result $? "$3" && return
	diag "     got: $1"
	diag "  wanted: /$2/"
	return 1
}

unlike() { # GOT REGULAR-EXPRESSION DESCRIPTION
	[[ ! $1 =~ $2 ]]
	note_result $? "$3" && return
	diag "       got: $1"
	diag "  unwanted: /$2/"
	return 1
}

skip() { # DESCRIPTION REASON
	TESTS=$((TESTS + 1))
	echo "ok $TESTS - $1 # SKIP $2"
}

done_testing() {
	echo "1..$TESTS"
	[ $FAILED = 0 ]
	exit
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

# ---- the tool ----

# run COMMAND...: leaves its status in RC, what it printed in OUT and ERR, and the latter's number
# of lines in ERR_LINES.
run() {
	"$@" >$T/run.out 2>$T/run.err </dev/null
	RC=$?
	OUT=$(<$T/run.out)
	ERR=$(<$T/run.err)
	ERR_LINES=$(wc -l <$T/run.err)
}

xb() { "$XDP_BLOOM" "$@"; }

# expect STATUS DESCRIPTION COMMAND...
expect() {
	local wanted=$1 what=$2

	shift 2
	run "$@"
	[ $RC = "$wanted" ]
	note_result $? "$what" && return
	diag "command: $*"
	diag "status: $RC, wanted $wanted"
	[ -z "$OUT" ] || diag "stdout: $OUT"
	[ -z "$ERR" ] || diag "stderr: $ERR"
	return 1
}

# What a refused command must leave as it was: pins, interfaces, programs attached to them.
snapshot() {
	find $BPFFS -printf '%p %y %m %i\n' 2>/dev/null | sort
	ip -o link
	ip -o -n client link
	grep ' /sys/' /proc/mounts
}

# refused DESCRIPTION REGULAR-EXPRESSION COMMAND...: exit status 2, nothing on stdout, one line on
# stderr that matches, and the system as it was.
refused() {
	local what=$1 pattern=$2 before after wrong=

	shift 2
	before=$(snapshot)
	run "$@"
	after=$(snapshot)
	[ $RC = 2 ] || wrong+="status $RC, wanted 2; "
	[ "$ERR_LINES" = 1 ] || wrong+="$ERR_LINES lines on stderr, wanted 1; "
	[[ $ERR =~ $pattern ]] || wrong+="stderr does not match /$pattern/; "
	[ -z "$OUT" ] || wrong+="something on stdout; "
	[ "$before" = "$after" ] || wrong+="the system changed; "
	[ -z "$wrong" ]
	note_result $? "$what" && return
	diag "command: $*"
	diag "wrong: $wrong"
	diag "stdout: $OUT"
	diag "stderr: $ERR"
	[ "$before" = "$after" ] || diag "$(diff <(echo "$before") <(echo "$after"))"
	return 1
}

PYTHON=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null)

# json PATH: print one field of the JSON object on stdin; "counters.dropped.packets". Prints
# nothing and fails when it is not there.
json() {
	"$PYTHON" -c '
import json, sys
value = json.load(sys.stdin)
try:
    for part in sys.argv[1].split("."):
        value = value[int(part) if isinstance(value, list) else part]
except (KeyError, IndexError):
    sys.exit(1)
print(json.dumps(value) if not isinstance(value, str) else value)
' "$1"
}

# field NAME PATH: one field of `show`.
field() {
	"$XDP_BLOOM" show "$1" --json | json "$2"
}

# counter NAME COUNTER: packets.
counter() {
	field "$1" "counters.$2.packets"
}

# ---- what gets through ----

# arrivals LIST [udp-send OPTION...]: send a datagram from each source of a file (or from the one
# address given), wait for the barrier behind them, and print who arrived, sorted.
arrivals() {
	local list=$1 to=$SERVER4 receiver from=--from-file

	shift
	[ -e "$list" ] || from=--from
	[ "$(grep -c : <<<"$([ -e "$list" ] && head -1 "$list" || echo "$list")")" = 0 ] ||
		to="[$SERVER6]"
	rm -f $T/arrivals
	"$TRAFFIC" udp-recv --port $UDP_PORT --out $T/arrivals --barrier s0 --timeout 10000 \
		>/dev/null &
	receiver=$!
	wait_until 5 test -e $T/arrivals
	client "$TRAFFIC" udp-send --to "$to:$UDP_PORT" $from "$list" --barrier c0 "$@" >/dev/null
	wait $receiver || return
	cut -d' ' -f1 $T/arrivals | sort
}

udp_passes() { # SOURCE [udp-send OPTION...]
	[ "$(arrivals "$@" --count 1)" = "$1" ]
}

ping_passes() { # SOURCE [ping OPTION...]
	local source=$1 to=$SERVER4

	[ "${source/:/}" = "$source" ] || to=$SERVER6
	shift
	client ping -q -c 1 -W 0.3 -I "$source" "$@" $to >/dev/null
}

tcp_passes() { # SOURCE [tcp-connect OPTION...]
	local source=$1 to=$SERVER4

	[ "${source/:/}" = "$source" ] || to="[$SERVER6]"
	shift
	client "$TRAFFIC" tcp-connect --from "$source" --to "$to:$TCP_PORT" --timeout 300 "$@"
}

start_tcp_server() {
	"$TRAFFIC" tcp-serve --port $TCP_PORT --out $T/tcp >/dev/null &
	TCP_SERVER=$!
	wait_until 5 test -e $T/tcp
}

# How a device is attached, as `ip link` says it: native, generic or none.
attached_mode() {
	case $(ip -o link show dev "$1") in
	*xdpgeneric*) echo generic ;;
	*xdpoffload*) echo offload ;;
	*xdpmulti*) echo multi ;;
	*"prog/xdp"* | *" xdp "* | *" xdp/"*) echo native ;;
	*) echo none ;;
	esac
}

# The id of the program on a device, 0 without one.
attached_id() {
	ip -j -d link show dev "$1" | "$PYTHON" -c '
import json, sys
print(json.load(sys.stdin)[0].get("xdp", {}).get("prog", {}).get("id", 0))'
}

end_test() {
	local pids

	trap - EXIT
	pids=$(jobs -p)
	# shellcheck disable=SC2086
	[ -z "$pids" ] || kill $pids 2>/dev/null
}

enter_namespaces "$@"
trap end_test EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
prepare_mounts
