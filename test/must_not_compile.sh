#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Misuse must not compile, and the compiler's message must state why. In each file of
# must_not_compile/, every
#
#   // Wrong (has_strides): boxes_view<const float> boxes = rows;
#
# must be refused with these words in the message if it replaces the next line, which is the correct
# form. All correct forms together must compile.
#
#   must_not_compile.sh <compiler> <flag>...
set -euo pipefail
cd "$(dirname "$0")/must_not_compile"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
# The headers included by all files, parsed once.
header=$scratch/vecdet.hpp
printf '#define VECDET_DISPATCH\n#include <vecdet/vecdet.hpp>\n' >"$header"
"$@" -std=c++17 -x c++-header "$header" -o "$header.gch"
compile=("$@" -std=c++17 -fsyntax-only -include "$header")
status=0 refused=0
for file in *.cpp; do
  # Only Clang warns of dangling references.
  checks=()
  if [ $file = dangling.cpp ]; then
    if "$1" --version | grep -q clang; then checks=(-Werror=dangling); else continue; fi
  fi
  if ! "${compile[@]}" "${checks[@]}" "$file" 2>"$log"; then
    echo "$file: the right ways do not compile:"
    cat "$log"
    status=1
  fi
  wrongs=$(sed -n 's|^ *// Wrong (\(.*\)): .*;.*|\1|p' "$file")
  [ "$(echo "$wrongs" | wc -l)" = "$(grep -c '// Wrong' "$file")" ] ||
    { echo "$file: a line is not in the form of the others"; status=1; }
  number=0
  while read -r words; do
    number=$((number + 1))
    awk -v number=$number '/^ *\/\/ Wrong \(/ && ++found == number { sub(/^ *\/\/ Wrong \(.*\): /, ""); print; getline; next }
      { print }' "$file" >"$scratch/$file"
    if "${compile[@]}" "${checks[@]}" "$scratch/$file" 2>"$log"; then
      echo "$file: wrong form $number ($words) compiles"
      status=1
    elif ! grep -qF -- "$words" "$log"; then
      echo "$file: wrong form $number is refused without the words \"$words\":"
      cat "$log"
      status=1
    else
      refused=$((refused + 1))
    fi
  done <<<"$wrongs"
done
[ $status = 0 ] && echo "refused: $refused"
exit $status
