#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the files of a release from the clone's revision, which must have the tag v<version>:
#
#   release.sh <folder>     wheel, source archive, single header, Debian package, notes.md and SHA256SUMS
#
# Needs root, debootstrap and what .ci/packages names. ROOTS=folder keeps the root directories of the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { sed -n '3,7s/^# \{0,1\}//p' "$0"; exit 2; }
version=$(awk '/define VECDET_VERSION_(MAJOR|MINOR|PATCH)/ { printf "%s%s", dot, $3; dot = "." }' include/vecdet/version.hpp)
[ "$(git describe --tags --exact-match 2>/dev/null)" = "v$version" ] ||
  { echo "release.sh: the revision has no tag v$version, the version in include/vecdet/version.hpp"; exit 1; }
[ -z "$(git status --porcelain)" ] || { echo "release.sh: the clone has changes that are not committed"; exit 1; }
mkdir -p "$1"
to=$(realpath "$1")
[ -z "$(ls -A "$to")" ] || { echo "release.sh: $1 is not empty"; exit 1; }

awk -v "title=## $version" '$0 == title { inside = 1; next } /^## / { inside = 0 } inside' CHANGELOG.md >"$to/notes.md"
grep -q . "$to/notes.md" || { echo "release.sh: CHANGELOG.md has no section $version"; exit 1; }
git archive --format=tar.gz --prefix="vecdet-$version/" -o "$to/vecdet-$version.tar.gz" HEAD
packaging/single_header.py "$to/vecdet.hpp"
packaging/wheel.sh "$to"
test/wheel.sh "$to"/*.whl
cmake --workflow --preset package
cp build/package/libvecdet-dev_*_all.deb "$to"
cd "$to"
sha256sum -- * >SHA256SUMS
