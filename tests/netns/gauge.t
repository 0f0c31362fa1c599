#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The gauge: what `show` says of a filter that is filled from a tenth of its capacity to three times
# it, when the alarm comes, what --strict refuses, how the gauge looks on a terminal and in a pipe;
# and what the traffic tells: shadow against what is really lost, and whether the filter earns its
# keep.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

require bpftool script
build_net

HERE=$BPFFS/xdp-bloom
CAPACITY=100000

# Distinct keys number FIRST to FIRST + COUNT - 1 of both families, half and half.
keys() { # FIRST COUNT
	awk -v first="$1" -v count="$2" 'BEGIN {
		for (i = first; i < first + count; i++)
			if (i % 2)
				printf "2001:db8:a:%x::%x\n", i / 65536, i % 65536
			else
				printf "11.%d.%d.%d\n", i / 65536, i / 256 % 256, i % 256
	}'
}

bits() { bpftool map dump pinned $HERE/"$1"/filter | md5sum; }

# The program in the slot, as its id.
program() { bpftool -j map dump pinned $HERE/"$1"/slots | md5sum; }

# show NAME as it looks on a terminal.
on_terminal() { # NAME [VARIABLE=VALUE...]
	env TERM=xterm "${@:2}" script -qec "$XDP_BLOOM show $1" /dev/null </dev/null | tr -d '\r'
}

ESC=$'\033'
without_colour() { sed "s/$ESC\[[0-9;]*m//g"; }

# What is wrong with what is said of NAME, if anything is, when it holds so many distinct keys.
wrong_with() { # NAME KEYS CAPACITY
	xb show "$1" >$T/text
	xb show "$1" --json >$T/json
	"$PYTHON" - $T/text $T/json "$2" "$3" <<'END'
import json, re, sys

text, shown = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))
keys, capacity = int(sys.argv[3]), int(sys.argv[4])

def check(what, good):
    if not good:
        print(what, shown, text, sep="\n")

# The estimate's standard deviation is under a fifth of a percent here, the load's much less.
check("estimated", abs(shown["estimated"] - keys) <= 0.01 * keys)
check("load", abs(shown["load"] * capacity - keys) <= 0.01 * keys)
check("inserted", shown["inserted"] <= keys)
check("rate", 0 < shown["fp_predicted"] < 1)

# The text says the same.
bar = re.search(r"load +\[([#.|]*)([]>]) ([0-9.]+) %, (ok|high|over)", text)
check("no bar", bar)
cells, end, percent, alarm = bar.groups()
check("percent", percent == f"{shown['load'] * 100:.1f}")
check("alarm", alarm == shown["alarm"])
check("end", (end == ">") == (float(percent) > 100))
mark = cells.index("|")
check("mark", mark == shown["alarm_percent"] * 40 // 100)
cells = cells.replace("|", "")
full = int(min(float(percent) / 100, 1) * 40)
check("fill", cells == "#" * full + "." * (40 - full))
plain = text.replace(",", "")
check("inserted in text", f"{shown['inserted']} adds" in plain)
check("capacity in text", f"sized for {capacity}" in plain)
check("estimated in text", f"about {shown['estimated']:.0f} distinct" in plain)
check("a line is longer than a terminal", max(map(len, text.split("\n"))) <= 80)
END
}

# ---- from a tenth of the capacity to three times it ----

# At 1 % the number of false positives among the keys is a guess, and within its doubt the alarm is
# early or late (see xbloom_alarm()); at 1e-9 there is nothing to guess, and it is exact.
fill() { # LAYOUT RATE PERCENT:ALARM...
	local what="$1, $2" before=0 step percent now said warnings="" first line

	expect 0 "$what: create for $CAPACITY keys" \
		xb create f --items $CAPACITY --layout "$1" --fp "$2"
	is "$(field f alarm) $(field f alarm_percent) $(field f load)" "ok 80 0" "$what: empty: ok"
	for step in "${@:3}"; do
		percent=${step%:*}
		now=$((CAPACITY / 100 * percent))
		keys $before $((now - before)) | xb add f --from - 2>$T/said >/dev/null
		said=$(<$T/said)
		before=$now
		is "$(field f alarm)" "${step#*:}" "$what: at $percent % the alarm is ${step#*:}"
		is "$(wrong_with f $now $CAPACITY)" "" "$what: at $percent % every number is right"
		[ -z "$said" ] || warnings+="$percent: $said"$'\n'
	done
	first=$(printf '%s\n' "${@:3}" | sed -n 's/:high//p' | head -1)
	line='[^'$'\n'']*'
	like "$warnings" "^$first: ${line}f has reached 80 %$line"$'\n'"300: ${line}over capacity$line"$'\n$' \
		"$what: add says once that it is high, and that it is over"
	keys $now 30 | xb add f --from - 2>$T/said >/dev/null
	like "$(<$T/said)" "over capacity" "$what: over is said as long as keys go in"
	keys $now 30 | xb add f --from - 2>$T/said >/dev/null
	is "$(<$T/said)" "" "$what: not when none does"
	expect 0 "$what: destroy" xb destroy f
}

for layout in split classic; do
	fill $layout 1e-9 10:ok 50:ok 79:ok 80:high 81:high 100:high 300:over
	fill $layout 0.01 10:ok 50:ok 79:ok 81:high 99:high 300:over
done

# ---- the level of the alarm ----

expect 0 "create" xb create f --items 1000 --fp 1e-9 --shadow
keys 0 500 | xb add f --from - >/dev/null
prog=$(program f)
is "$(field f alarm)" ok "half full: ok"
expect 0 "set --alarm 50" xb set f --alarm 50
like "$OUT" "alarm from 50 %" "set says so"
like "$OUT" "policy block, shadow on.*sample off.*unkeyed" "and all other settings"
is "$(field f alarm) $(field f alarm_percent)" "high 50" "half full: now high"
is "$(wrong_with f 500 1000)" "" "and the mark has moved"
run xb add f 192.0.2.1
is "$ERR" "" "high is not said again"
expect 0 "set --alarm 51%" xb set f --alarm 51%
is "$(field f alarm) $(field f alarm_percent)" "ok 51" "half full: ok again"
keys 500 20 | xb add f --from - 2>$T/said >/dev/null
like "$(<$T/said)" "reached 51 %" "add knows of the level"
expect 0 "set --alarm 100" xb set f --alarm 100
expect 0 "set --alarm 1" xb set f --alarm 1
is "$(field f alarm)" high "from 1 % on: high"
expect 0 "set --alarm and --json" xb set f --alarm 60 --json
is "$(json alarm_percent <<<"$OUT")" 60 "json says it"
is "$(program f)" "$prog" "all this changed no program"
for bad in 0 101 -1 50.5 x "" 0x50 1e3 80%% " 50" nan 4294967346; do
	refused "set --alarm ${bad@Q}" "alarm.*1 to 100" xb set f --alarm "$bad"
	refused "create --alarm ${bad@Q}" "alarm.*1 to 100" xb create g --items 10 --alarm "$bad"
done
is "$(field f alarm_percent)" 60 "bad levels changed nothing"
expect 0 "create --alarm 30" xb create g --items 1000 --fp 1e-9 --alarm 30
is "$(field g alarm_percent)" 30 "it is in force from the start"
keys 0 301 | xb add g --from - 2>$T/said >/dev/null
like "$(<$T/said)" "reached 30 %" "and add says so"
expect 0 "destroy" xb destroy g

# ---- sampling as a setting ----

expect 0 "set --sample 1/1000" xb set f --sample 1/1000
like "$OUT" "sample 1/1,000" "set says so"
is "$(field f sample) $(field f samples) $(field f samples_lost)" "1000 0 0" "show, too"
expect 0 "set --sample 1/1k --alarm 70" xb set f --sample 1/1k --alarm 70
is "$(field f sample) $(field f alarm_percent)" "1000 70" "both at once"
expect 0 "set --sample 1/1.001k" xb set f --sample 1/1.001k
is "$(field f sample)" 1001 "a decimal fraction of a thousand is whole"
expect 0 "set --sample 1/1k" xb set f --sample 1/1k
for bad in 0 1/0 2/3 1/1.5 1/-1 1 1/ 1/x 1000 1/1000000001 /1 "" on 1/2/3 " 1/2"; do
	refused "set --sample ${bad@Q}" "sample.*1/1000" xb set f --sample "$bad"
done
is "$(field f sample)" 1000 "bad ones changed nothing"
expect 0 "set --sample 1/1G" xb set f --sample 1/1G
is "$(field f sample)" 1000000000 "to a thousand million"
expect 0 "set --sample off" xb set f --sample off
is "$(field f sample) $(field f shadow)" "0 true" "off, and shadow as it was"
expect 0 "destroy" xb destroy f

# ---- --strict: all or nothing ----

for layout in split classic; do
	expect 0 "$layout: create" xb create f --items 1000 --fp 1e-9 --layout $layout
	keys 0 600 >$T/some
	expect 0 "$layout: --strict: 600 of 1,000" xb add f --strict --from $T/some
	keys 500 500 >$T/rest
	expect 0 "$layout: --strict: up to exactly 1,000, 100 of them old" \
		xb add f --strict --from $T/rest
	is "$(field f inserted)" 1000 "$layout: all are in"
	before=$(bits f)
	refused "$layout: --strict: one more is refused" "1,000 keys.*has 1,000.*1 are new|1 is new" \
		xb add f --strict 192.0.2.1
	keys 900 300 >$T/more
	refused "$layout: --strict: 200 more, in a list with 100 old" \
		"1,000 keys.*these 300.* 200 .*new" xb add f --from $T/more --strict
	is "$(field f inserted) $(bits f)" "1000 $before" "$layout: and not a bit has changed"
	expect 0 "$layout: --strict: old keys are no more keys" xb add f --strict --from $T/some
	expect 0 "$layout: without it they go in" xb add f --from $T/more
	like "$ERR" "over capacity" "$layout: and add says what that means"
	expect 0 "$layout: --strict: nothing new in a filter that is over" \
		xb add f --strict --from $T/more
	expect 0 "$layout: destroy" xb destroy f

	# At 10 %, hundreds of the keys find their bits set by others, and must not pass for room.
	expect 0 "$layout: create at 10 %" xb create f --items 10000 --fp 0.1 --layout $layout
	keys 0 10000 >$T/all
	expect 0 "$layout: --strict at 10 %: exactly the capacity" xb add f --strict --from $T/all
	expect 0 "$layout: destroy" xb destroy f
	expect 0 "$layout: create at 10 %" xb create f --items 10000 --fp 0.1 --layout $layout
	keys 0 10400 >$T/all
	refused "$layout: --strict at 10 %: 4 % more" "10,000 keys.*10,400" \
		xb add f --strict --from $T/all
	is "$(field f inserted) $(field f estimated)" "0 0" "$layout: nothing was added"
	expect 0 "$layout: destroy" xb destroy f
done

# ---- on a terminal and in a pipe ----

expect 0 "create" xb create f --items 1000 --fp 1e-9
for state in 0:ok:32 850:high:33 1100:over:31; do
	IFS=: read -r n alarm sgr <<<"$state"
	keys 0 $n | xb add f --from - >/dev/null 2>&1
	screen=$(on_terminal f)
	like "$screen" "$ESC\[${sgr}m\[[#.|]*[]>]$ESC\[0m [0-9.]+ %, $ESC\[${sgr}m$alarm$ESC\[0m" \
		"$alarm: the bar and the word are coloured on a terminal"
	is "$(without_colour <<<"$screen")" "$(xb show f)" "$alarm: a pipe gets the same without colour"
	unlike "$(xb show f)" "$ESC" "$alarm: a pipe gets no colour"
	is "$(on_terminal f NO_COLOR=1)" "$(xb show f)" "$alarm: with NO_COLOR=1 no terminal, either"
	is "$(on_terminal f NO_COLOR=)" "$screen" "$alarm: an empty NO_COLOR says nothing"
	is "$(on_terminal f TERM=dumb)" "$(xb show f)" "$alarm: TERM=dumb gets no colour"
	is "$(on_terminal f TERM=)" "$(xb show f)" "$alarm: nor does an unknown one"
done
is "$(on_terminal "" | without_colour)" "$(xb show)" "the list of all filters is the same, too"
like "$(xb show)" $'\nf .* 110 % over' "and has load and alarm"
ok "and fits in 80 columns" awk 'length > 80 { exit 1 }' <(xb show)
expect 0 "destroy" xb destroy f

# A rounded load does not contradict the word beside it.
expect 0 "create" xb create f --items 10000 --fp 1e-9
keys 0 7996 | xb add f --from - >$T/said
like "$(<$T/said)" "load 79\.9 %" "79.96 % is not called 80.0 % where 80 % is high: by add"
like "$(xb show f)" "\] 79\.9 %, ok below 80 %" "nor by show"
like "$(xb show)" " 79 % ok" "nor in the list"
keys 7996 2005 | xb add f --from - >$T/said 2>&1
like "$(<$T/said)" "over capacity: 100\.1 %.*load 100\.1 %" "100.01 % is not called 100.0 %: by add"
like "$(xb show f)" "> 100\.1 %, over" "nor by show"
like "$(xb show)" " 101 % over" "nor in the list"
expect 0 "destroy" xb destroy f
expect 0 "create" xb create f --items 1000
keys 0 100000 | xb add f --from - >/dev/null 2>&1
is "$(field f estimated)" null "with every bit set nobody can tell how many keys came"
like "$(xb show f)" "> more than [0-9.]+ %, over" "and show says so of the load"
expect 0 "destroy" xb destroy f

# ---- does it earn its keep? ----

LISTED=198.18.1.1
UNLISTED=198.18.2.1
CEREMONY="only [0-9.]+ % of the packets asked are absent: below 5 % a Bloom +filter gains little"
sentence() { xb show f | tr '\n' ' '; }
send() { # SOURCE COUNT
	arrivals "$1" --count "$2" --rate 50000 >/dev/null
}

expect 0 "create" xb create f --items 1000 --fp 1e-9
expect 0 "add" xb add f $LISTED
expect 0 "attach" xb attach f s0
is "$(field f absent_share) $(field f ceremony)" "null false" "nothing was asked: nothing is said"
like "$(xb show f)" "no packet has asked" "in these words"
send $LISTED 900
is "$(field f absent_share) $(field f ceremony)" "0 false" \
	"900 packets, none absent: too early to call it ceremony"
unlike "$(sentence)" "$CEREMONY" "and show does not"
send $LISTED 1000
send $UNLISTED 50
is "$(field f ceremony)" true "1,950 packets, 50 of them absent: ceremony"
like "$(sentence)" "absent share 2\.56 % of 1,950 packets asked +$CEREMONY" \
	"show says it in one sentence"
send $UNLISTED 51
is "$(field f ceremony)" false "at 5.05 % it is none"
unlike "$(sentence)" "$CEREMONY" "and show does not say so"
like "$(sentence)" "absent share 5\.05 % of 2,001 packets asked" "but it has the share"
expect 0 "destroy" xb destroy f

# ---- shadow: what would be dropped is what is dropped ----

# At 20 % there are false positives among the unlisted, which must be the same ones.
addresses() { # FORMAT FIRST COUNT
	awk -v format="$1\n" -v first="$2" -v count="$3" 'BEGIN {
		for (i = first; i < first + count; i++)
			printf format, i / 250, 1 + i % 250
	}'
}
addresses 198.18.%d.%d 0 500 >$T/listed4
addresses 198.19.%d.%d 0 500 >$T/unlisted4
addresses 2001:db8:a:1:%x::%x 0 500 >$T/listed6
addresses 2001:db8:a:2:%x::%x 0 500 >$T/unlisted6
for family in 4 6; do cat $T/listed$family $T/unlisted$family | shuf >$T/all$family; done

for policy in block allow; do
	for layout in split classic; do
		what="$policy, $layout"
		expect 0 "$what: create in shadow" xb create f --policy $policy --layout $layout \
			--from $T/listed4 $T/listed6 --fp 0.2 --shadow
		expect 0 "$what: attach" xb attach f s0
		would=0 lost=0
		for family in 4 6; do
			arrived=$(arrivals $T/all$family --count 3000 --rate 50000 | wc -l)
			is "$arrived" 3000 "$what: in shadow nothing is lost (IPv$family)"
		done
		would=$(counter f would_drop)
		is "$(counter f dropped) $(($(counter f absent) + $(counter f maybe)))" "0 6000" \
			"$what: nor dropped, by the counters"
		like "$(xb show f)" "in shadow \(drops nothing\)" "$what: show says so"
		like "$(xb show f | tr -d ,)" "shadow +$would packets passed that would have been dropped" \
			"$what: and what would have been dropped"
		expect 0 "$what: shadow off" xb set f --shadow off
		for family in 4 6; do
			arrived=$(arrivals $T/all$family --count 3000 --rate 50000 | wc -l)
			lost=$((lost + 3000 - arrived))
		done
		is "$lost" "$would" "$what: without shadow the same traffic loses what was told"
		is "$(counter f dropped)" "$would" "$what: and so the counters say"
		is "$(counter f would_drop)" "$would" "$what: nothing more would have been dropped"
		if [ $policy = block ]; then
			is "$((lost >= 3000 && lost < 4500))" 1 "$what: the listed, and some more"
		else
			is "$((lost <= 3000 && lost > 1500))" 1 "$what: the unlisted, less some"
		fi
		expect 0 "$what: destroy" xb destroy f
	done
done

done_testing
