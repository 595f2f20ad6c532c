#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Python callables: one that does twice the work of another, its allocations, and errors.
. "$(dirname "$0")/common.sh"
needs_python
measurer=$(cd "$(dirname "$0")/../../../.." && pwd)/python/vecdet/gate.py
export VECDET_GATE=$gate PYTHONDONTWRITEBYTECODE=1
compare() { "$python" "$measurer" "$@"; }

mkdir new
cat >kernel.py <<'END'
def run():
    return sum(i * i for i in range(2000))
def objects():
    return [object() for _ in range(10)]
class Group:
    run = staticmethod(run)
END
sed 's/2000/4000/; s/range(10)/range(20)/' kernel.py >new/kernel.py

# The control's bound is off: this machine may be busy.
expect 1 compare kernel:run new/kernel.py:run --pairs 20 --control 1000 --json out.json
grep -q '^new/kernel.py:run .* SLOWER$' out || fail "twice the work"
expect 0 compare new/kernel.py:run kernel:Group.run --pairs 20 --control 1000
grep -q ' faster, -[45]. %$' out || fail "half the work"
expect 0 compare kernel:objects kernel:objects --pairs 20 --control 1000 --threshold 100 --json same.json
expect 1 compare kernel:objects new/kernel.py:objects --pairs 20 --control 1000 --json out.json
"$python" - <<'END'
import json
counts = json.load(open("out.json"))["problems"][0]["counts"]
assert counts["head"]["allocations"] - counts["base"]["allocations"] >= 10, counts
same = json.load(open("same.json"))["problems"][0]["counts"]
assert same["head"] == same["base"] and same["base"]["allocations"] >= 10, same
END

# The modules beside gate.py do not hide others of their names.
mkdir others
echo 'def run(): return sum(range(2000))' | tee others/torch.py >others/sahi.py
PYTHONPATH=others expect 0 compare torch:run sahi:run --pairs 20 --control 1000 --threshold 100

expect 2 compare kernel:run kernel:walk
has err '"kernel:walk": "kernel" has no "walk"'
expect 2 compare kernel:run nowhere.py:run
has err 'there is no file "nowhere.py"'
expect 2 compare kernel:run kernel
has err 'expected module:function'
expect 2 compare kernel:run no_module:run
has err "No module named 'no_module'"
expect 2 compare kernel:run kernel:__name__
has err '"kernel:__name__" is not callable'
expect 2 compare kernel:run
expect 0 compare --help
has out 'python -m vecdet.gate'

# Functions whose body does not run when they are called.
cat >unrun.py <<'END'
import functools
async def coroutine(): pass
def generator(): yield 1
async def asynchronous(): yield 1
partial = functools.partial(coroutine)
partial_generator = functools.partial(generator)
class Called:
    async def __call__(self): pass
    def method(self): yield 1
called = Called()
@functools.wraps(coroutine)
def wrapped(): return coroutine()
END
for name in coroutine generator asynchronous partial partial_generator called called.method wrapped; do
  expect 2 compare kernel:run unrun:$name
  has err "\"unrun:$name\" returns a" 'whose body does not run'
done

# Functions that do not return: each is named, with what it says. They may use file descriptor 3.
cat >ends.py <<'END'
import os, sys
calls = 0
def exits(): sys.exit(0)
def exits_at_once(): os._exit(0)
def raises(): raise ValueError("no data")
def raises_later():
    global calls
    calls += 1
    if calls > 100: raise ValueError("no more data")
def writes(): os.write(3, b"text")
END
expect 2 compare kernel:run ends:exits
has err '"ends:exits" raised SystemExit(0), expected it to return'
expect 2 compare ends:exits_at_once kernel:run
has err '"ends:exits_at_once" ended the measuring process (exit code 0), expected it to return'
for name in raises raises_later; do
  expect 2 compare kernel:run ends:$name --pairs 20
  has err 'Traceback' "in $name" 'ValueError: no ' "\"ends:$name\" raised ValueError('no "
done
expect 0 compare ends:writes ends:writes --pairs 20 --control 1000 --threshold 1000

# No error looks like a slowdown, whose exit code is 1: without the command, with one that cannot be run, and where the
# package vecdet cannot be imported.
expect 2 compare
VECDET_GATE='' PATH=/nowhere expect 2 compare kernel:run kernel:run
has err 'there is no command vecdet-gate'
mkdir nothing
echo 'no program' >text
chmod +x text
for named in /nowhere nothing text; do
  VECDET_GATE=$named expect 2 compare kernel:run kernel:run
  has err "$named\""
done
mkdir -p broken/numpy
echo 'raise ImportError("no NumPy here")' >broken/numpy/__init__.py
PYTHONPATH=broken:$(dirname "$(dirname "$measurer")")
export PYTHONPATH
if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
  VECDET_GATE=/nowhere expect 2 "$python" -m vecdet.gate kernel:run kernel:run
  expect 0 "$python" -m vecdet.gate --help
  expect 1 "$python" -m vecdet.gate kernel:run new/kernel.py:run --pairs 20 --control 1000
  expect 2 "$python" -m vecdet.gate kernel:run kernel:walk
fi

# A function that never returns.
echo 'def run(): 
    while True: pass' >endless.py
expect 2 compare kernel:run endless:run --time-limit 2
has err 'the measuring process: killed after 2 s without an end (--time-limit)'
