#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of docs/own_gate.md, with the packages that its apt-get line installs and no others, in an
# empty root directory of Debian 12. Needs root, debootstrap and 1 GB. ROOTS=folder keeps the root directory.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
source "$source/test/debian_root.sh"
need_roots
make_root bookworm bookworm-own-gate ca-certificates

# line <beginning>: the page's only command that begins so.
line() {
  local found
  found=$(sed -n "s|^    \\($1.*\\)|\\1|p" "$source/docs/own_gate.md")
  [ "$(wc -l <<<"$found")" = 1 ] && [ -n "$found" ] || { echo "docs/own_gate.md: no single command begins with $1" >&2; return 1; }
  echo "$found"
}
install=$(line apt-get)
command=$(line 'cmake -S vecdet/bench/gate/command')
project=$(line 'cp -r vecdet/examples/own_gate')
build=$(line 'cmake -S . -B build -DVECDET_TREE')
modules=$(line 'build/gate/vecdet-gate modules')
callables=$(line 'python3 -m vecdet.gate released/kernel.py')
history=$(line 'vecdet-gate history' | sed 's/ --otava.*//')

# env -u: the root directory has no ccache. A machine that is too noisy ends the gate with code 3.
run env -u CMAKE_CXX_COMPILER_LAUNCHER HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "
  judged() { \"\$@\" || [ \$? = 3 ]; }
  $install >/dev/null
  rm -rf ~/page && mkdir ~/page && ln -sfn /src ~/vecdet && cd ~/page && ln -s /src vecdet
  $command
  $project
  $build
  judged $modules
  mkdir ~/page/callables ~/page/callables/released && cd ~/page/callables
  echo 'def run(): sum(range(20000))' | tee kernel.py >released/kernel.py
  judged ${callables/-m vecdet.gate/\/src\/python\/vecdet\/gate.py} --history history.jsonl
  $history
  grep -q '<svg' history.html
  vecdet-gate run --help >/dev/null
"
echo "the commands of docs/own_gate.md ran"
