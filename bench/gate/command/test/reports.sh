#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files that a run writes, and the history's page and export.
. "$(dirname "$0")/common.sh"
needs_python

program base 'sum/1024 100' 'a<b>|c 50'
program head 'sum/1024 104' 'a<b>|c 25'
expect 1 "$gate" run --base base --head head --pairs 20 --json out.json --markdown out.md --junit out.xml \
  --history history.jsonl --label abc
has out.md '### Performance gate: fail' '2 compared, 1 slower, 1 faster' '| SLOWER |' 'a&lt;b>\|c' '-50.0%'
"$python" - <<'END'
import json
import xml.etree.ElementTree as xml
result = json.load(open("out.json"))
assert result["verdict"] == "fail" and result["exit_code"] == 1 and result["pairs"] == 20, result
slow, fast = result["problems"]
assert slow["name"] == "sum/1024" and slow["verdict"] == "SLOWER" and len(slow["processes"]) == 3, slow
assert slow["processes"][0]["base_ns"] == 100 and slow["processes"][0]["head_ns"] == 104, slow
assert fast["name"] == "a<b>|c" and fast["verdict"] == "faster" and len(fast["processes"]) == 1, fast
suite = xml.parse("out.xml").getroot()
assert suite.attrib["tests"] == "2" and suite.attrib["failures"] == "1", suite.attrib
cases = suite.findall("testcase")
assert [c.attrib["name"] for c in cases] == ["sum/1024", "a<b>|c"]
assert "SLOWER" in cases[0].find("failure").attrib["message"] and cases[1].find("failure") is None
line = json.loads(open("history.jsonl").read())
assert line["revision"] == "abc" and line["benchmarks"]["sum/1024"]["head_ns"] == 104, line
END

# A history of 40 runs, in whose middle one benchmark becomes 10 % slower.
"$python" - <<'END'
import json
with open("history.jsonl", "w") as out:
    for i in range(40):
        ns = (100 if i < 20 else 110) + (i * 7 % 5) / 10
        print(json.dumps({"time": f"2026-01-{1 + i // 2:02}T{i % 2 * 12:02}:00:00Z", "revision": f"r{i}",
                          "machine": "m", "verdict": "pass", "benchmarks":
                          {"sum<1>": {"head_ns": ns}, "even": {"head_ns": 50 + (i * 3 % 7) / 10}}}),
              file=out)
END
expect 0 "$gate" history history.jsonl --html page.html --otava otava
[ "$(cat out)" = "sum<1>: +10.0% since 2026-01-11T00:00:00Z r20" ] || fail "$(cat out)"
has page.html 'sum&lt;1&gt;' '2 benchmarks, 1 change.' '+10.0%' 'class="change"'
[ "$(grep -c '<svg' page.html)" = 2 ] || fail "two plots"
if grep -q 'http' page.html; then fail "the page refers to others"; fi
has otava/otava.yaml '"sum<1>":' 'type: csv' 'file: "otava/2.csv"' 'direction: -1'
"$python" - <<'END'
import csv
rows = list(csv.DictReader(open("otava/2.csv", newline="")))
assert len(rows) == 40 and rows[20]["commit"] == "r20" and float(rows[20]["ns"]) == 110, rows[20]
assert rows[20]["time"] == "2026-01-11T00:00:00Z", rows[20]
END

# A run that was cut off within its line costs that line alone: later ones begin lines of their own, and readers name
# and skip it.
cp history.jsonl torn.jsonl
printf '{"time": "2026-02-01T00:00:00Z", "revision": "to' >>torn.jsonl
expect 0 "$gate" history torn.jsonl
[ "$(cat out)" = "sum<1>: +10.0% since 2026-01-11T00:00:00Z r20" ] || fail "a torn last line"
has err '"torn.jsonl", line 41 is not complete JSON: skipped'
expect 1 "$gate" run --base base --head head --pairs 20 --history torn.jsonl --label after
expect 0 "$gate" history torn.jsonl --html page.html
has err '"torn.jsonl", line 41 is not complete JSON: skipped'
has page.html '4 benchmarks'
"$python" - <<'END'
import json
lines = open("torn.jsonl").read().split("\n")
assert len(lines) == 43 and lines[42] == "" and json.loads(lines[41])["revision"] == "after", lines[40:]
END
# On a full disk (here: a limit of 12 KiB), the history stays as it was.
head -c 12200 /dev/zero | tr '\0' ' ' >full.jsonl
echo >>full.jsonl
cp full.jsonl before.jsonl
(ulimit -f 12 && trap '' XFSZ && expect 2 "$gate" run --base base --head head --pairs 20 --history full.jsonl)
has err '"full.jsonl" cannot be written: '
cmp full.jsonl before.jsonl || fail "the history has changed"
expect 2 "$gate" run --base base --head head --pairs 20 --history /dev/full
has err '"/dev/full" cannot be written: '

# A time of null, which JSON's writer makes of a number that is not finite, costs that time alone.
head -n 40 history.jsonl >null.jsonl
echo '{"time": "2026-02-01T00:00:00Z", "revision": "r", "machine": "m", "benchmarks": {"even": {"head_ns": null}}}' >>null.jsonl
expect 0 "$gate" history null.jsonl
has err '"null.jsonl", line 41: head_ns of "even" is null: skipped'
[ "$(cat out)" = "sum<1>: +10.0% since 2026-01-11T00:00:00Z r20" ] || fail "a time of null"

expect 2 "$gate" history nowhere.jsonl
has err '"nowhere.jsonl" cannot be read'
echo '{"time": 3}' >>history.jsonl
expect 2 "$gate" history history.jsonl
has err '"history.jsonl", line 41: '
expect 2 "$gate" run --base base --head head --pairs 20 --json no/such/folder.json
has err '"no/such/folder.json" cannot be written'
