"""docs/models.json, from which tools/models_page writes docs/models.md, and the directories of shapes that it asks about.

What the library says of the table is compared by docs_test; that recipe auto is the table's by tests/tasks.
"""

import importlib.util
import json
import re
import struct
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import published  # noqa: E402

TABLE = published.read_table()
MODELS = {model["name"]: model for model in TABLE["models"]}
RECIPES = {path.stem: json.loads(path.read_text()) for path in (ROOT / "text" / "recipes").glob("*.json")}
PAGE = (ROOT / "docs" / "models.md").read_text()


def tool(name="models_page"):
    loader = SourceFileLoader(name, str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Table(unittest.TestCase):
    def test_entries_are_whole(self):
        self.assertEqual(len(MODELS), len(TABLE["models"]), "a name is there twice")
        for name, model in MODELS.items():
            with self.subTest(name):
                self.assertIn(model["use"], ("rerank", "embed", "chat"))
                self.assertTrue(model["files"])
                self.assertLessEqual(set(model["files"]), {"safetensors", "GGUF"})
                self.assertEqual("recipe" in model, model["use"] != "chat")
        for choice in TABLE["choose"]:
            for name in choice["models"]:
                self.assertIn(name, MODELS, choice["for"])

    def test_parameters_are_those_of_the_shapes(self):
        for name, model in MODELS.items():
            self.assertEqual(published.parameters(model), model["parameters"], name)

    def test_every_architecture_of_the_code_has_a_model(self):
        texts = (path.read_text() for path in (ROOT / "src" / "model" / "architectures").glob("*.cc"))
        known = {name for text in texts for name in re.findall(r'^    \.name = "([^"]+)"', text, re.M)}
        listed = {one["model_type"] for one in TABLE["architectures"]}
        self.assertEqual(listed, known)
        other = {name: one["model_type"] for one in TABLE["architectures"] for name in one["other_names"]}
        used = {model["config"]["model_type"] for model in MODELS.values()}
        self.assertEqual({other.get(name, name) for name in used}, known)

    def test_gguf_is_said_of_a_model_only_where_its_architecture_has_it(self):
        gguf = {}
        for one in TABLE["architectures"]:
            for name in (one["model_type"], *one["other_names"]):
                gguf[name] = bool(one["gguf"])
        for name, model in MODELS.items():
            if "GGUF" in model["files"]:
                self.assertTrue(gguf[model["config"]["model_type"]], name)

    def test_every_recipe_has_a_model_or_is_for_all(self):
        of_models = {model["recipe"] for model in MODELS.values() if "recipe" in model}
        of_any = {"head"}  # what any model may have, whose ever it is
        called_for = {name for name, recipe in RECIPES.items() if any(set(line) - of_any for line in recipe.get("match", []))}
        self.assertEqual(of_models, called_for)
        for name in RECIPES:
            self.assertTrue(f"`{name}`" in PAGE, name)
        for model in MODELS.values():
            if "recipe" in model:
                self.assertEqual(RECIPES[model["recipe"]]["task"], model["use"], model["name"])

    def test_the_page_has_every_model_and_architecture(self):
        for name in MODELS:
            self.assertTrue(f"| `{name}` |" in PAGE, name)
        for one in TABLE["architectures"]:
            self.assertTrue(f"| `{one['model_type']}` |" in PAGE, one["model_type"])


class Shapes(unittest.TestCase):
    def test_a_directory_is_a_header_and_a_hole(self):
        model = MODELS["HuggingFaceTB/SmolLM2-135M-Instruct"]
        with tempfile.TemporaryDirectory() as folder:
            directory = published.write_shapes(Path(folder), model)
            self.assertEqual(directory.name, "SmolLM2-135M-Instruct")
            self.assertEqual(json.loads((directory / "config.json").read_text()), model["config"])
            with open(directory / "model.safetensors", "rb") as file:
                length = struct.unpack("<Q", file.read(8))[0]
                header = json.loads(file.read(length))
            self.assertEqual(header["model.embed_tokens.weight"]["shape"], [49152, 576])
            size = (directory / "model.safetensors").stat().st_size
            self.assertEqual(size, 8 + length + 2 * model["parameters"])

    def test_a_model_is_as_another_with_changes(self):
        changed, other = MODELS["mistralai/Mistral-7B-Instruct-v0.3"], MODELS["intfloat/e5-mistral-7b-instruct"]
        self.assertIsNone(changed["config"]["sliding_window"])
        self.assertEqual(changed["config"]["hidden_size"], other["config"]["hidden_size"])
        self.assertNotIn("layout", changed)  # what lies beside the weights is each model's own

    def test_embedders_have_what_lies_beside_the_weights(self):
        files = published.files_beside(MODELS["Qwen/Qwen3-Embedding-0.6B"])
        self.assertEqual([module["path"] for module in files["modules.json"]], ["", "1_Pooling", "2_Normalize"])
        self.assertTrue(files["1_Pooling/config.json"]["pooling_mode_lasttoken"])
        self.assertEqual(set(files["config_sentence_transformers.json"]["prompts"]), {"query", "document"})

    def test_layers_of_hybrids(self):
        kinds = {name: published.layer_kinds(published.text_config(MODELS[name]["config"]))
                 for name in ("Qwen/Qwen3.5-4B", "LiquidAI/LFM2-350M", "nvidia/NVIDIA-Nemotron-Nano-9B-v2")}
        self.assertEqual([i for i, kind in enumerate(kinds["Qwen/Qwen3.5-4B"]) if kind == "attention"], list(range(3, 32, 4)))
        self.assertEqual(kinds["LiquidAI/LFM2-350M"].count("recurrent"), 10)
        self.assertEqual(kinds["nvidia/NVIDIA-Nemotron-Nano-9B-v2"].count("feed-forward"), 25)


    def test_first_layers(self):
        cut = published.first_layers(MODELS["LiquidAI/LFM2-350M"], 4)
        self.assertEqual(published.layer_kinds(published.text_config(cut["config"])), ["recurrent", "recurrent", "attention", "recurrent"])
        self.assertEqual(MODELS["LiquidAI/LFM2-350M"]["config"]["num_hidden_layers"], 16)
        with self.assertRaisesRegex(ValueError, "LFM2-350M: the first 2 layers have no attention"):
            published.first_layers(MODELS["LiquidAI/LFM2-350M"], 2)

    def test_numbers_fill_the_file(self):
        model = published.first_layers(MODELS["HuggingFaceTB/SmolLM2-135M-Instruct"], 1)
        with tempfile.TemporaryDirectory() as folder:
            file = published.write_shapes(Path(folder), model, b"abcdefg" * 9000) / "model.safetensors"
            self.assertEqual(file.stat().st_size % 8, (8 + 2 * published.parameters(model)) % 8)
            with open(file, "rb") as data:
                data.seek(8 + struct.unpack("<Q", data.read(8))[0])
                self.assertEqual(data.read(10), b"abcdefgabc")


class Speeds(unittest.TestCase):
    def test_times_of_some_layers_are_carried_on(self):
        self.assertAlmostEqual(tool("models_speed").carried_on(3.0, 5.0, [2, 4], 36), 37.0)

    def test_figures_have_two_digits(self):
        self.assertEqual([tool().speed(n) for n in (3.14159, 31.4159, 314.159, 3141.59)], ["3.1", "31", "310", "3,100"])

    def test_rows_are_of_models_in_the_table(self):
        path = ROOT / "docs" / "models-speed.jsonl"
        if not path.exists():
            self.skipTest("nothing was measured")
        about, *rows = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertTrue(about["machine"] and about["date"])
        for row in rows:
            self.assertEqual(published.text_config(MODELS[row["model"]]["config"])["num_hidden_layers"], row["of"])
            self.assertTrue(0 < row["answers"] and 0 < row["prompt"], row)


class Page(unittest.TestCase):
    """What the table and the library do not agree on is an error, whatever the page says."""

    def setUp(self):
        self.tool = tool()
        self.model = MODELS["Qwen/Qwen3-0.6B"]
        self.said = {"parameters": self.model["parameters"], "kv_bytes_per_token": 28 * 2 * 8 * 128 * 2}

    def measure(self, said, message=""):
        self.tool.ask = lambda prefix, directory: (said, message)
        with tempfile.TemporaryDirectory() as folder:
            return self.tool.measure(None, self.model, folder)

    def test_what_agrees_is_taken(self):
        self.assertEqual(self.measure(self.said), self.said)

    def test_what_differs_is_named(self):
        for change, words in (({"parameters": 7}, "the library says 7"), ({"parameters": 7 << 40}, "parameters"),
                              ({"kv_bytes_per_token": 1 << 40}, "keys and values")):
            with self.assertRaisesRegex(self.tool.Disagreement, words):
                self.measure({**self.said, **change})
        with self.assertRaisesRegex(self.tool.Disagreement, "Qwen/Qwen3-0.6B: it does not run"):
            self.measure({}, "it does not run")

    def test_architectures_are_those_of_the_library(self):
        known = {name for one in TABLE["architectures"] for name in (one["model_type"], *one["other_names"])}
        self.tool.check_architectures(TABLE, known)
        with self.assertRaisesRegex(self.tool.Disagreement, "no entry .* for brand_new"):
            self.tool.check_architectures(TABLE, known | {"brand_new"})
        with self.assertRaisesRegex(self.tool.Disagreement, "does not know llama"):
            self.tool.check_architectures(TABLE, known - {"llama"})

    def test_what_is_refused_has_to_be(self):
        self.tool.ask = lambda prefix, directory: ({"parameters": 1}, "")
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(self.tool.Disagreement, "it runs"):
            self.tool.check_refused(None, TABLE, folder)

    def test_sizes(self):
        self.assertEqual([self.tool.size(n) for n in (80, 4096, 23040, 51 << 20, 3 << 29)],
                         ["80 bytes", "4 KiB", "22.5 KiB", "51 MiB", "1.5 GiB"])
        self.assertEqual([self.tool.rounded(n) for n in (134515008, 999885952, 8190735360)], ["135 M", "1.0 B", "8.2 B"])

    def test_windows(self):
        said = {name: self.tool.windows(MODELS[name]["config"]) for name in MODELS}
        self.assertEqual(said["google/gemma-3-1b-it"], "windows of 512 keys in 22 of 26 layers")
        self.assertEqual(said["mistralai/Ministral-8B-Instruct-2410"], "")  # as long as the context
        self.assertEqual(said["mistralai/Mistral-7B-Instruct-v0.3"], "")


if __name__ == "__main__":
    unittest.main()
