"""Eight threads on one engine, with the interpreter's lock or without (a free-threaded Python), and closing while they call."""

import asyncio
import sys
import threading
import unittest

import libprefix
from support import WithModel

THREADS = 8


def lock_of_the_interpreter():
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def in_threads(work):
    """Runs work(number) in all threads at once; the first failure is that of the test."""
    failures, start = [], threading.Barrier(THREADS)

    def run(number):
        try:
            start.wait()
            work(number)
        except BaseException as e:  # noqa: BLE001
            failures.append(e)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Threads(WithModel):
    def setUp(self):
        self.documents = [f"document {i}" for i in range(12)]

    def test_the_library_leaves_the_lock_as_it_is(self):
        # A free-threaded interpreter takes its lock again for a module that needs it.
        free = "free-threading" in sys.version
        self.assertEqual(lock_of_the_interpreter(), not free)

    def test_all_kinds_of_work_at_once(self):
        reranker, embedder, llm = (kind(self.engine) for kind in (libprefix.Reranker, libprefix.Embedder, libprefix.LLM))
        options = {"max_tokens": 6, "ignore_eos": True}
        ranking = reranker.rank("a question", self.documents)
        vectors = embedder.encode(self.documents).tolist()
        text = llm.generate("once", **options)

        def work(number):
            for turn in range(10):
                self.assertEqual(reranker.rank("a question", self.documents), ranking)
                self.assertEqual(embedder.encode(self.documents).tolist(), vectors)
                self.assertEqual("".join(llm.stream("once", **options)).strip(), text)
                good, bad = self.engine.run([libprefix.Logits([number + 1, turn + 1], [1]), libprefix.Logits([1 << 20], [1])])
                self.assertIsNone(good.error)
                self.assertIsInstance(bad.error, ValueError)
                self.assertEqual(self.engine.cache().lookup([number + 1, turn + 1])["cached_tokens"], 2)
                with self.engine.cache().pin([number + 1, turn + 1]):
                    pass

        in_threads(work)

    def test_an_event_loop_in_each(self):
        reranker = libprefix.Reranker(self.engine)
        ranking = reranker.rank("a question", self.documents)

        async def several():
            return await asyncio.gather(*(reranker.arank("a question", self.documents) for _ in range(5)))

        in_threads(lambda number: self.assertEqual(asyncio.run(several()), [ranking] * 5))

    def test_event_loops_of_several_threads_read_one_job(self):
        for _ in range(10):
            job, seen = self.engine.submit([libprefix.Generate([1, 2, 3], {"max_tokens": 50, "ignore_eos": True})]), []

            async def read(job=job, seen=seen):
                async for event in job.events_async():
                    seen.append(event.kind)
                    await asyncio.sleep(0)

            in_threads(lambda number: asyncio.run(asyncio.wait_for(read(), 600)))
            self.assertEqual(sorted(seen), ["finished", "started", *["token"] * 50])

    def test_closing_while_others_call(self):
        for _ in range(10):
            engine = libprefix.Engine(self.path, isa="scalar", dtype="f32", cache_bytes="16M")

            def work(number, engine=engine):
                try:
                    for turn in range(50):
                        if number == turn:
                            engine.close()
                        error = engine.run([libprefix.Logits([1, 2, number + 1], [1])])[0].error
                        self.assertTrue(error is None or isinstance(error, (libprefix.MisuseError, libprefix.CancelledError)), error)
                except (libprefix.MisuseError, libprefix.CancelledError):
                    pass

            in_threads(work)

    def test_ten_thousand_tasks_from_eight_threads_take_no_memory(self):
        reranker = libprefix.Reranker(self.engine)

        def rank(count):
            in_threads(lambda number: [reranker.rank("q", ["a", "b"], top_n=1) for _ in range(count // THREADS)])

        self.assert_memory_is_flat(rank)


if __name__ == "__main__":
    unittest.main()
