"""The wheel that build_wheel made: what is in it, and whether its tag is true."""

import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from support import ROOT


def load_builder():
    loader = SourceFileLoader("build_wheel", str(ROOT / "bindings" / "python" / "build_wheel"))
    module = module_from_spec(spec_from_loader("build_wheel", loader))
    loader.exec_module(module)
    return module


class Wheel(unittest.TestCase):
    def setUp(self):
        wheels = sorted((ROOT / "build" / "wheel").glob("*.whl"))
        if not wheels:
            self.skipTest("no wheel was made")
        self.wheel = wheels[-1]

    def test_everything_goes_where_files_of_a_machine_go(self):
        with zipfile.ZipFile(self.wheel) as files:
            names = files.namelist()
            about = files.read(next(name for name in names if name.endswith(".dist-info/WHEEL"))).decode()
        self.assertIn("Root-Is-Purelib: false", about)
        self.assertEqual([name for name in names if ".data/" in name], [])
        self.assertEqual(sorted(name for name in names if "/_lib/" in name),
                         ["libprefix/_lib/libprefix.so.1", "libprefix/_lib/libprefix_text.so.1"])

    def test_libraries_need_no_more_than_the_tag_names(self):
        if not shutil.which("readelf"):
            self.skipTest("readelf is not installed")
        minor = int(re.search(r"manylinux_2_(\d+)_", self.wheel.name)[1])
        builder = load_builder()
        policy = [newest for since, newest in builder.MANYLINUX if since <= minor][-1]
        policy = {**policy, "GLIBC": (2, minor)}
        allowed = {"libgcc_s.so.1", "libstdc++.so.6", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"}
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(self.wheel) as files:
            files.extractall(folder)
            for library in Path(folder).rglob("_lib/*"):
                said = subprocess.run(["readelf", "-dV", library], capture_output=True, text=True, check=True).stdout
                self.assertEqual(set(re.findall(r"\(NEEDED\).*\[(.+)\]", said)) - allowed, set(), library.name)
                found = re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+) ", said)
                self.assertTrue(found)
                for kind, version in found:
                    self.assertLessEqual(tuple(map(int, version.split("."))), policy[kind], f"{library.name}: {kind}")


class Tag(unittest.TestCase):
    def test_is_the_oldest_that_has_all(self):
        of = load_builder().manylinux_of
        self.assertEqual(of(b""), 17)
        self.assertEqual(of(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_PRIVATE\0"), 34)
        self.assertEqual(of(b"\0GLIBC_2.34\0GLIBCXX_3.4.29\0CXXABI_1.3.13\0"), 34)
        self.assertEqual(of(b"\0GLIBC_2.34\0GLIBCXX_3.4.30\0CXXABI_1.3\0"), 35)
        self.assertEqual(of(b"\0CXXABI_1.3.15\0CXXABI_FLOAT128\0"), 39)
        self.assertEqual(of(b"\0GCC_3.0\0GCC_7.0.0\0GLIBC_2.28\0"), 28)
        with self.assertRaisesRegex(ValueError, "GLIBCXX_3.4.99 is needed; manylinux_2_39 has GLIBCXX_3.4.33"):
            of(b"\0GLIBCXX_3.4.99\0")
