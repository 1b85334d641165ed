#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the pictures of this folder again: draw.sh [BUILD_FOLDER]. Needs the targets demo_shallow_water, weir and ranks_bench.
# The scaling is measured, so run it while the machine does nothing else.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build/release}
frames=$(mktemp -d)
trap 'rm -rf "$frames"' EXIT
"$build/demos/shallow_water" --ranks 2 --size 320 --tile 64 --steps 600 --frame-every 12 --animation "$here/depth.png"
"$build/demos/shallow_water" --ranks 2 --size 256 --steps 200 --frame-every 100 --frames "$frames"
for step in 100 200; do
  "$build/tools/weir" tgm show -o "$here/depth-$step.png" "$frames/depth-$step.tgm"
done
"$here/../../bench/runtime/ranks/scaling.py" "$build/bench/ranks" "$here/scaling.svg"
