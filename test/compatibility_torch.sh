#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds vecdet::torch and examples/detector in a root directory of a Debian suite, with that
# suite's PyTorch and compiler. Runs what the system's older PyTorch does not support, opcheck,
# torch.compile and torch.export, as well as the tests of the Python package and of the detector. The
# package's tests run twice: with the operators built for this PyTorch, and with those on the stable ABI.
#
#   compatibility_torch.sh [<Debian suite>]      default: sid
#
# Needs root, debootstrap and 3 GB. ROOTS=folder keeps the root directory, and ccache's results of
# its builds, for the next time.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
suite=${1:-sid}
at=${ROOTS:-$scratch}/$suite-torch
source "$source/test/debian_root.sh"

ensure_root "$suite" \
  ca-certificates,g++,cmake,ninja-build,ccache,libtbb-dev,libxsimd-dev,doctest-dev,nlohmann-json3-dev,libcli11-dev,libbenchmark-dev,zlib1g-dev,libjpeg-dev,libpng-dev,libpugixml-dev,libgloo-dev,python3-torch,python3-torchvision,libtorch-dev,python3-setuptools,python3-pip,python3-scipy

run g++ --version | head -n 1
run python3 -c 'import torch, torchvision; print("PyTorch", torch.__version__, "torchvision", torchvision.__version__)'
build=/build
run cmake -S /src -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DVECDET_TORCH=ON -DVECDET_TORCH_STABLE=ON \
  -DVECDET_BUILD_TESTS=ON -DVECDET_TEST_PROJECT=ON -DVECDET_BUILD_EXAMPLES=ON
run ninja -C $build -j "${JOBS:-$(nproc)}" vecdet_torch detector vecdet_test_detector
run g++ -std=c++20 -fsyntax-only -I/src/include /src/test/torch/stable_abi.cpp
run sh -c "rm -rf $build/stable && cp -r $build/python $build/stable &&
  rm $build/stable/vecdet/torch/_built_for.py $build/stable/vecdet/torch/libvecdet_torch.so"
for test in "$source"/test/torch/test_*.py; do
  for package in python stable; do
    run env PYTHONPATH=$build/$package PYTHONDONTWRITEBYTECODE=1 python3 "/src/test/torch/$(basename "$test")"
  done
done
run ctest --test-dir $build -R torch_detector --output-on-failure
# A toolchain may link the C++ library into each module.
run cmake -DCMAKE_SHARED_LINKER_FLAGS=-static-libstdc++ $build
run ninja -C $build vecdet_torch vecdet_c
run cp $build/python/vecdet/libvecdet.so.0 $build/stable/vecdet/
for package in python stable; do
  run env PYTHONPATH=$build/$package PYTHONDONTWRITEBYTECODE=1 python3 /src/test/torch/test_attention.py
done
