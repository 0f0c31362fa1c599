# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
#
# What the tests between network namespaces share; each *.t sources it first, and thereby runs in
# the network that net.sh describes. Here are the results (as TAP, for prove), running the tool and
# judging what it says, and finding out what gets through to the server.

cannot() {
	echo "Bail out! $*"
	exit 2
}

# shellcheck source=tests/netns/net.sh
. "$(dirname "${BASH_SOURCE[0]}")/net.sh"

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

# How long to wait for an answer: long where one is expected, on a machine that may be busy; else
# many times what it takes.
PATIENCE_MS=3000
PATIENCE_FOR_NOTHING_MS=200

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
	local what=$1 output PATIENCE_MS=$PATIENCE_FOR_NOTHING_MS

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

# ---- the tool ----

# run COMMAND...: leaves its status in RC, what it printed in OUT and ERR, and the latter's number
# of lines in ERR_LINES.
run() {
	"$@" >$T/run.out 2>$T/run.err </dev/null
	RC=$?
	# Addresses of tests are private ones and the machine's own. That this is said, exempt.t wants.
	[ -n "${HEAR_WARNINGS-}" ] ||
		sed -i '/^xdp-bloom: warning: the list covers /d; / this machine lives by .* exempt /d' \
			$T/run.err
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

# What a refused command must leave as it was: pins, interfaces, programs attached to them. Not
# whether a link is up already: that follows in its own time.
snapshot() {
	# The exemptions are a map anew whenever they change, if only back to what they were.
	find $BPFFS ! -name exempt -printf '%p %y %m %i\n' 2>/dev/null | sort
	find $BPFFS -name exempt 2>/dev/null | sort
	{
		ip -o link
		ip -o -n client link
	} | sed 's/<[^>]*>//; s/ state [A-Z]*//'
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

# ---- JSON ----

PYTHON=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null)

# json PATH: print one field of the JSON object on stdin; "counters.dropped.packets". Prints
# nothing and fails when it is not there.
json() {
	"$PYTHON" -c '
import json, sys
try:
    value = json.load(sys.stdin)
    for part in sys.argv[1].split("."):
        value = value[int(part) if isinstance(value, list) else part]
except (ValueError, KeyError, IndexError):
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

# How many maps of bits with so many blocks there are on this machine. Other tests may run beside this
# one, so take a number of blocks that is nobody else's. The kernel frees maps in its own time.
filter_maps() { # BLOCKS
	bpftool map show -j | "$PYTHON" -c '
import json, sys
print(sum(m.get("name") == "xbloom_filter" and m["max_entries"] == int(sys.argv[1])
          for m in json.load(sys.stdin)))' "$1"
}
filter_maps_come_to() { [ "$(filter_maps "$1")" = "$2" ]; } # BLOCKS COUNT

# ---- what gets through ----

# arrivals LIST [udp-send OPTION...]: send a datagram from each source of a file (or from the one
# address given), wait for the barrier behind them, and print who arrived, sorted.
arrivals() {
	local list=$1 first=$1 to=$SERVER4 from=--from receiver

	shift
	if [ -e "$list" ]; then
		from=--from-file
		read -r first <"$list"
	fi
	[[ $first != *:* ]] || to="[$SERVER6]"
	rm -f $T/arrivals
	"$TRAFFIC" udp-recv --port $UDP_PORT --out $T/arrivals --barrier s0 --timeout 10000 \
		>/dev/null &
	receiver=$!
	wait_until 5 test -e $T/arrivals
	client "$TRAFFIC" udp-send --to "$to:$UDP_PORT" $from "$list" --barrier c0 "$@" >/dev/null ||
		return
	wait $receiver || return
	cut -d' ' -f1 $T/arrivals | sort
}

seconds() { # MILLISECONDS
	printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
}

udp_passes() { # SOURCE [udp-send OPTION...]
	[ "$(arrivals "$@" --count 1)" = "$1" ]
}

# Not merely that it did not arrive: it was sent, and the barrier behind it has arrived.
udp_stopped() { # SOURCE [udp-send OPTION...]
	local arrived

	arrived=$(arrivals "$@" --count 1) && [ -z "$arrived" ]
}

ping_passes() { # SOURCE [ping OPTION...]
	local source=$1 to=$SERVER4

	[[ $source != *:* ]] || to=$SERVER6
	shift
	client ping -q -c 1 -W "$(seconds $PATIENCE_MS)" -I "$source" "$@" $to >/dev/null
}

tcp_passes() { # SOURCE [tcp-connect OPTION...]
	local source=$1 to=$SERVER4

	[[ $source != *:* ]] || to="[$SERVER6]"
	shift
	client "$TRAFFIC" tcp-connect --from "$source" --to "$to:$TCP_PORT" \
		--timeout "$PATIENCE_MS" "$@"
}

# A sender that goes on until stop_traffic, and a receiver that logs to $T/log; what they counted is
# then in $T/sent and $T/received.
start_receiver() {
	rm -f $T/log
	"$TRAFFIC" udp-recv --port $UDP_PORT --out $T/log --barrier s0 >$T/received &
	RECEIVER=$!
	wait_until 5 test -e $T/log
}

start_sender() { # udp-send OPTION...
	nsenter --net=/run/netns/client "$TRAFFIC" udp-send --to $SERVER4:$UDP_PORT --loop \
		--barrier c0 "$@" >$T/sent &
	SENDER=$!
}

logged() { # BYTES
	[ "$(stat -c %s $T/log)" -ge "$1" ]
}

stop_traffic() {
	kill -TERM $SENDER
	wait $SENDER
	wait $RECEIVER
}

start_tcp_server() {
	"$TRAFFIC" tcp-serve --port $TCP_PORT --out $T/tcp >/dev/null &
	TCP_SERVER=$!
	wait_until 5 test -e $T/tcp
}

# How a device is attached, as `ip link` says it: native, generic or none.
attached_mode() {
	case $(ip -o link show dev "$1") in
	*" xdpgeneric "*) echo generic ;;
	*" xdp "*) echo native ;;
	*prog/xdp*) echo other ;;
	*) echo none ;;
	esac
}

# The id of the program on a device, 0 without one.
attached_id() {
	ip -j -d link show dev "$1" | "$PYTHON" -c '
import json, sys
print(json.load(sys.stdin)[0].get("xdp", {}).get("prog", {}).get("id", 0))'
}

if [ "$(id -u)" != 0 ]; then
	echo "1..0 # SKIP needs root, for namespaces and BPF"
	exit 0
fi
require python3
enter_namespaces "$@"
trap 'exit 130' INT
trap 'exit 143' TERM HUP
