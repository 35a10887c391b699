#!/usr/bin/env python3
"""What is compiled for a level stays in its level: level_objects_test.py NM LEVEL,... OBJECT...

A function that the linker may merge with others of its name (inline, or made from a template of the standard library) could be the
copy that all of the library gets, with instructions that the processor lacks. So objects of kernels_<level>.cc define no such
symbol (nm: V, W, u, v, w with an address).
"""

import re
import subprocess
import sys
import unittest

NM, LEVELS = sys.argv[1], set(sys.argv[2].split(","))
OBJECTS = {match[1]: path for path in sys.argv[3:] if (match := re.search(r"/kernels_(\w+)\.cc\.o$", path))}


class LevelObjects(unittest.TestCase):
    def test_nothing_that_others_could_get(self):
        self.assertLessEqual(LEVELS, set(OBJECTS))
        for level in sorted(LEVELS):
            shown = subprocess.run([NM, "-C", "--defined-only", OBJECTS[level]], check=True, capture_output=True, text=True).stdout
            own = [line for line in shown.splitlines() if re.match(r"[0-9a-f]+ T ", line)]
            self.assertRegex("\n".join(own), r"prefix::ops::fill_kernels_", level)
            self.assertEqual([line for line in shown.splitlines() if re.match(r"[0-9a-f]+ [VWuvw] ", line)], [], level)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
