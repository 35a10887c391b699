"""A table by two workers, one of which is killed in the middle of a part, against one engine without Ray."""

import datetime
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# unittest writes to a copy of standard error. What Ray writes there and to standard output, in its processes and here,
# goes to a file: the two would end up in one line.
RESULTS = os.fdopen(os.dup(2), "w", buffering=1)
LOGS = ROOT / "build" / "test-logs"
LOGS.mkdir(parents=True, exist_ok=True)
os.dup2(os.open(LOGS / "ray-messages.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

sys.path[:0] = [str(HERE), str(ROOT / "bindings" / "python" / "tests")]

MESSAGES = sys.stderr  # which Ray's loggers keep
try:
    import libprefix
    import numpy
    import prefix_ray
    import pyarrow
    import ray
    from support import MODELS, byte_tokenizer
finally:
    sys.stderr = RESULTS

ENGINE = {"isa": "scalar", "dtype": "f32", "threads": 1, "cache_bytes": "64M"}


def model(folder):
    """A tiny model that reads ASCII."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(MODELS / "llama-base" / name, Path(folder) / name)
    for name, content in zip(("tokenizer.json", "tokenizer_config.json"), byte_tokenizer(129)):
        (Path(folder) / name).write_text(json.dumps(content))


def films(rows, films):
    """Reviews of films in no order."""
    draw = random.Random(1)
    table = []
    for i in range(rows):
        film = draw.randrange(films)
        table.append({"id": f"r{i}", "text": f"Review {i}", "film": f"Film {film}",
                      "plot": f"Somebody meets number {film} at sea. " * 3})
    return table


class KilledOnce(prefix_ray.Worker):
    """A worker whose process ends as by the kernel's hand with its third batch, once; `told` gets what it computed."""

    def __init__(self, *arguments, told, **options):
        super().__init__(*arguments, **options)
        self.told = told

    def __call__(self, part):
        for number, batch in enumerate(super().__call__(part)):
            if number == 2:
                try:
                    with open(self.told, "x") as file:
                        file.write(str(self.model.engine.stats["tokens_computed"]))
                    os.kill(os.getpid(), signal.SIGKILL)
                except FileExistsError:
                    pass  # one was killed already
            yield batch


class Ray(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # In /tmp, since the paths of its sockets may have 107 characters.
        cls.folder = tempfile.mkdtemp(prefix="prefix-ray-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        model(cls.folder)
        for name in ("stderr", "stdout"):
            cls.addClassCleanup(setattr, sys, name, getattr(sys, name))
            setattr(sys, name, MESSAGES)
        paths = os.pathsep.join(sys.path[:2] + [os.environ.get("PYTHONPATH", "")])
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,
                 _temp_dir=cls.folder + "/ray", runtime_env={"env_vars": {"PYTHONPATH": paths}})
        cls.addClassCleanup(ray.shutdown)
        ray.data.DataContext.get_current().enable_progress_bars = False
        ray.data.DataContext.get_current().max_hash_shuffle_aggregators = 1  # each is a process

    def test_a_killed_worker_changes_no_byte(self):
        table = ray.data.from_items(films(400, 20), override_num_blocks=4)
        layout = prefix_ray.lay_out(table, "id", ["text", "film", "plot"], 12)
        self.assertGreater(layout.shared, 0.7)
        self.assertLess(layout.shared_before, 0.3)
        told = Path(self.folder) / "told"
        results = layout.prompts.map_batches(
            KilledOnce, batch_size=None, compute=ray.data.ActorPoolStrategy(size=2), num_cpus=0.5, fn_constructor_args=["rerank", self.folder],
            fn_constructor_kwargs={"query": "Is it praise?", "rows": 4, "batches": 2, "told": str(told), **ENGINE}).take_all()
        self.assertTrue(told.exists(), "no worker was killed")
        prompts = layout.prompts.take_all()
        with libprefix.Reranker(self.folder, **ENGINE) as alone:
            scores = alone.predict([("Is it praise?", row["prompt"]) for row in prompts])
            distinct = alone.engine.stats["tokens_computed"]
        expected = {row["key"]: score.tobytes() for row, score in zip(prompts, scores)}
        self.assertEqual({row["key"]: numpy.float32(row["values"][0]).tobytes() for row in results}, expected)
        self.assertEqual(len(results), 400)
        finished = sum(row["computed"] for row in results)
        lost = int(told.read_text())
        self.addClassCleanup(print, f"distinct {distinct}, computed {finished + lost} ({(finished + lost) / distinct:.3f} of it), of which "
                             f"{lost} by the killed worker were lost; given {sum(row['tokens'] for row in results)}", file=RESULTS)
        self.assertGreater(lost, 0)
        self.assertLessEqual(finished + lost, 1.1 * distinct)

    def test_rows_that_share_lie_together(self):
        layout = prefix_ray.lay_out(ray.data.from_items(films(90, 6), override_num_blocks=4), "id", ["text", "film", "plot"], 3)
        parts = {}
        for block in layout.prompts.iter_internal_ref_bundles():
            for ref in block.block_refs:
                for part in set(ray.get(ref).column("part").to_pylist()):
                    self.assertNotIn(part, parts, "a part is in one block")
                    parts[part] = True
        rows = sorted(layout.prompts.take_all(), key=lambda row: row["place"])
        self.assertEqual(sorted(parts), [0, 1, 2])
        fronts = [row["prompt"][:row["prompt"].index('"text":')] for row in rows]
        self.assertEqual(sum(a != b for a, b in zip(fronts, fronts[1:])), 5)
        self.assertEqual([row["part"] for row in rows], sorted(row["part"] for row in rows))
        self.assertAlmostEqual(layout.duplicated, 0)

    def test_prompts_are_json_without_what_is_null(self):
        table = ray.data.from_items([{"n": 1, "a": 'say "no"\n', "x": 0.5}, {"n": 2, "a": None, "x": None}])
        rows = prefix_ray.lay_out(table, "n", ["a", "x"], 2).prompts.take_all()
        self.assertEqual({row["key"]: row["prompt"] for row in rows}, {1: '{"a": "say \\"no\\"\\n","x": 0.5}', 2: "{}"})

    def test_a_cell_is_the_same_in_every_block(self):
        """As an array of NumPy, whole numbers beside a null are fractions, and lists cannot be compared."""
        large, when = (1 << 60) + 1, datetime.datetime(2026, 1, 31)
        table = ray.data.from_arrow([
            pyarrow.table({"n": [1, 2], "a": [large, None], "l": [["x", "y"], None], "d": pyarrow.array([when, None], pyarrow.timestamp("ns"))}),
            pyarrow.table({"n": [3], "a": [large], "l": [["x", "y"]], "d": pyarrow.array([when], pyarrow.timestamp("ns"))})])
        prompts = {row["key"]: row["prompt"] for row in prefix_ray.lay_out(table, "n", ["a", "l", "d"], 2).prompts.take_all()}
        self.assertEqual(prompts[1], prompts[3])
        self.assertEqual(json.loads(prompts[3]), {"a": large, "l": ["x", "y"], "d": "2026-01-31 00:00:00"})
        self.assertEqual(prompts[2], "{}")

    def test_rows_that_came_later_are_not_lost(self):
        read = Path(self.folder) / "read"

        def and_a_later_one(batch):
            try:
                read.touch(exist_ok=False)
                return batch
            except FileExistsError:
                return pyarrow.concat_tables([pyarrow.table({"id": [3], "v": ["late"]}), batch])

        table = ray.data.from_arrow(pyarrow.table({"id": [1, 2], "v": ["a", "b"]})).map_batches(and_a_later_one, batch_format="pyarrow")
        rows = {row["key"]: row for row in prefix_ray.lay_out(table, "id", ["v"], 2).prompts.take_all()}
        self.assertEqual(sorted(rows), [1, 2, 3])
        self.assertEqual((rows[3]["prompt"], rows[3]["part"], rows[3]["place"]), ('{"v": "late"}', 0, 2))
        self.assertEqual(sorted(rows[i]["place"] for i in (1, 2)), [0, 1])

    def test_what_is_no_table_is_refused(self):
        table = ray.data.from_items([{"id": 1, "v": "v"}, {"id": 2, "v": "v"}])
        none = ray.data.from_items([{"id": None, "v": "v"}, {"id": "a", "v": "v"}])
        with self.assertRaisesRegex(ValueError, "a row has none"):
            prefix_ray.lay_out(none, "id", ["v"], 2)
        self.assertEqual(prefix_ray.lay_out(table.limit(0), "id", ["v"], 2).prompts.count(), 0)
        for key, columns, parts in (("id", [], 2), ("id", ["v"], 0), ("v", ["id"], 2)):
            with self.assertRaises(ValueError):
                prefix_ray.lay_out(table, key, columns, parts)
        with self.assertRaises(ValueError):
            prefix_ray.Worker("sing", self.folder)
        with self.assertRaises(ValueError):
            prefix_ray.Worker("embed", self.folder, template="no row")
        for window in ({"rows": 0}, {"batches": 0}, {"batches": -1}):
            with self.assertRaisesRegex(ValueError, "at least one batch of one row"):
                prefix_ray.Worker("embed", self.folder, **window)

    def test_the_example_of_the_readme(self):
        program = re.search(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)[1]
        folder = Path(self.folder) / "example"
        folder.mkdir()
        ray.data.from_items([{"id": i, "title": "Dune", "description": "Sand", "review": f"{i}"} for i in range(4)]).write_parquet(
            str(folder / "films"))
        for a, b in (('"films"', f'"{folder}/films"'), ('"scores"', f'"{folder}/scores"'), ("/models/reranker", self.folder),
                     ("size=8", "size=1"), ("num_cpus=4", "num_cpus=0.5"), ("parts=64", "parts=2"), ('"4G"', '"64M"')):
            self.assertIn(a, program)
            program = program.replace(a, b)
        exec(program, {})  # noqa: S102
        scores = ray.data.read_parquet(f"{folder}/scores").take_all()
        self.assertEqual(sorted(row["key"] for row in scores), [0, 1, 2, 3])
        self.assertEqual([row["error"] for row in scores], [""] * 4)


class Plan(unittest.TestCase):
    """Of rows with a text of their own and one of four films."""

    VALUES = numpy.array([[i, -1 - i % 4] for i in range(40)])
    LENGTHS = numpy.array([[10, 100]] * 40)

    def test_parts_and_places(self):
        (part, place, columns), (before, after, duplicated) = prefix_ray._plan(self.VALUES, self.LENGTHS, 4)
        self.assertEqual((before, after, duplicated), (0, 36 * 100 / 4400, 0))
        self.assertEqual(sorted(place.tolist()), list(range(40)))
        self.assertEqual(len(set(part[:4].tolist())), 4)
        for i in range(40):
            self.assertEqual((part[i], columns[i].tolist()), (part[i % 4], [1, 0]))
        ends = part[numpy.argsort(place)].tolist()
        self.assertEqual(ends, sorted(ends))
        backwards, _ = prefix_ray._plan(self.VALUES[::-1], self.LENGTHS, 4)
        for one, other in zip((part, place, columns), backwards):
            self.assertEqual(one.tolist(), other[::-1].tolist(), "a row has its place wherever the table has it")

    def test_the_prompt_of_a_row_is_that_of_the_table_in_any_order(self):
        # Columns that share alike, so that which one is in front of a row is a matter of who came first.
        values = numpy.array([[1, 2, 0], [1, 1, 1], [1, 1, 2], [0, 1, 1]])
        lengths = numpy.full((4, 3), 10)
        other = [2, 3, 1, 0]
        (_, _, columns), (before, after, _) = prefix_ray._plan(values, lengths, 1)
        (_, _, again), (otherwise, same, _) = prefix_ray._plan(values[other], lengths, 3)
        self.assertEqual(columns[other].tolist(), again.tolist())
        self.assertEqual((before, otherwise, after), (30 / 120, 10 / 120, same))

    def test_cells_of_two_columns_are_not_equal(self):
        given = []
        with mock.patch.object(libprefix, "partition", lambda prompts, parts: given.extend(prompts) or PARTITION(prompts, parts)):
            prefix_ray._plan(numpy.array([[i // 4, i % 4] for i in range(40)]), self.LENGTHS, 4)
        self.assertEqual(len({number for prompt in given for number in prompt.tolist()}), 10 + 4)

    def test_long_tables_are_counted_in_larger_units(self):
        exact, _ = prefix_ray._plan(self.VALUES, self.LENGTHS, 4)
        given = []
        with mock.patch.object(prefix_ray, "MOST_UNITS", 400), mock.patch.object(
                libprefix, "partition", lambda prompts, parts: given.extend(prompts) or PARTITION(prompts, parts)):
            coarse, _ = prefix_ray._plan(self.VALUES, self.LENGTHS, 4)
        for one, other in zip(coarse, exact):
            self.assertEqual(one.tolist(), other.tolist())
        self.assertEqual({len(prompt) for prompt in given}, {9 + 1})  # of 12 bytes each


PARTITION = libprefix.partition


class Workers(unittest.TestCase):
    """Without Ray."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="prefix-ray-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        model(cls.folder)

    def part(self, prompts):
        count = len(prompts)
        return {"key": numpy.arange(count), "prompt": numpy.array(prompts, object), "part": numpy.zeros(count, numpy.int32),
                "place": numpy.arange(count)[::-1]}

    def test_every_kind_in_order_of_places(self):
        for kind, more, width in (("embed", {"options": {"dimensions": 8}}, 8),
                                  ("classify", {"labels": ["good", "bad", "neither"], "template": "A film: {row}"}, 3),
                                  ("rerank", {"query": "Is it praise?"}, 1)):
            with self.subTest(kind):
                worker = prefix_ray.Worker(kind, self.folder, rows=2, batches=2, **more, **ENGINE)
                batches = list(worker(self.part([f"row {i}" for i in range(5)])))
                self.assertEqual([batch["key"].tolist() for batch in batches], [[4, 3], [2, 1], [0]])
                self.assertEqual([batch["values"].shape for batch in batches], [(2, width), (2, width), (1, width)])
        worker = prefix_ray.Worker("generate", self.folder, options={"max_tokens": 4, "ignore_eos": True}, **ENGINE)
        self.assertTrue(next(worker(self.part(["a", "b"])))["text"][0])

    def test_a_row_that_fails_fails_alone(self):
        worker = prefix_ray.Worker("embed", self.folder, options={"truncate": "off"}, **ENGINE)
        (batch,) = worker(self.part(["short", "long" * 200, "short"]))
        self.assertEqual([bool(error) for error in batch["error"]], [False, True, False])
        self.assertTrue(numpy.isnan(batch["values"][1]).all() and not numpy.isnan(batch["values"][0]).any())

    def test_no_more_is_begun_than_the_window_holds(self):
        worker = prefix_ray.Worker("embed", self.folder, rows=2, batches=3, **ENGINE)
        begun, begin = [], worker._begin
        worker._begin = lambda prompts: begun.append(len(prompts)) or begin(prompts)
        results = worker(self.part([f"row {i}" for i in range(100)]))
        for taken in range(1, 20):
            next(results)
            self.assertEqual(len(begun), taken + 2)


if __name__ == "__main__":
    unittest.main()
