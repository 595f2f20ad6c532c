# SPDX-License-Identifier: Apache-2.0
"""Builds vecdet from its source tree:

    pip install ./python

It needs cmake 3.16, ninja or make, a C++17 compiler, oneTBB and xsimd, and takes a few minutes of
CPU time. It shows its progress on the terminal (`pip install -v` also shows the compiler's output)
and compiles on all processors; MAX_JOBS=2 limits it to two files at a time, for machines with
little memory.

The operators of vecdet.torch for PyTorch 2.10 and newer are part of the library; building them
needs no PyTorch. VECDET_TORCH=1 also builds those for the installed PyTorch, of any version, hence
without build isolation, which would download another one:

    VECDET_TORCH=1 pip install --no-build-isolation ./python

or, for other machines with the same Python and PyTorch, as a wheel:

    VECDET_TORCH=1 pip wheel --no-build-isolation --no-deps -w dist ./python
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITH_TORCH = os.environ.get("VECDET_TORCH", "") not in ("", "0")


def torch_cmake_prefix():
    try:
        import torch
    except ImportError:
        sys.exit("vecdet.torch is built for the installed PyTorch, and this Python has none: "
                 "install torch and torchvision first, then run VECDET_TORCH=1 pip install "
                 "--no-build-isolation ./python")
    return torch.utils.cmake_prefix_path


def version():
    text = (ROOT / "include/vecdet/version.hpp").read_text()
    numbers = re.findall(r"define VECDET_VERSION_\w+ (\d+)", text)
    return ".".join(numbers[:3])


def run_with_progress(command):
    """Runs a build and shows its progress. pip hides a build's output unless it fails, so the steps
    that ninja and make count also go to the terminal, if there is one."""
    try:
        terminal = open("/dev/tty", "w")
    except OSError:
        terminal = open(os.devnull, "w")
    with terminal, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as build:
        for line in build.stdout:
            print(line, end="", flush=True)
            step = re.match(r"\[ *(\d+/\d+|\d+%)\]", line)
            if step:
                terminal.write(f"\r  vecdet: compiling, {step[1]} ")
                terminal.flush()
        terminal.write("\r\033[K")
    if build.returncode != 0:
        raise subprocess.CalledProcessError(build.returncode, command)


class CMakeBuild(build_ext):
    FILES = ["libvecdet.so.0"]
    if WITH_TORCH:
        FILES += ["torch/libvecdet_torch.so", "torch/_built_for.py"]

    def build_extension(self, ext):
        build = pathlib.Path(self.build_temp).resolve()
        # The wheel's script puts libraries next to libvecdet.
        configure = [
            "cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
            "-DVECDET_C=ON", "-DVECDET_TORCH_STABLE=ON", "-DVECDET_INSTALL=OFF",
            "-DCMAKE_BUILD_RPATH=$ORIGIN",
        ]
        if WITH_TORCH:
            configure += ["-DVECDET_TORCH=ON", f"-DCMAKE_PREFIX_PATH={TORCH_CMAKE_PREFIX}"]
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        subprocess.run(configure, check=True)
        jobs = os.environ.get("MAX_JOBS", str(os.cpu_count() or 1))
        targets = ["vecdet_c"] + ["vecdet_torch"] * WITH_TORCH
        run_with_progress(["cmake", "--build", str(build), "-j", jobs, "--target", *targets])
        package = pathlib.Path(self.build_lib).resolve() / "vecdet"
        if self.inplace:
            package = pathlib.Path(__file__).resolve().parent / "vecdet"
        for name in self.FILES:
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(build / "python/vecdet" / name, package / name)
        strip = os.environ.get("STRIP", "strip")  # another one if this is cross-compiled
        if shutil.which(strip):
            subprocess.run([strip, "--strip-unneeded", str(package / "libvecdet.so.0")], check=True)

    def get_outputs(self):
        return [str(pathlib.Path(self.build_lib) / "vecdet" / name) for name in self.FILES]


class Wheel(bdist_wheel):
    """ctypes loads libvecdet into any Python."""

    def get_tag(self):
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if WITH_TORCH else ("py3", "none", platform)


TORCH_CMAKE_PREFIX = torch_cmake_prefix() if WITH_TORCH else ""  # before anything is built

setup(
    version=version(),
    ext_modules=[Extension("vecdet.libvecdet", [])],
    cmdclass={"build_ext": CMakeBuild, "bdist_wheel": Wheel},
)
