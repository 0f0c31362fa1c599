#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The answers to live traffic, verified: what `watch` measures on sampled packets is what another
# count finds, agrees with the prediction where that is right, and not where the list is wrong. It
# lives through lost samples, changed lists, added keys, other rules and a new generation, and ends
# with its filter.
#
# Where a rate is judged, the filter's secret is drawn anew each time: a right prediction is called
# wrong once in 10,000 judgements (see user/judge.h), and the same few keys are judged again and
# again, so that about eight judgements count. All other figures are exact, or within six standard
# deviations.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

build_net

UNLISTED=30000
LISTED=2000
RATE=40000
EVERY=0.5

addresses() { # PREFIX COUNT: PREFIX.x.y, generated
	awk -v prefix="$1" -v count="$2" 'BEGIN {
		for (i = 0; i < count; i++)
			printf "%s.%d.%d\n", prefix, i / 256, i % 256
	}'
}

addresses 198.19 $UNLISTED >$T/unlisted
addresses 198.18 $LISTED >$T/listed
cat $T/listed $T/unlisted | shuf >$T/sources

# ---- watching ----

# start_watch NAME [OPTION...]: in the background, until it says that it watches.
start_watch() {
	: >$T/said
	"$XDP_BLOOM" watch "$@" --json --interval $EVERY >$T/lines 2>$T/said &
	WATCH=$!
	wait_until 5 grep -q "watching $1:" $T/said || diag "watch does not begin: $(<$T/said)"
}

# stop_watch [SIGNAL]: leaves its status in RC.
stop_watch() {
	kill -"${1:-TERM}" $WATCH
	wait $WATCH 2>/dev/null
	RC=$?
}

lines() { wc -l <$T/lines; }
last() { tail -n 1 $T/lines | json "$1"; }
last_is() { [ "$(last "$1")" = "$2" ]; }
last_has() { [ "$(last "$1" || echo 0)" -ge "$2" ]; }
said() { grep -c -e "$1" $T/said; }
has_said() { grep -q -e "$1" $T/said; }
# Lines from now on: so that what is waited for is not of before.
more_lines() { wait_until 10 more_lines_than $(($(lines) + ${1:-1})); }
more_lines_than() { [ "$(lines)" -gt "$1" ]; }

start_sender() { # LIST [udp-send OPTION...]
	local list=$1 to=$SERVER4

	shift
	! grep -q : <(head -n 1 "$list") || to="[$SERVER6]"
	nsenter --net=/run/netns/client "$TRAFFIC" udp-send --to "$to:$UDP_PORT" --loop \
		--rate $RATE --barrier c0 --from-file "$list" "$@" >$T/sent &
	SENDER=$!
}

stop_sender() {
	kill -TERM $SENDER
	wait $SENDER
}

send_once() { # LIST [udp-send OPTION...]
	local list=$1

	shift
	client "$TRAFFIC" udp-send --to $SERVER4:$UDP_PORT --rate 100000 --from-file "$list" \
		"$@" >/dev/null
}

# Whether a Python expression is true of x, the last line, and lines, all of them.
true_of_lines() {
	"$PYTHON" -c '
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
x = lines[-1] if lines else None
sys.exit(not (x and eval("(" + sys.argv[2] + ")")))' $T/lines "$1"
}

holds() { # EXPRESSION
	true_of_lines "$1" || {
		tail -n 2 $T/lines
		return 1
	}
}

comes_to_hold() { # EXPRESSION
	wait_until 10 true_of_lines "$1" 2>/dev/null || holds "$1"
}

# How many of a list the filter calls maybe, by asking for each.
maybes() { xb test f --from "$1" | grep -c ^maybe; }

# That many, and the unlisted sources. The client speaks for itself, too (IPv6 multicast
# memberships): up to four keys more are nobody's fault.
total_is_that_of_unlisted() {
	holds '0 <= x["total"]["keys"] - '$UNLISTED' <= 4 and
		0 <= x["total"]["false_positives"] - '"$(maybes $T/unlisted)"' <=
		x["total"]["keys"] - '$UNLISTED
}

# ---- what is refused ----

expect 0 "a filter in shadow" xb create f --from $T/listed --fp 5% --shadow
refused "without sampling there is nothing to watch" \
	'^xdp-bloom: sampling of f is off: xdp-bloom set f --sample 1/100$' \
	xb watch f --from $T/listed
expect 0 "sample every packet" xb set f --sample 1/1
expect 0 "attach" xb attach f s0
refused "no such filter" 'there is no filter g' xb watch g --from $T/listed
refused "neither a list nor an exact map" 'f.*(exact map|--from)' xb watch f
refused "a list that cannot be read" "cannot read $T/none" xb watch f --from $T/none
printf '192.0.2.1\n192.0.2.2,443\n' >$T/shape
refused "a list of another shape is named with its line" "^xdp-bloom: $T/shape:2: " \
	xb watch f --from $T/listed --from $T/shape
refused "standard input cannot be read again" "'-' has to be a file" xb watch f --from -
mkfifo $T/fifo
refused "nor can a pipe" "'$T/fifo' has to be a file" xb watch f --from $T/fifo
refused "an interval of nothing" "--interval '0'" xb watch f --from $T/listed --interval 0
refused "an interval too short" "--interval '0.01' is not between" \
	xb watch f --from $T/listed --interval 0.01
refused "an interval too long" "--interval '1e9' is not between" \
	xb watch f --from $T/listed --interval 1e9
refused "a count of nothing" "--count '0'" xb watch f --from $T/listed --count 0
refused "two filters" "the name of one filter" xb watch f g --from $T/listed

# ---- every packet sampled, against a list ----

start_watch f --from $T/listed
start_sender $T/sources
ok "all unlisted sources are seen" wait_until 20 last_has total.keys $UNLISTED
more_lines 2
stop_sender
more_lines 2
like "$(xb watch f --from $T/listed 2>&1)" 'another watch reads the samples of f' \
	"while one watches, another is refused"
stop_watch
is $RC 0 "SIGTERM ends it, with status 0 when all agrees"
ok "its false positives are those that asking for each key finds" total_is_that_of_unlisted
ok "they agree with the prediction" holds 'x["total"]["agree"] is True'
is "$(last fp_predicted)" "$(field f fp_predicted)" "which is the one that show makes"
ok "the interval is Wilson's" holds '(lambda n, p, z=1.959964: all(
	abs(got - (p + z*z/2/n + sign*z*(p*(1-p)/n + z*z/4/n/n)**.5) / (1 + z*z/n)) < 1e-6
	for sign, got in ((-1, x["total"]["ci_low"]), (1, x["total"]["ci_high"]))))(
	x["total"]["keys"], x["total"]["fp_measured"])'
# Each source sends as much as any other, so packets tell the same as keys, but for the last round,
# which is not whole: of 1,500 false positives in two rounds that is at most 3 %, one standard
# deviation.
ok "by packets the rate is the same" holds '(lambda parts:
	abs(sum(p * n for p, n in parts) / sum(n for p, n in parts) / x["total"]["fp_measured"] - 1)
	< 0.2)([(l["fp_packets"], l["packets"] * l["absent_share"] / (1 - l["fp_packets"]))
	for l in lines if l["samples"] > 100])'
ok "most packets are called absent" holds '0.85 < sum(
	l["packets"] * l["absent_share"] for l in lines if l["packets"]) / sum(
	l["packets"] for l in lines) < 0.93'
ok "every packet was sampled or counted as lost" holds \
	'sum(l["packets"] for l in lines) == sum(l["samples"] + l["lost"] for l in lines) > 50000'
ok "no listed key was called absent" holds 'all(l["missing"] == 0 for l in lines)'
ok "intervals without traffic measure nothing, and say so" holds '
	x["packets"] == x["keys"] == 0 and x["fp_measured"] is x["agree"] is x["absent_share"] is None'
ok "its lines have times of one form" holds 'all(
	__import__("datetime").datetime.strptime(t, "%Y-%m-%dT%H:%M:%SZ")
	for l in lines for t in (l["time"], l["total"]["since"]))'

# ---- lost samples ----

lost_before=$(field f samples_lost)
send_once $T/sources
ok "with no reader the buffer overflows, and show tells" test "$(field f samples_lost)" -gt \
	"$lost_before"
xb show f --json >$T/show
of_show() { json "$1" <$T/show; }
is "$(($(of_show samples) + $(of_show samples_lost)))" \
	"$(($(of_show counters.absent.packets) + $(of_show counters.maybe.packets)))" \
	"each packet is either a sample or lost"
start_watch f --from $T/listed
like "$(<$T/said)" 'samples had been lost before, as nobody read them in time' "watch says what it came too late for"
more_lines
is "$(last samples) $(last lost)" "0 0" "and does not judge it"
# A reader that gets no time.
kill -STOP $WATCH
send_once $T/sources
kill -CONT $WATCH
ok "samples lost while it watches are in its lines" comes_to_hold \
	'sum(l["lost"] for l in lines) > 0'
is "$(said 'samples of f are lost: the buffer was full; sample fewer')" 1 "with the reason, once"
stop_watch KILL
start_watch f --from $T/listed
more_lines
is "$(said 'watching f')" 1 "one that was killed is in nobody's way"

# ---- a wrong list, and one that changes ----

stop_watch
head -n $((LISTED / 2)) $T/listed >$T/list
start_sender $T/sources
start_watch f --from $T/list
ok "a list that lacks half of the keys: measured and predicted disagree" wait_until 10 \
	last_is total.agree false
ok "and by as much as the half" comes_to_hold \
	'x["total"]["false_positives"] >= '$((LISTED / 2))
stop_watch
is $RC 1 "then it ends with status 1"

start_watch f --from $T/list
wait_until 10 last_is total.agree false
cp $T/listed $T/list
ok "a list that changes is read again by itself" wait_until 10 has_said \
	"the lists of f were read again: 2,000 keys"
more_lines
ok "and the total starts anew, and agrees" wait_until 10 last_is total.agree true
echo 192.0.2.300 >>$T/list
ok "a bad line is reported" wait_until 10 has_said "$T/list:2001: "
more_lines 2
ok "the old truth stays" holds 'x["total"]["agree"] is True and x["agree"] is not False'
rm $T/list
ok "so does it when the list is gone" wait_until 10 has_said "cannot read $T/list"
more_lines 4
is "$(said "$T/list:2001: ") $(said "cannot read $T/list")" "1 1" "each is said once"
cp $T/listed $T/list
ok "and the list is read when it is back" wait_until 10 eval '[ "$(said "read again")" = 2 ]'
kill -HUP $WATCH
ok "SIGHUP has it read whether it changed or not" wait_until 10 \
	eval '[ "$(said "read again")" = 3 ]'
# Nobody waits for a long list: here both signals are there when it is about to be read.
kill -STOP $WATCH
kill -HUP $WATCH
kill -TERM $WATCH
kill -CONT $WATCH
wait $WATCH
is "$? $(said "read again")" "0 3" "SIGTERM ends it also where lists are being read"
ok "with a last line, which judges nothing by the lists of before" holds 'x["total"]["agree"] is None'
start_watch f --from $T/list
while sleep 0.2; do touch $T/list; done &
TOUCHER=$!
ok "a list that never rests is told of" wait_until 10 has_said "a list of f is being changed"
more_lines 3
ok "nothing is judged by it" holds 'x["agree"] is x["total"]["agree"] is None'
# Should it rest on a busy machine, it is read, and told of once more.
ok "which is not said with each line" test "$(said "a list of f is being changed")" -lt 3
kill $TOUCHER
wait $TOUCHER 2>/dev/null
ok "once it rests it is read" wait_until 10 has_said "read again"
ok "and judged by" wait_until 10 last_is total.agree true
head -n 200 $T/unlisted >>$T/list
ok "keys that are listed, but not in the filter" wait_until 10 eval 'last_has missing 10'
xb add f --from $T/list >/dev/null 2>&1
more_lines
more_lines
is "$(last missing)" 0 "are missing no more once they are added"

# ---- the filter changes ----

ok "keys that are added change the prediction, and the total starts anew" holds \
	'x["total"]["since"] > lines[0]["total"]["since"]'
ok "measured and predicted agree again" wait_until 10 last_is total.agree true
before=$(last total.since)
# Its times are whole seconds.
wait_until 5 eval '[ "$(date -u +%FT%TZ)" \> "$before" ]'
expect 0 "rebuild, while it is watched" xb rebuild f --from $T/list --fp 5%
ok "so it does with another generation" wait_until 10 last_is generation 2
ok "of which the total has its own time" test "$(last total.since)" '>' "$before"
ok "and agrees" wait_until 10 last_is total.agree true
expect 0 "other rules" xb set f --shadow off --unkeyed malformed=drop
more_lines 2
ok "do not disturb it" holds 'x["samples"] > 0 and x["total"]["agree"] is True'
expect 0 "sampling goes off" xb set f --sample off
more_lines 3
is "$(last samples)" 0 "nothing is sampled"
is "$(said 'sampling of f was turned off')" 1 "it is said once"
expect 0 "and on, one packet in ten" xb set f --sample 1/10
more_lines 3
ok "and it goes on" holds 'x["samples"] > 0 and x["sample"] == 10'
is "$(said 'sampling of f is on again: one packet in 10')" 1 "which is said, too"
stop_watch
is $RC 0 "all this while measured and predicted agreed"
stop_sender
expect 0 "destroy" xb destroy f

# ---- an IPv6 filter of the other layout, one packet in ten ----

awk 'BEGIN { for (i = 0; i < 20000; i++) printf "2001:db8:a::%x\n", i }' >$T/unlisted6
awk 'BEGIN { for (i = 0; i < 1000; i++) printf "2001:db8:a:1::%x\n", i }' >$T/listed6
cat $T/unlisted6 $T/listed6 | shuf >$T/sources6
expect 0 "an IPv6 filter" xb create f --from $T/listed6 --fp 10% --layout classic --shadow
expect 0 "sample one in ten" xb set f --sample 1/10
expect 0 "attach" xb attach f s0
start_watch f --from $T/listed6
start_sender $T/sources6
ok "thousands of keys are sampled" wait_until 20 last_has total.keys 6000
stop_sender
more_lines 2
stop_watch
ok "they agree with the prediction" holds 'x["total"]["agree"] is True'
# Keys sampled at random of all: without those that the sample missed, 3 % of the rate are one
# standard deviation of what 6,000 of 20,000 leave open.
ok "and with another count" holds \
	'abs(x["total"]["fp_measured"] * 20000 / '"$(maybes $T/unlisted6)"' - 1) < 0.2'
ok "as many packets as were asked for" holds '(lambda n, s:
	abs(s - n / 10) < 6 * (n * 0.09) ** 0.5)(
	sum(l["packets"] for l in lines), sum(l["samples"] + l["lost"] for l in lines))'
expect 0 "destroy" xb destroy f

# ---- against the exact map ----

expect 0 "a filter with an exact map" xb create f --from $T/listed --fp 10% --confirm
expect 0 "sample every packet" xb set f --sample 1/1
expect 0 "attach" xb attach f s0
start_watch f
start_sender $T/sources
ok "all unlisted sources are seen" wait_until 20 last_has total.keys $UNLISTED
stop_sender
more_lines 2
stop_watch
is $RC 0 "without a list the exact map is the truth"
ok "its false positives are those that asking for each key finds" total_is_that_of_unlisted
ok "they agree with the prediction" holds 'x["total"]["agree"] is True'
refuted=$(counter f refuted) absent=$(counter f absent)
ok "by packets, the exact map's own count" holds '(lambda false, true:
	abs(false - '"$refuted"') < 1 and abs(true - '"$absent"') < 1)(
	*(sum(l["packets"] * l["absent_share"] / (1 - l["fp_packets"]) * part(l["fp_packets"])
	for l in lines if l["packets"]) for part in (lambda p: p, lambda p: 1 - p)))'

# ---- the end of the filter ----

start_watch f
expect 0 "rebuild, from the exact map" xb rebuild f --fp 5%
is "$(ls $BPFFS/xdp-bloom/f | grep -c watching)" 1 "the lock of the watch moves along"
expect 2 "so that there is no second one" xb watch f --interval 1
ok "against an exact map, too, it lives through another generation" wait_until 10 \
	last_is generation 2
expect 0 "destroy, while it is watched" xb destroy f
wait $WATCH
is $? 2 "ends the watch with status 2"
is "$(said 'filter f was destroyed or replaced: this watch of it is over')" 1 "and a message"
expect 0 "another" xb create f --from $T/listed --fp 5% --shadow
expect 0 "sample" xb set f --sample 1/1
start_watch f --from $T/listed
xb destroy f >/dev/null && xb create f --from $T/listed --fp 5% --shadow >/dev/null
wait $WATCH
is $? 2 "so does another filter under its name"
xb set f --sample 1/1 >/dev/null
xb attach f s0 >/dev/null

# ---- for weeks ----

# 300,000 sources, of which no more than 65,536 are kept.
awk 'BEGIN { for (i = 0; i < 300000; i++)
	printf "10.%d.%d.%d\n", i / 65536, i / 256 % 256, i % 256 }' >$T/many
vm_size() { awk '/^VmSize/ { print $2 }' /proc/$WATCH/status; }
start_watch f --from $T/listed
more_lines
before=$(vm_size)
send_once $T/many
send_once $T/many
more_lines 2
is "$(vm_size)" "$before" "memory does not grow with the traffic"
ok "of many keys a part is judged" holds '25000 < x["total"]["keys"] <= 65536'
ok "and agrees" holds 'x["total"]["agree"] is True'
stop_watch

if command -v systemd-analyze >/dev/null; then
	sed "s|/usr/local/sbin/xdp-bloom|$XDP_BLOOM|" \
		"$ROOT/dist/systemd/xdp-bloom-watch@.service" >$T/xdp-bloom-watch@f.service
	expect 0 "systemd takes its unit" systemd-analyze verify --man=no \
		$T/xdp-bloom-watch@f.service
	is "$OUT$ERR" "" "and finds nothing to say of it"
else
	skip "systemd takes its unit" "there is no systemd-analyze"
fi

# As the unit has it: root with one capability, under a read-only /sys but for the bpf file system.
as_unit() {
	unshare --mount --propagation slave sh -c 'mount -o remount,bind,ro /sys &&
		exec setpriv --no-new-privs --bounding-set -all,+bpf --inh-caps -all "$@"' sh "$@"
}
send_once $T/sources
expect 0 "it runs with what its systemd unit leaves it" as_unit "$XDP_BLOOM" watch f \
	--from $T/listed --interval 0.2 --count 2 --json
is "$(wc -l <$T/run.out)" 2 "--count ends it after so many lines"
expect 0 "lines for people" xb watch f --from $T/listed --interval 0.2 --count 1
like "$OUT" '^20[0-9-]*T[0-9:]*Z f: 0 packets; 0 false of 0 absent keys, predicted [0-9.]+ %, too few' \
	"say the same in words"
run env --default-signal=INT timeout --signal INT --preserve-status 1 "$XDP_BLOOM" watch f \
	--from $T/listed
is "$RC $(wc -l <$T/run.out)" "0 1" "Ctrl-C ends it with a last line"
# A reader that takes nothing: its pipe is full.
exec 5<>$T/fifo
full() { ! dd if=/dev/zero of=$T/fifo bs=4096 count=1 oflag=nonblock conv=notrunc 2>/dev/null; }
wait_until 5 full
"$XDP_BLOOM" watch f --from $T/listed --interval 0.2 >&5 2>$T/said &
WATCH=$!
wait_until 5 has_said "watching f:"
send_once $T/sources
send_once $T/sources
is_read() {
	local lost

	lost=$(field f samples_lost)
	send_once $T/listed && [ "$(field f samples_lost)" = "$lost" ]
}
ok "samples are taken even where lines are not" wait_until 10 is_read
kill -TERM $WATCH
is_over() { ! [ -e /proc/$WATCH ] || grep -q '^State:.Z' /proc/$WATCH/status; }
ok "and SIGTERM ends it" wait_until 10 is_over
kill -KILL $WATCH 2>/dev/null
wait $WATCH 2>/dev/null
is "$? $(said 'nobody takes the lines of this watch')" "2 1" "with a message"
exec 5>&-
xb watch f --from $T/listed --interval 0.2 >/dev/full 2>$T/said
is "$? $(said 'cannot write to standard output')" "2 1" "lines that nobody takes end it"

# ---- a filter that acts ----

# Who is dropped sends as often as he likes: sampled now and then, his key is not as likely to be met.
run_watch() { run xb watch d --from $T/listed --interval 0.2 --count 1 --json; }
expect 0 "create one that drops" xb create d --from $T/listed --fp 10%
expect 0 "sample it now and then" xb set d --sample 1/20
run_watch
is "$RC $(json biased <<<"$OUT") $(json agree <<<"$OUT") $(json total.agree <<<"$OUT")" \
	"0 true null null" "nothing is judged by what its answers bias"
like "$ERR" 'd drops by its answers.* nothing is judged' "which is said"
like "$(xb watch d --from $T/listed --interval 0.2 --count 1 2>/dev/null)" 'not judged.*not judged' \
	"also in words"
for rules in "--shadow on" "--shadow off --sample 1/1"; do
	# shellcheck disable=SC2086
	expect 0 "set $rules" xb set d $rules
	run_watch
	is "$(json biased <<<"$OUT")" false "that is fair"
	unlike "$ERR" 'nothing is judged' "and not complained of"
done
"$XDP_BLOOM" set d --sample 1/20 >/dev/null
start_watch d --from $T/listed
ok "at first it is biased" wait_until 10 last_is biased true
expect 0 "set --shadow on meanwhile" xb set d --shadow on
ok "from then on it is not" wait_until 10 last_is biased false
stop_watch
is $RC 0 "and that is no disagreement"
xb destroy d >/dev/null

done_testing
