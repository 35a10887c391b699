"""tools/golden/text_qwen3.py where npm is missing."""

import contextlib
import importlib.util
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


class TextQwen3Test(unittest.TestCase):
    def test_without_npm_it_leaves_no_folder_that_a_test_takes_for_the_tokenizer(self) -> None:
        spec = importlib.util.spec_from_file_location("text_qwen3", ROOT / "tools" / "golden" / "text_qwen3.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(module.shutil, "which", return_value=None):
            module.FOLDER = Path(folder) / "models" / "qwen3-tokenizer"
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(module.main(), 1)
            self.assertIn("npm is missing", said.getvalue())
            self.assertFalse(module.FOLDER.exists())


if __name__ == "__main__":
    unittest.main()
