#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel in empty root directories without a compiler: Debian 12 with Python 3.11, and sid, with
# their NumPys. Runs the tests of the NumPy package there.
#
#   wheel.sh [<wheel>]      default: packaging/wheel.sh builds it
#
# Needs root, debootstrap and 1 GB. ROOTS=folder keeps the root directories for the next time.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
source "$source/test/debian_root.sh"
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
  echo "needs root and debootstrap"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
wheel=${1:-}
if [ -z "$wheel" ]; then
  "$source/packaging/wheel.sh" "$scratch/wheel"
  wheel=$(echo "$scratch"/wheel/*.whl)
fi
[[ $(basename "$wheel") =~ ^vecdet-[0-9.]+-py3-none-manylinux_[0-9]+_[0-9]+_x86_64.whl$ ]]
[ "$(stat -c %s "$wheel")" -le $((5 << 20)) ]

for suite in bookworm sid; do
  at=${ROOTS:-$scratch}/$suite-wheel
  if [ ! -e "$at/ccache" ]; then
    debootstrap_root "$suite" ca-certificates,python3-numpy,python3-pip >"$scratch/log" ||
      { tail "$scratch/log"; exit 1; }
    mkdir "$at/ccache" # last: the sign that the root is complete
  fi
  cp "$wheel" "$at/tmp"
  if run sh -c 'command -v gcc || command -v c++'; then
    echo "$suite's root directory has a compiler"
    exit 1
  fi
  run python3 -m pip install -q --no-index --no-deps --break-system-packages --force-reinstall \
    --root-user-action=ignore "/tmp/$(basename "$wheel")"
  run python3 -c 'import sys, time
before = time.perf_counter()
import numpy
between = time.perf_counter()
import vecdet
print(f"Python {sys.version.split()[0]}, NumPy {numpy.__version__}, vecdet {vecdet.__version__} on "
      f"{vecdet.active_isa()}, imported in {1e3 * (time.perf_counter() - between):.0f} ms")
assert "torch" not in sys.modules
try:
    import vecdet.torch
except ImportError as error:
    assert "vecdet.torch needs PyTorch" in str(error), error'
  for name in functions arguments raw_outputs docstrings; do
    run env PYTHONDONTWRITEBYTECODE=1 python3 "/src/test/python/test_$name.py"
  done
done
