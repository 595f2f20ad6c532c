#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is easy to misuse does not compile, and the compiler says why. In each file of
# must_not_compile/, every
#
#   #if WRONG == 3  // says: has_strides
#
# begins lines that must be refused with these words among the compiler's; the lines of its #else are
# the right way. All right ways together must compile.
#
#   must_not_compile.sh <compiler> <flag>...
set -euo pipefail
cd "$(dirname "$0")/must_not_compile"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
# What all files include, parsed once.
header=$scratch/vecdet.hpp
printf '#define VECDET_DISPATCH\n#include <vecdet/vecdet.hpp>\n' >"$header"
"$@" -std=c++17 -x c++-header "$header" -o "$header.gch"
compile=("$@" -std=c++17 -fsyntax-only -include "$header")
status=0 refused=0
for file in *.cpp; do
  # Clang alone warns of what dangles.
  checks=()
  if [ $file = dangling.cpp ]; then
    if "$1" --version | grep -q clang; then checks=(-Werror=dangling); else continue; fi
  fi
  if ! "${compile[@]}" "${checks[@]}" -DWRONG=0 "$file" 2>"$log"; then
    echo "$file: the right ways do not compile:"
    cat "$log"
    status=1
  fi
  wrongs=$(sed -n 's|^#if WRONG == \([0-9]*\)  // says: \(.*\)$|\1 \2|p' "$file")
  [ "$(echo "$wrongs" | wc -l)" = "$(grep -c 'WRONG ==' "$file")" ] ||
    { echo "$file: a line is not in the form of the others"; status=1; }
  while read -r number words; do
    if "${compile[@]}" "${checks[@]}" -DWRONG="$number" "$file" 2>"$log"; then
      echo "$file: WRONG == $number compiles"
      status=1
    elif ! grep -qF -- "$words" "$log"; then
      echo "$file: WRONG == $number is refused without the words \"$words\":"
      cat "$log"
      status=1
    else
      refused=$((refused + 1))
    fi
  done <<<"$wrongs"
done
[ $status = 0 ] && echo "refused: $refused"
exit $status
