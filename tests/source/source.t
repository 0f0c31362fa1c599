#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Promises about the source itself: no compiler warns about anything, the golden vectors are what
# their definition gives, every file names its licence, and the manual knows every verb.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
XDP_BLOOM=${XDP_BLOOM:-$BUILD/xdp-bloom}

n=0
result() { # STATUS DESCRIPTION
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}
diag() { sed 's/^/# /'; }

flags=(-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wformat=2 -Wshadow -Werror -I"$BUILD/gen" -Iuser
	-Itests -Iinclude)
mapfile -t sources < <(find user tests -name '*.c' ! -name '*.bpf.c' | sort)
for compiler in gcc clang; do
	complaints=$(printf '%s\n' "${sources[@]}" |
		xargs -P 2 -I{} "$compiler" "${flags[@]}" -o /dev/null -c {} 2>&1)
	result "$((${#complaints} > 0))" "$compiler has nothing to say about ${#sources[@]} C files"
	[ -z "$complaints" ] || echo "$complaints" | diag
done

bpf_flags=(-O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Wshadow -Werror -Iinclude -Ibpf -Itests
	"-I/usr/include/$(gcc -print-multiarch)")
mapfile -t sources < <(find bpf tests -name '*.bpf.c' | sort)
complaints=$(printf '%s\n' "${sources[@]}" |
	xargs -P 2 -I{} clang "${bpf_flags[@]}" -o /dev/null -c {} 2>&1)
result "$((${#complaints} > 0))" "clang has nothing to say about ${#sources[@]} BPF programs"
[ -z "$complaints" ] || echo "$complaints" | diag

# Each public header must stand on its own.
complaints=$(for header in include/xbloom/*.h user/libxbloom.h; do
	printf '#include "%s"\n' "$header" | gcc "${flags[@]}" -I. -x c -c -o /dev/null - 2>&1
done)
result "$((${#complaints} > 0))" "each public header compiles by itself"
[ -z "$complaints" ] || echo "$complaints" | diag

python3 tests/golden/golden.py --check tests/golden/golden.h >/dev/null
result $? "the golden vectors are what the published definitions give"

# The lists are as other tools write them, to the byte.
mapfile -t sources < <(find Makefile .ci bpf include user tests scripts dist man -type f \
	! -path 'tests/lists/good/*' ! -path 'tests/lists/bad/*')
without=$(grep -L 'SPDX-License-Identifier' "${sources[@]}")
result "$((${#sources[@]} < 60 || ${#without} > 0))" "each source file names its licence"
[ -z "$without" ] || echo "$without" | diag

missing=$("$XDP_BLOOM" --help | awk '$1 == "xdp-bloom" { print $2 }' | while read -r verb; do
	grep -q "$verb" man/xdp-bloom.8 || echo "$verb"
	"$XDP_BLOOM" "$verb" --help | grep -o -- '--[a-z-]*' | sort -u | while read -r option; do
		# Dashes are escaped in the manual's source.
		sed 's/\\-/-/g' man/xdp-bloom.8 | grep -q -e "Fl $option\b" -e "Fl ${option#-}\b" ||
			echo "$verb $option"
	done
done)
result "$((${#missing} > 0))" "the manual knows every verb and option"
[ -z "$missing" ] || echo "$missing" | diag

echo "1..$n"
