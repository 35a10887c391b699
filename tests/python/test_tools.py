"""Every tool as somebody meets it who does not know it: --help, arguments that it does not take, what stops it."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = sorted(path for path in (ROOT / "tools").rglob("*")
               if path.is_file() and os.access(path, os.X_OK) and path.parent.name not in ("golden", "__pycache__")
               and path.name != "cargo")  # which hands all to cargo
# Those that are run by Python, and two of bench/.
SCRIPTS = ["bench/bindings/rank_1000", "bench/peers/compare", "tools/demo/demo.py", "tools/eval/compare.py", "tools/eval/eval.py",
         "tools/gpu_peers.py"]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          **options)


class ToolsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def each(self, test) -> None:
        commands = [[path] for path in TOOLS] + [[sys.executable, ROOT / name] for name in SCRIPTS]
        self.assertGreater(len(commands), 25)
        for command in commands:
            with self.subTest(str(command[-1])):
                test(command)
        self.assertEqual(list(self.folder.iterdir()), [])

    def refused(self, done, *said) -> None:
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertFalse(done.stdout)
        for part in said:
            self.assertIn(part, done.stderr)

    def test_help(self) -> None:
        def test(command) -> None:
            done = run(*command, "--help", cwd=self.folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertGreater(len(done.stdout), 60, "it says little")

        self.each(test)

    def test_what_a_tool_does_not_take(self) -> None:
        def test(command) -> None:
            done = run(*command, "--no-such-option", cwd=self.folder)
            self.refused(done)
            self.assertLess(len(done.stderr.splitlines()), 12)

        self.each(test)

    def test_presets_and_programs_have_names(self) -> None:
        self.refused(run(ROOT / "tools/build"), "presets are release dev")
        self.refused(run(ROOT / "tools/build", "nonsense"), "no preset 'nonsense'")
        self.assertFalse((ROOT / "build-nonsense").exists())
        self.refused(run(ROOT / "tools/run_bench", "nonsense"), "no program build/bin/bench/nonsense")
        self.refused(run(ROOT / "tools/python_env", "x", self.folder / "none"), "REQUIREMENTS_FILE")
        self.refused(run(ROOT / "tools/models_speed", "nobody/nothing"), "no model nobody/nothing")
        for layers in ("0", "6,2", "2,2", "1,2,3", "x", "29"):
            self.refused(run(ROOT / "tools/models_speed", f"Qwen/Qwen3-0.6B={layers}"), f"={layers}: LAYERS are", "1 to 28")

    def test_packages_take_the_place_of_nothing_else(self) -> None:
        (self.folder / "mine").write_text("x")
        if (ROOT / "build/CPackConfig.cmake").exists():
            self.refused(run(ROOT / "tools/debian_packages", self.folder), "is not empty", "it would be deleted")
        self.refused(run(ROOT / "tools/debian_packages", self.folder, "more"), "'more'")
        self.assertEqual((self.folder / "mine").read_text(), "x")

    def test_a_command_that_is_not_there(self) -> None:
        for tool in ("options_page", "models_page"):
            self.refused(run(ROOT / "tools" / tool, "--check", self.folder / "none"), str(self.folder / "none"), "make build")
        self.refused(run(ROOT / "tools/plot_peers", "--check", "--docs", self.folder), "peers.jsonl: No such file or directory")

    def test_a_trace_is_whole_or_not_there(self) -> None:
        make = ROOT / "tools/traces/make_traces"
        self.refused(run(make, "chat", "--out", self.folder / "none" / "trace"), "make_traces: ", "none")
        whole, stopped = self.folder / "whole", self.folder / "stopped"
        self.assertEqual(run(make, "few", "--requests", 5, "--encoding", "runs", "--out", whole).returncode, 0)
        self.assertEqual(len(whole.read_text().splitlines()), 5)
        # What a shell starts in the background is deaf to SIGINT, and so is what that starts.
        process = subprocess.Popen([make, "few", "--requests", "60000", "--out", stopped], stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while process.poll() is None and not any(self.folder.glob("stopped.*.part")):
            pass
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.communicate()[1], process.returncode), ("make_traces: stopped\n", 130))
        self.assertEqual(list(self.folder.iterdir()), [whole])

    def test_scripts_of_golden_numbers_say_which_packages_they_need(self) -> None:
        scripts = [path for path in (ROOT / "tools/golden").glob("*.py") if "\nimport packages " in path.read_text()]
        self.assertGreater(len(scripts), 5)
        for script in scripts:
            with self.subTest(script.name):
                done = run(sys.executable, "-S", script)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, rf"\A{script.name}: the package \w+ is missing; .* prints has it\n\Z")


if __name__ == "__main__":
    unittest.main()
