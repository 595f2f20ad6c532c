#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The single header, newly generated, compiles without any other file of vecdet, in two files of one
# program, gives the known loss, and includes the profiler; a dispatching program is refused.
#   single_header.sh <compiler> [flags that find xsimd and oneTBB]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

"$here/../packaging/single_header.py" vecdet.hpp
head -n 2 vecdet.hpp
if grep -n '#include <vecdet/' vecdet.hpp; then exit 1; fi
version=$(sed -nE 's/^#define VECDET_VERSION_[A-Z]+ //p' "$here/../include/vecdet/version.hpp" | paste -sd .)
grep -q "^// vecdet $version, revision [0-9a-f]* of 20" vecdet.hpp || grep -q "revision unknown" vecdet.hpp

# trainer.cpp compares a loss and its gradient with numbers derived by hand.
for file in trainer header_only; do
  sed -E 's|#include <vecdet/.*>|#include "vecdet.hpp"|' "$here/consumers/$file.cpp" >$file.cpp
  "$@" -std=c++17 -O0 -ffp-contract=off -DHEADER_ONLY_TOO -I. -c $file.cpp -o $file.o
done
"$1" trainer.o header_only.o -ltbb -o trainer
VECDET_PROFILE=1 ./trainer 2>profile
grep -q sigmoid_focal_loss_and_grad/labels/f32/4x3 profile
if "$@" -std=c++17 -DVECDET_DISPATCH -fsyntax-only trainer.cpp 2>refusal; then exit 1; fi
grep -q 'is header-only' refusal
