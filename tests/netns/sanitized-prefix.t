#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The story that another test tells, sanitized-STORY.t being this file under its name, told once more
# by the tool built under AddressSanitizer and UndefinedBehaviorSanitizer.
set -u
here=$(cd "$(dirname "$0")" && pwd)
story=${0##*/sanitized-}
export SANITIZED=yes
export XDP_BLOOM=${XDP_BLOOM_SAN:-$here/../../build/san/xdp-bloom}
exec bash "$here/$story"
