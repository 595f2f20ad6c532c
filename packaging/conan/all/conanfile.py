# The recipe of vecdet: headers, units and the CMake file that creates the targets in the user's tree.
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, get
from conan.tools.layout import basic_layout
from conan.tools.scm import Version

required_conan_version = ">=2.0"


class VecdetConan(ConanFile):
    name = "vecdet"
    description = "SIMD kernels for training and running object detectors on CPUs"
    license = "Apache-2.0"
    url = "https://github.com/conan-io/conan-center-index"
    homepage = "https://arxiv.org/abs/2206.10034"
    topics = ("simd", "object-detection", "focal-loss", "nms", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    def layout(self):
        basic_layout(self, src_folder="src")

    def requirements(self):
        self.requires("xsimd/[>=8.1 <15]")
        self.requires("onetbb/[>=2021.8]")

    def package_id(self):
        self.info.clear()

    def validate(self):
        check_min_cppstd(self, 17)
        if self.settings.os == "Windows":
            raise ConanInvalidConfiguration(f"{self.ref} needs GCC or Clang on a system like Linux")
        if self.settings.compiler == "gcc" and Version(self.settings.compiler.version) < "11":
            raise ConanInvalidConfiguration(f"{self.ref} needs GCC 11, which knows -march=x86-64-v3")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "*", os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))
        copy(self, "vecdet-targets.cmake", os.path.join(self.source_folder, "cmake"),
             os.path.join(self.package_folder, "lib", "cmake"))

    def package_info(self):
        # vecdet::vecdet, only the headers. For vecdet::dispatch a project includes vecdet-targets.cmake,
        # from this package's folder lib/cmake, and calls vecdet_add_targets(<include folder>).
        self.cpp_info.set_property("cmake_file_name", "vecdet")
        self.cpp_info.set_property("cmake_target_name", "vecdet::vecdet")
        self.cpp_info.set_property("pkg_config_name", "vecdet")
        self.cpp_info.requires = ["xsimd::xsimd", "onetbb::libtbb"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
