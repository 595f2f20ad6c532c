# SPDX-License-Identifier: Apache-2.0
# For scripts that cross-compile for 64-bit Arm, which read it with `source`.

# fetch_arm_packages <folder> <packages...>: Debian's arm64 packages and those that they need,
# unpacked into the folder: nothing is installed, and no program of theirs runs.
fetch_arm_packages() {
  local to=$1 apt package
  shift
  apt="-o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::lists=$to/lists
       -o Dir::State::status=/dev/null -o Dir::Cache=$to/cache -o APT::Sandbox::User=root
       -o Debug::NoLocking=1"
  mkdir -p "$to/lists/partial" "$to/cache/archives/partial"
  apt-get -qq $apt update
  apt-get -qq $apt install --yes --no-install-recommends --download-only "$@" >/dev/null
  for package in "$to"/cache/archives/*.deb; do dpkg -x "$package" "$to"; done
  rm -r "$to/lists" "$to/cache"
}
