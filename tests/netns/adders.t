#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Several tools add at once, and one of them is killed in the middle of it. No key of an add that
# finished is absent, and the count of inserted keys is exact: checked against the set of the keys
# that are in the filter, which at a rate of 1e-9 are those that test as maybe.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

[ -x "$KILLFILL" ] || cannot "$KILLFILL is not built"
require shuf

HERE=$BPFFS/xdp-bloom
# A tenth of the capacity is used, so that the rate is 5e-11 at most: that one of 60,000 keys is a
# false positive has a chance of 3e-6 a round, so 5e-5 in the 16 rounds of layout split; in those of
# layout classic far less.
KEYS=60000
PART=30000
ITEMS=$((KEYS * 10))
# More where nobody was killed in the middle yet: that is a matter of luck, as on a busy machine.
ROUNDS=8
ROUNDS_MAX=60

awk -v n=$KEYS 'BEGIN { for (i = 0; i < n; i++)
	if (i % 2)
		printf "2001:db8:%x::%x\n", i / 65536, i
	else
		printf "10.%d.%d.%d\n", i / 65536, i / 256 % 256, i % 256 }' >$T/keys
: >$T/none

# What is wrong with filter f, if anything is: the lists given have been added whole, but for the
# last, whose add was killed. $T/partial says whether a part of the last one's own keys is in.
judge() { # LIST... KILLED
	xb test f --from $T/keys >$T/answers
	"$PYTHON" - $T/answers "$(field f inserted)" $T/partial "$@" <<'END'
import sys

maybe = {line.split()[1] for line in open(sys.argv[1]) if line.startswith("maybe ")}
inserted = int(sys.argv[2])
*finished, killed = [set(open(name).read().split()) for name in sys.argv[4:]]
finished = set().union(*finished)

if len(maybe) != inserted:
    print(f"inserted is {inserted}, and {len(maybe)} keys are in; ")
if finished - maybe:
    print(f"{len(finished - maybe)} keys of finished adds are absent; ")
if maybe - finished - killed:
    print(f"{len(maybe - finished - killed)} keys were never added; ")
own = killed - finished
print(int(0 < len(own & maybe) < len(own)), file=open(sys.argv[3], "w"))
END
}

create() { # LAYOUT
	xb create f --items $ITEMS --fp 1e-9 --layout "$1" >/dev/null || echo "create failed; "
}

# Several at once; whoever fills when so many keys are in, is killed. Prints what is wrong.
adders() { # ADDERS
	local i n=$1 tools=() finished=() killed=() dead

	for ((i = 0; i < n; i++)); do shuf -n $PART $T/keys >$T/part.$i; done
	"$KILLFILL" $HERE/f $((1 + RANDOM * PART / 32768)) >$T/dead &
	dead=$!
	for ((i = 0; i < n; i++)); do
		"$XDP_BLOOM" add f --from $T/part.$i >/dev/null 2>$T/said.$i &
		tools+=($!)
	done
	wait $dead
	dead=$(<$T/dead)
	for ((i = 0; i < n; i++)); do
		if wait "${tools[i]}" 2>/dev/null; then
			finished+=($T/part.$i)
		else
			killed+=($T/part.$i)
			[ "${tools[i]}" = "$dead" ] || echo "an add failed: $(<$T/said.$i); "
		fi
	done
	# Who was killed may have been done already.
	[ ${#killed[@]} -gt 0 ] || killed=($T/none)
	judge "${finished[@]}" "${killed[0]}"
	# Another tool, whole, and all is right, whatever the killed one left.
	xb add f --from "${killed[0]}" --from $T/part.0 >/dev/null || echo "the add after it failed; "
	cp $T/partial $T/partial.first
	judge "${finished[@]}" "${killed[0]}" $T/none
	mv $T/partial.first $T/partial
}

for layout in split classic; do
	for n in 4 1; do
		wrong="" partial=0
		for ((i = 0; i < ROUNDS || (partial == 0 && i < ROUNDS_MAX); i++)); do
			wrong+=$(create $layout; adders $n)
			partial=$((partial + $(<$T/partial)))
			xb destroy f >/dev/null
		done
		is "$wrong" "" "$layout: $i times $n adders, of which one is killed: all is exact"
		is "$((partial > 0))" 1 "$layout, $n: it was killed in the middle $partial times"
	done
done

done_testing
