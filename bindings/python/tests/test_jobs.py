"""Jobs: waited for, followed, cancelled, detached, awaited; and every kind of request."""

import asyncio
import time
import unittest

import libprefix
import numpy
from support import WithModel

LONG = {"max_tokens": 200, "ignore_eos": True}


class Jobs(WithModel):
    def generations(self, count):
        return [libprefix.Generate([1, 2 + i % 100, 3 + i // 100, 4], LONG) for i in range(count)]

    def test_every_kind_of_request(self):
        prompt, lists = [1, 2, 3], [[7], [8, 9]]
        requests = [libprefix.Logits(prompt, [3, 4]), libprefix.Logprobs(prompt), libprefix.Choices(prompt, lists),
                    libprefix.Continuations(prompt, lists), libprefix.Embedding(prompt, {"dimensions": 8}),
                    libprefix.Generate(prompt, {"max_tokens": 5, "ignore_eos": True}), libprefix.Warm(prompt),
                    libprefix.Logits([1, 999], [3])]
        with self.engine.submit(requests) as job:
            self.assertTrue(job.wait())
            self.assertEqual((job.count, job.finished_count), (9, 9))
            sizes = [2, 2, 2, 1, 2, 8, 0, 0, 1]
            values, offsets = job.all_values()
            self.assertEqual(numpy.diff(offsets).tolist(), sizes)
            self.assertTrue(numpy.isnan(values[-1]))
            results = job.results()
            for i, result in enumerate(results[:6]):
                self.assertEqual(result.values.tolist(), values[offsets[i]:offsets[i + 1]].tolist())
            self.assertEqual(len(results[6].tokens), 5)
            self.assertEqual(job.partial_tokens(6), results[6].tokens.tolist())
            self.assertEqual(job.totals["failed"], 1)
            index, error = job.first_failure()
            self.assertEqual((index, error.code), (8, results[8].error.code))
        shape = libprefix.plan(requests[:4])
        self.assertEqual((shape["requests"], shape["tokens_given"]), (5, 21))
        with self.assertRaises(libprefix.MisuseError):
            job.wait()

    def test_events_tell_the_tokens(self):
        job = self.engine.submit([libprefix.Generate([1, 2, 3], {"max_tokens": 9, "ignore_eos": True})])
        events = list(job.events())
        self.assertEqual([e.kind for e in events], ["started", *["token"] * 9, "finished"])
        self.assertEqual([e.token for e in events[1:-1]], job.result(0).tokens.tolist())
        self.assertIsNone(job.first_failure())

        async def follow():
            again = self.engine.submit([libprefix.Generate([1, 2, 3], {"max_tokens": 9, "ignore_eos": True})])
            return [e.token async for e in again.events_async() if e.kind == "token"]

        self.assertEqual(asyncio.run(follow()), job.result(0).tokens.tolist())

    def test_coroutines_that_read_one_job_share_its_events(self):
        async def read(events, most=None):
            mine = []
            async for event in events:
                mine.append(event)
                if len(mine) == most:
                    break
            return mine

        async def several(follow, work):
            waiting = asyncio.ensure_future(read(follow()))
            await asyncio.sleep(0)  # it waits for what comes
            left = await asyncio.wait_for(read(follow(), 1), 600)
            others = await asyncio.wait_for(asyncio.gather(waiting, read(follow())), 600)
            await work.finished()
            return left + others[0] + others[1]

        job = self.engine.submit([libprefix.Generate([1, 2, 3], LONG)])
        events = asyncio.run(several(job.events_async, job))
        self.assertEqual(sorted(e.kind for e in events), ["finished", "started", *["token"] * 200])
        task = libprefix.LLM(self.engine).task("generate", stream=True, **LONG)
        task.add(["once"])
        task.submit()
        pieces = asyncio.run(several(task.pieces_async, task))
        self.assertEqual(sorted("".join(p.text or "" for p in pieces)), sorted(task.text(0)))
        self.assertEqual([p.text for p in pieces].count(None), 1)

    def test_cancelling(self):
        job = self.engine.submit(self.generations(500))
        self.assertFalse(job.wait(0))
        job.cancel_request(499)
        job.cancel()
        self.assertTrue(job.wait())
        self.assertIsInstance(job.result(499).error, libprefix.CancelledError)

        async def give_up():
            running = self.engine.submit(self.generations(500))
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(running.finished(), 0.001)
            await running.finished()
            return running

        self.assertIsInstance(asyncio.run(give_up()).result(499).error, libprefix.CancelledError)

    def test_a_job_that_is_closed_ends_and_one_that_is_detached_goes_on(self):
        def ended():
            while self.engine.stats["requests_running"] + self.engine.stats["requests_waiting"]:
                time.sleep(0.001)
            return self.engine.stats["requests_failed"]

        failed = ended()
        self.engine.submit(self.generations(300)).close()
        self.assertGreater(ended(), failed)
        failed = ended()
        job = self.engine.submit(self.generations(1))
        job.detach()
        job.close()
        self.assertEqual(ended(), failed)

    def test_many_are_awaited(self):
        async def score(i):
            return (await self.engine.arun([libprefix.Logits([1, 2, i + 3], [5])]))[0].values.tolist()

        async def both():
            return await asyncio.gather(*(score(i) for i in range(50)))

        one_by_one = [r.values.tolist() for r in self.engine.run([libprefix.Logits([1, 2, i + 3], [5]) for i in range(50)])]
        self.assertEqual(asyncio.run(both()), one_by_one)
        self.assertEqual(asyncio.run(self.engine.arun([])), [])


class Deadlines(WithModel):
    def test_texts_that_were_begun_are_kept(self):
        llm = libprefix.LLM(self.engine)
        whole = llm.generate("once", max_tokens=100, ignore_eos=True)
        count, deadline = 400, 1
        while count < 10_000:
            try:
                llm.generate(["once"] + [f"{i} upon a time" for i in range(count)], max_tokens=100, ignore_eos=True,
                             deadline_ms=deadline)
                count *= 2  # all were done in time
            except libprefix.PrefixError as error:
                self.assertEqual(error.code, 703)
                self.assertEqual(len(error.partial), count + 1)
                self.assertTrue(whole.startswith(error.partial[0]), error.partial[0])
                if error.partial[0]:
                    return
                deadline *= 2  # none was begun
        self.fail("no deadline cut a text")


if __name__ == "__main__":
    unittest.main()
