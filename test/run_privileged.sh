#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_privileged.sh <vecdet_profiled>: a set-user-ID program ignores its user's environment, and a
# report by root goes to the path that root gave, whatever links others have put into the folder.
# Exits with 77 if it is not root, or has no folder in which set-user-ID programs work.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: not root"; exit 77; }
command -v setpriv >/dev/null || { echo "skipped: no setpriv"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 777 "$folder"
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
fail() { echo "FAILED: $*"; exit 1; }

program=$folder/program
cp "$1" "$program"
chmod 755 "$program"
run_as_nobody() { as_nobody env VECDET_ISA=baseline RANK=3 VECDET_PROFILE="$folder/$1.json" "$program"; }

# Without set-user-ID, the program honours it, or this test would prove nothing.
[ "$(run_as_nobody usual 2>/dev/null)" = "baseline, rank 3" ] || fail "VECDET_ISA is not heeded"
[ -e "$folder/usual.rank3.json" ] || fail "VECDET_PROFILE is not heeded"

chmod 4755 "$program"
cp "$(command -v id)" "$folder/id" && chmod 4755 "$folder/id"
if [ "$(as_nobody "$folder/id" -u)" != 0 ]; then
  echo "skipped: set-user-ID programs do not work in $folder"
  exit 77
fi
said=$(run_as_nobody privileged 2>&1)
[ "$said" = "$("$program")" ] || fail "a set-user-ID program obeys its user's environment: $said"
[ -z "$(find "$folder" -name 'privileged*')" ] || fail "a set-user-ID program wrote its user's file"

# Another user's links at the path of root's report.
victim=$folder/victim
echo precious >"$victim"
as_nobody ln -s "$victim" "$folder/report.json"
as_nobody ln -s "$victim" "$folder/report.json.partial"
as_nobody ln -s /dev/full "$folder/full.json"
as_nobody mkfifo "$folder/pipe.json"
for name in report full pipe; do
  VECDET_PROFILE=$folder/$name.json timeout 20 "$1" >/dev/null 2>&1 || fail "$name.json: the program failed"
  [ -f "$folder/$name.json" ] && [ ! -L "$folder/$name.json" ] || fail "$name.json is not a file of root's"
  grep -q '"name":"profiled"' "$folder/$name.json" || fail "$name.json is no report"
done
[ "$(cat "$victim")" = precious ] || fail "a link was followed"
echo "neither the environment nor links of another user's are heeded"
