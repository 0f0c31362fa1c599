#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# SIGKILL at every point of every verb that changes something (see tests/tools/killat.c). Whatever
# is left is nothing, or a whole filter, or a rest that the next command copes with; keys that were
# in a filter stay in it; no program stays attached that should not, and no process is left.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

[ -x "$KILLAT" ] || cannot "$KILLAT is not built"
require pgrep timeout
build_net

HERE=$BPFFS/xdp-bloom
LISTED=198.18.1.1
UNLISTED=198.18.2.1

awk 'BEGIN { for (i = 0; i < 2000; i++) printf "198.18.%d.%d\n", 1 + int(i / 250), 1 + i % 250 }' |
	grep -v "^198\.18\.2\." >$T/keys
ROOM=(--items 4000 --fp 1e-9)

entries() { find $HERE -mindepth 1 -maxdepth 1 -printf '%f ' 2>/dev/null; }
processes() { pgrep -x "$(basename "$XDP_BLOOM" | cut -c1-15)"; }

# The checks print what is wrong, if anything is.

must() { # COMMAND...
	local said

	said=$("$@" 2>&1 >/dev/null) || echo "$* failed: $said"
}

has_all_keys() {
	must xb test f --from $T/keys
}

# A filter whose last command was killed: its keys, its use, and nobody waiting for a dead lock.
still_usable() {
	has_all_keys
	must timeout 5 "$XDP_BLOOM" add f 192.0.2.77
	must xb test f 192.0.2.77
}

# `show` either shows a whole filter, with these keys, or says in one line that there is none.
whole_or_not() {
	local said

	if said=$(xb show f 2>&1 >/dev/null); then
		has_all_keys
	elif [ "$(grep -c . <<<"$said")" != 1 ]; then
		echo "show said: $said"
	fi
}

nothing_left() {
	local rest

	rest=$(entries)
	[ -z "$rest" ] || echo "left: $rest"
	[ "$(attached_mode s0)" = none ] || echo "a program is still attached"
}

# destroy removes whatever is there, and says no only when nothing was.
destroy_copes() {
	local before said

	before=$(entries)
	said=$(timeout 5 "$XDP_BLOOM" destroy f 2>&1 >/dev/null) ||
		[ -z "$before" ] || echo "destroy of '$before' failed: $said"
	nothing_left
}

# sweep DESCRIPTION PREPARE CHECK COMMAND...: before each step run PREPARE, kill the command at that
# step, and run CHECK.
sweep() {
	local what=$1 prepare=$2 check=$3 wrong="" step status said

	shift 3
	for ((step = 1; ; step++)); do
		said=$($prepare 2>&1) || wrong+="step $step: prepare: $said"$'\n'
		"$KILLAT" $step "$@" >/dev/null 2>$T/kill.err 9>$T/kill.log
		status=$?
		[ $status = 137 ] || break
		said=$($check)
		[ -z "$said" ] || wrong+="$(<$T/kill.log): $said"$'\n'
	done
	is "$wrong" "" "$what, killed at each of $((step - 1)) steps"
	is "$status" 0 "$what: not killed, it succeeds" || diag "$(<$T/kill.err)"
	ok "$what: there was something to kill" test $step -gt 3
	step_last=$((step - 1))
	said=$($check)
	is "$said" "" "$what: and then all is well, too"
	is "$(processes)" "" "$what: no process is left"
}

# ---- create ----

check_create_then_destroy() {
	whole_or_not
	destroy_copes
}

check_create_then_create() {
	local said

	whole_or_not
	said=$(timeout 5 "$XDP_BLOOM" create f --from $T/keys --fp 1e-9 2>&1 >/dev/null) ||
		[[ $said == *"there already"* ]] || echo "create failed: $said"
	has_all_keys
	[ "$(entries)" = "f " ] || echo "left: $(entries)"
	must xb destroy f
	nothing_left
}

sweep "create, then destroy" true check_create_then_destroy \
	"$XDP_BLOOM" create f --from $T/keys --fp 1e-9
sweep "create, then create" true check_create_then_create \
	"$XDP_BLOOM" create f --from $T/keys --fp 1e-9

# ---- destroy ----

make_attached() {
	xb create f --no-guard "${ROOM[@]}" && xb add f --from $T/keys && xb attach f s0
}

check_destroy() {
	whole_or_not
	destroy_copes
}

# The same, but who comes next wants the name.
check_destroy_then_create() {
	local said

	whole_or_not
	said=$(timeout 5 "$XDP_BLOOM" create f --from $T/keys --fp 1e-9 2>&1 >/dev/null) ||
		[[ $said == *"there already"* ]] || echo "create failed: $said"
	has_all_keys
	must xb destroy f
	nothing_left
}

sweep "destroy, then destroy" make_attached check_destroy "$XDP_BLOOM" destroy f
sweep "destroy, then create" make_attached check_destroy_then_create "$XDP_BLOOM" destroy f

# ---- set and add: the filter works all the time ----

make_attached >/dev/null || cannot "cannot make a filter"

shadow_off() {
	[ "$(field f shadow)" = false ] || xb set f --shadow off
}

check_set() {
	local shown

	# What show says of the filter is what the filter does.
	shown=$(field f shadow)
	if udp_passes $LISTED; then
		[ "$shown" = true ] || echo "shadow is shown as $shown, and a listed source passes"
	else
		[ "$shown" = false ] || echo "shadow is shown as $shown, and a listed source is dropped"
	fi
	still_usable
	must timeout 5 "$XDP_BLOOM" set f --shadow off
	udp_stopped $LISTED || echo "a listed source passes after set --shadow off"
	udp_passes $UNLISTED || echo "an unlisted source is dropped after set --shadow off"
	[ "$(field f shadow)" = false ] || echo "shadow is shown as on after set --shadow off"
}

sweep "set" shadow_off check_set "$XDP_BLOOM" set f --shadow on

# A filter that was never sampled, so that the ring buffer is made as well.
unsampled() {
	xb destroy f >/dev/null && make_attached
}

check_sample() {
	local shown before after

	shown=$(field f sample)
	before=$(field f samples)
	udp_stopped $LISTED || echo "a listed source passes"
	after=$(field f samples)
	if [ "$shown" = 1 ]; then
		[ "$after" -gt "$before" ] || echo "sampling is shown as on, and samples nothing"
	else
		[ "$shown" = 0 ] && [ "$after" = "$before" ] ||
			echo "sampling is shown as $shown, and $((after - before)) packets were sampled"
	fi
	must timeout 5 "$XDP_BLOOM" set f --sample 1/1
	still_usable
	[ "$(field f sample)" = 1 ] || echo "not sampled after set --sample 1/1"
}

sweep "set --sample" unsampled check_sample "$XDP_BLOOM" set f --sample 1/1 --alarm 50
expect 0 "set --sample off" xb set f --sample off

# What is shown as exempt is exempt, of few and of many.
echo $LISTED >$T/few
(echo $LISTED && awk 'BEGIN { for (i = 0; i < 8; i++) print "203.0.113." i }') >$T/many
not_exempt() { xb set f --exempt off; }
check_exempt() {
	local shown=no

	xb show f --exempt | grep -q "^$LISTED exempt" && shown=yes
	if udp_passes $LISTED; then
		[ $shown = yes ] || echo "passes, and is not shown as exempt"
	else
		[ $shown = no ] || echo "is shown as exempt, and is stopped"
	fi
	still_usable
	[ -n "$(xb show f --exempt)" ] || [ -z "$(find $HERE -name 'exempt*')" ] ||
		echo "nothing is exempt, and left: $(find $HERE -name 'exempt*')"
	must timeout 5 "$XDP_BLOOM" set f --exempt $T/few
	udp_passes $LISTED || echo "is stopped after set --exempt"
	must timeout 5 "$XDP_BLOOM" set f --exempt off
	udp_stopped $LISTED || echo "passes after set --exempt off"
	[ -z "$(find $HERE -name 'exempt*')" ] || echo "left: $(find $HERE -name 'exempt*')"
}
sweep "set --exempt" not_exempt check_exempt "$XDP_BLOOM" set f --exempt $T/few
sweep "set --exempt, of many" not_exempt check_exempt "$XDP_BLOOM" set f --exempt $T/many
now_exempt() { xb set f --exempt $T/many; }
sweep "set --exempt off" now_exempt check_exempt "$XDP_BLOOM" set f --exempt off

check_add() {
	still_usable
	must timeout 5 "$XDP_BLOOM" add f 192.0.2.78
	must xb test f 192.0.2.78
	udp_stopped $LISTED || echo "a listed source passes"
	udp_passes $UNLISTED || echo "an unlisted source is dropped"
}

sweep "add" true check_add "$XDP_BLOOM" add f 192.0.2.78

# ---- rebuild ----

LATER=203.0.113.9
(cat $T/keys && echo $LATER && echo 203.0.113.128/25 && echo 203.0.112.0/24) >$T/longer

# Sizes that no other filter on the machine has.
make_rebuildable() {
	xb create f --no-guard --items 4999 --fp 1e-9 && xb add f --from $T/keys && xb attach f s0
}
xb destroy f >/dev/null
make_rebuildable >/dev/null || cannot "cannot make a filter"
OLD_BLOCKS=$(field f blocks)
expect 0 "rebuild" xb rebuild f --from $T/longer --items 4987 --fp 1e-9
NEW_BLOCKS=$(field f blocks)
[ "$OLD_BLOCKS" != "$NEW_BLOCKS" ] || cannot "the two generations have the same size"

one_generation_has_maps() { # BLOCKS OF-THE-OTHER
	wait_until 5 filter_maps_come_to "$1" 1 || echo "$(filter_maps "$1") maps of its own"
	wait_until 5 filter_maps_come_to "$2" 0 || echo "$(filter_maps "$2") maps of the other"
}

# In its first generation, with its lock free, and nothing but its own maps there.
first_generation() {
	[ "$(field f generation)" = 1 ] && [ "$(entries)" = "f " ] && return
	xb destroy f 2>/dev/null
	make_rebuildable
}

# The one or the other, whole: to packets, from the first one on, and to whoever asks.
check_rebuild() {
	local later=old

	udp_stopped $LISTED || echo "a listed source passes"
	udp_passes $UNLISTED || echo "an unlisted source is dropped"
	udp_passes $LATER || later=new
	must xb show f
	[ "$(entries)" = "f " ] || echo "left: $(entries)"
	if [ $later = new ]; then
		must xb test f --from $T/longer
		[ "$(field f generation)" = 2 ] || echo "new to packets, and old to show"
		one_generation_has_maps "$NEW_BLOCKS" "$OLD_BLOCKS"
	else
		must xb test f --from $T/keys
		[ "$(xb test f $LATER)" = "absent $LATER" ] || echo "old to packets, and new to test"
		one_generation_has_maps "$OLD_BLOCKS" "$NEW_BLOCKS"
	fi
	still_usable
	udp_stopped $LISTED || echo "a listed source passes"
	[ "$later" = old ] || udp_stopped $LATER || echo "a source of the new list passes"
}

sweep "rebuild" first_generation check_rebuild "$XDP_BLOOM" rebuild f --from $T/longer --items 4987 --fp 1e-9
ok "at 20 steps at least" test $step_last -ge 20

# Who comes next does not look at it, but makes it anew.
check_rebuild_then_rebuild() {
	must timeout 5 "$XDP_BLOOM" rebuild f --from $T/longer --items 4987 --fp 1e-9
	[ "$(entries)" = "f " ] || echo "left: $(entries)"
	must xb test f --from $T/longer
}
sweep "rebuild, then rebuild" first_generation check_rebuild_then_rebuild \
	"$XDP_BLOOM" rebuild f --from $T/longer --items 4987 --fp 1e-9

check_rebuild_then_destroy() {
	destroy_copes
}
sweep "rebuild, then destroy" first_generation check_rebuild_then_destroy \
	"$XDP_BLOOM" rebuild f --from $T/longer --items 4987 --fp 1e-9
ok "no maps of the old generation are left" wait_until 5 filter_maps_come_to "$OLD_BLOCKS" 0
ok "nor of the new one" wait_until 5 filter_maps_come_to "$NEW_BLOCKS" 0

xb destroy f >/dev/null 2>&1
make_attached >/dev/null || cannot "cannot make a filter"

# ---- attach and detach ----

detached() {
	[ "$(attached_mode s0)" = none ] || xb detach s0
}

attached() {
	[ "$(attached_mode s0)" != none ] || xb attach f s0
}

check_attach() {
	local mode

	mode=$(attached_mode s0)
	[ "$mode" = none ] || [ "$mode" = native ] || echo "attached in mode $mode"
	must timeout 5 "$XDP_BLOOM" attach f s0
	udp_stopped $LISTED || echo "a listed source passes"
	udp_passes $UNLISTED || echo "an unlisted source is dropped"
	must xb detach s0
}

check_detach() {
	[ "$(attached_mode s0)" = none ] || must timeout 5 "$XDP_BLOOM" detach s0
	[ "$(attached_mode s0)" = none ] || echo "still attached"
	udp_passes $LISTED || echo "a listed source is dropped with nothing attached"
}

sweep "attach" detached check_attach "$XDP_BLOOM" attach f s0
sweep "detach" attached check_detach "$XDP_BLOOM" detach s0

# A trial ends by itself, wherever the tool died. Each step has a network namespace of its own, and
# one wait is enough for all.
sandbox() { # NUMBER
	ip netns add "trial$1" && ip -n "trial$1" link add t0 type veth peer name t1 ||
		cannot "cannot make a namespace"
}
in_sandbox() { # NUMBER COMMAND...
	nsenter --net="/run/netns/trial$1" "${@:2}"
}
sandboxes_with() { # LAST PATTERN: which of them have a device like this
	local i

	for ((i = 1; i <= $1; i++)); do
		! ip -n trial$i -d -o link | grep -q "$2" || echo -n "$i "
	done
}
remove_sandboxes() { # LAST
	local i

	for ((i = 1; i <= $1; i++)); do ip netns del trial$i; done
}

step=0 status=137
while [ $status = 137 ]; do
	step=$((step + 1))
	sandbox $step
	in_sandbox $step "$KILLAT" $step "$XDP_BLOOM" attach f t0 --try 1 >/dev/null 2>&1 9>$T/kill.log
	status=$?
done
is $status 0 "attach --try, killed at each of $((step - 1)) steps"
ok "attach --try: every trial ends" wait_until 10 eval '[ -z "$(sandboxes_with $step prog/xdp)" ]'
ok "attach --try: and its process" wait_until 10 eval '[ -z "$(processes)" ]'
remove_sandboxes $step

# Killed while it is confirmed, a trial is confirmed or ends.
step=0 status=137
while [ $status = 137 ]; do
	step=$((step + 1))
	sandbox $step
	in_sandbox $step "$XDP_BLOOM" attach f t0 --try 2 >/dev/null || cannot "cannot start a trial"
	in_sandbox $step "$KILLAT" $step "$XDP_BLOOM" attach --confirm-try t0 >/dev/null 2>&1 \
		9>$T/kill.log
	status=$?
done
is $status 0 "attach --confirm-try, killed at each of $((step - 1)) steps"
ok "attach --confirm-try: what was not confirmed ends" wait_until 10 eval '[ -z "$(processes)" ]'
is "$(sandboxes_with $step "name xdp_bloom_try ")" "" "attach --confirm-try: no trial is left"
like " $(sandboxes_with $step "name xdp_bloom ")" " $step " \
	"attach --confirm-try: the last is for good"
remove_sandboxes $step

expect 0 "destroy" xb destroy f

# ---- between the system calls: killed by the clock while it works on memory ----

awk 'BEGIN { for (i = 0; i < 400000; i++)
	printf "10.%d.%d.%d\n", i / 65536, i / 256 % 256, i % 256 }' >$T/many

# killed_after MILLISECONDS COMMAND...
killed_after() {
	local status

	{ timeout -s KILL "0.$(printf %03d "$1")" "${@:2}" >/dev/null; } 2>/dev/null
	status=$?
	# timeout dies with what it kills, and does not wait for that to let go of its locks.
	wait_until 5 eval '[ -z "$(processes)" ]'
	[ $status = 137 ]
}

wrong=
killed=0
for ms in $(seq 10 15 250); do
	killed_after "$ms" "$XDP_BLOOM" create f --items 500000 --from $T/many && killed=$((killed + 1))
	if xb show f >/dev/null 2>&1; then
		wrong+=$(must xb test f --from $T/many)
	fi
	wrong+=$(destroy_copes)
done
is "$((killed > 0))" 1 "create of 400,000 keys: some were killed"
is "$wrong" "" "create of 400,000 keys, killed $killed times by the clock"

wrong=
killed=0
expect 0 "create" xb create f --items 500000
expect 0 "add some" xb add f --from $T/keys
expect 0 "attach" xb attach f s0
for ms in $(seq 10 6 106); do
	killed_after "$ms" "$XDP_BLOOM" add f --from $T/many && killed=$((killed + 1))
	wrong+=$(still_usable)
	udp_stopped $LISTED || wrong+="a listed source passes"
done
is "$((killed > 0))" 1 "add of 400,000 keys: some were killed"
is "$wrong" "" "add of 400,000 keys, killed $killed times by the clock"
expect 0 "then it succeeds" xb add f --from $T/many
expect 0 "and all keys are in" xb test f --from $T/many
is "$(field f inserted | awk '{ print ($1 > 380000 && $1 <= 402000) }')" 1 "counted about right"
expect 0 "destroy" xb destroy f
is "$(nothing_left)" "" "nothing is left"

done_testing
