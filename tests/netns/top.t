#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# top, as somebody sees it who sits at a terminal of 80x24: tmux is the terminal, the screen is read
# from it and keys are sent to it. What is shown is compared with what was sent through the
# filter; whatever happens, the terminal is left as it was.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

require tmux
build_net

LISTED=100
UNLISTED=200
LONG=a-name-that-is-as-long-as-a-name-may-be-63-characters-in-all-ab

# ---- the terminal ----

# Its socket is in the test's own directory, and the server goes with the PID namespace at last.
tm() { tmux -S $T/tmux -f /dev/null "$@"; }

screen() { tm capture-pane -p -t top; }
sees() { # REGULAR-EXPRESSION of one line
	screen | grep -Eq -- "$1"
}
sees_not() { ! sees "$1"; }
press() { tm send-keys -t top "$@"; }

# shows DESCRIPTION REGULAR-EXPRESSION: sooner or later.
shows() {
	wait_until 10 sees "$2"
	note_result $? "$1" && return
	diag "no line matches /$2/:"
	diag "$(screen)"
	return 1
}
hides() {
	wait_until 10 sees_not "$2"
	note_result $? "$1" && return
	diag "a line matches /$2/:"
	diag "$(screen)"
	return 1
}

# A shell whose prompt is known, and whose settings of the terminal are noted.
start_terminal() {
	TERM=screen tm new-session -d -s top -x 80 -y 24 "PS1='READY> ' bash --norc --noprofile -i"
	wait_until 5 sees '^READY>$' || cannot "no shell in tmux: $(screen)"
	# The shell's line editor has its own settings while it waits.
	command_line "stty -g >$T/stty.before"
	wait_until 5 test -s $T/stty.before
}

command_line() {
	press -l "$1"
	press Enter
}

# start_top [VARIABLE=VALUE...] -- [ARGUMENT...]: its pid is in $T/pid, and its status at last in
# $T/status.
start_top() {
	local environment=()

	while [ "$1" != -- ]; do
		environment+=("$1")
		shift
	done
	shift
	rm -f $T/pid $T/status
	command_line "clear; (echo \$BASHPID >$T/pid; exec env ${environment[*]} $XDP_BLOOM top $* \
2>$T/stderr); echo \$? >$T/status"
	wait_until 5 test -s $T/pid
}

# The shell is back on the screen that it had, with a cursor, and the line settings are the same.
restored() { # DESCRIPTION STATUS
	wait_until 5 test -s $T/status
	is "$(cat $T/status 2>/dev/null)" "$2" "$1: status $2"
	wait_until 5 sees '^READY>$'
	command_line "stty -g >$T/stty.after"
	wait_until 5 test -s $T/stty.after
	is "$(tm display-message -p -t top '#{alternate_on} #{cursor_flag} #{keypad_flag}') $(
		screen | grep -c 'xdp-bloom top:') $(cat $T/stty.after)" \
		"0 1 0 0 $(cat $T/stty.before)" "$1: the terminal is as it was"
	rm -f $T/stty.after
}

# ---- what is on the screen ----

# cell FILTER COLUMN: one number of the overview, by the title above it.
cell() {
	screen | awk -v name="$1" -v title="$2" '
		$1 == "NAME" { for (i = 1; i <= NF; i++) column[$i] = i }
		$1 == name { print $column[title] }'
}

# row NAME: the rate of a verdict in the detail view.
row() { screen | awk -v name="$1" '$1 == name { print $2 }'; }

plain() { # 12.3k as a number
	awk -v text="$1" 'BEGIN {
		unit = substr(text, length(text))
		factor = unit == "k" ? 1e3 : unit == "M" ? 1e6 : unit == "G" ? 1e9 : 1
		printf "%.2f\n", text * factor
	}'
}

# near SHOWN EXPECTED: a number of the screen within 25 %.
near() {
	[[ $1 =~ ^[0-9] ]] &&
		awk -v a="$(plain "$1")" -v b="$2" 'BEGIN { exit !(a > 0.75 * b && a < 1.25 * b) }'
}

# What the client's cable has taken, independent of any filter: packets and microseconds.
sent() { echo "$(ip -n client -s -j link show dev c0 | json 0.stats64.tx.packets) ${EPOCHREALTIME/./}"; }
# sent_rate SENT: packets a second since then.
sent_rate() {
	echo "$1 $(sent)" | awk '{ print ($3 - $1) / ($4 - $2) * 1e6 }'
}

start_sender() { # RATE
	nsenter --net=/run/netns/client "$TRAFFIC" udp-send --to $SERVER4:$UDP_PORT --loop \
		--from-file $T/sources --rate "$1" >/dev/null &
	sender=$!
}
stop_sender() {
	kill -TERM $sender
	wait $sender
}

for i in $(seq $LISTED); do echo "198.18.0.$i"; done >$T/listed
for i in $(seq $UNLISTED); do echo "198.18.1.$i"; done >$T/unlisted
cat $T/listed $T/unlisted >$T/sources

# ---- what is refused ----

refused "without a terminal" "top needs a terminal: use show, or top --json" xb top
refused "a filter that is not there" "nosuch" xb top nosuch --json
refused "two filters" "name of one filter" xb top a b --json
refused "too short an interval" "--interval '0.1' is not between 0.2 and 10" \
	xb top --json --interval 0.1
refused "too long an interval" "--interval '10.5' is not between" xb top --json --interval 10.5
refused "an interval that is no number" "--interval 'soon' is not a number" \
	xb top --json --interval soon
refused "no objects" "--count '0'" xb top --json --count 0
refused "a count without JSON" "--count goes with --json" xb top --count 2
expect 0 "no filters, as JSON" xb top --json --interval 0.2
is "$OUT" '{"filters":[]}' "there are none"

# ---- all filters ----

start_terminal
start_top -- --interval 0.5
shows "no filters yet" 'there are no filters'
# So few bits are set that none of the unlisted is likely to be a false positive, and one would be
# within the tolerance.
xb create alpha --items 10000 --fp 0.0001 >/dev/null
xb add alpha --from $T/listed >/dev/null 2>&1
xb attach alpha s0 >/dev/null
shows "a new filter appears, with its gauge and alarm" '^alpha .*\[\.+\|\.*\] .* ok *$'
shows "its devices" 'alpha: block by src, devices: s0 \(native\)'
shows "its predicted and measured rate" '^alpha .* [0-9][0-9.e-]* +[0-9][0-9.e-]*!? ok *$'
xb create beta --items 1000 --layout classic --shadow >/dev/null
xb create $LONG --items 100 >/dev/null
shows "and another, which is empty" '^beta .* \(0\) .* 0 +0 ok *$'
shows "a long name is cut" '^a-name-that~ '
press Up
shows "but is whole at the bottom, when its line is selected" "^> $LONG: block by"
press Enter
shows "and in its own view" "^xdp-bloom top: $LONG\$"
press Escape
press Down
shows "the next line is selected then" '^> alpha: '
is "$(screen | sed -n '1s/[: ].*//p; 2,5s/ .*//p')" \
	"$(printf '%s\n' xdp-bloom NAME a-name-that~ alpha beta)" "a line each, none wider than 80"
xb destroy $LONG >/dev/null
hides "one that is destroyed vanishes" '^a-name'
seq 1 950 | awk '{ printf "10.0.%d.%d\n", $1 / 256, $1 % 256 }' >$T/many
xb add beta --from $T/many >/dev/null 2>&1
shows "the load rises, and the alarm with it" '^beta .*\[####\|\.\] +9[45] .* high *$'
seq 951 1400 | awk '{ printf "10.0.%d.%d\n", $1 / 256, $1 % 256 }' >$T/more
xb add beta --from $T/more >/dev/null 2>&1
shows "past what it was sized for" '^beta .*\[####\|#> +1[34][0-9] .* over *$'
shows "it is measured, now that it has keys" '^beta .* [0-9.]*[1-9][0-9.]*!? over *$'
gauge=$(cell beta PREDICT%)
shown=$(field beta fp_predicted)
ok "the rate shown is the one that show gives ($gauge, $shown)" awk -v a="$gauge" -v b="$shown" \
	'BEGIN { exit !(a > 99 * b && a < 101 * b) }'

# ---- rates ----

# right_rates: what one and a half intervals or more have shown is what was sent.
right_rates() {
	local rate third

	rate=$(sent_rate "$start")
	third=$(awk -v r="$rate" 'BEGIN { print r / 3 }')
	near "$(cell alpha MAYBE)" "$third" && near "$(cell alpha DROPPED)" "$third" &&
		near "$(cell alpha ABSENT)" "$(awk -v t="$third" 'BEGIN { print 2 * t }')" &&
		near "$(cell alpha ABSNT%)" 66.7
}

for rate in 30000 3000; do
	start_sender $rate
	start=$(sent)
	ok "at $rate packets a second the rates are those of the traffic" wait_until 15 right_rates ||
		diag "$(sent_rate "$start") were sent" "$(screen)"
	stop_sender
done

# ---- one filter ----

start_sender 9000
press Down
shows "the next line is selected" '> beta:'
press Up
shows "and the one before" '> alpha:'
press Enter
shows "Enter shows one" '^xdp-bloom top: alpha .* packets/s, every 0.5 s$'
shows "its load" '^load +\[#*\.*\|\.*\] [0-9.]+ %, ok \(high from 80 %\)$'
shows "its devices" '^devices +s0 \(native\)$'
shows "its measured rate" '^measured .*(agree|probes)'
right_rows() {
	local third

	third=$(awk -v r="$(sent_rate "$start")" 'BEGIN { print r / 3 }')
	near "$(row maybe)" "$third" && near "$(row dropped)" "$third" &&
		near "$(row passed)" "$(awk -v t="$third" 'BEGIN { print 2 * t }')"
}
start=$(sent)
ok "its rates are those of the traffic" wait_until 15 right_rows || diag "$(screen)"
press u
shows "u: bits" ' bits/s, every'
# A datagram of 40 bytes, and 42 of Ethernet, IP and UDP.
right_bits() { near "$(row dropped)" "$(awk -v r="$(sent_rate "$start")" \
	'BEGIN { print r / 3 * 82 * 8 }')"; }
start=$(sent)
ok "in bits as well" wait_until 15 right_bits || diag "$(screen)"
press u
shows "u again: packets" ' packets/s, every'
xb set alpha --shadow on >/dev/null
shows "shadow is told" 'in shadow \(drops nothing\)'
would_drop() { near "$(row would_drop)" 3000 && [ "$(row dropped)" = 0 ]; }
ok "and what would be dropped" wait_until 15 would_drop || diag "$(screen)"
xb set alpha --shadow off >/dev/null
stop_sender

press Tab
shows "Tab: the next filter" '^xdp-bloom top: beta '
press n
shows "n: the next, which is the first" '^xdp-bloom top: alpha '
press p
shows "p: the one before" '^xdp-bloom top: beta '
press m
shows "m: measured anew" '^measured +[0-9.]+ % .* [01] s ago'
press +
shows "+: a longer interval" 'every 1 s$'
press -
press -
shows "-: a shorter one" 'every 0.2 s$'
press -
press Space
shows "space: a pause; no interval is below 0.2 s" ' PAUSED, packets/s, every 0.2 s$'
xb add beta 192.0.2.77 >/dev/null 2>&1
before=$(screen)
sleep 0.5 # nothing happens, which cannot be polled for: two intervals
is "$(screen)" "$before" "nothing moves"
press Space
shows "space: it goes on" ' packets/s, every 0.2 s$'
hides "no longer paused" PAUSED
press h
shows "h: the keys" 'Esc, Backspace: all'
press h
hides "h: off" 'Esc, Backspace: all'

# ---- sizes ----

resize() { tm resize-window -t top -x "$1" -y "$2"; }
bottom() { screen | sed -n "$1p" | grep -q '^h help'; }
last_line_is() { wait_until 10 bottom "$1"; }

resize 100 30
ok "100x30: drawn anew" last_line_is 30
shows "to the right edge" '^.{77} packets/s, every 0.2 s$'
resize 80 24
ok "80x24: drawn anew" last_line_is 24
shows "to its right edge" '^.{57} packets/s, every 0.2 s$'
resize 60 10
ok "60x10: drawn anew" last_line_is 10
shows "with the load" '^load .*over'
shows "and all verdicts" '^absent +0 refuted +0 passed +0$'
resize 59 10
shows "59x10: too small, and says so" '^too small: 59x10, needs 60x10$'
resize 80 9
shows "80x9 is, too" '^too small: 80x9, needs 60x10$'
resize 80 24
ok "large enough again" last_line_is 24
press Escape
shows "Esc: all filters" '^xdp-bloom top: 2 filters'
resize 140 24
shows "140 columns have room for devices" '^alpha .* s0 \(native\)$'
resize 80 24
ok "80x24 again" last_line_is 24

# ---- a filter that is made anew ----

# With a pause of ten seconds between two looks, top sees only that the name has another filter.
shows "beta is still selected" '> beta:'
press + + + + +
shows "no interval is above 10 s" 'every 10 s$'
press Space
shows "a long pause" ' PAUSED, packets/s, every 10 s$'
xb destroy beta >/dev/null
xb create beta --items 1000 --policy allow >/dev/null
press Space
shows "a filter made anew under its name has no rates yet" '^beta +- +- +- +- .* 0 .* ok *$'
shows "and keeps its place" '> beta: allow by src'
press - - - - -
shows "then it has" '^beta +0 +0 +0 +- .* 0 +0 .* ok *$'
press Enter
shows "and its policy" '^allow by src$'
xb destroy beta >/dev/null
shows "destroyed while it is shown: back to all" '^xdp-bloom top: 1 filter '
shows "with a word" '^filter beta was destroyed'

# ---- the end ----

press C-z
shows "Ctrl-Z: the shell" '^\[1\]\+ +Stopped'
wait_until 5 test -s $T/status
rm -f $T/status
command_line "fg; echo \$? >$T/status"
shows "and back" '^xdp-bloom top: 1 filter '
press q
restored "q" 0
for signal in TERM INT HUP QUIT; do
	start_top --
	shows "SIG$signal: started" '^alpha '
	kill -$signal "$(cat $T/pid)"
	restored "SIG$signal" 0
done
# A terminal that was stopped takes nothing; whoever draws on it must not wait for ever.
for signal in TERM HUP; do
	start_top -- --interval 0.2
	shows "SIG$signal, stopped by Ctrl-S: started" '^alpha '
	press C-s
	press h
	kill -$signal "$(cat $T/pid)"
	restored "SIG$signal, stopped by Ctrl-S" 0
done
# SEGV stands for them all: here the kernel sends it, elsewhere a wild pointer.
for signal in SEGV ABRT; do
	start_top --
	shows "SIG$signal: started" '^alpha '
	kill -$signal "$(cat $T/pid)"
	restored "SIG$signal, a crash" $((128 + $(kill -l $signal)))
done
start_top --
shows "Ctrl-C: started" '^alpha '
press C-c
restored "Ctrl-C" 0

start_top -- alpha --interval 0.2
shows "a name: its details at once" '^xdp-bloom top: alpha '
xb destroy alpha >/dev/null
restored "the filter that was named is destroyed" 2
is "$(cat $T/stderr)" \
	"xdp-bloom: filter alpha is gone: it was destroyed while top looked at it" "and one line says so"
start_top -- alpha
restored "a filter that is not there" 2
like "$(cat $T/stderr)" "alpha" "is named"

xb create alpha --items 100 >/dev/null
xb create beta --items 100 >/dev/null
start_top -- alpha --interval 0.2
press Tab
shows "from a name to another filter" '^xdp-bloom top: beta '
xb destroy alpha >/dev/null
press Escape
shows "which binds it no more" '^xdp-bloom top: 1 filter '
press q
restored "q after that" 0

# ---- terminals ----

for term in xterm screen vt100 linux; do
	start_top TERM=$term --
	shows "TERM=$term: the overview" '^beta .*\[\.+\|\.*\] .* ok *$'
	press Down Enter
	shows "TERM=$term: one filter" '^load +\[\.*\|\.*\] 0.0 %, ok'
	press BSpace
	shows "TERM=$term: and back" '^xdp-bloom top: 1 filter '
	press q
	restored "TERM=$term" 0
done
start_top TERM=nosuch --
restored "an unknown terminal" 2
like "$(cat $T/stderr)" "'nosuch'.*set TERM" "is told what to do"

coloured() { tm capture-pane -e -p -t top | grep -q $'\033\\[[0-9;]*3[0-7]m'; }
start_top TERM=screen NO_COLOR= --
shows "an empty NO_COLOR" '^beta '
ok "means nothing" coloured
press q
start_top TERM=screen NO_COLOR=1 --
shows "NO_COLOR" '^beta .* ok *$'
not_ok "is heeded" coloured
press q
restored "NO_COLOR" 0

# ---- JSON ----

xb create alpha --items 10000 --fp 0.0001 >/dev/null
xb add alpha --from $T/listed >/dev/null 2>&1
xb attach alpha s0 >/dev/null
start_sender 9000
expect 0 "three intervals" xb top --json --count 3 --interval 0.4
is "$ERR $(wc -l <$T/run.out)" " 3" "are three objects, a line each"
# What came in one interval, beside what was sent meanwhile, a little more than that: on a busy
# machine the sender is not even, hence as often as it takes.
right_json() {
	local start

	start=$(sent)
	xb top --json --interval 0.4 >$T/run.out || return
	"$PYTHON" -c '
import json, sys
rate = float(sys.argv[1])
near = lambda a, b, part=0.25: (1 - part) * b < a < (1 + part) * b
filters = json.load(sys.stdin)["filters"]
assert [f["name"] for f in filters] == ["alpha", "beta"], filters
alpha, beta = filters
p, b = alpha["packets_per_second"], alpha["bits_per_second"]
assert 0.4 <= alpha["interval"] < 1, alpha
for name, share in ("absent", 2 / 3), ("maybe", 1 / 3), ("dropped", 1 / 3), ("passed", 2 / 3):
    assert near(p[name], share * rate), (name, p, rate)
    assert near(b[name], p[name] * 82 * 8, 0.01), (name, p, b)
assert near(alpha["absent_share"], 2 / 3), alpha
assert 0.0095 < alpha["load"] < 0.0105 and alpha["alarm"] == "ok", alpha
assert 0 <= alpha["fp_predicted"] < 1e-4 and alpha["fp_live"] is None, alpha
assert set(beta["packets_per_second"].values()) == {0}, beta
assert beta["absent_share"] is None and beta["fp_predicted"] == 0, beta
' "$(sent_rate "$start")" <$T/run.out >$T/wrong 2>&1
}
ok "with the rates of the traffic" wait_until 20 right_json || diag "$(cat $T/wrong)"
stop_sender
expect 0 "one filter" xb top beta --json --interval 0.2
is "$(echo "$OUT" | json filters.0.name)$(echo "$OUT" | json filters.1.name)" beta "is all of it"
xb top beta --json --count 1000 --interval 0.2 >$T/run.out 2>$T/stderr &
reader=$!
first_line() { [ "$(wc -l <$T/run.out)" -ge 1 ]; }
ok "lines come as they are made" wait_until 5 first_line
xb destroy beta >/dev/null
wait $reader
is "$? $(cat $T/stderr)" \
	"2 xdp-bloom: filter beta is gone: it was destroyed while top looked at it" \
	"destroyed meanwhile: the end"

# ---- an exact map ----

# Each source sends as much as any other: the share of refuted packets is that of the sources which
# are false positives, of 200 with some 8 % each. (That there are none: once in 10^7 runs.)
xb destroy alpha >/dev/null
xb create alpha --from $T/listed --from $T/many --fp 0.1 --confirm >/dev/null 2>&1
xb attach alpha s0 >/dev/null
wrong=$(xb test alpha --from $T/unlisted | grep -c ^maybe)
live=$(awk -v n="$wrong" -v all=$UNLISTED 'BEGIN { print n / all * 100 }')
start_sender 9000
start_top -- alpha --interval 0.2
live_rate() { near "$(screen | awk '$1 == "live" { print $2 }')" "$live"; }
ok "with an exact map the live rate is shown: $live %" wait_until 15 live_rate || diag "$(screen)"
shows "and what it refuted" '^refuted +[1-9]'
shows "and a measure of the filter alone" '^measured +[0-9.]+ % .* probes'
press Escape
# A third is confirmed.
maybe_rate() { near "$(cell alpha MAYBE)" "$(awk -v r="$(sent_rate "$start")" -v n="$wrong" \
	-v listed=$LISTED -v all=$((LISTED + UNLISTED)) 'BEGIN { print r * (listed + n) / all }')"; }
start=$(sent)
ok "whatever the filter called maybe is counted as that" wait_until 15 maybe_rate ||
	diag "$(screen)"
run xb top alpha --json
ok "JSON has the live rate, too" near "$(echo "$OUT" | json filters.0.fp_live | awk '{ print $1 * 100 }')" \
	"$live"
stop_sender
press q
restored "q" 0

# ---- a terminal that goes away ----

start_top --
shows "a last time" '^alpha '
pid=$(cat $T/pid)
tm kill-server
is_over() { ! [ -e "/proc/$pid" ]; }
ok "top ends with its terminal" wait_until 5 is_over

done_testing
