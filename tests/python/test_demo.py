"""The demo and the evaluation: their data, their arithmetic, and a run with the real model."""

import io
import json
import subprocess
import sys
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests" / "python" / "fake_prefix.py"
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "demo"), str(ROOT / "tools" / "eval")]
import compare  # noqa: E402
import demo  # noqa: E402
import eval as evaluation  # noqa: E402
import prefix_run  # noqa: E402


def run_script(script: str, *flags: str) -> dict:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / script), "--json", *flags], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class DataTest(unittest.TestCase):
    def test_questions_of_the_evaluation_can_be_answered_from_their_passages(self) -> None:
        passages = json.loads((ROOT / "tests" / "data" / "qa.json").read_text())["passages"]
        self.assertGreaterEqual(sum(len(passage["questions"]) for passage in passages), 60)
        for passage in passages:
            self.assertTrue(60 <= len(passage["text"].split()) <= 120, passage["title"])
            for entry in passage["questions"]:
                self.assertTrue(evaluation.contains(passage["text"], entry["expected"]), entry["question"])

    def test_demo_queries_name_a_passage(self) -> None:
        data = json.loads((ROOT / "tools" / "demo" / "passages.json").read_text())
        titles = [passage["title"] for passage in data["passages"]]
        self.assertEqual(len(titles), len(set(titles)))
        for query in data["queries"]:
            self.assertIn(query["expected"], titles)


class ArithmeticTest(unittest.TestCase):
    def test_expected_words(self) -> None:
        self.assertTrue(evaluation.contains("It was in Peru.", ["peru"]))
        self.assertTrue(evaluation.contains("It has 3 hearts", ["three|3"]))
        self.assertFalse(evaluation.contains("13 hearts", ["three|3"]))
        self.assertFalse(evaluation.contains("The Red Sea", ["Mediterranean", "Red"]))

    def test_ties_count_against_us(self) -> None:
        self.assertEqual(evaluation.rank_of(1, {0: -2.0, 1: -1.0, 2: -3.0}), 1)
        self.assertEqual(evaluation.rank_of(1, {0: -1.0, 1: -1.0, 2: -3.0}), 2)

    def test_lists_hold_ten_different_passages_with_the_right_one(self) -> None:
        for right in range(38):
            chosen = evaluation.candidates(38, right, right)
            self.assertEqual(len(set(chosen)), 10)
            self.assertIn(right, chosen)

    def test_flips_are_counted_at_their_edge(self) -> None:
        base, test = [-1.0, 0.5, 0.0, 2.0], [-1.5, -0.25, 0.5, 3.0]
        found = compare.flips_of(base, test)
        self.assertEqual((found["decisions"], found["yes"], found["flips"]), (4, 2, 2))
        self.assertEqual(found["flipped_margins"], [0.5, 0.0])
        self.assertEqual(found["closer_than_widest_flip"], 2)
        self.assertEqual((found["margin_median"], found["change_median"], found["change_largest"]), (1.0, 0.75, 1.0))
        moved = compare.flips_of(base, test, edge=1.0)
        self.assertEqual((moved["yes"], moved["flips"], moved["closer_than_widest_flip"]), (1, 0, 0))

    def test_decisions_are_two_thousand_different_pairs_with_every_right_one(self) -> None:
        passages = json.loads((ROOT / "tests" / "data" / "qa.json").read_text())["passages"]
        pairs = compare.pairs_of(passages, compare.DECISIONS)
        self.assertEqual(len(set(pairs)), 2000)
        for p, passage in enumerate(passages):
            for entry in passage["questions"]:
                self.assertIn((p, entry["question"]), pairs)
        margins = compare.pair_margins([float(i) for i in range(760)], compare.DECISIONS)
        self.assertEqual(len(margins), 2000)
        self.assertTrue(all(1 <= margin < evaluation.LIST for margin in margins))  # within a list

    def test_a_failed_decision_is_an_error(self) -> None:
        with self.assertRaisesRegex(prefix_run.RunFailed, "PREFIX_ERR_IO: gone"):
            compare.margin_of({"status": "PREFIX_ERR_IO", "message": "gone"})

    def test_a_failed_ranking_is_no_margin(self) -> None:
        """Minus infinity less minus infinity is no number."""
        def run(model: str, requests: list[dict], **_: Path) -> tuple[list[dict], dict]:
            failed, ok = {"status": "PREFIX_ERR_IO", "message": "gone"}, {"status": "ok", "logprobs": [-1.0, -2.0]}
            return [failed if request["task"] == "logprobs" else ok for request in requests], {}

        with mock.patch.object(prefix_run, "run", run), self.assertRaisesRegex(prefix_run.RunFailed, "PREFIX_ERR_IO: gone"):
            compare.evaluate("x", [], compare.DECISIONS, FAKE)

    def test_an_answer_that_failed_is_not_right_by_the_words_of_its_message(self) -> None:
        ok = {"status": "ok", "text": "It has 3 hearts"}
        failed = {"status": "PREFIX_ERR_PROMPT_TOO_LONG", "message": "the prompt has 300 tokens; the context holds 256"}
        self.assertEqual([evaluation.is_right(result, ["three|3"]) for result in (ok, failed)], [True, False])

    def test_a_failed_request_ranks_last(self) -> None:
        self.assertEqual(prefix_run.mean_logprob({"status": "out_of_memory"}), float("-inf"))
        self.assertEqual(prefix_run.mean_logprob({"status": "ok", "logprobs": [-1.0, -3.0]}), -2.0)

    def test_equality_ignores_only_counts(self) -> None:
        one = {"id": "1", "status": "ok", "logprobs": [-1.0], "usage": {"computed": 1}}
        self.assertTrue(demo.same_values([one], [{**one, "usage": {"computed": 9}}]))
        self.assertFalse(demo.same_values([one], [{**one, "logprobs": [-1.5]}]))


class ScriptTest(unittest.TestCase):
    def test_a_missing_program_is_one_clear_line(self) -> None:
        done = subprocess.run(
            [sys.executable, str(ROOT / "tools/demo/demo.py"), "--model", "x", "--binary", "/nowhere/prefix"],
            capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/prefix is missing: run `make build`", done.stderr)

    def test_scripts_against_the_stand_in(self) -> None:
        found = run_script("demo/demo.py", "--model", "x", "--binary", str(FAKE))
        self.assertTrue(found["identical"])
        self.assertEqual(len(found["answers"]), 16)
        self.assertEqual(run_script("eval/eval.py", "--model", "x", "--binary", str(FAKE))["questions"], 76)

    def test_failures_of_the_evaluation_are_told(self) -> None:
        for flags, failed in ((), 0), (("--fail-all", "yes"), 760 + 76):
            run = prefix_run.run
            changed = mock.patch.object(prefix_run, "run", lambda model, requests, **how: run(model, requests, *flags, **how))
            with changed, redirect_stderr(io.StringIO()):
                found = evaluation.evaluate("x", FAKE)
            self.assertEqual((found["failed"], found["answers_right"] > 0), (failed, failed == 0))
            out = io.StringIO()
            with redirect_stdout(out):
                evaluation.show(found)
            self.assertEqual("836 requests failed, the first: PREFIX_ERR_IO: gone" in out.getvalue(), failed > 0, out.getvalue())

    def test_no_decisions_are_refused(self) -> None:
        for count in ("0", "-5", "x"):
            done = subprocess.run(
                [sys.executable, str(ROOT / "tools/eval/compare.py"), "--model", "x", "--binary", str(FAKE), "--decisions", count],
                capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.returncode, 2)
            self.assertIn("argument --decisions", done.stderr)

    def test_a_line_ends_at_its_newline_alone(self) -> None:
        """Python takes these for ends of lines as well; a model may write them."""
        results, _ = prefix_run.run("x", [prefix_run.answer_request("One\u2028two\x85three", "Four?", 5)], binary=FAKE)
        self.assertIn("One\u2028two\x85three", results[0]["text"])

    def test_a_result_that_is_missing(self) -> None:
        """One too few or too many would give every later request the answer to another one."""
        request = prefix_run.likelihood_request("Bread is baked.", "What is baked?")
        results, _ = prefix_run.run("x", [request, request], binary=FAKE)
        self.assertEqual(len(results), 2)
        for flag in ("--lose-one", "--one-more"):
            with self.assertRaisesRegex(prefix_run.RunFailed, "2 requests gave [13] results"):
                prefix_run.run("x", [request, request], flag, "yes", binary=FAKE)

    def test_demo_with_the_real_model(self) -> None:
        model = subprocess.run([ROOT / "tools/fetch_model"], capture_output=True, text=True, check=True)
        found = run_script("demo/demo.py", "--model", model.stdout.strip())
        self.assertTrue(found["identical"], "sharing changed a result")
        first = sum(entry["place"] == 1 for entry in found["rankings"])
        self.assertGreaterEqual(first, len(found["rankings"]) - 1)
        runs = found["runs"]
        for name in ("ranking", "answers"):
            self.assertGreater(runs[f"{name}, sharing off"]["tokens_computed"], 3 * runs[name]["tokens_computed"])


if __name__ == "__main__":
    unittest.main()
