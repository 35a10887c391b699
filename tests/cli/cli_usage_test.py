#!/usr/bin/env python3
"""Tests of how the prefix command is called, from outside: cli_usage_test.py [--bin DIR] [unittest arguments].

Arguments, files, messages and help of all its commands. The last line is "N passed, N failed, N skipped".
"""

import json
import re
import subprocess
import sys
import unittest

from outside import BIN, SHARED, TEXT_LIBRARY, lines, main, prefix, run, tokens


class Usage(unittest.TestCase):
    def check(self, *args, needles, stdin=""):
        done = prefix(*args, stdin=stdin)
        self.assertEqual(done.returncode, 2, args)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for needle in needles:
            self.assertIn(needle, done.stderr)

    def test_errors_are_one_line_with_value_and_limit(self):
        model = SHARED["model"]
        self.check("run", needles=["--model"])
        self.check("dance", needles=["dance"])
        self.check("run", "--modl", "x", needles=["--modl", "did you mean --model"])
        self.check("run", "--model", needles=["--model", "PATH"])
        self.check("run", "--model", model, "--in", "/nowhere", needles=["/nowhere"])
        self.check("run", "--model", model, "--batch", "-1", needles=["-1", "[0,"])
        self.check("run", "--model", model, "--cache", "4Q", needles=["4Q"])
        for size in ("99999999999G", "99999999999999999999"):
            self.check("run", "--model", model, "--cache", size, needles=[size, "limit", "9223372036854775807"])
        self.check("run", "--model", model, "--cache", "-99999999999999999999", needles=["-99999999999999999999", "not a size"])
        self.check("run", "--model", "", needles=["--model is empty"])
        self.check("run", "--model", model, "--adapter", "a=", needles=['"a="', "NAME=DIR"])
        for command in (["run", "--model", model], ["tree"], ["order"], ["partition", "--parts", "2"], ["kld", "--model", model, "--text"]):
            flag = [] if command[-1] == "--text" else ["--in"]
            self.check(*command, *flag, "/nowhere/x", needles=['"/nowhere/x"', "No such file or directory"])
        self.check("cache-sim", "--trace", "/nowhere/x", needles=['"/nowhere/x"', "No such file or directory"])
        for flag in ("--out", "--summary", "--tree"):
            self.check("run", "--model", model, flag, "/nowhere/x", needles=[flag, '"/nowhere/x"', "No such file or directory"])
        for command in (["tree"], ["order"], ["partition", "--parts", "2"]):
            self.check(*command, "--out", SHARED["folder"], needles=["--out", str(SHARED["folder"]), "Is a directory"])
        self.check("run", "--model", model, "--sharing", "maybe", needles=["maybe", "on|off"])
        self.check("run", "--model", model, "--sharing", "of", needles=["\"of\"", "on|off"])  # a part of one
        self.check("bench", "--model", model, "--pairs", "1001", needles=["1001", "1000]"])
        self.check("run", "--model", model, "--option", "rows=0", needles=["rows", "0", "1"])
        self.check("run", "--model", model, "--option", "rowz=1", needles=["rowz", "rows"])
        self.check("run", "--model", model, "--option", "rows", needles=["KEY=VALUE"])
        self.check("run", "--model", model, "--rows", "1", "--rows", "2", needles=["--rows", "twice"])
        self.check("bench", "--model", model, "--shape", "1,2", needles=["1,2", "3"])
        # Ids of more than memory holds: the system would end the process without a word.
        self.check("bench", "--model", model, "--shape", "1000000,1000,1000", needles=["2000000000 tokens", "67108864"])
        self.check("bench", "--model", model, "--decode", "1000000,1,1,1000", needles=["1002000000 tokens", "67108864"])
        for balance in ("nan", "inf", "1e400", "0.9"):
            self.check("partition", "--parts", "2", "--balance", balance, needles=[f'"{balance}"', "at least 1"])
        trace = SHARED["folder"] / "one.jsonl"
        trace.write_text('{"session_id":1,"turn_id":0,"ts":0,"input_tokens":[1,2],"output_tokens":[3]}\n')
        for flags, needles in ((["--hybrid", "--policy", "marconi=nan"], ["nan", "alpha"]), (["--compat", "marconi"], ["marconi", "--hybrid"]),
                               (["--hybrid", "--compat", "sglang"], ["sglang", "--hybrid"])):
            self.check("cache-sim", "--trace", trace, *flags, needles=needles)
        self.check("info", needles=["MODEL", "--machine", "--options"])

    def test_folders_are_no_files(self):
        for command in (["run", "--model", SHARED["model"]], ["tree"]):
            done = prefix(*command, "--in", SHARED["folder"])
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("folder", done.stderr)

    def test_what_is_read_is_not_overwritten(self):
        path = SHARED["folder"] / "precious.jsonl"
        path.write_text(lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}]))
        before = path.read_text()
        for command in (["run", "--model", SHARED["model"], "--in", path, "--out", path],
                        ["run", "--model", SHARED["model"], "--in", path, "--summary", path],
                        ["run", "--model", SHARED["model"], "--in", path, "--tree", path],
                        ["tree", "--in", path, "--out", path]):
            done = prefix(*command)
            self.assertEqual(done.returncode, 2, command)
            self.assertIn("--in", done.stderr)
            self.assertEqual(path.read_text(), before)
        done = prefix("run", "--model", SHARED["model"], "--in", "/dev/null", "--out", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_outputs_are_not_written_into_the_model(self):
        config = SHARED["model"] / "config.json"
        before = config.read_bytes()
        for flag in ("--out", "--summary", "--tree"):
            done = prefix("run", "--model", SHARED["model"], flag, config, stdin=lines([{"tokens": [1], "max_tokens": 1}]))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("in the folder of --model", done.stderr)
            self.assertEqual(config.read_bytes(), before)
        results = SHARED["model"] / "results.jsonl"
        self.addCleanup(lambda: results.unlink(missing_ok=True))
        for _ in range(2):
            run([{"tokens": [1], "max_tokens": 1}], "--out", results)

    def test_standard_streams_are_files_too(self):
        path = SHARED["folder"] / "both.jsonl"
        request = lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}])
        path.write_text(request)
        command = [BIN / "prefix", "run", "--model", SHARED["model"], "--batch", "1"]
        with open(path) as source:
            done = subprocess.run([*command, "--out", path], stdin=source, capture_output=True, text=True)
        self.assertEqual((done.returncode, path.read_text()), (2, request))
        self.assertIn("is the file of --in", done.stderr)
        with open(path, "a") as target:
            done = subprocess.run([*command, "--in", path], stdout=target, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, path.read_text()), (2, request))
        self.assertIn("written into", done.stderr)
        for others in (["order"], ["partition", "--parts", "2"], ["tree"]):
            with open(path) as source:
                done = subprocess.run([BIN / "prefix", *others, "--out", path], stdin=source, capture_output=True, text=True)
            self.assertEqual((done.returncode, path.read_text()), (2, request), others)
            self.assertIn("is the file of --in", done.stderr)
        for others in (["order"], ["partition", "--parts", "2"]):
            results = SHARED["folder"] / "results"
            with open(results, "w") as target:
                done = subprocess.run([BIN / "prefix", *others, "--in", path, "--summary", results], stdout=target,
                                      stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, results.read_text()), (2, ""), others)
            self.assertIn("is the file of --out", done.stderr)
            done = prefix(*others, "--summary", "-", stdin=request)
            self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 2), others)
        with open(path, "a") as target:  # results and a summary may share it
            done = subprocess.run([*command, "--summary", "-"], input=request, stdout=target, text=True)
        self.assertEqual(done.returncode, 0)

    def test_what_is_there_stays_until_there_is_something_to_write(self):
        kept, new = SHARED["folder"] / "kept", SHARED["folder"] / "new"
        kept.write_text("old\n")
        model = ["--model", SHARED["model"]]
        for command in (["run", "--model", "/nonexistent"], ["run", *model, "--option", "foo=1"], ["order", "--columns", "nope"],
                        ["partition", "--parts", "2"], ["tree", "--from", "/nonexistent"]):
            for path in (kept, new):
                done = prefix(*command, "--out", path, stdin='{"text": 1}\nxx\n')
                self.assertEqual(done.returncode, 2, command)
                self.assertEqual(kept.read_text(), "old\n")
                self.assertFalse(new.exists(), command)
        done = prefix("run", *model, "--out", kept, "--summary", "/nonexistent/x", stdin=lines([{"tokens": [1]}]))
        self.assertEqual((done.returncode, kept.read_text()), (2, "old\n"))
        self.assertIn("--summary", done.stderr)
        run([{"tokens": [1, 2], "task": "logits", "ids": [1]}], "--out", kept)
        self.assertEqual([json.loads(line)["status"] for line in kept.read_text().splitlines()], ["ok"])

    def test_a_link_stays(self):
        link, target = SHARED["folder"] / "link", SHARED["folder"] / "target"
        link.symlink_to(target.name)
        done = prefix("run", "--model", "/nonexistent", "--out", link)
        self.assertEqual((done.returncode, link.is_symlink(), target.exists()), (2, True, False))
        run([{"tokens": [1, 2], "task": "logits", "ids": [1]}], "--out", link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(len(target.read_text().splitlines()), 1)

    def test_one_file_has_one_content(self):
        path = SHARED["folder"] / "both"
        for flags in (["--out", path, "--summary", path], ["--out", path, "--tree", path], ["--summary", path, "--tree", path]):
            done = prefix("run", "--model", SHARED["model"], *flags, stdin=lines([{"tokens": [1]}]))
            self.assertEqual((done.returncode, path.exists()), (2, False), flags)
            self.assertIn(flags[0], done.stderr)
        for command in (["order"], ["partition", "--parts", "2"]):
            done = prefix(*command, "--out", path, "--summary", path, stdin='{"text": "a"}\n')
            self.assertEqual((done.returncode, path.exists()), (2, False), command)

    def test_output_that_is_lost_is_said(self):
        model = SHARED["model"]
        for command in (["info", model], ["info", "--options"], ["--help"], ["--version"], ["run", "--help"],
                        ["bench", "--model", model, "--shape", "2,8,8", "--pairs", "1"], ["tree"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BIN / "prefix", *command], input="", stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2, command)
            self.assertIn("standard output", done.stderr)

    def test_a_file_that_may_not_be_as_long_is_said(self):
        request = lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}] * 40)
        command = ["sh", "-c", 'ulimit -f 1; exec "$0" "$@"', BIN / "prefix", "run", "--model", SHARED["model"], "--out"]
        done = subprocess.run([*command, SHARED["folder"] / "short"], input=request, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("cannot write to --out", done.stderr)
        self.assertIn("File too large", done.stderr)

    def test_a_stream_that_is_closed_stays_closed(self):
        """The next file that is opened would have its number."""
        results, summary = SHARED["folder"] / "results", SHARED["folder"] / "summary"
        request = lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}])
        for closed, out, code, said in (("<&-", ["--out", results], 2, "cannot read --in"), (">&-", [], 2, "standard output"),
                                        ("2>&-", ["--out", results], 0, "")):
            for path in (results, summary):
                path.write_text("")
            command = ["sh", "-c", f'exec "$0" "$@" {closed}', BIN / "prefix", "run", "--model", SHARED["model"], "--progress", "on"]
            done = subprocess.run([*command, "--summary", summary, *out], input=request, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (code, ""), closed)
            self.assertIn(said, done.stderr)
            for path in (results, summary):
                if code == 0:
                    json.loads(path.read_text())
                else:
                    self.assertEqual(path.read_text(), "", closed)

    @unittest.skipUnless(TEXT_LIBRARY.exists(), "a build with sanitizers takes more than any limit of the address space")
    def test_what_has_no_end_is_refused(self):
        """Under a limit, so that a mistake here takes no other program's memory."""
        for command, needle in ((["cache-sim", "--ops", "/dev/zero"], "line 1 has more than 1073741824 bytes"),
                                (["tree", "--from", "/dev/zero"], '--from "/dev/zero" has more than 1073741824 bytes')):
            limited = ["sh", "-c", 'ulimit -v 4000000; exec "$0" "$@"', BIN / "prefix", *command]
            done = subprocess.run(limited, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), command)
            self.assertIn(needle, done.stderr)
        limited = ["sh", "-c", 'ulimit -v 400000; exec "$0" "$@"', BIN / "prefix", "cache-sim", "--ops", "/dev/zero"]
        done = subprocess.run(limited, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "prefix cache-sim: there is no memory for what the command has to hold\n"))

    def test_an_option_has_one_value(self):
        model = SHARED["model"]
        for flags in (["--option", "dtype=bf16", "--dtype", "f32"], ["--option", "rows=9", "--option", "rows=8"],
                      ["--cache", "off", "--option", "cache=true"]):
            self.assertIn("twice", prefix("run", "--model", model, *flags).stderr, flags)
        self.assertEqual(prefix("run", "--model", model, "--dtype", "f32", "--option", "dtype=f32").returncode, 0)
        shape = ["bench", "--model", model, "--shape", "2,8,8", "--pairs", "1"]
        self.assertIn("sharing", prefix(*shape, "--option", "sharing=false").stderr)
        self.assertEqual(prefix(*shape, "--cache", "64K").returncode, 0)

    def test_what_is_repeated_cannot_move_a_cursor(self):
        escape = "\x1b[2J\x7f\u009b" + 5000 * "x"
        requests = lines([{"tokens": [1], escape: 1}, {"tokens": [1], "task": escape}, {"tokens": escape}, escape])
        for command in ([escape], ["run", "--" + escape], ["run", escape], ["run", "--model", escape[:100]], ["info", escape[:100]],
                        ["run", "--model", SHARED["model"], "--option", escape], ["run", "--model", SHARED["model"], "--isa", escape],
                        ["run", "--model", SHARED["model"], "--in", escape[:100]], ["bench", "--model", "x", "--shape", escape], ["tree"]):
            done = prefix(*command, stdin=requests)
            self.assertNotEqual(done.returncode, 0, command)
            self.assertFalse(set("\x1b\x7f\u009b") & set(done.stderr), repr(done.stderr[:300]))
            self.assertLess(len(done.stderr), 2500)

    def test_lines_are_named_in_words_of_the_program(self):
        for line, needle in (('{"tokens": [1], "seed": 1e999}', "number"), ('\ufeff{"tokens": [1]}', "byte order mark")):
            done = prefix("tree", stdin=line + "\n")
            self.assertEqual(done.returncode, 1)
            self.assertIn(needle, done.stderr)
            self.assertNotIn("json.exception", done.stderr)

    def test_an_option_without_effect_is_told(self):
        done = prefix("run", "--model", SHARED["model"], "--option", "cache_disk=/dev/null/folder",
                      stdin=lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}]))
        self.assertEqual(done.returncode, 0, done.stderr)
        for needle in ("warning", "cache_disk", "/dev/null/folder", "Not a directory"):
            self.assertIn(needle, done.stderr)
        self.assertEqual(done.stderr.count("warning"), 1, done.stderr)

    def test_a_seed_of_its_own_is_told(self):
        request = {"tokens": [1, 5], "max_tokens": 2, "temperature": 1}
        none, minus, given = run([request, {**request, "seed": -1}, {**request, "seed": 7}])
        self.assertEqual(["seed" in r for r in (none, minus, given)], [True, True, False])

    def test_what_fails_later_is_told(self):
        folder = SHARED["folder"] / "broken cache"
        folder.mkdir(mode=0o700)
        (folder / "tmp").write_text("not a folder")
        done = prefix("run", "--model", SHARED["model"], "--option", f"cache_disk={folder}",
                      stdin=lines([{"tokens": tokens(100, 1), "task": "logits", "ids": [1]}]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("prefix run: warning: cache folder", done.stderr)

    def test_a_model_that_is_missing_is_told_in_one_way(self):
        for command in (["run", "--model"], ["info"], ["tree", "--in", "/dev/null", "--model"]):
            with self.subTest(command[0]):
                if command[0] == "tree" and not TEXT_LIBRARY.exists():  # the one that asks for texts
                    self.skipTest(f"{TEXT_LIBRARY} is not there")
                self.check(*command, "/nowhere", needles=['no model at "/nowhere"'])

    def test_fields_of_another_task_are_refused(self):
        request = {"tokens": [1, 5, 9], "max_tokens": 1}
        for field, value, owner in (("ids", [3], "logits"), ("from", 1, "logprobs"), ("choices", [[1]], "choices")):
            result, = run([{**request, field: value}], code=1)
            self.assertIn(f"field {field} is of task {owner}; a request for generate does not take it", result["message"])
        for field, value, owner in (("stop", "x", "generate"), ("continuation", "x", "logprobs")):
            result, = run([{"tokens": [1, 5], "task": "embed", field: value}], code=1)
            self.assertIn(f"field {field} is of task {owner}; a request for embed does not take it", result["message"])

    def test_a_bias_that_is_none_is_refused(self):
        request = {"tokens": [1, 5, 9], "max_tokens": 1}
        for bias in ([[5, 1]], "5:1", 5, None, {"5:1,6": 1}, {"": 1}, {"-5": 1}, {"5": "1"}, {"5": None}):
            for line in ({**request, "logit_bias": bias}, {"task": "generate", "prompts": ["w5"], "logit_bias": bias}):
                result, = run([line], code=1)
                self.assertRegex(result["message"], "^line 1: logit_bias = .* is not an object of token ids with numbers$")
        for bias, needle in (({"5": 101}, 'bias "101" is outside [-100, 100]'), ({"131": 1}, "logit_bias has token 131"),
                             ({"5": 1, "05": 2}, "token 5 is there twice")):
            result, = run([{**request, "logit_bias": bias}], code=1)
            self.assertIn(needle, result["message"])

    def test_an_empty_stop_text_is_refused(self):
        for stop, place in (("", ""), ([""], "[0]"), (["a", ""], "[1]")):
            for line in ({"tokens": [1, 5, 9], "stop": stop}, {"text": "a", "stop": stop}):
                result, = run([line], code=1)
                self.assertEqual(result["message"], f"line 1: stop{place} is empty; a stop text has at least 1 byte")

    def test_what_no_text_and_no_number_holds_is_said_of_its_field(self):
        surrogate = "has half of a surrogate pair at byte "
        for line, words in (('{"id": "a", "text": "\\ud800"}', f'field "text" {surrogate}'),
                            ('{"messages": [{"role": "user", "content": "\\ud800\\u0041"}]}', f'field "messages" {surrogate}'),
                            ('{"text": "a", "\\udc00": 1}', f"a key {surrogate}"),
                            ('{"tokens": [1], "logit_bias": {"5": 1e9999999}}', 'field "logit_bias" has a number that is too large; the largest is 1.8e308'),
                            ('{"tokens": [1], "temperature": 1e999}', 'field "temperature" has a number that is too large')):
            done = prefix("run", "--model", SHARED["model"], stdin=line + "\n")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"line 1: {words}", json.loads(done.stdout.splitlines()[0])["message"])

    def test_help_has_an_example_that_works(self):
        self.assertEqual(prefix("--help").returncode, 0)
        commands = re.findall(r"^  ([a-z-]+) ", prefix("--help").stdout, re.M)
        self.assertGreaterEqual(len(commands), 9)
        for command in commands:
            done = prefix(command, "--help")
            self.assertEqual(done.returncode, 0)
            example = done.stdout.split("example, in the build folder:\n")[1]
            example = example.replace("/tmp/tiny", str(SHARED["folder"] / "example"))
            model = re.search(r"models/\S+", example)
            # What a real model reads is a text, so that both are needed.
            missing = [path for path in (BIN.parent / model[0], TEXT_LIBRARY) if not path.exists()] if model else []
            if missing:
                with self.subTest(command):
                    self.skipTest(f"{missing[0]} is not there")
                continue
            shown = subprocess.run(["sh", "-ec", example], cwd=BIN.parent, capture_output=True, text=True, timeout=300)
            self.assertEqual(shown.returncode, 0, f"{command}: {shown.stderr}")
            self.assertTrue(shown.stdout, command)

    def test_version(self):
        self.assertRegex(prefix("--version").stdout, r"^prefix \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    sys.exit(main())
