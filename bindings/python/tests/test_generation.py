"""Generations: the likeliest tokens of each place, biases, and constraints."""

import asyncio
import gc
import math
import subprocess
import sys
import unittest
import weakref

import libprefix
import numpy
from libprefix import constraint
from support import WithModel

PROMPT = [1, 5, 9]
FOUR = {"max_tokens": 4, "ignore_eos": True}


class Even:
    """Only even tokens. Classes below have other ways."""
    living = weakref.WeakSet()

    def __init__(self):
        self.living.add(self)
        self.accepted = []

    def allow(self, mask):
        mask.allow(range(0, 131, 2))

    def accept(self, token):
        self.accepted.append(token)


class Nothing(Even):
    def allow(self, mask):
        pass


class Fails(Even):
    def accept(self, token):
        raise KeyError(f"after {token}")


class Beyond(Even):
    def allow(self, mask):
        mask.allow(160)


class Keeps(Even):
    """Writes words, and keeps them."""
    kept = []

    def allow(self, mask):
        mask.words[:] = 0x55555555
        self.kept.append(mask)


class Collects(Even):
    """What garbage has handles of the library must not be released in here."""
    def allow(self, mask):
        super().allow(mask)
        assert not gc.isenabled()


class Generations(WithModel):
    def likeliest(self, tokens, count):
        logits = self.engine.run([libprefix.Logits(tokens, range(131))])[0].values.astype(numpy.float64)
        logprobs = logits - math.log(numpy.exp(logits).sum())
        order = sorted(range(131), key=lambda token: (-logprobs[token], token))
        return [(token, logprobs[token]) for token in order[:count]]

    def assert_are(self, top, expected):
        self.assertEqual([token for token, _ in top], [token for token, _ in expected])
        for (_, found), (_, logprob) in zip(top, expected):
            self.assertAlmostEqual(found, logprob, delta=1e-4)

    def run_with(self, *constraints, **options):
        """A generation with each of these, and one without at the end."""
        requests = [libprefix.Generate(PROMPT, {**FOUR, **options}, one) for one in (*constraints, None)]
        return self.engine.run(requests)

    def test_the_likeliest_tokens_are_those_of_all_logits(self):
        three, every = {**FOUR, "top_logprobs": 3}, {**FOUR, "top_logprobs": 131}
        job = self.engine.submit([libprefix.Generate(PROMPT, three), libprefix.Logprobs(PROMPT, 1, {"top_logprobs": 3}),
                                  libprefix.Generate(PROMPT, every), libprefix.Generate(PROMPT, FOUR),
                                  libprefix.Logits(PROMPT, [3]), libprefix.Generate([999], three)])
        job.wait()
        results = job.results()
        generated, top = results[0].tokens.tolist(), results[0].top
        self.assertEqual((len(generated), len(top)), (4, 4))
        for place in range(4):
            self.assert_are(top[place], self.likeliest(PROMPT + generated[:place], 3))
            self.assertEqual(job.partial_top(0, place), top[place])
        self.assertEqual(len(results[1].top), 2)
        for place in range(2):
            self.assert_are(results[1].top[place], self.likeliest(PROMPT[:place + 1], 3))
        self.assert_are(results[2].top[0], self.likeliest(PROMPT, 131))
        self.assertEqual([r.top for r in results[3:]], [None] * 3)
        for place in (4, -1):
            with self.assertRaises(libprefix.InvalidArgumentError):
                job.partial_top(0, place)

    def test_biases_and_schemas_are_maps(self):
        best = self.likeliest(PROMPT, 1)[0][0]
        for bias in ({best: -100, 77: 100.0, numpy.int32(78): 2.5e-7}, f"{best}:-100,77:100"):
            found = self.engine.run([libprefix.Generate(PROMPT, {"max_tokens": 1, "logit_bias": bias})])[0]
            self.assertEqual(found.tokens.tolist(), [77])
        for bias, error in (({7: 100.5}, ValueError), ({7: math.nan}, ValueError), ({7.5: 1}, TypeError), ({7: "x"}, ValueError)):
            with self.assertRaises(error):
                self.engine.submit([libprefix.Generate(PROMPT, {"logit_bias": bias})])
        with self.assertRaisesRegex(TypeError, "temperature is a dict"):
            self.engine.submit([libprefix.Generate(PROMPT, {"temperature": {}})])

    def test_a_constraint_says_which_tokens_come(self):
        first, second, words, collects, free = self.run_with(Even, lambda: Even(), Keeps, Collects)
        before = list(PROMPT)
        for token in first.tokens.tolist():
            self.assertEqual(token, next(t for t, _ in self.likeliest(before, 131) if t % 2 == 0))
            before.append(token)
        self.assertEqual(len(before), 7)
        for same in (second, words, collects):
            self.assertIsNone(same.error)
            self.assertEqual(same.tokens.tolist(), before[3:])
        self.assertTrue(any(token % 2 for token in free.tokens), free)
        self.assertEqual({mask.words.tolist()[0] for mask in Keeps.kept}, {0x55555555})

        async def ask():
            return await self.engine.arun([libprefix.Generate(PROMPT, FOUR, Even)])

        self.assertEqual(asyncio.run(ask())[0].tokens.tolist(), before[3:])
        self.assertTrue(gc.isenabled())

    def test_a_constraint_that_fails_ends_its_request_alone(self):
        *failed, free = self.run_with(Nothing, Fails, Beyond, lambda: 1 / 0, lambda: None)
        for result in failed:
            self.assertIsInstance(result.error, libprefix.InvalidArgumentError)
            self.assertIsNone(result.top)
        causes = [type(result.error.__cause__) for result in failed]
        self.assertEqual(causes, [type(None), KeyError, ValueError, ZeroDivisionError, AttributeError])
        self.assertRegex(str(failed[1].error), "accept answered -1 for token 1")
        self.assertRegex(str(failed[2].error.__cause__), r"token 160 is outside \[0, 160\)")
        self.assertEqual(free.tokens.size, 4)
        with self.assertRaisesRegex(TypeError, "a constraint is a list; it must be callable"):
            self.engine.submit([libprefix.Generate(PROMPT, FOUR, [2, 4])])

    def test_a_plan_takes_no_notice_of_constraints(self):
        self.assertEqual(libprefix.plan([libprefix.Generate(PROMPT, FOUR, Even)])["requests"], 1)

    def test_states_end_and_go(self):
        def begin():
            return Even()

        engine, gone = libprefix.Engine(self.path, isa="scalar", dtype="f32"), weakref.ref(begin)
        engine.run([libprefix.Generate(PROMPT, FOUR, begin)] * 20)
        job = engine.submit([libprefix.Generate(PROMPT, {"max_tokens": 200, "ignore_eos": True}, begin)] * 20)
        job.cancel()
        job.wait()
        self.assertEqual(len(job.results()), 20)
        del job, begin
        engine.shutdown()  # its thread may have held a request
        gc.collect()
        constraint.sweep()
        self.assertEqual((len(constraint._states), len(Even.living), gone()), (0, 0, None))

    def test_a_mask_holds_tokens(self):
        mask = libprefix.TokenMask(2)
        mask.allow([0, 31, 31, 32])
        mask.allow(63)
        mask.allow(numpy.arange(40, 42))
        self.assertEqual(mask.words.tolist(), [0x80000001, 0x80000301])
        for wrong in (64, -1, [3, 64]):
            with self.assertRaises(ValueError):
                mask.allow(wrong)
        with self.assertRaises(TypeError):
            mask.allow([1.5])

    def test_python_ends_while_a_constraint_is_asked(self):
        program = ("import sys, libprefix\n"
                   "class All:\n"
                   "    def allow(self, mask): mask.words[:] = 0xffffffff\n"
                   "    def accept(self, token): pass\n"
                   "engine = libprefix.Engine(sys.argv[1], isa='scalar', dtype='f32')\n"
                   "generate = libprefix.Generate([1, 2, 3], {'max_tokens': 200, 'ignore_eos': True}, All)\n"
                   "job = engine.submit([generate] * 300)\n"
                   "next(e for e in job.events() if e.kind == 'token')\n"
                   "print('asked', flush=True)\n")
        done = subprocess.run([sys.executable, "-c", program, self.path], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "asked\n", ""))


if __name__ == "__main__":
    unittest.main()
