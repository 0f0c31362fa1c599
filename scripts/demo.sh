#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# demo.sh: see it work. A list of 100,000 addresses becomes a filter in front of a server, and real
# traffic from listed and from other sources meets it. Every number printed is measured here and
# now; the exit status is 0 only if the story is true. All of it takes place in network namespaces
# of its own (see tests/netns/net.sh), and nothing is left behind, whatever ends it.

cannot() {
	echo "demo: $*" >&2
	exit 2
}

# shellcheck source=tests/netns/net.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/netns/net.sh"

NAME=threats
LISTED=100000
RATE=1 # percent
SAMPLE=5
Z=3.29 # of a normal distribution, for an interval of 99.9 %

# ---- from outside: run it, and see that nothing is left ----

outside() {
	local before status

	[ "$(id -u)" = 0 ] || cannot "needs root, for namespaces and BPF (sudo make demo)"
	before=$(traces)
	trap : INT
	(enter_namespaces "$@")
	status=$?
	if [ "$(traces)" = "$before" ]; then
		echo "Nothing is left behind: interfaces and bpf file system are as they were before."
	else
		echo "The interfaces or pins of this machine have changed meanwhile:"
		diff <(echo "$before") <(traces)
	fi
	exit $status
}

traces() {
	ls /sys/class/net
	ls /run/netns /sys/fs/bpf /sys/fs/bpf/xdp-bloom 2>/dev/null
}

# ---- how it looks ----

bold='' dim='' green='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# Print a command as one would type it, run it, and print what it says.
shown() {
	printf '   %s$ %s%s\n' "$dim" "$*" "$plain"
	"$@" >$T/said 2>&1 || cannot "$* failed: $(<$T/said)"
	sed 's/^/   /' $T/said
}

# 1234567 -> 1,234,567
grouped() {
	sed -E ':again; s/^([0-9]+)([0-9]{3})/\1,\2/; t again' <<<"$1"
}

# What the story claims. The first claim that is untrue is what the script ends with.
untrue=
claim() { # TEXT COMMAND...
	"${@:2}" || untrue=${untrue:-$1}
}

# ---- numbers out of JSON as xdp-bloom and bpftool print it ----

number() { # FIELD
	grep -oE "\"$1\": *[0-9.e+-]+" | head -n 1 | sed 's/.*: *//'
}

packets() { # COUNTER
	grep -A 1 "\"$1\":" | number packets
}

# ---- traffic ----

# udp_arrivals LIST: one datagram from each source; prints how many sources the server heard.
udp_arrivals() {
	local receiver

	rm -f $T/heard
	"$TRAFFIC" udp-recv --port $UDP_PORT --out $T/heard --barrier s0 --timeout 20000 >/dev/null &
	receiver=$!
	wait_until 5 test -e $T/heard
	client "$TRAFFIC" udp-send --to $SERVER4:$UDP_PORT --from-file "$1" --rate 150000 \
		--barrier c0 >/dev/null
	wait $receiver || cannot "the traffic did not come to its end"
	cut -d' ' -f1 $T/heard | sort -u | wc -l
}

ping_once() { client ping -q -c 1 -W 1 -I "$1" $SERVER4 >/dev/null 2>&1; }

tcp_once() {
	client "$TRAFFIC" tcp-connect --from "$1" --to $SERVER4:$TCP_PORT --timeout 1000 >/dev/null 2>&1
}

# how_many COMMAND SOURCE...: with how many of them, all at once, the command succeeds.
how_many() {
	local source job jobs=() reached=0

	for source in "${@:2}"; do
		"$1" "$source" &
		jobs+=($!)
	done
	for job in "${jobs[@]}"; do wait "$job" && reached=$((reached + 1)); done
	echo $reached
}

# ---- sizes ----

ipset_bytes() {
	ipset create set hash:ip maxelem $LISTED 2>/dev/null || return
	sed 's/^/add set /' $T/list.txt | ipset restore &&
		ipset list -terse set | sed -n 's/^Size in memory: //p'
	ipset destroy set
}

# As the kernel accounts for it. It is preallocated: no need to put the keys in.
bpf_hash_bytes() {
	bpftool map create $BPFFS/set type hash key 4 value 4 entries $LISTED name set 2>/dev/null &&
		bpftool -j map show pinned $BPFFS/set | number bytes_memlock
	rm -f $BPFFS/set
}

size_line() { # WHAT BYTES
	[ -n "$2" ] || return
	printf '      %-38s %11s bytes   %3d times the filter\n' "$1" "$(grouped "$2")" \
		$(((2 * $2 / bytes + 1) / 2))
}

# ---- the story ----

make_lists() {
	awk 'BEGIN { for (i = 0; i < 131072; i++)
		printf "198.%d.%d.%d\n", 18 + int(i / 65536), i / 256 % 256, i % 256 }' |
		shuf >$T/addresses
	head -n $LISTED $T/addresses >$T/list.txt
	tail -n +$((LISTED + 1)) $T/addresses >$T/others
	for i in $(seq 1 254); do echo "203.0.113.$i"; done >>$T/others
	OTHERS=$(wc -l <$T/others)
}

# measure BLOCKED ALL PREDICTED: the measured rate, its Wilson interval, and whether they agree.
measure() {
	awk -v x="$1" -v n="$2" -v predicted="$3" -v z=$Z 'BEGIN {
		p = x / n
		middle = (p + z * z / (2 * n)) / (1 + z * z / n)
		half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
		low = middle - half
		high = middle + half
		verdict = (predicted >= low && predicted <= high) ? "agree" : "disagree"
		printf "%.2f %.2f %.2f %.2f %s\n", 100 * predicted, 100 * p, 100 * low, 100 * high, verdict
	}'
}

story() {
	local listed others ping_listed ping_others tcp_listed tcp_others
	local bytes blocked predicted measured low high verdict dropped

	cd $T || cannot "cannot enter $T"
	PATH=$(dirname "$XDP_BLOOM"):$PATH
	make_lists
	build_net
	"$TRAFFIC" tcp-serve --port $TCP_PORT --out $T/served >/dev/null &
	server=$!

	echo "${bold}xdp-bloom: a Bloom filter in front of the network stack$plain"
	echo
	echo "   client  $CLIENT4  c0 --------------- s0  $SERVER4  server"
	echo
	printf '   Two network namespaces and a veth cable. The client speaks from %s\n' \
		"$(grouped $((LISTED + OTHERS)))"
	echo "   addresses; list.txt names $(grouped $LISTED) of them."

	title "1. Without a filter everybody reaches the server"
	listed=$(udp_arrivals $T/list.txt)
	others=$(udp_arrivals $T/others)
	printf '      UDP from %s of %s listed and %s of %s other sources\n' "$(grouped "$listed")" \
		"$(grouped $LISTED)" "$(grouped "$others")" "$(grouped "$OTHERS")"
	claim "without a filter every source is heard" test "$listed $others" = "$LISTED $OTHERS"

	title "2. The list becomes a filter"
	shown xdp-bloom create $NAME --from list.txt --fp $RATE%
	bytes=$(xdp-bloom show $NAME --json | number bytes)
	printf '      %-38s %11s bytes\n' "the filter" "$(grouped "$bytes")"
	size_line "the same list as an ipset (hash:ip)" "$(ipset_bytes)"
	size_line "the same list in a BPF hash map" "$(bpf_hash_bytes)"

	title "3. The filter goes in front of the server"
	shown xdp-bloom attach $NAME s0
	# Of the others, some that the filter is sure about; the false positives have their turn below.
	mapfile -t some_listed < <(head -n $SAMPLE $T/list.txt)
	mapfile -t some_others < <(head -n 1000 $T/others | xdp-bloom test $NAME --from - |
		sed -n 's/^absent //p' | head -n $SAMPLE)
	ping_listed=$(how_many ping_once "${some_listed[@]}")
	ping_others=$(how_many ping_once "${some_others[@]}")
	tcp_listed=$(how_many tcp_once "${some_listed[@]}")
	tcp_others=$(how_many tcp_once "${some_others[@]}")
	listed=$(udp_arrivals $T/list.txt)
	others=$(udp_arrivals $T/others)
	printf '      %-16s %20s     %20s\n' "what got through" "listed sources" "other sources"
	printf '      %-16s %8s of %8s     %8s of %8s\n' \
		ping "$ping_listed" $SAMPLE "$ping_others" $SAMPLE \
		TCP "$tcp_listed" $SAMPLE "$tcp_others" $SAMPLE \
		UDP "$listed" "$(grouped $LISTED)" "$(grouped "$others")" "$(grouped "$OTHERS")"
	claim "no listed source gets through" test "$ping_listed $tcp_listed $listed" = "0 0 0"
	claim "ping and TCP of others get through" test "$ping_others $tcp_others" = "$SAMPLE $SAMPLE"
	blocked=$((OTHERS - others))

	title "4. It is wrong about some others; how many was chosen, and is known"
	predicted=$(xdp-bloom show $NAME --json | number fp_predicted)
	read -r predicted measured low high verdict < <(measure $blocked "$OTHERS" "$predicted")
	printf '      asked for    %5.2f %%\n' $RATE
	printf '      predicted    %5s %%   from the bits as they are now\n' "$predicted"
	printf '      measured     %5s %%   %s of %s others; 99.9 %% interval %s to %s %%\n' \
		"$measured" $blocked "$(grouped "$OTHERS")" "$low" "$high"
	if [ "$verdict" = agree ]; then
		echo "      ${green}prediction and measurement agree$plain"
	else
		echo "      ${red}prediction and measurement disagree$plain"
	fi
	claim "the predicted and the measured rate agree" test "$verdict" = agree
	dropped=$(xdp-bloom show $NAME --json | packets dropped)
	claim "the filter counts what it drops" test "${dropped:-0}" -ge $((LISTED + blocked))
	printf '      the filter itself counted %s dropped packets\n' "$(grouped "${dropped:-0}")"

	title "5. And away with it"
	shown xdp-bloom detach s0
	shown xdp-bloom destroy $NAME
	kill $server
	wait $server 2>/dev/null
	[ -z "$untrue" ] || cannot "${red}this was not true: $untrue$plain"
}

[ -n "${XDP_BLOOM_OUTSIDE:-}" ] || outside "$@"
enter_namespaces "$@"
trap 'exit 130' INT
trap 'exit 143' TERM HUP
story
