"""tools/plot_peers: the picture and the tables of other engines. That they are fresh is docs_test's."""

import json
import subprocess
import tempfile
import unittest
import xml.dom.minidom
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "plot_peers"


def row(way, *runs, date="2026-01-01T10:00:00", **changes):
    return {"shape": [32, 512, 64], "generate": 1, "way": way, "seconds": sorted(runs)[len(runs) // 2], "runs": runs,
            "tokens_equal": 1.0, "layers": 28, "threads": 2, "level": "amx", "date": date} | changes


class PlotPeers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.docs = Path(folder.name)
        (self.docs / "pictures").mkdir()
        self.page = self.docs / "benchmarks.md"
        self.picture = self.docs / "pictures" / "peers.svg"
        self.page.write_text("before\n<!-- tools/plot_peers: levels -->\nold\n<!-- to here -->\nbetween\n"
                             "<!-- tools/plot_peers: all times -->\nold\n<!-- to here -->\nbehind\n")

    def run_tool(self, *flags):
        return subprocess.run([TOOL, "--docs", self.docs, *flags], capture_output=True, text=True)

    def write(self, *rows):
        (self.docs / "peers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))

    def made(self, *rows):
        """The lines of the tables of all times, and the picture."""
        self.write(*rows)
        done = self.run_tool()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.lines_behind("all times"), self.picture.read_text()

    def lines_behind(self, mark):
        part = self.page.read_text().partition(f"<!-- tools/plot_peers: {mark} -->")[2].partition("<!-- to here -->")[0]
        return [line for line in part.splitlines() if line.startswith("| ")]

    def test_ratios_are_of_our_bf16_wherever_it_stands(self):
        table, _ = self.made(row("peer", 3.0), row("libprefix bf16", 2.0), row("libprefix int8", 1.0))
        self.assertEqual(table, ["| way | (32,512,64) |", "| peer | 3.00 s; 1.50 |", "| libprefix bf16 | 2.00 s; 1.00 |",
                                 "| libprefix int8 | 1.00 s; 0.50 |", "| runs, date | one run, 2026-01-01 |"])

    def test_several_runs_show_their_spread(self):
        table, _ = self.made(row("libprefix bf16", 2.0, 1.9, 2.25))
        self.assertIn("| libprefix bf16 | 2.00 s (1.90 - 2.25); 1.00 |", table)
        self.assertIn("| runs, date | median of 3, 2026-01-01 |", table)

    def test_bars_are_seconds_the_fastest_first(self):
        _, picture = self.made(row("libprefix bf16", 2.0), row("a <peer>", 4.0), row("libprefix int8", 1.0))
        xml.dom.minidom.parseString(picture)
        bars = [(float(rect.getAttribute("width")), rect.getAttribute("class"))
                for rect in xml.dom.minidom.parseString(picture).getElementsByTagName("rect")[1:]]
        self.assertEqual(bars, [(105.0, "ours"), (210.0, "ours"), (420.0, "peer")])

    def test_calls_are_not_mixed_and_the_last_one_of_a_shape_counts(self):
        other = row("libprefix bf16", 9.0, shape=[64, 60, 95])
        table, picture = self.made(row("libprefix bf16", 2.0), other, row("gone", 3.0), row("libprefix bf16", 5.0, date="later"))
        self.assertEqual(table, ["| way | (32,512,64) | (64,60,95) |", "| libprefix bf16 | 5.00 s; 1.00 | 9.00 s; 1.00 |",
                                 "| runs, date | one run, later | one run, 2026-01-01 |"])
        self.assertNotIn("gone", picture)

    def test_other_layers_levels_and_decoding_are_other_measurements(self):
        table, picture = self.made(row("libprefix bf16", 2.0), row("libprefix bf16", 3.0, layers=4),
                                   row("libprefix bf16", 3.0, level="avx2"), row("libprefix bf16", 4.0, generate=32))
        self.assertEqual([line for line in table if "way" not in line and "runs" not in line],
                         ["| libprefix bf16 | 2.00 s; 1.00 | 4.00 s; 1.00 |", "| libprefix bf16 | 3.00 s; 1.00 |",
                          "| libprefix bf16 | 3.00 s; 1.00 |"])
        self.assertIn("| way | (32,512,64) | (32,512,64), 32 decoded |", table)
        self.assertIn("### Level `avx2`\n\n28 layers, 2 threads:\n", self.page.read_text())
        self.assertIn("28 layers, 2 threads, avx2", picture)
        self.assertIn("32 questions of 64 tokens about 512 tokens, 32 tokens decoded each; 28 layers", picture)

    def test_the_sentence_compares_with_the_fastest_of_each_measurement(self):
        self.made(row("libprefix bf16", 2.0), row("libprefix int8", 1.0), row("vllm bf16", 3.0), row("openvino int8", 1.5),
                  *(row(way, seconds, level="avx512") for way, seconds in
                    (("libprefix bf16", 4.0), ("libprefix int8", 2.0), ("vllm f32", 9.0), ("openvino f32", 8.0))))
        self.assertIn("\nIn 2 measurements at 2 levels of the CPU bf16 is 1.5 to 2.0 times as fast as the fastest that does not "
                      "quantise, int8 is 1.5 to 4.0 times as fast as the fastest of all. In 1 of them no peer that quantises was "
                      "measured.\n", self.page.read_text())

    def test_a_way_that_was_not_run_on_a_batch_leaves_its_cell_empty(self):
        table, _ = self.made(row("libprefix bf16", 2.0), row("libprefix bf16", 4.0, shape=[64, 60, 95]), row("peer", 6.0, shape=[64, 60, 95]))
        self.assertIn("| peer |  | 6.00 s; 1.50 |", table)

    def test_each_level_has_a_row(self):
        ways = ("libprefix bf16", "libprefix int8", "vllm bf16", "openvino int8")
        self.made(*(row(way, seconds) for way, seconds in zip(ways, (2.0, 1.0, 3.0, 1.5))),
                  *(row(way, seconds, shape=[64, 60, 95]) for way, seconds in zip(ways, (2.0, 0.5, 5.0))),
                  row("libprefix bf16", 4.0, level="avx2"))
        self.assertEqual(self.lines_behind("levels")[1:], ["| [`amx`](#level-amx) | Intel with AMX | 2 | 1.5 to 2.5 | 1.5 to 10.0 | 1 | 2.0 to 4.0 |",
                                                           "| [`avx2`](#level-avx2) | AVX2 without AVX-512 | 1 |  |  | 0 |  |"])

    def test_without_a_peer_there_is_no_sentence(self):
        self.made(row("libprefix bf16", 2.0), row("libprefix int8", 1.0))
        self.assertNotIn("measurements", self.page.read_text())

    def test_check_writes_nothing_and_names_what_is_stale(self):
        self.made(row("libprefix bf16", 2.0))
        self.assertEqual(self.run_tool("--check").returncode, 0)
        kept = self.page.read_text()
        self.write(row("libprefix bf16", 3.0), row("peer", 4.0))
        done = self.run_tool("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("benchmarks.md is not", done.stderr)
        self.assertIn("peers.svg is not", done.stderr)
        self.assertEqual(self.page.read_text(), kept)
        self.picture.unlink()
        self.assertEqual(self.run_tool("--check").returncode, 1)

    def test_what_stands_around_the_marks_stays(self):
        self.made(row("libprefix bf16", 2.0))
        text = self.page.read_text()
        self.assertTrue(text.startswith("before\n<!--") and text.endswith("-->\nbehind\n"), text)
        self.assertIn("<!-- to here -->\nbetween\n<!-- tools", text)
        self.assertNotIn("old", text)

    def test_lines_that_are_no_figures_are_named(self):
        good = row("libprefix bf16", 2.0)
        for bad, why in (("{", "Expecting"), ("[]", "list"), ("7", "int"), (json.dumps(good | {"seconds": "2"}), '"seconds" is'),
                         (json.dumps(good | {"seconds": 0}), '"seconds"'), (json.dumps(good | {"seconds": float("nan")}), '"seconds"'),
                         (json.dumps(good | {"runs": []}), '"runs"'), (json.dumps(good | {"shape": [1, 2]}), '"shape"'),
                         (json.dumps({k: v for k, v in good.items() if k != "date"}), "'date'")):
            with self.subTest(bad):
                (self.docs / "peers.jsonl").write_text(json.dumps(good) + "\n\n" + bad + "\n")
                done = self.run_tool()
                self.assertEqual(done.returncode, 1)
                self.assertIn("peers.jsonl:3: ", done.stderr)
                self.assertIn(why, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_a_page_without_marks_is_refused(self):
        self.write(row("libprefix bf16", 2.0))
        levels, times, end = "<!-- tools/plot_peers: levels -->\n", "<!-- tools/plot_peers: all times -->\n", "<!-- to here -->\n"
        for text, lacks in ((times + end, levels), (levels + end, times), (levels + times + end, times), (levels + end + times, end)):
            with self.subTest(text):
                self.page.write_text(text)
                done = self.run_tool()
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"lacks {lacks.strip()}", done.stderr)
                self.assertFalse(self.picture.exists())


if __name__ == "__main__":
    unittest.main()
