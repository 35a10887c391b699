"""The programs of both READMEs run, and so does the example of the package itself."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import libprefix
from support import ROOT, WithModel


class Programs(WithModel):
    def run_it(self, program):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self.path, Path(folder) / "model")
            done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), program)
        self.assertTrue(done.stdout.strip())

    def test_readmes(self):
        programs = []
        for name, count in (("README.md", 1), ("bindings/python/README.md", 6)):
            found = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.M | re.S)
            self.assertEqual(len(found), count, name)
            programs += found
        for program in programs:
            with self.subTest(program):
                self.run_it(program)

    def test_docstring(self):
        lines = [line[4:] for line in libprefix.__doc__.splitlines() if line.startswith("    ")]
        self.run_it("\n".join(lines))
