#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the commands of profile_step.md and inserts their output into it; with chromium installed,
# the picture too. Reports go to the build folder. Run it on an idle machine.
#   examples/profile_step.sh <build folder> [COCO annotation file]
set -euo pipefail
build=$(realpath "${1:?usage: profile_step.sh <build folder> [COCO annotation file]}")
coco=${2:+$(realpath "$2")}
here=$(realpath "$(dirname "$0")")
source "$here/../bench/figures.sh"
mkdir -p "$build/profile_step"
cd "$build/profile_step"
step() { "$build/examples/profile_step" "$@" 40 ${coco:+"$coco"}; }
tool="$build/bench/profile/vecdet-profile"

compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
{
  sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /'
  "$compiler" --version | head -n 1
  echo "$(date -u +%F), load average $(cut -d ' ' -f 1 /proc/loadavg) before"
  echo "examples/profile_step.sh build${2:+ $(basename "$2")}"
} >machine.txt

table() { sed -n '/^vecdet profile/,$p' | grep -v '^wrote'; }

step --reference-matching | table >table.txt
mv profile_step.json before.json
"$tool" replay before.json --step step --isa avx2,baseline --threads 1,2 >replay.txt
step | table >after.txt
mv profile_step.json after.json
"$tool" compare before.json after.json --step step -n 8 -o change.html >compare.txt
step --reference-matching --boxes=1000 >/dev/null
mv profile_step.json before.json
step --boxes=1000 >/dev/null
"$tool" compare before.json profile_step.json --step step -n 4 >boxes.txt
# The page's picture shows the current step, with a picture's boxes.
step >/dev/null

for block in machine table replay after compare boxes; do
  awk -v block="$block" '
    $0 == "<!-- " block " -->" { print; print "```"; while ((getline line < (block ".txt")) > 0) print line
                                 print "```"; skip = 1; next }
    skip && /^<!-- end -->$/ { skip = 0 }
    !skip' "$here/profile_step.md" >page.md
  cp page.md "$here/profile_step.md"
done
if command -v chromium >/dev/null; then
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=2000 \
    --user-data-dir="$(mktemp -d)" --window-size=1200,1530 --screenshot="$here/profile_step.png" \
    "file://$PWD/profile_step.html" 2>/dev/null
fi
