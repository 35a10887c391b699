"""The Debian package of the service: what it holds. That it runs is in test_container.py."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from packed import ROOT, folders_named, run


class Server(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for program in ("dpkg-deb", "cargo"):
            if not shutil.which(program):
                raise unittest.SkipTest(f"{program} is not installed")
        fetched = subprocess.run(["cargo", "fetch", "--locked", "--manifest-path", ROOT / "samples/server/Cargo.toml"],
                                 capture_output=True, text=True)
        if fetched.returncode != 0:
            raise unittest.SkipTest(f"the crates of the service cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}")
        folder = Path(tempfile.mkdtemp(prefix="prefix-server-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        # Of the package of the library it reads two fields alone.
        control = folder / "library/DEBIAN/control"
        control.parent.mkdir(parents=True)
        architecture = run("dpkg", "--print-architecture").strip()
        control.write_text(f"Package: libprefix1\nVersion: 4.5.6\nArchitecture: {architecture}\nMaintainer: a <a@b>\nDescription: c\n")
        (folder / "out").mkdir()
        run("dpkg-deb", "--build", folder / "library", folder / "out/libprefix1_4.5.6.deb")
        run(ROOT / "samples/server/debian_package", folder / "out")
        cls.file = folder / f"out/prefix-server_4.5.6_{architecture}.deb"
        cls.root = folder / "root"
        run("dpkg-deb", "-x", cls.file, cls.root)

    def test_it_needs_the_library_of_its_version(self):
        self.assertIn("libprefix1 (= 4.5.6)", run("dpkg-deb", "-f", self.file, "Depends"))

    def test_licences_of_what_is_linked_go_along(self):
        text = (self.root / "usr/share/doc/prefix-server/THIRD-PARTY-NOTICES").read_text()
        told = set(re.findall(r"^- (\S+) (\S+): \S", text, re.M))
        # The program itself tells of its crates: where they lay stands in its messages.
        program = (self.root / "usr/bin/prefix-server").read_bytes()
        inside = {tuple(part.decode() for part in found)
                  for found in re.findall(rb"registry/src/[^/\0]+/([a-zA-Z0-9_-]+?)-(\d+\.\d+\.\d+)/", program)}
        self.assertGreater(len(inside), 10)
        self.assertEqual(inside - told, set())
        # A crate of two licences, each with its text.
        parts = dict(part.split("\n\n", 1) for part in text.split("-" * 100 + "\n")[1:])
        self.assertIn("Permission is hereby granted", parts["matchit: MIT"])
        self.assertIn("Neither the name", parts["matchit: BSD-3-Clause"])
        self.assertEqual(run("stat", "-c", "%a", self.root / "usr/share/doc/prefix-server/THIRD-PARTY-NOTICES").strip(), "644")

    def test_no_file_names_a_folder_of_this_machine(self):
        self.assertEqual(folders_named((self.root / "usr").rglob("*")), [])


if __name__ == "__main__":
    unittest.main()
