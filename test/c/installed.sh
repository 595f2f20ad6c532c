#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the C interface, builds a program with its pkg-config file, and runs it.
#
#   installed.sh <cmake> <build tree> <C compiler> <program>
set -euo pipefail
command -v pkg-config >/dev/null || { echo "pkg-config is not installed"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" --install "$2" --prefix "$scratch/installed" --component c >/dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$scratch/installed" -name vecdet-c.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # one word per flag
"$3" -std=c99 "$4" $(pkg-config --cflags --libs vecdet-c) -o "$scratch/program"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir vecdet-c) "$scratch/program"
