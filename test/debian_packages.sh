# SPDX-License-Identifier: Apache-2.0
# For scripts that use Debian's packages without installing them, which read it with `source`. Packages come
# from the machine's own mirror, with separate package lists.

# The mirror of this machine's packages.
debian_mirror() {
  # Either file may be missing.
  { cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true; } |
    sed -nE 's/^URIs: *//p; s/^deb (\[[^]]*\] *)?([^ ]+) .*/\2/p' | sed -n 1p
}

# This machine's suite.
debian_suite() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }

# apt_of <folder> <suite> <architecture> <arguments>...: apt-get with the sources of a suite, all of whose files
# are in <folder>.
apt_of() {
  local folder=$1 suite=$2 architecture=$3
  shift 3
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  printf '%s [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' \
    deb "$(debian_mirror)" "$suite" deb-src "$(debian_mirror)" "$suite" >"$folder/sources.list"
  apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
    -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/nonexistent \
    -o Dir::State::lists="$folder/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$folder/cache" \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}

# fetch_packages <suite> <architecture> <folder> <packages>...: the packages and those that they need, unpacked
# into the folder: nothing is installed, and no program of theirs runs.
fetch_packages() {
  local suite=$1 architecture=$2 to=$3 package link
  shift 3
  apt_of "$to/apt" "$suite" "$architecture" update
  apt_of "$to/apt" "$suite" "$architecture" install --yes --no-install-recommends --download-only "$@" >/dev/null
  for package in "$to"/apt/cache/archives/*.deb; do dpkg -x "$package" "$to"; done
  rm -r "$to/apt"
  # Absolute links would lead out of the folder.
  find "$to" -lname '/*' | while read -r link; do ln -snfr "$to$(readlink "$link")" "$link"; done
}

# fetch_source <suite> <package>: unpacks the source package in the current folder. Needs dpkg-dev.
fetch_source() {
  apt_of "$PWD/apt" "$1" "$(dpkg --print-architecture)" update
  apt_of "$PWD/apt" "$1" "$(dpkg --print-architecture)" source "$2" >/dev/null
  rm -r apt
}
