#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Misuse must not compile, and the compiler's message must state why. In each file of
# must_not_compile/, every
#
#   // Wrong (has_strides): boxes_view<const float> boxes = rows;
#
# must be refused in the place of the next line, which is the correct form, by an error that names this
# line and contains these words. All correct forms together must compile.
#
# One run of the compiler tries all wrong forms of a file: each is a block of its own before its correct form, so
# that it is compiled among correct forms only. A compiler may report an error once for two forms, as that of a
# class that both need. Forms that are not refused are therefore tried again without those that were, until a
# run refuses no more.
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
clang=
if "$1" --version | grep -q clang; then clang=yes; fi
all_errors=(-fmax-errors=0)
[ -z "$clang" ] || all_errors=(-ferror-limit=0)
status=0 refused=0

# with_wrong_forms <file> <line>...: the file with the wrong forms of these lines. Messages call the line N "wrong_N".
with_wrong_forms() {
  awk -v lines=" ${*:2} " 'index(lines, " " NR " ") {
      form = $0
      sub(/^ *\/\/ Wrong \(.*\): /, "", form)
      printf "#line 1 \"wrong_%d\"\n{ %s }\n#line %d \"%s\"\n", NR, form, NR, FILENAME
    }
    { print }' "$1"
}

# messages <line>: those of $log's errors that name the wrong form. An error begins with the lines "In ...", which
# say where it was instantiated, or at "error:"; Clang says so afterwards. Lines of headers that messages quote count.
messages() {
  awk -v name="wrong_$1:" 'function flush() { if (index(text, name)) printf "%s", text; text = ""; has_error = 0 }
    (/: In / || / error: /) && has_error { flush() }
    / error: / { has_error = 1 }
    { text = text $0 "\n" }
    END { flush() }' "$log"
}

for file in *.cpp; do
  # Only Clang warns of dangling references.
  checks=()
  if [ $file = dangling.cpp ]; then
    if [ -n "$clang" ]; then checks=(-Werror=dangling); else continue; fi
  fi
  if ! "${compile[@]}" "${checks[@]}" "$file" 2>"$log"; then
    echo "$file: the right ways do not compile:"
    cat "$log"
    status=1
  fi
  mapfile -t left < <(sed -n '\|^ *// Wrong (.*): .*;|=' "$file")
  [ "${#left[@]}" = "$(grep -c '// Wrong' "$file")" ] ||
    { echo "$file: a line is not in the form of the others"; status=1; }
  more=yes
  while [ -n "$more" ] && [ ${#left[@]} -gt 0 ]; do
    more=
    with_wrong_forms "$file" "${left[@]}" >"$scratch/$file"
    ! "${compile[@]}" "${checks[@]}" "${all_errors[@]}" "$scratch/$file" 2>"$log" || break
    tried=("${left[@]}") left=()
    for line in "${tried[@]}"; do
      words=$(sed -n "$line"'s|^ *// Wrong (\(.*\)): .*|\1|p' "$file")
      if messages "$line" | grep -F -- "$words" >/dev/null; then # reads all, for pipefail
        refused=$((refused + 1))
        more=yes
      else
        left+=("$line")
      fi
    done
  done
  for line in "${left[@]}"; do
    echo "$file:$line: not refused with the words of this line; messages about it:"
    messages "$line"
    status=1
  done
done
[ $status = 0 ] && echo "refused: $refused"
exit $status
