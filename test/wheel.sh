#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel in empty root directories without a compiler: Debian 11, 12, 13 and sid, with their Pythons
# and NumPys. Runs the tests of the NumPy package there; those of a wheel for 64-bit Arm, under
# emulation, with Debian 12's arm64 Python and NumPy. Then also Debian 12 with its PyTorch, which is too
# old, and sid with its PyTorch and torchvision: a training step of an accelerated RetinaNet.
#
#   wheel.sh [<wheel>]         default: packaging/wheel.sh builds it
#   wheel.sh --arch arm64      builds the wheel for 64-bit Arm
#
# Needs root, debootstrap and 7 GB. ROOTS=folder keeps the root directories for the next time.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
source "$source/test/debian_root.sh"
need_roots
if [ $# = 1 ]; then
  wheel=$1
else
  "$source/packaging/wheel.sh" "$@" "$scratch/wheel"
  wheel=$(echo "$scratch"/wheel/*.whl)
fi
[[ $(basename "$wheel") =~ ^vecdet-[0-9.]+-py3-none-manylinux_[0-9]+_[0-9]+_(x86_64|aarch64).whl$ ]]
machine=${BASH_REMATCH[1]}
[ "$(stat -c %s "$wheel")" -le $((6 << 20)) ]

# make_wheel_root <suite> <folder> <packages>: with the wheel in /wheel, and without a compiler.
make_wheel_root() {
  make_root "$@"
  if run sh -c 'command -v gcc || command -v c++'; then
    echo "$2 has a compiler"
    exit 1
  fi
  mkdir -p "$at/wheel"
  cp "$wheel" "$at/wheel"
}

# test_package <tests>: where python() has the wheel.
test_package() {
  python -c 'import platform, sys, time
before = time.perf_counter()
import numpy
between = time.perf_counter()
import vecdet
print(f"Python {sys.version.split()[0]}, NumPy {numpy.__version__}, vecdet {vecdet.__version__} on "
      f"{platform.machine()}, {vecdet.active_isa()}, imported in "
      f"{1e3 * (time.perf_counter() - between):.0f} ms")
assert "torch" not in sys.modules
try:
    import vecdet.torch
except ImportError as error:
    assert "vecdet.torch needs PyTorch" in str(error), error'
  local name
  for name in functions queries arguments postprocess_yolo docstrings; do
    python "/src/test/python/test_$name.py"
  done
}

if [ "$machine" = aarch64 ]; then
  make_wheel_root bookworm bookworm-wheel-emulated ca-certificates,qemu-user-static
  run rm -rf /arm
  # Every Debian has libstdc++6, which apt needs; NumPy does not ask for it.
  run bash -c 'source /src/test/debian_packages.sh && fetch_packages bookworm arm64 /arm python3-numpy libstdc++6'
  lib=/arm/usr/lib/aarch64-linux-gnu
  # Debian's alternatives choose BLAS and LAPACK when packages are installed.
  python() {
    run qemu-aarch64-static -L /arm -E PYTHONHOME=/arm/usr -E PYTHONDONTWRITEBYTECODE=1 \
      -E PYTHONPATH=/arm/vecdet:/arm/usr/lib/python3/dist-packages \
      -E "LD_LIBRARY_PATH=$lib:$lib/blas:$lib/lapack" /arm/usr/bin/python3 "$@"
  }
  python -m zipfile -e "/wheel/$(basename "$wheel")" /arm/vecdet
  test_package
  exit
fi

python() { run env PYTHONDONTWRITEBYTECODE=1 python3 "$@"; }
install_wheel() { # as a variable: the pip of Debian 11 does not know the option
  run env PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install -q --no-index --no-deps \
    --force-reinstall "/wheel/$(basename "$wheel")"
}
for suite in bullseye bookworm trixie sid; do
  packages=ca-certificates,python3-numpy,python3-pip
  [ $suite != sid ] || packages=$packages,python3-ml-dtypes
  make_wheel_root $suite $suite-wheel $packages
  install_wheel
  python -c 'from importlib.metadata import metadata
about = metadata("vecdet")
text = about.get_payload() or about["Description"] or ""
assert about["Summary"] and about["Description-Content-Type"] == "text/markdown", about.items()
assert "vecdet.postprocess_yolo" in text and "Apache-2.0" in text, text'
  test_package
  # What users without NumPy see.
  python -c 'import sys
sys.modules["numpy"] = None
try:
    import vecdet
except ImportError as error:
    assert "pip install numpy" in str(error), error
else:
    sys.exit("imported without NumPy")'
done

make_wheel_root bookworm bookworm-wheel-torch ca-certificates,python3-numpy,python3-torchvision,python3-pip
install_wheel
python -c 'import sys
try:
    import vecdet.torch
except ImportError as error:
    assert "needs PyTorch 2.10 or newer, but this is PyTorch 1.13" in str(error), error
else:
    sys.exit("vecdet.torch loaded into an old PyTorch")'

start=$SECONDS
make_wheel_root sid sid-wheel-torch ca-certificates,python3-torch,python3-torchvision,python3-pip
install_wheel
python /src/test/wheel_torch.py
echo "root directory, wheel and an accelerated step: $((SECONDS - start)) s"
