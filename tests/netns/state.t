#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Bad input, bad state, and other tools at the same time. What cannot be done ends with status 2
# and one line on stderr, and leaves the system as it was; a filter that is damaged says so, can be
# destroyed and can be replaced; tools wait for each other; what --json prints is one object.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

require bpftool setpriv flock
build_net

HERE=$BPFFS/xdp-bloom

# A filter with the three keys of a list, and room for more.
create_f() { xb create f --items 100 --fp 1e-6 && xb add f --from $T/good; }

entries() { find $HERE -mindepth 1 -maxdepth 1 -printf '%f ' 2>/dev/null; }

# ---- before there is anything ----

long=$(printf 'x%.0s' $(seq 70))
for name in "" ../x a/b a.b . .. "a b" $'a\nb' +x -- _x "$long"; do
	refused "create: a bad name, ${name@Q}" . xb create --items 10 -- "$name"
done
expect 0 "a name of 63 bytes is good" xb create "${long:0:63}" --items 10
expect 0 "and is destroyed" xb destroy "${long:0:63}"
rmdir $HERE

refused "create: neither --from nor --items" "--from.*--items|--items.*--from" xb create f
refused "create: no name" "name" xb create --items 10
refused "create: an unknown option" "fast" xb create f --items 10 --fast
refused "create: an option without its value" "items" xb create f --items
refused "create: an argument too many" "stray" xb create f stray --items 10
refused "create: an unknown layout" "cuckoo.*split|split.*cuckoo" \
	xb create f --items 10 --layout cuckoo
refused "create: an unknown policy" "deny" xb create f --items 10 --policy deny
refused "create: an unknown key field" "mac" xb create f --items 10 --key src,mac
refused "create: a key field twice" "src" xb create f --items 10 --key src,src
refused "create: an empty key" . xb create f --items 10 --key ""
refused "create: a rate and a budget" . xb create f --items 10 --fp 0.01 --bits-per-key 10
refused "create: hashes for layout split" "hashes" xb create f --items 10 --hashes 5

for fp in 0 1e-10 0.6 51% -1 -0.01 nan inf 1x "" 0x1p-4 " 0.01" 0.01%%; do
	refused "create: rate ${fp@Q}" . xb create f --items 10 --fp "$fp"
	refused "plan: rate ${fp@Q}" . xb plan --items 10 --fp "$fp"
done
for items in 0 -1 ten 1.5 1e99 18446744073709551616 99999999999999999999G 5Q 1kk "" 0x10 nan \
	" 7"; do
	refused "create: ${items@Q} items" . xb create f --items "$items"
	refused "plan: ${items@Q} items" . xb plan --items "$items"
done
for bits in 0 -1 nan inf x "" 1e-400; do
	refused "plan: ${bits@Q} bits per key" . xb plan --items 10 --bits-per-key "$bits"
done
for hashes in 0 -1 31 2.5 x ""; do
	refused "plan: ${hashes@Q} hashes" . xb plan --items 10 --layout classic --hashes "$hashes"
done
refused "plan: no number of items" "items" xb plan

# 2^32 blocks of 512 bits hold no more than 2^41 bits.
refused "plan: past 2^32 blocks" "2\^32" xb plan --items 1000G
refused "create: past 2^32 blocks" "2\^32" xb create f --items 1000G
refused "plan: classic past 2^32 bits" "2\^32" xb plan --items 1G --layout classic
refused "create: classic past 2^32 bits" "2\^32" xb create f --items 1G --layout classic
# Twice the machine's memory, at 16 bits a key.
kib=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)
refused "create: past the machine's memory" "MiB|memory|2\^32" \
	xb create f --items $((kib * 1024)) --bits-per-key 16

refused "no verb" "verb" xb
refused "an unknown verb" "frobnicate" xb frobnicate
for verb in add test destroy set attach detach "add f" "test f" "set f" "attach f" \
	"attach --confirm-try"; do
	# shellcheck disable=SC2086
	refused "$verb: arguments are missing" "--help|needs" xb $verb
done
refused "set: an unknown value" "maybe" xb set f --shadow maybe
refused "set: an alarm that is none" "1 to 100" xb set f --alarm 0
refused "set: a sample that is none" "1/1000" xb set f --sample 0
refused "attach: a trial of no length" "try" xb attach f s0 --try 0
refused "attach: a trial of junk" "soon" xb attach f s0 --try soon

for verb in show add test set attach destroy; do
	case $verb in
	add | test) args=192.0.2.7 ;;
	set) args="--shadow on" ;;
	attach) args=s0 ;;
	*) args= ;;
	esac
	# shellcheck disable=SC2086
	refused "$verb: there is no such filter" "nofilter" xb $verb nofilter $args
done

# ---- lists ----

: >$T/empty
printf '# nothing\n\n; here\n' >$T/comments
printf '192.0.2.1\n192.0.2.2\n192.0.2.300\n192.0.2.4\n' >$T/bad
printf '192.0.2.1\n10.0.0.0/33\n' >$T/prefix
printf '192.0.2.1\n192.0.2.1,443\n' >$T/fields
printf '192.0.2.1\n010.0.0.1\n' >$T/octal
printf '192.0.2.1\n\x1f\x8b\x00\x00binary' >$T/binary
head -c 200000 /dev/zero | tr '\0' 9 >$T/longline
mkdir $T/directory

refused "list: missing" "nolist" xb create f --from $T/nolist
refused "list: a directory" "directory" xb create f --from $T/directory
refused "list: cannot be read" "/proc/self/mem" xb create f --from /proc/self/mem
refused "list: empty" "empty|no key" xb create f --from $T/empty
refused "list: only comments" "empty|no key" xb create f --from $T/comments
refused "list: an empty stdin" "empty|no key" xb create f --from -
refused "list: a bad line is named, with its text" "bad:3: .*192\.0\.2\.300" \
	xb create f --from $T/bad
refused "list: a prefix that is too long" "prefix:2: .*10\.0\.0\.0/33" xb create f --from $T/prefix
refused "list: too many fields" "fields:2: .*192\.0\.2\.1,443" xb create f --from $T/fields
refused "list: an ambiguous octet" "octal:2: .*010\.0\.0\.1" xb create f --from $T/octal
refused "list: not text" "binary:2" xb create f --from $T/binary
refused "list: a line without end" "longline:1" xb create f --from $T/longline
refused "list: too few fields" "bad:1: .*192\.0\.2\.1" xb create f --key src,dport --from $T/bad
not_ok "not even the directory of all filters was made by all this" test -e $HERE

# ---- one that is there ----

printf '192.0.2.1\n192.0.2.2\n2001:db8::3\n' >$T/good
expect 0 "create" create_f
id=$(bpftool -j map show pinned $HERE/f/filter | json id)
refused "create: the name is taken" "f" xb create f --items 10
is "$(bpftool -j map show pinned $HERE/f/filter | json id)" "$id" "the old filter is still there"
expect 0 "and has its keys" xb test f --from $T/good
refused "add: a bad line" "bad:3: .*192\.0\.2\.300" xb add f --from $T/bad
expect 1 "nothing before the bad line was added" xb test f 192.0.2.4
is "$(field f inserted)" 3 "nor counted"
refused "add: a bad key" "1\.2\.3" xb add f 192.0.2.9 1.2.3
expect 1 "no key before it was added" xb test f 192.0.2.9
refused "add: an empty key" . xb add f ""
refused "add: a missing list" "nolist" xb add f --from $T/nolist
refused "test: a bad key" "1\.2\.3" xb test f 1.2.3
refused "attach: an unknown device" "nosuch" xb attach f nosuch
refused "attach: a device name that cannot be" . xb attach f "$long"
refused "detach: two unknown devices, one line" "nosuch1" xb detach nosuch1 nosuch2
refused "confirm: two unknown devices, one line" "nosuch1" xb attach --confirm-try nosuch1 nosuch2
expect 0 "attach" xb attach f s0
refused "detach: a good and a bad device" "nosuch" xb detach s0 nosuch
xb detach s0 >/dev/null 2>&1
is "$(xb test f --from - <<<192.0.2.1)" "maybe 192.0.2.1" "a list may come from stdin"
expect 2 "stdout that cannot be written is an error" sh -c '"$0" show f >/dev/full' "$XDP_BLOOM"
is "$ERR_LINES" 1 "in one line"

# ---- not root ----

cp "$XDP_BLOOM" $T/tool
nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups $T/tool "$@"; }
expect 0 "nobody: plan" nobody plan --items 1M
refused "nobody: create" "root|permitted|denied" nobody create g --items 10
refused "nobody: show" "root|permitted|denied" nobody show f
refused "nobody: add" "root|permitted|denied" nobody add f 192.0.2.7
refused "nobody: test" "root|permitted|denied" nobody test f 192.0.2.1
refused "nobody: set" "root|permitted|denied" nobody set f --shadow on
refused "nobody: attach" "root|permitted|denied" nobody attach f s0
refused "nobody: destroy" "root|permitted|denied" nobody destroy f
expect 0 "attach" xb attach f s0
refused "nobody: detach" "root|permitted|denied" nobody detach s0
expect 0 "detach" xb detach s0
is "$(stat -c %a $HERE) $(stat -c %a $HERE/f)" "700 700" "the directories are root's alone"
is "$(find $HERE/f -type f -perm /077 -printf '%f ')" "" "and so is each pin"

# ---- the secret ----

# The hash key are bytes 16 to 31 of the record. No verb prints it, in whatever form.
read -r -a meta < <(bpftool -j map lookup pinned $HERE/f/meta key 0 0 0 0 | "$PYTHON" -c '
import json, sys
print(*[int(byte, 16) for byte in json.load(sys.stdin)["value"]])')
secrets=$("$PYTHON" -c '
import sys
key = bytes(map(int, sys.argv[1:]))[16:32]
for half in key[:8], key[8:]:
    for order in "little", "big":
        print(int.from_bytes(half, order), f"{int.from_bytes(half, order):x}", sep="|", end="|")
print(key.hex(" "))' "${meta[@]}")
for arguments in "show f" "show f --json" "show" "show --json" "add f 192.0.2.1 --json" \
	"test f 192.0.2.1 --json" "set f --shadow off --json" "set f --alarm 70 --sample 1/5"; do
	# shellcheck disable=SC2086
	output=$(xb $arguments 2>&1)
	is "$(grep -ciE "$secrets" <<<"$output")" 0 "the secret is not in: $arguments"
done

# ---- another version, other damage ----

# Write the record with byte AT replaced.
patch_meta() { # AT BYTE
	local patched=("${meta[@]}")

	patched[$1]=$2
	bpftool map update pinned $HERE/f/meta key 0 0 0 0 value "${patched[@]}"
}

expect 0 "attach" xb attach f s0
patch_meta 8 99 || cannot "the version cannot be changed"
refused "another version: show" "f.*version" xb show f
refused "another version: add" "f.*version" xb add f 192.0.2.7
refused "another version: test" "f.*version" xb test f 192.0.2.1
refused "another version: set" "f.*version" xb set f --shadow on
refused "another version: attach" "f.*version" xb attach f s0
refused "another version: create" "f" xb create f --items 10
expect 0 "another version: detach" xb detach s0
xb attach f s0 2>/dev/null
ip link set dev s0 xdp pinned $HERE/f/prog
expect 0 "another version: destroy" xb destroy f
is "$(attached_mode s0)" none "another version: nothing is attached"
is "$(entries)" "" "another version: nothing is left"

# meta[] now belongs to a filter that is gone; its geometry is that of every one made like it. A byte
# of the magic number, of the number of blocks, of the layout, and of the alarm's percentage.
for at in 0 32 48 1040; do
	expect 0 "create" create_f
	patch_meta $at 255
	refused "a damaged record (byte $at): show" "f.*destroy" xb show f
	expect 0 "a damaged record: destroy" xb destroy f
	is "$(entries)" "" "a damaged record: nothing is left"
done

for pin in meta filter stats slots prog; do
	for way in destroy create; do
		expect 0 "create" create_f
		expect 0 "attach" xb attach f s0
		rm $HERE/f/$pin
		refused "without $pin: show says so" "f.*destroy" xb show f
		refused "without $pin: add says so" "f.*destroy" xb add f 192.0.2.7
		refused "without $pin: attach says so" "f.*destroy" xb attach f s0
		if [ $way = create ]; then
			expect 0 "without $pin: create replaces it" xb create f --from $T/good
			expect 0 "without $pin: the new one is whole" xb test f --from $T/good
		fi
		is "$(attached_mode s0)" "$([ $way = destroy ] && echo native || echo none)" \
			"without $pin: who is attached after $way"
		expect 0 "without $pin: destroy" xb destroy f
		is "$(attached_mode s0)" none "without $pin: nothing is attached"
		is "$(entries)" "" "without $pin: nothing is left"
		ip link set dev s0 xdp off 2>/dev/null
	done
done

expect 0 "create --confirm" xb create f --confirm --from $T/good
expect 0 "attach" xb attach f s0
rm $HERE/f/confirm
refused "without confirm: show says so" "f.*destroy" xb show f
refused "without confirm: add says so" "f.*destroy" xb add f 192.0.2.7
expect 0 "without confirm: create replaces it" xb create f --confirm --from $T/good
expect 0 "set --sample" xb set f --sample 1/10
rm $HERE/f/confirm
bpftool map create $HERE/f/confirm type hash key 8 value 1 entries 10 name other
refused "another map for confirm: add says so" "f.*destroy" xb add f 192.0.2.7
expect 0 "another map for confirm: destroy" xb destroy f
is "$(entries)" "" "without confirm: nothing is left"

expect 0 "create" xb create f --from $T/good
rm $HERE/f/*
refused "without any pin: show says so" "f.*destroy" xb show f
expect 0 "without any pin: destroy" xb destroy f
is "$(entries)" "" "without any pin: nothing is left"

mkdir $HERE/f
expect 0 "an empty directory: create replaces it" xb create f --from $T/good
expect 0 "an empty directory: destroy" xb destroy f

# A directory among the pins, or a pin in a filter's place, is removed with the rest.
expect 0 "create" xb create f --from $T/good
mkdir -p $HERE/f/sub/sub
expect 0 "a directory among the pins: destroy" xb destroy f
is "$(entries)" "" "a directory among the pins: nothing is left"
bpftool map create $HERE/f type array key 4 value 4 entries 1 name stray
refused "a pin in a filter's place: show says so" "f.*destroy" xb show f
expect 0 "a pin in a filter's place: create replaces it" xb create f --from $T/good
expect 0 "a pin in a filter's place: destroy" xb destroy f

# A damaged filter stays at work until the new one is there.
expect 0 "create" xb create f --from $T/good
expect 0 "attach" xb attach f s0
rm $HERE/f/stats
# shellcheck disable=SC2016
expect 2 "damaged: a create that fails" \
	sh -c 'ulimit -n 11; exec "$1" create f --items 10' sh "$XDP_BLOOM"
is "$(attached_mode s0)" native "damaged: it is still at work"
expect 0 "damaged: destroy" xb destroy f
is "$(attached_mode s0)" none "damaged: and now it is not"

# A list of filters stays readable whatever one of them is.
expect 0 "create two" xb create a --items 10
expect 0 "create two" xb create b --items 10
rm $HERE/a/slots
run xb show
is $RC 2 "show says by its status that one is damaged"
like "$OUT$ERR" "a" "show names the damaged one"
like "$OUT" "b" "and shows the other"
run xb show --json
ok "show --json is one object all the same" "$PYTHON" -c '
import json, sys
assert isinstance(json.loads(sys.argv[1]), dict)' "$OUT"
expect 0 "destroy the damaged one" xb destroy a
expect 0 "destroy the other" xb destroy b

# ---- two tools at once ----

waited_ms() { echo $(((${EPOCHREALTIME/./} - since) / 1000)); }

expect 0 "create" create_f
for verb in "add f 198.51.100.50" "set f --shadow on" "attach f s0 --no-guard" "destroy f"; do
	exec {lock}<$HERE/f
	flock "$lock"
	rm -f $T/waiting.err
	# The tool must not inherit the lock, or it would wait for itself.
	# shellcheck disable=SC2086
	"$XDP_BLOOM" $verb >$T/waiting.out 2>$T/waiting.err {lock}<&- &
	tool=$!
	since=${EPOCHREALTIME/./}
	ok "locked: $verb says that it waits" wait_until 5 test -s $T/waiting.err
	is "$(($(waited_ms) >= 900))" 1 "locked: but not within the first second"
	like "$(<$T/waiting.err)" "wait" "locked: in these words"
	ok "locked: it is still there" kill -0 $tool
	run xb show f
	is $RC 0 "locked: who reads does not wait"
	exec {lock}<&-
	wait $tool
	is $? 0 "unlocked: $verb succeeds"
	is "$(wc -l <$T/waiting.err)" 1 "unlocked: with nothing else to say"
done
is "$(entries)" "" "nothing is left"

# Who waits can be told to stop, and then leaves nothing.
mkdir $HERE/+f
exec {lock}<$HERE/+f
flock "$lock"
"$XDP_BLOOM" create f --items 5 >$T/waiting.out 2>$T/waiting.err {lock}<&- &
tool=$!
ok "locked: create says that it waits" wait_until 5 test -s $T/waiting.err
kill -TERM $tool
wait $tool
is $? 143 "interrupted: create ends by the signal"
exec {lock}<&-
refused "interrupted: there is no such filter" "f" xb show f
expect 0 "interrupted: the next create" xb create f --items 5
expect 0 "interrupted: and destroy" xb destroy f
ok "interrupted: nothing at all is left" test ! -e $HERE/+f

# Who reads while a filter is replaced sees the old one, the new one, or none: never a mixture,
# which would call a key absent that is in both.
expect 0 "replaced: create" xb create f --from $T/good
(for _ in $(seq 60); do
	"$XDP_BLOOM" destroy f && "$XDP_BLOOM" create f --from $T/good
done) >/dev/null 2>&1 &
replacing=$!
reads=0 mixed=""
while kill -0 $replacing 2>/dev/null; do
	run xb test f --from $T/good
	reads=$((reads + 1))
	case "$RC$ERR" in 1* | *damaged*) mixed+="$RC $OUT $ERR; " ;; esac
done
wait $replacing
is "$mixed" "" "replaced: no reader saw a mixture"
is "$((reads > 60))" 1 "replaced: and there were readers"
expect 0 "replaced: destroy" xb destroy f

expect 0 "create for many" xb create f --items 100000
tools=()
for i in $(seq 8); do
	awk -v i="$i" 'BEGIN { for (n = 0; n < 10000; n++) printf "11.%d.%d.%d\n", i, n / 256, n % 256 }' \
		>$T/part.$i
	xb add f --from $T/part.$i >/dev/null 2>&1 &
	tools+=($!)
done
failed=0
for tool in "${tools[@]}"; do wait "$tool" || failed=$((failed + 1)); done
is $failed 0 "eight adds at once all succeed"
expect 0 "and none of their keys is lost" xb test f --from $T/part.1 --from $T/part.2 \
	--from $T/part.3 --from $T/part.4 --from $T/part.5 --from $T/part.6 --from $T/part.7 \
	--from $T/part.8
is "$(field f inserted | awk '{ print ($1 > 79000 && $1 <= 80000) }')" 1 "nor their number"
expect 0 "destroy" xb destroy f

tools=()
for i in $(seq 8); do
	xb create f --from $T/part.$i >$T/out.$i 2>$T/err.$i &
	tools+=($!)
done
won=
for i in $(seq 8); do
	wait "${tools[$((i - 1))]}" && won+="$i"
done
like "$won" '^[1-8]$' "of eight creates of one name one succeeds"
is "$(cat $T/err.* | grep -c .)" 7 "the others say one line each"
expect 0 "and it is whole" xb test f --from "$T/part.$won"
is "$(entries)" "f " "nothing else is left"

# Creating and destroying against each other: whatever the order, one line and no wreck.
tools=()
for i in $(seq 4); do
	(for _ in $(seq 10); do
		xb create f --from $T/part.$i 2>>$T/fight.$i >/dev/null
		xb destroy f 2>>$T/fight.$i >/dev/null
	done) &
	tools+=($!)
done
wait "${tools[@]}"
odd=$(grep -hvE 'is there already|no filter|destroyed meanwhile|being made|waiting' $T/fight.* |
	sort | uniq -c)
is "$odd" "" "four that create and destroy one name say nothing strange"
run xb destroy f
is "$(entries)" "" "and leave nothing"

# ---- --json and --help ----

# One object and nothing else; with a list of the fields it must have.
object() { # DESCRIPTION FIELDS COMMAND...
	local what=$1 fields=$2 odd

	shift 2
	run "$@"
	odd=$("$PYTHON" -c '
import json, sys
try:
    value = json.loads(sys.argv[1])
    if not isinstance(value, dict):
        print("not an object")
    else:
        print(*[f for f in sys.argv[2].split() if f not in value])
except ValueError as e:
    print(e)' "$OUT" "$fields")
	is "$RC/$ERR/$odd" "0//" "json: $what"
}

SHOW_FIELDS="name layout hash k blocks bytes bits_per_key key policy confirm shadow generation
	capacity inserted estimated load alarm fp_target fp_predicted devices counters alarm_percent
	absent_share ceremony fp_live exact_keys exact_bytes sample samples samples_lost"
object "plan" "layout items k bits blocks bytes bits_per_key fp_predicted" xb plan --items 1M --json
object "create" "$SHOW_FIELDS" xb create f --items 100 --json
object "add" "" xb add f --from $T/good --json
object "attach" "" xb attach f s0 --json
object "show NAME" "$SHOW_FIELDS" xb show f --json
is "$(field f devices.0.name) $(field f devices.0.mode)" "s0 native" "json: a device"
for counter in absent maybe confirmed refuted passed dropped would_drop; do
	like "$(field f counters.$counter)" '^\{"packets": [0-9]+, "bytes": [0-9]+\}$' \
		"json: counter $counter"
done
is "$(field f name) $(field f key) $(field f policy) $(field f shadow) $(field f inserted)" \
	"f src block false 3" "json: values have the types that they should"
object "show" "" xb show --json
object "add" "" xb add f 192.0.2.60 --json
object "test" "" xb test f 192.0.2.60 --json
object "set" "" xb set f --shadow on --json
object "detach" "" xb detach s0 --json
xb attach f s0 --try 30 >/dev/null
object "attach --confirm-try" "" xb attach --confirm-try s0 --json
object "destroy" "" xb destroy f --json
object "show of nothing" "" xb show --json
refused "json: an error is still one line on stderr" "nofilter" xb show nofilter --json
rate=$(xb plan --items 1M --json | json fp_predicted)
is "$(awk '{ print ($1 > 0.0099 && $1 <= 0.01) }' <<<"$rate")" 1 "json: a rate is a number"

for verb in plan create add test show set attach detach destroy; do
	expect 0 "help: $verb" xb $verb --help
	like "$OUT/$ERR" "xdp-bloom $verb.*/$" "help: $verb on stdout"
done
expect 0 "help" xb --help

# ---- where there is no bpf file system ----

# As under `ip netns exec`: what is mounted there goes when the command ends.
refused "no bpffs in a mount namespace of its own" "nsenter --net" \
	unshare --mount sh -c 'umount "$1"; exec "$2" create f --items 10' sh $BPFFS "$XDP_BLOOM"

umount $BPFFS
expect 0 "no bpffs: show" xb show
refused "no bpffs: show of a filter" "f" xb show f
refused "no bpffs: destroy" "f" xb destroy f
expect 0 "no bpffs: create mounts it" xb create f --from $T/good
is "$(stat -f -c %T $BPFFS) $(entries)" "bpf_fs f " "no bpffs: the filter is on it"
expect 0 "no bpffs: the filter is good" xb test f --from $T/good
expect 0 "no bpffs: destroy" xb destroy f
mkdir $T/other
export XDP_BLOOM_BPFFS=$T/other
refused "XDP_BLOOM_BPFFS: nothing is mounted over a directory" "$T/other" xb create f --from $T/good
mount -t bpf bpf $T/other
expect 0 "XDP_BLOOM_BPFFS: create uses it" xb create f --from $T/good
is "$(ls $T/other/xdp-bloom)" f "XDP_BLOOM_BPFFS: the filter is there"
expect 0 "XDP_BLOOM_BPFFS: destroy" xb destroy f
export XDP_BLOOM_BPFFS=$T/nowhere
refused "XDP_BLOOM_BPFFS: a directory that is not there" "nowhere" xb create f --from $T/good

done_testing
