"""tools/cuda_toolchain takes the toolkit whose PTX the driver can load, before any other."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


def load_tool():
    loader = importlib.machinery.SourceFileLoader("cuda_toolchain", str(ROOT / "tools" / "cuda_toolchain"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("cuda_toolchain", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


TOOL = load_tool()


class CudaToolchainTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def toolkit(self, version: str) -> Path:
        root = self.folder / f"cuda-{version}"
        nvcc = root / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.88'\n")
        nvcc.chmod(0o755)
        return root

    def find(self, installed: list[Path], *arguments: str, home: Path | None = None, wheels: bool = True):
        """Exit code and root; `wheels`: whether they can be installed."""
        install = mock.Mock(return_value="" if wheels else "no network")
        environment = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH")}
        if home:
            environment["CUDA_HOME"] = str(home)
        out = io.StringIO()
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(TOOL, "other_roots", return_value=installed),
            mock.patch.object(TOOL, "install", install),
            mock.patch.object(sys, "argv", ["cuda_toolchain", *arguments, str(self.folder)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            code = TOOL.main()
        return code, out.getvalue().strip()

    def test_13_0_comes_before_what_is_newer(self) -> None:
        newer, wanted = self.toolkit("13.4"), self.toolkit("13.0")
        for arguments in ([], ["--find"]):
            self.assertEqual(self.find([newer, wanted], *arguments), (0, str(wanted)))

    def test_wheels_come_before_what_is_newer(self) -> None:
        newer = self.toolkit("13.4")
        self.assertEqual(self.find([newer]), (0, str(self.folder / "cuda")))

    def test_newer_is_better_than_nothing(self) -> None:
        newer = self.toolkit("13.4")
        self.assertEqual(self.find([newer], "--find"), (0, str(newer)))
        self.assertEqual(self.find([newer], wheels=False), (0, str(newer)))

    def test_a_folder_that_somebody_names_is_taken(self) -> None:
        newer, wanted = self.toolkit("13.4"), self.toolkit("13.0")
        self.assertEqual(self.find([wanted], home=newer), (0, str(newer)))

    def test_older_is_none(self) -> None:
        older = self.toolkit("12.9")
        self.assertEqual(self.find([older], "--find", home=older), (3, ""))
        self.assertEqual(self.find([older], wheels=False), (3, ""))


if __name__ == "__main__":
    unittest.main()
