# SPDX-License-Identifier: Apache-2.0
"""The message of `import vecdet` where the library does not load: missing, for another processor, for
another C library, or for a newer one."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import vecdet

HOW = "Install the wheel for this machine, run pip install ./python in the source tree"
AARCH64 = b"\xb7\0"


class Import(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name
        self.library = os.path.join(folder.name, "vecdet", "libvecdet.so.0")
        shutil.copytree(os.path.dirname(vecdet.__file__), os.path.join(folder.name, "vecdet"),
                        ignore=shutil.ignore_patterns("torch", "__pycache__"))

    def message(self, before=""):
        ran = subprocess.run([sys.executable, "-c", before + "\nimport vecdet"], text=True,
                             env={**os.environ, "PYTHONPATH": self.path}, stderr=subprocess.PIPE)
        self.assertEqual(ran.returncode, 1, ran.stderr)
        last = ran.stderr.splitlines()[-1]
        self.assertRegex(last, "^ImportError: vecdet's library does not load: ")
        self.assertIn(HOW, last)
        return last

    def test_missing(self):
        os.remove(self.library)
        self.assertIn(f"there is no {self.library}", self.message())

    def test_another_processor(self):
        with open(self.library, "r+b") as file:
            file.seek(18)
            file.write(AARCH64)
        self.assertIn("it was built for aarch64, and this machine is ",
                      self.message("import platform; platform.machine = lambda: 'x86_64'"))

    def test_another_c_library(self):
        with open(self.library, "r+b") as file:
            file.truncate(64)
        self.assertIn("wheels need glibc, and this Python has another C library, such as musl",
                      self.message("import platform; platform.libc_ver = lambda: ('', '')"))

    def test_what_the_loader_says(self):
        with open(self.library, "r+b") as file:
            file.truncate(64)
        self.assertIn(self.library, self.message())


if __name__ == "__main__":
    unittest.main()
