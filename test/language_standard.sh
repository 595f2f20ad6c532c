#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every public header says first that it needs C++17 where it is compiled as C++14.
#   language_standard.sh <compiler> <flag>...
set -euo pipefail
cd "$(dirname "$0")/../include/vecdet"
# GCC stops at the first error; Clang parses all that follows, so it only preprocesses.
stage=-fsyntax-only
if "$1" --version | grep -q clang; then stage=-E; fi
checked=0
for header in *.hpp profile/control.hpp profile/scope.hpp reference/*.hpp; do
  [ $header != version.hpp ] || continue # macros
  said=$("$@" -std=c++14 "$stage" -Wfatal-errors -x c++ "$header" 2>&1 >/dev/null | grep -m1 'error:' || true)
  case $said in
    *"vecdet requires C++17: compile with -std=c++17"*) checked=$((checked + 1)) ;;
    *) echo "$header: the first error is: ${said:-none}"; exit 1 ;;
  esac
done
echo "headers: $checked"
