#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vecdet compared with torchvision, torch.compile and ONNX Runtime. Creates a root directory of
# Debian's newest suite by debootstrap, builds vecdet::torch there, and runs bench/bench_peers.py, which times
# functions, or with --networks bench/bench_networks.py, which times whole networks.
#
#   peers.sh <root directory> <run file> [options of bench_peers.py]                     needs root and 6 GB
#   peers.sh --networks <root directory> <run file> [options of bench_networks.py]
#
# The root directory is created if missing, and kept. bench/plot_peers.py draws the run file of functions, and
# bench/bench_networks.py report writes the tables of networks. For YOLOX-s, put a clone into the root directory and give
# its path there as --yolox.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
source "$source/test/debian_root.sh" # debian_mirror
source "$source/bench/figures.sh"
networks=
[ "${1-}" != --networks ] || { networks=yes && shift; }
[ $# -ge 2 ] || { sed -n '3,12s/^# \{0,1\}//p' "$0"; exit 2; }
root=$1 run_file=$2
shift 2

run() {
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" &&
    mount --bind -o ro "$1" "$0/src" && exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PYTHONPATH=/build/python \
      CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=/ccache "${@:2}"' "$root" "$source" "$@"
}

if [ ! -e "$root/etc/debian_version" ]; then
  unshare --mount debootstrap --variant=minbase --include=ca-certificates sid "$root" "$(debian_mirror)"
fi
mkdir -p "$root/src" "$root/dev/shm" "$root/ccache"
packages=(g++ cmake ninja-build ccache libtbb-dev libxsimd-dev libtorch-dev libsleef-dev libopenblas0-pthread
  python3-torchvision python3-onnx python3-onnxruntime python3-scipy)
[ -z "$networks" ] || packages+=(python3-transformers python3-loguru python3-opencv)
run dpkg -s "${packages[@]}" >/dev/null 2>&1 ||
  run apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
run cmake -S /src -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DVECDET_TORCH=ON
run cmake --build /build --target vecdet_torch
# Debian's torch.compile does not link Sleef, and without it generates code without vectors.
script=(bench_peers.py --json /build/run.json)
[ -z "$networks" ] || script=(bench_networks.py measure /build/run.json)
[ ! -e "$run_file" ] || cp "$run_file" "$root/build/run.json" # bench_networks.py replaces only the models that it times
run env LD_PRELOAD=libsleef.so.3 python3 "/src/bench/${script[0]}" "${script[@]:1}" "$@"
cp "$root/build/run.json" "$run_file"
