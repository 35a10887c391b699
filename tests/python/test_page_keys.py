"""tests/golden/page_keys.json is what tools/golden/page_keys.py writes."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class PageKeys(unittest.TestCase):
    def test_the_committed_keys_are_fresh(self):
        script = ROOT / "tools" / "golden" / "page_keys.py"
        written = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
        committed = (ROOT / "tests" / "golden" / "page_keys.json").read_text()
        self.assertEqual(json.loads(written), json.loads(committed))


if __name__ == "__main__":
    unittest.main()
