#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Interrupted by SIGTERM or SIGINT, the gate ends what it runs, removes its files and ends with exit code 2.
. "$(dirname "$0")/common.sh"
needs_python
[ -n "$endless" ] || fail "no endless module"
export TMPDIR=$scratch/tmp GIT_CONFIG_GLOBAL=/dev/null
mkdir "$TMPDIR"

# interrupt "SIGNAL..." COMMAND...: sends the signals, a second apart, after the command has written a process's number
# to the file "started". That process must have ended when the command has.
interrupt() {
  local signals=$1 gate_process child code=0 signal
  shift
  rm -f started
  "$@" >out 2>err &
  gate_process=$!
  for _ in $(seq 1200); do [ -s started ] || ! kill -0 $gate_process 2>/dev/null || { sleep 0.1; continue; }; break; done
  [ -s started ] || fail "not started: $*"
  child=$(cat started)
  for signal in $signals; do
    kill -"$signal" $gate_process
    sleep 1
  done
  wait $gate_process || code=$?
  [ $code = 2 ] || fail "exit code $code after SIG$signals: $*"
  has err 'vecdet-gate: interrupted'
  ended "$child"
  [ -z "$(ls "$TMPDIR")" ] || fail "files are left: $(ls "$TMPDIR")"
}

modules=("$gate" modules --base "$endless" --head "$endless" --isa baseline)
VECDET_GATE_HANG=open interrupt TERM "${modules[@]}"
VECDET_GATE_HANG=run interrupt TERM "${modules[@]}"
VECDET_GATE_HANG=run interrupt INT "${modules[@]}"

# A process that ignores SIGTERM is killed: after five seconds, or at the second signal. So is what it has started.
cat >stubborn <<'END'
#!/bin/sh
trap '' TERM INT
sleep 1000 &
echo $! >started.part
mv started.part started
while true; do sleep 1; done
END
chmod +x stubborn
interrupt TERM "$gate" run --base stubborn --head stubborn
start=$SECONDS
interrupt "INT TERM" "$gate" run --base stubborn --head stubborn
[ $((SECONDS - start)) -lt 60 ] || fail "the second signal"

cat >callables.py <<'END'
import os
def endless():
    with open("started.part", "w") as out:
        out.write(str(os.getpid()))
    os.rename("started.part", "started")
    while True:
        pass
END
measurer=$(cd "$(dirname "$0")/../../../.." && pwd)/python/vecdet/gate.py
VECDET_GATE=$gate interrupt TERM "$python" "$measurer" callables.py:endless callables.py:endless

# A build and a benchmark in work trees of a repository.
command -v git >/dev/null || exit 0
git init -q -b main .
git config user.name somebody
git config user.email somebody@example.com
git add callables.py
git commit -qm one
git commit -q --allow-empty -m two
revisions=("$gate" run --base-revision HEAD~ --benchmark bench)
for build in "echo \$\$ >'$scratch/started'; sleep 1000" \
  "printf '#!/bin/sh\necho \$\$ >%s/started; sleep 1000\n' '$scratch' >bench; chmod +x bench"; do
  interrupt TERM "${revisions[@]}" --build "$build"
  [ "$(git worktree list | wc -l)" = 1 ] || fail "work trees are left: $(git worktree list)"
done
