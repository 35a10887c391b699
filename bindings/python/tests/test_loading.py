"""Libraries that are not the ones that the package was made for."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from libprefix import _native
from support import ROOT


def real_library():
    """Of the package, or where the build left it."""
    packed = Path(_native.__file__).parent / "_lib" / "libprefix.so.1"
    return packed if packed.exists() else ROOT / "build" / "lib" / "libprefix.so.1"


class Loading(unittest.TestCase):
    def test_older_libraries_are_refused(self):
        if not shutil.which("cc"):
            self.skipTest("cc is not installed")
        for name, function in (("libprefix.so.1", "prefix_abi_version"), ("libprefix_text.so.1", "prefix_text_abi_version")):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "libprefix.so.1").symlink_to(real_library().resolve())
                (Path(folder) / name).unlink(missing_ok=True)
                subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", Path(folder) / name], text=True, check=True,
                               input=f"int {function}(void) {{ return 0; }}")
                done = subprocess.run([sys.executable, "-c", "import libprefix"], capture_output=True, text=True,
                                      env={**os.environ, "LIBPREFIX_DIR": folder})
                self.assertIn(f"ImportError: {name} has interface 0; this package needs 1", done.stderr)
