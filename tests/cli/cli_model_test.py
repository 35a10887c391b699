#!/usr/bin/env python3
"""Tests of `prefix info`, `bench` and `pack`, from outside: cli_model_test.py [--bin DIR] [unittest arguments].

What the command says of a model and makes of it. The last line is "N passed, N failed, N skipped".
"""

import json
import re
import shutil
import subprocess
import sys
import time
import unittest

from outside import BIN, ROOT, SHARED, lines, main, prefix, run, tokens


class Info(unittest.TestCase):
    def test_model(self):
        done = prefix("info", SHARED["model"], "--context", "4097")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("4096 positions", done.stderr)
        done = prefix("info", SHARED["model"], "--json", "--context", "100", "--batch", "3")
        model = json.loads(done.stdout)["model"]
        self.assertEqual(model["sizes"]["layers"], 2)
        self.assertEqual(model["parameters"], sum(g["parameters"] for g in model["tensors"]))
        self.assertEqual(model["needed"]["kv"], 300 * model["kv_bytes_per_token"])
        # Long paths may be split over threads, whose states are merged: none is as long as that here.
        rest = model["needed"]["total"] - model["needed"]["kv"] - model["bytes"]["weights"]
        self.assertLess(rest, model["bytes"]["activations"])
        self.assertGreater(model["flops_per_token"], 0)
        self.assertEqual(model["needed"]["states"], 0)
        shown = prefix("info", SHARED["model"]).stdout
        self.assertIn("architecture", shown)
        self.assertIn("for 1 sequence of 4,096 tokens: keys", shown)
        self.assertNotIn("state", shown)
        shown = prefix("info", SHARED["model"], "--batch", "1000").stdout
        self.assertIn("for 1,000 sequences of 4,096 tokens that share nothing: keys", shown)

    def test_what_the_library_warns_of_is_told(self):
        path = SHARED["folder"] / "tied"
        shutil.copytree(SHARED["model"], path)
        weights = path / "model.safetensors"
        data = weights.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        embedding = header["model.embed_tokens.weight"]
        size = embedding["data_offsets"][1] - embedding["data_offsets"][0]
        # Other values than those of the embedding, to which config.json ties it.
        header["lm_head.weight"] = {**embedding, "data_offsets": [len(data) - end, len(data) - end + size]}
        text = json.dumps(header).encode()
        weights.write_bytes(len(text).to_bytes(8, "little") + text + data[end:] + bytes(size))
        says = "config.json ties the output matrix"
        model = json.loads(prefix("info", path, "--json").stdout)["model"]
        self.assertRegex("\n".join(model["warnings"]), f"^{says}.*$")
        self.assertEqual(prefix("info", path).stdout.count(f"\nwarning: {says}"), 1)
        self.assertEqual(json.loads(prefix("info", SHARED["model"], "--json").stdout)["model"]["warnings"], [])
        for command in (["run", "--in", "/dev/null"], ["bench", "--shape", "1,8,1", "--pairs", "1"],
                        ["pack", "--out", SHARED["folder"] / "packed tied"]):
            said = prefix(*command, "--model", path).stderr
            self.assertEqual(said.count(f"prefix {command[0]}: warning: {says}"), 1, said)

    def test_what_a_file_says_cannot_move_a_cursor(self):
        path = SHARED["folder"] / "moving \x1b[2J"
        shutil.copytree(SHARED["model"], path)
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**config, "architectures": ["Own\x1b[2J\x7f\u009bModel"]}))
        shown = prefix("info", path).stdout
        self.assertIn("moving  [2J: safetensors, architecture Own [2J  Model, ", shown)
        self.assertFalse(set("\x1b\x7f\u009b") & set(shown))
        self.assertEqual(json.loads(prefix("info", path, "--json").stdout)["model"]["architecture"], "Own\x1b[2J\x7f\u009bModel")

    def test_what_an_engine_warns_of_is_told_before_there_is_one(self):
        path = SHARED["folder"] / "own code"
        shutil.copytree(SHARED["model"], path)
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "modeling.OwnModel"}}))
        says = 'config.json names class "OwnModel"'
        self.assertEqual(prefix("info", path).stdout.count(f"\nwarning: {says}"), 1)
        self.assertEqual(prefix("run", "--in", "/dev/null", "--model", path).stderr.count(f"prefix run: warning: {says}"), 1)
        for option, words in (("attention=bidirectional", []), ("cache_states=placed", [says, "option cache_states has no effect"])):
            told = json.loads(prefix("info", path, "--option", option, "--json").stdout)["model"]["warnings"]
            self.assertEqual(len(told), len(words), told)
            for word in words:
                self.assertEqual(sum(word in sentence for sentence in told), 1, told)

    def test_model_with_recurrent_layers(self):
        path = ROOT / "build" / "golden-models" / "granite-h-base"
        model = json.loads(prefix("info", path, "--json").stdout)["model"]
        self.assertEqual(model["sizes"]["recurrent_layers"], 3)
        # Three layers; three columns of 224 channels, and 6 heads of 32 x 16, in f32.
        self.assertEqual(model["state_bytes"], 3 * 4 * (3 * 224 + 6 * 32 * 16))
        needed = model["needed"]
        self.assertEqual(needed["context"], 256)  # all there are
        # What one takes of the cache is what a cache without room for it says.
        small = prefix("run", "--model", path, "--option", "cache_bytes=1").stderr
        state, page = map(int, re.search(r"recurrent layers takes (\d+) and a page of 32 tokens (\d+)", small).groups())
        self.assertGreater(state, model["state_bytes"])
        self.assertEqual((needed["kv"], needed["states"]), (256 // 32 * page, 2 * state))
        four = json.loads(prefix("info", path, "--json", "--batch", "4").stdout)["model"]
        self.assertEqual(four["needed"]["states"], 5 * state)
        self.assertEqual(four["needed"]["total"], sum(four["bytes"][key] for key in ("weights", "activations")) +
                         4 * needed["kv"] + 5 * state)
        shown = prefix("info", path).stdout
        self.assertIn("a state of the recurrent layers", shown)
        self.assertRegex(shown, "for 1 sequence of 256 tokens: .*, states ")

    def test_machine(self):
        machine = json.loads(prefix("info", "--machine", "--json").stdout)["machine"]
        self.assertEqual([d["kind"] for d in machine["devices"] if d["chosen"]], ["cpu"])
        self.assertEqual(sum(d["kind"] == "cpu" for d in machine["devices"]), 1)
        self.assertIn(machine["devices"][0]["level"], machine["features"])
        self.assertTrue(all(d["available"] or d["reason"] for d in machine["devices"]))
        gpus = [d for d in machine["devices"] if d["kind"] == "cuda"]
        if any(d["available"] for d in gpus):
            self.assertEqual(machine["gpu"], "available")
        elif gpus:
            self.assertEqual(machine["gpu"], f"none: {gpus[0]['reason']}")
        else:
            why = prefix("run", "--model", SHARED["model"], "--device", "cuda").stderr
            self.assertEqual(f"prefix run: {machine['gpu'].removeprefix('none: ')} (PREFIX_ERR_UNSUPPORTED_DEVICE)\n", why)
        cpu = machine["devices"][0]
        self.assertRegex(prefix("info", "--machine").stdout, rf"(?m)^cpu: .*{cpu['level']}, {cpu['threads']} threads, ")

    def test_options(self):
        options = json.loads(prefix("info", "--options", "--json").stdout)["options"]
        by_key = {option["key"]: option for option in options}
        self.assertEqual(len(by_key), len(options))
        self.assertEqual(by_key["max_tokens"]["scope"], "generate")
        self.assertEqual(by_key["dtype"]["values"], "bf16|f32")
        self.assertEqual(by_key["temperature"]["range"], [0, 1000])
        said = prefix("info", "--options").stdout
        for option in options:
            self.assertRegex(said, rf"(?m)^  {option['key']} ")
            self.assertIn(option["doc"], said)
        self.assertLess(said.index("of engines:"), said.index("of requests of every kind:"))


class Bench(unittest.TestCase):
    def test_json_lines(self):
        done = prefix("bench", "--model", SHARED["model"], "--shape", "4,32,8", "--decode", "3,32,4,5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        scored, decoded = map(json.loads, done.stdout.splitlines())
        self.assertEqual(scored["shared"]["rows"], 32 + 4 * 8)
        self.assertEqual(scored["unshared"]["rows"], 4 * 40)
        self.assertEqual(decoded["generated_tokens"], 5)
        for shape in (scored, decoded):
            self.assertEqual(len(shape["shared"]["samples"]), 3)
            self.assertGreater(shape["ratio"], 0)
            self.assertGreater(shape["unshared"]["kv_peak_bytes"], 0)

    def test_operations_are_those_of_info(self):
        requests, shared, own = 2, 64, 8
        for name in ("qwen3-base", "mixtral-base"):
            path = ROOT / "build" / "golden-models" / name
            model = json.loads(prefix("info", path, "--json").stdout)["model"]
            layers = sum(group["parameters"] * (model["sizes"]["experts_per_token"] / model["sizes"]["experts"]
                                                if group["group"] == "experts" else 1)
                         for group in model["tensors"] if group["group"] not in ("embedding", "norm", "output", "unused"))
            sizes = model["sizes"]
            # The last layer goes on with the rows that are read, behind their queries, keys and values; of the output
            # matrix they are multiplied with the 32 columns of a panel.
            queries = sizes["hidden"] * sizes["head_dim"] * (sizes["heads"] + 2 * sizes["kv_heads"])
            left_out = (shared + requests * own - requests) * (layers / sizes["layers"] - queries)
            weights = (shared + requests * own) * layers - left_out + requests * 32 * sizes["hidden"]
            done = prefix("bench", "--model", path, "--shape", f"{requests},{shared},{own}", "--pairs", "1", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            side = json.loads(done.stdout)["shared"]
            self.assertAlmostEqual(side["gemm_gflop"] * 1e9 / (2 * weights), 1, places=6, msg=name)
            self.assertAlmostEqual(side["gemm_gflops_per_second"] * side["gemm_seconds"] / side["gemm_gflop"], 1, places=6)


class Pack(unittest.TestCase):
    """Results of a packed model are those of compute=int8 with the model itself, and a model is whole or not there."""

    REQUESTS = [{"tokens": tokens(20, seed), "task": "logits", "ids": [3, 4, 5]} for seed in range(3)]

    def setUp(self):
        self.out = SHARED["folder"] / f"packed-{self.id().rpartition('.')[2]}"

    def test_results_are_the_same(self):
        done = prefix("pack", "--model", SHARED["model"], "--out", self.out, "--keep", "")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["out"], str(self.out))
        self.assertGreater(report["bytes"], 0)
        flags = ("--option", "compute=int8", "--option", "compute_keep=")
        results = run(self.REQUESTS, *flags)
        packed = prefix("run", "--model", self.out, *flags, stdin=lines(self.REQUESTS))
        self.assertEqual(packed.returncode, 0, packed.stderr)
        self.assertEqual([json.loads(line)["logits"] for line in packed.stdout.splitlines()],
                         [result["logits"] for result in results])
        info = prefix("info", self.out, "--json", "--option", "compute=int8", "--option", "compute_keep=")
        self.assertEqual(info.returncode, 0, info.stderr)
        for group in json.loads(info.stdout)["model"]["tensors"]:
            self.assertEqual(group["dtype"] == "int8", group["group"] != "norm", group)
            self.assertGreaterEqual(group["bytes"], group["parameters"])

    def test_what_cannot_be_is_said(self):
        self.assertEqual(prefix("pack", "--model", SHARED["model"], "--out", self.out).returncode, 0)
        before = sorted(path.name for path in SHARED["folder"].iterdir())
        again = prefix("pack", "--model", SHARED["model"], "--out", self.out)
        twice = prefix("pack", "--model", self.out, "--out", f"{self.out}-2")
        plain = prefix("run", "--model", self.out, stdin=lines(self.REQUESTS))
        nothing = prefix("pack", "--model", SHARED["model"])
        for done, text in ((again, "not overwritten"), (twice, "already"), (plain, "compute=int8"), (nothing, "--out")):
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(sorted(path.name for path in SHARED["folder"].iterdir()), before)

    def test_a_killed_process_leaves_nothing_under_the_name(self):
        command = [BIN / "prefix", "pack", "--model", SHARED["model"], "--out", self.out]
        for milliseconds in (0, 2, 5, 10, 20, 40, 80):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                time.sleep(milliseconds / 1000)
                process.kill()
            if not self.out.exists():
                continue
            done = prefix("run", "--model", self.out, "--option", "compute=int8", stdin=lines(self.REQUESTS))
            self.assertEqual(done.returncode, 0, done.stderr)
            shutil.rmtree(self.out)


if __name__ == "__main__":
    sys.exit(main())
