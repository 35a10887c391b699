"""tools/silence.py: what prints lives, however long it takes; what is silent ends, with all it has started."""

import itertools
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.dont_write_bytecode = True
import silence

QUIET = 1200.0


class SilenceTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def shell(self, script: str, name: str = "") -> silence.Command:
        return silence.Command(["bash", "-c", script], self.folder, name=name)

    def fifo(self, name: str) -> Path:
        """A pipe on which a script waits; held open here, so that writing never blocks."""
        os.mkfifo(self.folder / name)
        end = os.open(self.folder / name, os.O_RDWR)
        self.addCleanup(os.close, end)
        self.write = lambda text: os.write(end, text)
        return self.folder / name

    def test_the_output_and_the_code(self) -> None:
        command = self.shell("echo one; echo two >&2; printf '\\xff three'; echo \"$WHAT\" > said; exit 3")
        command.environment = {"WHAT": "words"}
        lines = []
        silence.run_all([command], 1, QUIET, lambda _, line: lines.append(line))
        self.assertEqual(lines, ["one", "two", "\ufffd three"])
        self.assertEqual(command.output, "one\ntwo\n\ufffd three")
        self.assertEqual((command.code, command.silent), (3, False))
        self.assertEqual((self.folder / "said").read_text(), "words\n")

    def test_no_limit_of_time(self) -> None:
        self.fifo("next")
        now = 0.0

        def line(command: silence.Command, text: str) -> None:
            nonlocal now
            now += QUIET * 0.9  # between two lines
            self.write(b"\n")

        command = self.shell("for i in {1..50}; do echo $i; read -r _ <next; done; echo end")
        silence.run_all([command], 1, QUIET, line, clock=lambda: now)
        self.assertEqual((command.code, command.silent), (0, False))
        self.assertTrue(command.output.endswith("50\nend\n"))
        self.assertGreater(command.seconds, 40 * QUIET)

    def test_silence_ends_a_command_and_its_children(self) -> None:
        # The child would keep the output open for ever. The time jumps over the limit at each look.
        self.fifo("never")
        clock = itertools.count(0, QUIET + 1)
        command = self.shell("trap 'echo asked' QUIT; (trap '' QUIT; read -r _ <never) & echo begin; while true; do wait; done")
        silence.run_all([command], 1, QUIET, clock=lambda: next(clock))
        self.assertTrue(command.silent)
        self.assertEqual(command.code, -9)

    def test_it_is_asked_first(self) -> None:
        self.fifo("never")
        now = 0.0

        def line(_: silence.Command, text: str) -> None:
            nonlocal now
            now = QUIET + 1

        script = """if True:
            import signal, sys
            signal.signal(signal.SIGQUIT, lambda *_: sys.exit("I wait for never"))
            print("begin", flush=True)
            open("never").read()
        """
        command = silence.Command([sys.executable, "-c", script], self.folder)
        silence.run_all([command], 1, QUIET, line, clock=lambda: now)
        self.assertTrue(command.silent)
        self.assertEqual(command.code, 1)
        self.assertEqual(command.output, "begin\nI wait for never\n")

    def test_a_child_that_is_left_behind_holds_up_nobody(self) -> None:
        self.fifo("never")
        now = itertools.count(0, silence.LAST_WORDS / 4)
        command = self.shell("(read -r _ <never) & echo done")
        silence.run_all([command], 1, QUIET, clock=lambda: next(now))
        self.assertEqual((command.code, command.silent), (0, False))
        self.assertEqual(command.output, "done\n")

    def test_several_at_once(self) -> None:
        # Each waits for the next one: all must run at the same time.
        os.mkfifo(self.folder / "a")
        commands = [self.shell("read -r x <a; echo $x", "reads"), self.shell("echo y >a; exit 1", "writes"),
                    self.shell("echo last", "last")]
        ended = []
        silence.run_all(commands, 2, QUIET, on_end=lambda command: ended.append(command.name))
        self.assertEqual([command.code for command in commands], [0, 1, 0])
        self.assertEqual(commands[0].output, "y\n")
        self.assertCountEqual(ended, ["reads", "writes", "last"])

    def test_an_exception_ends_what_runs(self) -> None:
        self.fifo("never")
        pids = []

        def line(_: silence.Command, text: str) -> None:
            pids.append(int(text))
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            silence.run_all([self.shell("echo $$; read -r _ <never")], 1, QUIET, line)
        self.assertRaises(ProcessLookupError, os.kill, pids[0], 0)


if __name__ == "__main__":
    unittest.main()
