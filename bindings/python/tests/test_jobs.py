"""Jobs: waited for, followed, cancelled, detached, awaited; and every kind of request."""

import asyncio
import gc
import os
import resource
import subprocess
import sys
import time
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from unittest import mock

import libprefix
import numpy
from libprefix._native import call, core
from libprefix._waiting import Readers, events_async
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

    def test_a_number_that_c_does_not_hold_is_named(self):
        with self.engine.submit([libprefix.Warm([1, 2])]) as job, self.assertRaises(libprefix.MisuseError):
            job.wait()
            for call in (job.result, job.partial_tokens, job.cancel_request):
                for index, sentence in ((-1, "a number is -1; at least 0"), (numpy.int64(-7), "is -7;"), (1, "request 1; the job has 1")):
                    with self.assertRaisesRegex(libprefix.InvalidArgumentError, sentence):
                        call(index)
            for namespace, sentence in ((1 << 31, "2147483648; at most 2147483647"), (-(1 << 40), "at least -2147483648")):
                with self.assertRaisesRegex(libprefix.InvalidArgumentError, sentence):
                    self.engine.cache(namespace).usage
            job.close()
            job.result(-1)

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

    def test_an_interruption_is_seen_where_nothing_is_left_to_cancel(self):
        async def give_up(running, follow):
            async def read():
                async for _ in follow():
                    pass

            waiting = [asyncio.ensure_future(running.finished()), asyncio.ensure_future(read())]
            await asyncio.sleep(0)
            running.close()
            for wait in waiting:
                wait.cancel()
            ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 600)
            self.assertEqual([type(error) for error in ended], [asyncio.CancelledError] * 2)

        def interrupted(running):
            def close(*_):
                running.close()
                raise KeyboardInterrupt

            return mock.patch(f"{type(running).__module__}.wait", close)

        job = self.engine.submit(self.generations(500))
        asyncio.run(give_up(job, job.events_async))
        task = libprefix.LLM(self.engine).task("generate", **LONG)
        task.add(["once"] * 500)
        task.submit()
        asyncio.run(give_up(task, task.pieces_async))
        for running in (self.engine.submit(self.generations(1)), libprefix.LLM(self.engine).task("generate")):
            with interrupted(running), self.assertRaises(KeyboardInterrupt):
                running.wait()

    def test_a_stream_that_a_forked_child_forgets_is_silent(self):
        program = ("import gc, os, sys, libprefix\n"
                   "llm = libprefix.LLM(sys.argv[1], isa='scalar')\n"
                   "pieces = llm.stream('once', max_tokens=200, ignore_eos=True)\n"
                   "next(pieces)\n"
                   "child = os.fork()\n"
                   "del pieces\n"
                   "gc.collect()\n"
                   "if child == 0:\n"
                   "    os._exit(0)\n"
                   "os.waitpid(child, 0)\n")
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, self.path], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_times_in_seconds(self):
        job = self.engine.submit(self.generations(1))
        for wait in (job.wait, self.engine.shutdown, lambda seconds: self.engine.cache().pin([1], seconds)):
            with self.assertRaisesRegex(ValueError, "nan seconds"):
                wait(float("nan"))
        self.assertTrue(job.wait(float("inf")))
        self.assertFalse(self.engine.submit(self.generations(500)).wait(-1))
        with self.assertRaisesRegex(ValueError, "below 0"):
            self.engine.cache().pin([1], -1e-9)  # which is not 0, for ever

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


def event_descriptors():
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            found += os.readlink(f"/proc/self/fd/{descriptor}") == "anon_inode:[eventfd]"
    return found


class Source:
    """Events that come when the test says so, with a notice as a job has one."""

    def __init__(self):
        self.events, self.readers = [], Readers()

    def read(self):
        return events_async(self.readers, self.notify, None, self.look, lambda: None)

    def notify(self, handle, queue, tag, error):
        self.notice = queue, tag
        return core.PREFIX_OK

    def look(self, timeout):
        return self.events.pop(0) if self.events else (core.PREFIX_ERR_TIMEOUT, None)

    def put(self, status, event):
        self.events.append((status, event))
        call(core.prefix_queue_post, *self.notice)


class EventLoops(WithModel):
    """However much a loop awaits, it takes one descriptor, and gives it back."""

    def setUp(self):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        self.llm = libprefix.LLM(self.engine)
        gc.collect()  # jobs of other tests
        self.before = event_descriptors()

    def tearDown(self):
        self.assert_all_are_back()

    def assert_all_are_back(self):
        """The library drops a queue at once after it has put the last tag there."""
        end = time.monotonic() + 60
        while event_descriptors() > self.before and time.monotonic() < end:
            gc.collect()
        self.assertEqual(event_descriptors(), self.before)

    def task(self):
        """It waits until it is submitted."""
        task = self.llm.task("generate", max_tokens=2, ignore_eos=True)
        task.add(["once"])
        return task

    def job(self):
        return self.engine.submit([libprefix.Generate([1, 2, 3], LONG)])

    def await_at_once(self, count, loops=1):
        async def all_of_them():
            errors = []
            asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
            tasks = [self.task() for _ in range(count)]
            waiting = [asyncio.ensure_future(task.finished()) for task in tasks]
            await asyncio.sleep(0)  # each of them waits
            self.assertLessEqual(event_descriptors(), self.before + loops)
            waiting.pop(7).cancel()
            await asyncio.sleep(0)
            cancelled = tasks.pop(7)
            cancelled.submit()
            cancelled.wait()  # its tag comes when nobody awaits it
            for task in tasks:
                task.submit()
            await asyncio.wait_for(asyncio.gather(*waiting), 600)
            self.assert_all_are_back()  # not only when the loop is closed
            self.assertEqual(errors, [])
            self.assertIsInstance(cancelled.failures()[0], libprefix.CancelledError)
            self.assertEqual([task.failures() for task in tasks], [{}] * (count - 1))

        asyncio.run(all_of_them())

    def test_more_is_awaited_than_there_are_descriptors(self):
        for _ in range(2):
            self.await_at_once(400)
            self.assert_all_are_back()

    def test_loops_of_two_threads(self):
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda count: self.await_at_once(count, loops=2), [300, 301]))

    def test_many_are_followed(self):
        async def follow(job):
            return [event.kind async for event in job.events_async()].count("token")

        async def all_of_them():
            following = [asyncio.ensure_future(follow(self.job())) for _ in range(50)]
            await asyncio.sleep(0)
            self.assertLessEqual(event_descriptors(), self.before + 1)
            return await asyncio.wait_for(asyncio.gather(*following), 600)

        self.assertEqual(asyncio.run(all_of_them()), [200] * 50)

    def test_a_reader_that_has_the_notice_tells_the_others(self):
        async def follow():
            source = Source()
            waits, is_busy = source.read(), source.read()
            event = asyncio.ensure_future(waits.__anext__())
            await asyncio.sleep(0)  # it waits for what comes
            source.events.append((core.PREFIX_OK, 1))
            self.assertEqual(await is_busy.__anext__(), 1)
            source.put(core.PREFIX_OK, 2)
            self.assertEqual(await asyncio.wait_for(event, 600), 2)

        asyncio.run(follow())

    def test_a_reader_that_leaves_hands_the_notice_on(self):
        async def take_one(source):
            events = source.read()
            self.assertEqual(await events.__anext__(), 1)
            await events.aclose()

        async def follow():
            source = Source()
            event = asyncio.ensure_future(source.read().__anext__())
            await asyncio.sleep(0)  # it waits for what comes
            source.events.append((core.PREFIX_OK, 1))
            await asyncio.to_thread(asyncio.run, take_one(source))
            source.put(core.PREFIX_OK, 2)
            self.assertEqual(await asyncio.wait_for(event, 600), 2)

        asyncio.run(follow())

    def test_a_queue_that_fails_ends_every_wait(self):
        broken = libprefix.PrefixError("broken")

        def fail(function, *arguments, **how):
            if function == core.prefix_queue_next:
                raise broken
            return call(function, *arguments, **how)

        async def wait_for_tasks():
            tasks = [self.task() for _ in range(3)]
            waiting = [asyncio.ensure_future(task.finished()) for task in tasks]
            await asyncio.sleep(0)  # each of them waits
            asyncio.get_running_loop().set_exception_handler(lambda *_: [wait.cancel() for wait in waiting])
            with mock.patch("libprefix._waiting.call", fail):
                tasks[0].submit()
                self.assertEqual(await asyncio.gather(*waiting, return_exceptions=True), [broken] * 3)
            tasks[1].submit()
            await tasks[1].finished()  # by another queue

        asyncio.run(wait_for_tasks())

    def test_a_loop_that_is_forgotten_takes_its_descriptor_along(self):
        for is_closed in (True, False):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one that was not closed
                loop = asyncio.new_event_loop()
                loop.set_exception_handler(lambda *_: None)  # what it awaits is pending
                pending = loop.create_task(self.task().finished())
                loop.run_until_complete(asyncio.sleep(0))
                self.assertEqual(event_descriptors(), self.before + 1)
                if is_closed:
                    loop.close()
                del loop, pending
                self.assert_all_are_back()


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
