#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Allocations and page faults per call of a program built with Google Benchmark. The sanitizers' own
# allocators cannot be counted.
. "$(dirname "$0")/common.sh"
needs_python
code=0
"$gate" run --base "$sample" --head "$sample" --pairs 20 --control 100 --json out.json >out 2>err || code=$?
[ $code = 0 ] || [ $code = 3 ] || fail "exit code $code"
"$python" - <<'END'
import json
found = {p["name"]: p["counts"] for p in json.load(open("out.json"))["problems"]}
for side in ("base", "head"):
    assert found["three_allocations"][side] == {"allocations": 3, "page_faults": 0}, found
    assert found["five_page_faults"][side] == {"allocations": 0, "page_faults": 5}, found
    assert found["paused/iterations:4"][side]["allocations"] == 0, found
END
