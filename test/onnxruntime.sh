#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds vecdet::onnxruntime in a root directory of a Debian suite that has ONNX Runtime, and runs its
# tests and examples there.
#
#   onnxruntime.sh [<Debian suite>]      default: sid
#
# Needs root, debootstrap and 2 GB. ROOTS=folder keeps the root directory, and ccache's results of
# its builds, for the next time.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
suite=${1:-sid}
at=${ROOTS:-$scratch}/$suite-onnxruntime
source "$source/test/debian_root.sh"

ensure_root "$suite" \
  ca-certificates,g++,cmake,ninja-build,ccache,libtbb-dev,libxsimd-dev,doctest-dev,nlohmann-json3-dev,zlib1g-dev,libonnxruntime-dev,python3-onnxruntime,python3-onnx,python3-numpy,python3-pil

run g++ --version | head -n 1
build=/build
run cmake -S /src -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DVECDET_ONNXRUNTIME=ON -DVECDET_C=ON \
  -DVECDET_BUILD_TESTS=ON -DVECDET_TEST_PROJECT=ON -DVECDET_BUILD_EXAMPLES=ON
run ninja -C $build -j "${JOBS:-$(nproc)}" vecdet_onnxruntime vecdet_c append_postprocessing
run ctest --test-dir $build -R onnxruntime --output-on-failure | tee "$scratch/log"
# A skipped test counts as passed.
if grep -q 'Skipped' "$scratch/log"; then
  echo "skipped tests"
  exit 1
fi
