#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the test and the examples of vecdet/opencv.hpp in a root directory of a Debian suite that has OpenCV,
# and runs them there. The model and the picture of examples/onnxruntime/stand_in.py come from one of sid.
#
#   opencv.sh [<Debian suite>]      default: bookworm
#
# Needs root, debootstrap and 4 GB. ROOTS=folder keeps the root directories, and ccache's results of
# the builds, for the next time.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
source "$source/test/debian_root.sh"
need_roots
suite=${1:-bookworm}

stand_in=${ROOTS:-$scratch}/stand_in
if [ ! -e "$stand_in/picture.png" ]; then
  make_root sid sid-onnx python3-onnx,python3-numpy,python3-pil
  mkdir -p "$stand_in" "$at/stand_in"
  run python3 -B /src/examples/onnxruntime/stand_in.py /stand_in/model.onnx /stand_in/picture.png
  cp "$at"/stand_in/* "$stand_in"
fi

make_root "$suite" "$suite-opencv" \
  g++,cmake,ninja-build,ccache,libopencv-dev,libxsimd-dev,libtbb-dev,doctest-dev,nlohmann-json3-dev,python3
rm -rf "$at/stand_in"
cp -r "$stand_in" "$at/stand_in"
build=/build
run cmake -S /src -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DVECDET_STAND_IN=/stand_in \
  -DVECDET_BUILD_TESTS=ON -DVECDET_TEST_PROJECT=ON -DVECDET_BUILD_EXAMPLES=ON -DVECDET_WARNINGS_AS_ERRORS=ON
run ninja -C $build -j "${JOBS:-$(nproc)}" vecdet_opencv vecdet_opencv_fast_math vecdet_opencv_samples opencv_detect opencv_compare
run ctest --test-dir $build -R opencv --output-on-failure | tee "$scratch/log"
# A skipped test counts as passed.
if grep -q 'Skipped' "$scratch/log"; then
  echo "skipped tests"
  exit 1
fi
