#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libvecdet_onnxruntime exports what symbols.txt lists and nothing else, does not link the runtime, which
# passes its functions, and runs no instruction of AVX outside the kernels for it.
#
#   symbols.sh <libvecdet_onnxruntime.so>
set -euo pipefail
library=$(realpath "$1")
cd "$(dirname "$0")"
diff <(nm --dynamic --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort) symbols.txt ||
  { echo "exported symbols differ from symbols.txt"; exit 1; }
if objdump -p "$library" | grep 'NEEDED.*onnxruntime'; then
  echo "it links the runtime"
  exit 1
fi
if [ "$(uname -m)" = x86_64 ]; then
  ../check_symbols.sh program "$library"
fi
