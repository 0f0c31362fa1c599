#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# deps.sh GOAL: name the Debian packages that GOAL (build, check, demo, bench) needs and this
# machine lacks, and install them. Quick and silent when nothing is missing. As an ordinary user
# it says what to install instead, and fails.
set -eu

build="gcc libc6-dev make pkg-config clang llvm bpftool libbpf-dev libjson-c-dev libncurses-dev
	linux-libc-dev zlib1g-dev libzstd-dev libyajl-dev libmnl-dev"
traffic="iproute2 iputils-ping util-linux"

case "${1:-}" in
build) wanted=$build ;;
demo) wanted="$build $traffic ipset" ;;
bench) wanted="$build" ;;
check)
	wanted="$build $traffic libcmocka-dev ethtool perl python3 procps bsdutils gnuplot-nox tmux
		zstd"
	;;
*)
	echo "usage: deps.sh build|check|demo|bench" >&2
	exit 2
	;;
esac

if ! command -v dpkg-query >/dev/null; then
	echo "This is no Debian system: please install what corresponds to: $wanted" >&2
	exit 0
fi

missing=()
for package in $wanted; do
	state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
	[ "${state:0:2}" = ii ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "Missing packages: ${missing[*]}" >&2
	echo "Install them with: sudo apt-get install ${missing[*]}" >&2
	exit 2
fi
echo "Installing missing packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
	apt-get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
# The package lists of a fresh machine may be empty or old: fetch them only when that matters.
if ! install && ! { apt-get update >"$log" 2>&1 && install; }; then
	tail -n 15 "$log" >&2
	echo "apt-get could not install: ${missing[*]}" >&2
	exit 2
fi
