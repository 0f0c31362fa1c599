#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Every verb and every kind of bad input once more, with the tool built under AddressSanitizer and
# UndefinedBehaviorSanitizer: the story is state.t's, told by the other binary.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export XDP_BLOOM=${XDP_BLOOM_SAN:-$here/../../build/san/xdp-bloom}
exec bash "$here/state.t"
