#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libvecdet exports the functions of c.h, which symbols.txt lists, and nothing else. It has its
# SONAME, and runs no instruction of AVX outside the kernels for it.
#
#   symbols.sh <libvecdet.so> [<file>]    the file lists further functions that the library exports:
#                                         symbols_torch.txt, if it was built with VECDET_TORCH_STABLE
set -euo pipefail
library=$(realpath "$1")
further=$(if [ $# -gt 1 ]; then cat "$2"; fi)
cd "$(dirname "$0")"
exported=$(nm --dynamic --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort)
diff <(echo "$exported") <({ cat symbols.txt && echo "$further"; } | LC_ALL=C sort | sed '/^$/d') ||
  { echo "exported symbols differ from symbols.txt${2:+ and $2}"; exit 1; }
[ "$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')" = libvecdet.so.0 ] || { echo "the SONAME is not libvecdet.so.0"; exit 1; }
if [ "$(uname -m)" = x86_64 ]; then
  ../check_symbols.sh program "$library"
fi
echo "$(wc -l <symbols.txt) symbols"
