# SPDX-License-Identifier: Apache-2.0
"""Builds vecdet's operators for the PyTorch of the Python that runs this:

    pip install --no-build-isolation ./python

or, for other machines with the same Python and PyTorch, as a wheel:

    pip wheel --no-build-isolation --no-deps -w dist ./python && pip install dist/vecdet-*.whl

A build takes a few minutes of CPU time. It shows its progress on the terminal (`pip install -v`
also shows the compiler's output) and compiles on all processors; MAX_JOBS=2 limits it to two files
at a time, for machines with little memory. It needs cmake 3.16, ninja or make, a C++17 compiler,
oneTBB and xsimd. The library must match the installed PyTorch, hence --no-build-isolation: without
it, pip would download another one.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent.parent


def torch_cmake_prefix():
    try:
        import torch
    except ImportError:
        sys.exit("vecdet is built for the installed PyTorch, and this Python has none: install "
                 "torch and torchvision first, then run pip install --no-build-isolation ./python")
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
    def build_extension(self, ext):
        build = pathlib.Path(self.build_temp).resolve()
        configure = [
            "cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
            "-DVECDET_TORCH=ON", "-DVECDET_INSTALL=OFF",
            f"-DCMAKE_PREFIX_PATH={TORCH_CMAKE_PREFIX}",
        ]
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        subprocess.run(configure, check=True)
        jobs = os.environ.get("MAX_JOBS", str(os.cpu_count() or 1))
        run_with_progress(["cmake", "--build", str(build), "--target", "vecdet_torch", "-j", jobs])
        package = pathlib.Path(self.build_lib).resolve() / "vecdet"
        if self.inplace:
            package = pathlib.Path(__file__).resolve().parent / "vecdet"
        package.mkdir(parents=True, exist_ok=True)
        for name in ("libvecdet_torch.so", "_built_for.py"):
            shutil.copy(build / "python/vecdet" / name, package)

    def get_outputs(self):
        package = pathlib.Path(self.build_lib) / "vecdet"
        return [str(package / "libvecdet_torch.so"), str(package / "_built_for.py")]


TORCH_CMAKE_PREFIX = torch_cmake_prefix()  # before anything is built

setup(
    version=version(),
    ext_modules=[Extension("vecdet.libvecdet_torch", [])],
    cmdclass={"build_ext": CMakeBuild},
)
