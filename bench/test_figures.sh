#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Scripts that publish figures remove from their environment what slows OpenBLAS down, and say so. Each of these
# scripts, found by what it does, uses figures.py or figures.sh.
#   test_figures.sh [Python]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
fail() { echo "test_figures.sh: $*" >&2; exit 1; }
export OPENBLAS_CORETYPE=Prescott OPENBLAS_L2_SIZE=64

child='import subprocess; print(subprocess.run(["env"], capture_output=True, text=True).stdout)'
PYTHONPATH=bench "$python" -c "import figures; $child" >"$out/env" 2>"$out/errors"
! grep -q '^OPENBLAS' "$out/env" || fail "figures.py leaves the variables to programs that it starts"
grep -q 'warning: OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE' "$out/errors" || fail "figures.py does not warn"
(source bench/figures.sh; env) >"$out/env" 2>"$out/errors"
! grep -q '^OPENBLAS' "$out/env" || fail "figures.sh leaves the variables"
[ "$(grep -c '^warning: OPENBLAS' "$out/errors")" = 2 ] || fail "figures.sh does not warn of each variable"

# The kernels of NumPy's OpenBLAS, if there is one, are this processor's own.
if "$python" -c 'import numpy' 2>/dev/null; then
  name=$(PYTHONPATH=bench "$python" -c 'import figures, numpy; print(figures.blas())' 2>/dev/null)
  [[ $name != *Prescott* ]] || fail "figures.py came too late: $name"
  echo "$name"
fi

# README's table has the rows with memory kept, marks of unsteady times, and the machine of the run.
PYTHONPATH=bench "$python" - 2>/dev/null <<'PY' || fail "plot_peers.py: see the assertions"
import plot_peers

row = {"problem": "decode", "threads": 1, "allocator": "tuned", "ms": {"vecdet": 1.0, "PyTorch": 3.0},
       "median_ms": {"vecdet": 1.3, "PyTorch": 4.1}}
run = {"results": [dict(row, allocator="installed"), row, dict(row, threads=2)], "date": "2026-01-02", "rounds": 15,
       "processor": "a processor", "processors": 2, "system": "a system", "torch.compile": "avx2", "blas": "a BLAS",
       "versions": {"torch": "3", "torchvision": "2", "onnxruntime": "1"}}
assert plot_peers.headline(run) == [row]
assert "| decode | 1 ms | 3 ms ~, 3.0x |  |  |" in plot_peers.table(plot_peers.headline(run), False)
machine = plot_peers.machine(run).replace("\n", " ")
assert all(word in machine for word in ("2026-01-02", "a processor", "AVX2", "PyTorch 3, a BLAS", "15 rounds"))
PY

# Scripts that read a clock or write into pages; pages.py imports figures.
for script in $(grep -rlE 'perf_counter|process_time|thread_time|^from pages import' bench examples --include='*.py' \
    --exclude-dir=onnxruntime); do # ONNX Runtime has matrix products of its own
  first=$(grep -E '^(import|from) (figures|pages|numpy|torch|vecdet|onnxruntime)\b' "$script" | head -n 1)
  [[ $first =~ ^(import figures|from pages import) ]] || fail "$script does not import figures before: ${first:-nothing}"
done
grep -q '^import figures' examples/detector/pages.py || fail "pages.py does not import figures"
for script in $(grep -rlE '/proc/cpuinfo|bench_peers\.py' bench examples --include='*.sh'); do
  [ "$script" = bench/test_figures.sh ] || grep -q 'figures\.sh' "$script" || fail "$script does not source figures.sh"
done
