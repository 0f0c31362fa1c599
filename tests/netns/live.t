#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# No false negatives while the filter changes under traffic: a filter takes a million more keys
# while 21,000 sources send, and no listed one gets a packet through, no unlisted one loses a
# packet except as a false positive, and those are no more than predicted. And an added source is
# stopped from the moment that `add` returns.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

build_net

LISTED=1000
UNLISTED=20000
MORE=1000000
ADDS=10
RATE=60000

addresses() { # PREFIX FIRST COUNT: PREFIX.x.y, generated
	awk -v prefix="$1" -v first="$2" -v count="$3" 'BEGIN {
		for (i = first; i < first + count; i++)
			printf "%s.%d.%d\n", prefix, i / 256, i % 256
	}'
}

addresses 198.18 256 $LISTED >$T/listed
addresses 198.19 256 $UNLISTED >$T/unlisted
cat $T/listed $T/unlisted | shuf >$T/sources
# The keys to come: 10.0.0.0/8 from 10.16.0.0 on.
awk -v count=$MORE 'BEGIN {
	for (i = 0; i < count; i++)
		printf "10.%d.%d.%d\n", 16 + i / 65536, i / 256 % 256, i % 256
}' | split -l $((MORE / ADDS)) - $T/more.

# ---- a million keys more ----

expect 0 "create for what is to come" xb create f --items $((LISTED + MORE)) --fp 0.01
expect 0 "add $LISTED sources" xb add f --from $T/listed
expect 0 "attach" xb attach f s0
start_receiver
start_sender --from-file $T/sources --rate $RATE
ok "traffic flows" wait_until 10 logged 1000000

for list in "$T"/more.*; do
	run xb add f --from "$list"
	[ $RC = 0 ] || break
done
is "$RC $ERR" "0 " "$MORE keys in $ADDS adds while it flows"
filled=${EPOCHREALTIME/./}

# A line is some 40 bytes: until each source has been heard some three times more.
ok "traffic flows on" wait_until 30 logged $(($(stat -c %s $T/log) + 3 * 40 * UNLISTED))
stop_traffic
dropped=$(counter f dropped)
cable=$(ip -n client -s -j link show dev c0 | json 0.stats64.tx.dropped)
overflow=$(awk '{ print $4 }' $T/received)
predicted=$(field f fp_predicted)
is "$(field f inserted | awk -v n=$((LISTED + MORE)) '{ print ($1 <= n && $1 >= 0.98 * n) }')" 1 \
	"the filter has counted them, less those that were false positives already"

# Source number seq % n sent datagram seq. What is in the filter stays in it: so a source that
# gets through at the end is not in it, and must have got through all along. On a machine that is
# too busy, the cable and the receiver's socket lose packets of their own; they count them.
"$PYTHON" - $T "$filled" "$dropped" "$predicted" $((cable + overflow)) >$T/verdict <<'END'
import math, sys

directory, filled, dropped = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
predicted, network = float(sys.argv[4]), int(sys.argv[5])
lines = lambda name: open(f"{directory}/{name}").read().split("\n")[:-1]
sources = lines("sources")
listed = set(lines("listed"))
sent = int(lines("sent")[0].split()[1])
n = len(sources)

got = bytearray(sent)
leaks = strays = after = 0
for line in lines("log"):
    source, seq, when = line.split()
    seq = int(seq)
    strays += sources[seq % n] != source or got[seq]
    leaks += source in listed
    after += int(when) > filled
    got[seq] = 1

lost = blocked = relapses = 0
for i, source in enumerate(sources):
    if source in listed:
        continue
    mine = got[i:sent:n]
    if mine[-1]:
        lost += mine.count(0)
    else:
        blocked += 1
        # Stopped once, stopped for good.
        relapses += mine.find(0) < mine.rfind(1)

def upper_bound(n, p, confidence):
    """The smallest count that a binomial number exceeds with less than 1 - confidence."""
    total = 0.0
    for k in range(n + 1):
        total += math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
                          + k * math.log(p) + (n - k) * math.log1p(-p))
        if total >= confidence:
            return k

print("leaks", leaks)
print("strays", strays)
print("lost", max(0, lost + relapses - network))
print("blocked", blocked)
print("bound", upper_bound(n - len(listed), predicted, 0.9999))
print("sent", sent)
print("after", after)
print("unaccounted", sent - sum(got) - dropped - network)
END
verdict() { awk -v name="$1" '$1 == name { print $2 }' $T/verdict; }

diag "$(verdict sent) datagrams sent, $(verdict blocked) of $UNLISTED unlisted sources stopped at" \
	"the end, predicted rate $predicted, 99.99 % bound $(verdict bound); lost by the network" \
	"itself: $((cable + overflow))"
is "$(verdict leaks)" 0 "no listed source got a packet through"
is "$(verdict strays)" 0 "what came was what was sent"
is "$(verdict lost)" 0 "no unlisted source lost a packet except as a false positive, then all"
is "$(($(verdict blocked) <= $(verdict bound)))" 1 "unlisted sources lost: within the prediction"
is "$(verdict unaccounted)" 0 "the filter counted each packet that did not come as dropped"
is "$(($(verdict after) >= 3 * UNLISTED - UNLISTED / 10))" 1 "and all this was seen to the end"
xb test f --from $T/listed >$T/answers
is "$(grep -c ^maybe $T/answers)" $LISTED "every listed source is still maybe"
cat $T/more.* | xb test f --from - >$T/answers
is "$(grep -c ^maybe $T/answers)" $MORE "and so is every key added since"
expect 0 "destroy" xb destroy f

# ---- from the moment add returns ----

for mode in native generic; do
	expect 0 "$mode: create" xb create f --items 1000 --fp 1e-9
	expect 0 "$mode: attach" xb attach f s0 --mode $mode
	late=0 heard=0
	for i in 1 2 3 4 5; do
		source=198.18.0.$i
		start_receiver
		start_sender --from $source --rate 20000
		wait_until 5 logged 4000 && heard=$((heard + 1))
		before=$(counter f dropped)
		run xb add f $source
		returned=${EPOCHREALTIME/./}
		[ $RC = 0 ] || diag "$ERR"
		stopped() { [ "$(counter f dropped)" -ge $((before + 1000)) ]; }
		wait_until 5 stopped || late=$((late + 1))
		stop_traffic
		late=$((late + $(awk -v t="$returned" '$3 > t' $T/log | wc -l)))
	done
	is $heard 5 "$mode: five sources were heard before they were added"
	is $late 0 "$mode: and none of what they sent after add had returned"
	expect 0 "$mode: destroy" xb destroy f
done

done_testing
