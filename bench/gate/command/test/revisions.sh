#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Revisions of a repository: built in work trees of their own, which are gone afterwards.
. "$(dirname "$0")/common.sh"
command -v git >/dev/null || { echo "git is not installed"; exit 77; }
export TMPDIR=$scratch/tmp GIT_CONFIG_GLOBAL=/dev/null
mkdir "$TMPDIR" repository
cd repository
git init -q -b main
git config user.name somebody
git config user.email somebody@example.com
echo 'sum 100' >times
git add times
git commit -qm one
git tag one
echo 'sum 110' >times
git commit -qam two
# Not committed, but head:
echo 'sum 120' >times

run=("$gate" run --pairs 20 --base-revision one --benchmark bin/bench)
build="mkdir bin && cp '$scripted' bin/bench && cp times bin/bench.times"
clean() {
  [ "$(git worktree list | wc -l)" = 1 ] || fail "work trees are left: $(git worktree list)"
  [ -z "$(ls "$TMPDIR")" ] || fail "files are left: $(ls "$TMPDIR")"
}
expect 1 "${run[@]}" --build "$build" --history ../history
grep -q '^sum .* +20.0% .* SLOWER$' out || fail "the work tree's state"
clean
[ "$(cat times)" = 'sum 120' ] || fail "the work tree has changed"
expect 1 "${run[@]}" --build "$build" --head-revision main --history ../history
grep -q '^sum .* +10.0% .* SLOWER$' out || fail "the committed state"
has ../history "$(git rev-parse main)"
clean
expect 2 "${run[@]}" --build "$build" --head-revision one
has err '"one" is head itself'
expect 2 "${run[@]}" --build 'echo no compiler; exit 3'
has err '--build fails in base' 'exit code 3' 'no compiler'
clean
expect 2 "${run[@]}" --build true
has err '/base/bin/bench": No such file or directory'
clean
expect 2 "${run[@]}" --build "$build" --head-revision nowhere
has err 'no revision "nowhere" in this repository'
expect 2 "${run[@]}"
has err '--base-revision needs --build'
