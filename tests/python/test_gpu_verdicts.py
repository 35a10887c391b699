"""What tools/gpu_check makes of figures: a line is met, missed or not run, and the tables say so."""

import math
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "python")]
from fast_gpu import figures_of_a_fast_gpu  # noqa: E402
from gpu import verdicts  # noqa: E402
from gpu.report import LINES, MET, MISSED, NOT_RUN, Check, Report, compare, not_run  # noqa: E402


class VerdictTest(unittest.TestCase):
    def verdicts(self, bench: list, peers: list) -> dict:
        f = verdicts.Figures(bench, peers)
        report = Report()
        for line, part in ((3, verdicts.prefill), (4, verdicts.suffixes), (5, verdicts.decode), (6, verdicts.models),
                           (7, verdicts.products)):
            report.add(line, part(f))
        return {line: report.state(line) for line in (3, 4, 5, 6, 7)}

    def test_every_figure_is_needed(self) -> None:
        """Without any one of them, or with one that is no number, some line is no longer met."""
        bench, peers = figures_of_a_fast_gpu()
        self.assertEqual(set(self.verdicts(bench, peers).values()), {MET})
        needless = ("unshared", "flex", "sdpa cudnn prefix only", "sdpa cudnn")  # of shapes without a demand on them
        for lines in (bench, peers):
            for i, line in enumerate(lines):
                used = line.get("shared") is not False or line["shape"].startswith("decode")
                shape = str(line.get("shape", ""))
                if not used or (line.get("bench") == "attention" and shape.startswith("causal") and line["heads"] == "16/8"):
                    continue
                if line.get("peer") in needless or str(line.get("peer")).endswith("unshared"):
                    continue  # checked below
                for broken in [(None, 0, -1.0, math.nan, math.inf, "5", True)[i % 7]]:
                    copy = dict(line)
                    for key in ("us", "tflops", "shared_ms", "gb_per_s"):
                        if key in copy:
                            copy[key] = broken
                    lines[i] = copy
                    states = self.verdicts(bench, peers).values()
                    self.assertIn(NOT_RUN, states, (line, broken))
                    self.assertNotIn(MISSED, states, (line, broken))
                lines[i] = line

    def test_every_peer_of_a_demand_is_needed(self) -> None:
        bench, peers = figures_of_a_fast_gpu()
        for name, line in (("sdpa cudnn", 3), ("flex", 4), ("sdpa cudnn prefix only", 4), ("matmul", 7), ("copy", 5)):
            left = [p for p in peers if p["peer"] != name]
            self.assertEqual(self.verdicts(bench, left)[line], NOT_RUN, name)
        none = [p for p in peers if not p["peer"].endswith("unshared")]
        self.assertEqual(self.verdicts(bench, none)[5], NOT_RUN)
        one = [p for p in peers if p["peer"] != "sdpa flash unshared"]
        self.assertEqual(self.verdicts(bench, one)[5], MET)

    def test_bars(self) -> None:
        for line, where, change in (
            (3, {"shape": "causal 8k", "heads": "32/8", "shared": True}, {"us": 6.7}),       # 0.746 of cuDNN
            (4, {"shape": "suffix 1000x50", "heads": "16/8", "shared": True}, {"us": 7.0}),  # 1.286 of flex
            (4, {"shape": "suffix 32x128", "heads": "32/8", "shared": True}, {"tflops": 559.0}),
            (5, {"shape": "decode 32x2048", "heads": "16/8", "shared": True}, {"us": 7.6}),  # 3.95 of cuDNN unshared
            (6, {"bench": "engine", "model": "qwen3-4b"}, {"shared_ms": 107.3}),             # 5.592
            (7, {"bench": "gemm", "model": "8B", "layer": "o", "rows": 8192}, {"tflops": 662.0}),
        ):
            bench, peers = figures_of_a_fast_gpu()
            changed = [{**b, **change} if where.items() <= b.items() else b for b in bench]
            states = self.verdicts(changed, peers)
            self.assertEqual({k: v for k, v in states.items() if v != MET}, {line: MISSED if line != 7 else NOT_RUN}, where)

    def test_products_beside_both_peers(self) -> None:
        """Enough of the matmul rate, or of what torch linear reaches on the same shape."""
        bench, peers = figures_of_a_fast_gpu()
        where = {"model": "0.6B", "layer": "o", "rows": 8192}
        for ours, linear, state in ((664.0, None, MET), (664.0, 720.0, MET), (600.0, None, NOT_RUN), (600.0, 630.0, MET),
                                    (600.0, 640.0, MISSED), (660.0, 900.0, MISSED)):
            changed = [{**b, "tflops": ours} if where.items() <= b.items() else b for b in bench]
            other = [] if linear is None else [{"peer": "torch linear", **where, "us": 5.0, "tflops": linear}]
            self.assertEqual(self.verdicts(changed, [*peers, *other])[7], state, (ours, linear))
            text = next(c.text for c in verdicts.products(verdicts.Figures(changed, [*peers, *other]))
                        if c.what == "0.6B o, 8192 rows")
            self.assertIn("of matmul", text)
            self.assertIn("torch linear", text)

    def test_decode_beside_its_roofline(self) -> None:
        bench, peers = figures_of_a_fast_gpu()
        # 17 MB at 4300 GB/s are 3.95 us: at most 10.93 us.
        for us, state in ((10.9, MET), (11.0, MISSED)):
            changed = [{**b, "us": us} if b.get("shared") and b["shape"].startswith("decode") else b for b in bench]
            slow = [{**p, "us": 100.0} if p["peer"].endswith("unshared") else p for p in peers]
            changed = [{**b, "us": 100.0} if b.get("shared") is False else b for b in changed]
            self.assertEqual(self.verdicts(changed, slow)[5], state)

    def test_our_own_slow_plan_is_not_the_measure_of_sharing(self) -> None:
        bench, peers = figures_of_a_fast_gpu()
        slow = [{**b, "us": 4000.0} if b.get("shared") is False else b for b in bench]
        fast = [{**p, "us": 20.0} if p["peer"] == "sdpa flash unshared" else p for p in peers]
        self.assertEqual(self.verdicts(slow, fast)[5], MISSED)

    def test_what_a_peer_said_is_the_reason(self) -> None:
        bench, peers = figures_of_a_fast_gpu()
        refused = [p for p in peers if p["peer"] != "flex"] + [{"peer": "flex", "shape": "suffix 32x128", "heads": "16/8",
                                                               "not_run": "out of memory"}]
        checks = verdicts.suffixes(verdicts.Figures(bench, refused))
        self.assertIn("out of memory", next(c for c in checks if c.state == NOT_RUN).text)

    def test_the_fastest_kernel_counts(self) -> None:
        bench, peers = figures_of_a_fast_gpu()
        for shape, line, proof in (("suffix 32x128", 4, {}), ("decode 32x2048", 5, {"cluster": 8})):
            slow = [{**b, "us": 60.0, "tflops": 60.0} if b.get("shape") == shape and b["shared"] else b for b in bench]
            hopper = {"bench": "attention", "kernel": "hopper", "shape": shape, "shared": True, "us": 6.0, "tflops": 600.0,
                      "flops": 6e8, "bytes": 17e6}
            both = [{**hopper, **proof, "heads": heads} for heads in ("16/8", "32/8")]
            self.assertEqual(self.verdicts(slow, peers)[line], MISSED)
            self.assertEqual(self.verdicts([*slow, *both], peers)[line], MET)
            self.assertEqual(self.verdicts([*slow, both[0]], peers)[line], MISSED)
        self.assertEqual(self.verdicts([*slow, *({**b, "cluster": 0} for b in both)], peers)[5], MISSED)  # two launches
        checks = verdicts.decode(verdicts.Figures([*slow, *both], peers))
        self.assertIn("cuda_attention=hopper", checks[0].text)


class ReportTest(unittest.TestCase):
    def test_nothing_is_not_met(self) -> None:
        self.assertEqual({Report().state(line) for line in LINES}, {NOT_RUN})
        self.assertNotRegex(Report().text(), r"line \d: met")

    def test_one_check_decides(self) -> None:
        good, bad, none = Check("a", MET, "1"), Check("b", MISSED, "2"), not_run("c", "why")
        for checks, state in (([good], MET), ([good, none], NOT_RUN), ([good, bad, none], MISSED), ([none], NOT_RUN), ([], NOT_RUN)):
            report = Report()
            report.add(3, checks)
            self.assertEqual(report.state(3), state)

    def test_a_check_has_a_state_and_a_reason(self) -> None:
        for state, text in (("passed", "1"), (MET, "")):
            with self.assertRaises(ValueError):
                Check("a", state, text)
        for figure in (0, -1, math.nan, math.inf):
            self.assertEqual(compare("a", figure, 1, "text", at_most=True).state, NOT_RUN)


class TableTest(unittest.TestCase):
    def test_the_table_is_that_of_the_figures(self) -> None:
        table = [sys.executable, ROOT / "tools" / "gpu_table"]
        self.assertEqual(subprocess.run([*table, "--check"], check=False).returncode, 0)
        self.assertEqual(subprocess.run([*table, "all"], capture_output=True, check=False).returncode, 2)


if __name__ == "__main__":
    unittest.main()
