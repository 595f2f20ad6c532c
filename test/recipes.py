#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conan's recipe and vcpkg's port parse and are of the version in version.hpp: all that can be said of them
without their tools."""

import ast
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
version = ".".join(re.findall(r"define VECDET_VERSION_\w+ (\d+)", (ROOT / "include/vecdet/version.hpp").read_text()))
packaging = ROOT / "packaging"

for recipe in packaging.rglob("conanfile.py"):
    ast.parse(recipe.read_text(), str(recipe))
for name in ("conan/config.yml", "conan/all/conandata.yml"):
    found = re.findall(r'^  "([\d.]+)":$', (packaging / name).read_text(), re.M)
    assert found == [version], f"{name} has {found}, the library is {version}"
port = json.loads((packaging / "vcpkg/vcpkg.json").read_text())
assert port["version"] == version, f"vcpkg.json has {port['version']}, the library is {version}"
assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(), f"the changelog has no {version}"
assert f"libvecdet-dev_{version}_all.deb" in (ROOT / "docs/packages.md").read_text(), "packages.md: version"
print(f"recipe and port of {version}")
