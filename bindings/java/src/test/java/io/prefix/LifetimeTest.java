package io.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.prefix.internal.Native;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Memory, threads, closing in use, garbage collection. */
@Timeout(300)
class LifetimeTest {
    private interface Cycle {
        void run() throws Exception;
    }

    /**
     * Runs a cycle many times; memory may not grow between the first half, which warms the JVM up, and the end. The heap
     * of the JVM comes and goes as well, so growth is looked at again: a leak grows every time.
     */
    private static void flat(String what, int cycles, long limit, Cycle cycle) throws Exception {
        long before = 0;
        long grown = 0;
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < cycles / 2; i++) {
                cycle.run();
            }
            System.gc();
            grown = Support.resident() - before;
            before += grown;
            if (round > 0 && grown < limit) {
                System.out.println(what + ": " + cycles / 2 + " cycles, " + (grown >> 10) + " KiB more");
                return;
            }
        }
        throw new AssertionError(what + ": " + grown + " bytes more after each " + cycles / 2 + " cycles");
    }

    @Test
    void memoryIsFlat() throws Exception {
        long limit = 8 << 20; // less than a kilobyte in each of 10,000 cycles; the heap of the JVM moves too
        Options two = Options.of("max_tokens", 2);
        try (Engine engine = Support.open()) {
            flat("create, run, close", 20_000, limit, () -> {
                try (Batch batch = engine.batch()) {
                    batch.add(Request.logits(new int[] {1, 5, 9, 12}, 3, 4));
                    batch.add(Request.generate(1, 5, 9).options(two));
                    batch.add(Request.embedding(1, 99_999)); // fails, with a message
                    try (Job job = engine.run(batch)) {
                        assertEquals(2, job.allValues().count(0));
                        assertThrows(PrefixException.class, () -> job.values(2));
                    }
                }
            });
        }
        flat("errors", 10_000, limit, () -> {
            assertThrows(PrefixException.class, () -> two.set("thread", 1));
            assertThrows(PrefixException.class, () -> Engine.open(Path.of("/nowhere")));
        });
        String[] files = Support.byteTokenizer(128);
        flat("tokenizers", 1000, limit, () -> {
            try (Tokenizer tokenizer = Tokenizer.fromJson(files[0], files[1]);
                    Detokenizer stream = tokenizer.detokenizer()) {
                stream.push(tokenizer.encode("some text"));
            }
        });
        Options small = Options.of("threads", 1).set("cache_bytes", "4M");
        flat("engines", 300, limit, () -> {
            try (Engine engine = Engine.open(Support.LLAMA, small);
                    Batch batch = engine.batch()) {
                batch.add(Request.logits(new int[] {1, 5}, 3));
                engine.run(batch).close();
            }
        });
    }

    @Test
    void forgottenObjectsAreFreed() throws Exception {
        Options options = Options.of("cache_bytes", "16M");
        Cycle cycle = () -> {
            Engine engine = Engine.open(Support.LLAMA, options);
            Batch batch = engine.batch();
            batch.add(Request.logits(new int[] {1, 5}, 3));
            engine.run(batch);
        };
        for (int i = 0; i < 3; i++) {
            cycle.run();
        }
        settle();
        long before = Support.resident();
        for (int i = 0; i < 30; i++) {
            cycle.run();
            settle();
        }
        // 30 engines have caches of 480 MiB together.
        long grown = Support.resident() - before;
        assertTrue(grown < 64 << 20, grown + " bytes more");
    }

    /** A call that close() overtakes says what one after it says. */
    @Test
    void whatIsClosedInTheMiddleOfACallIsClosed() {
        Engine engine = Support.open();
        var closed = assertThrows(IllegalStateException.class, () -> engine.call(raw -> {
            engine.close();
            return Native.prefix_namespace_count(raw);
        }));
        assertEquals("the engine is closed", closed.getMessage());
    }

    private static void settle() throws InterruptedException {
        System.gc();
        Thread.sleep(20);
    }

    private static void inThreads(int count, Callable<?> work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(count);
        try {
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                all.add(pool.submit(work));
            }
            for (Future<?> each : all) {
                each.get(200, TimeUnit.SECONDS);
            }
        } finally {
            pool.shutdownNow();
        }
    }

    @Test
    void manyThreadsOnOneEngine() throws Exception {
        Support.Golden golden = new Support.Golden();
        try (Engine engine = Support.open()) {
            inThreads(8, () -> {
                try (Batch batch = golden.batch(engine)) {
                    for (int round = 0; round < 20; round++) {
                        try (Job job = engine.run(batch)) {
                            assertEquals(List.of(), golden.differences(job));
                        }
                        if (round % 3 == 0) {
                            engine.cache().trim(0);
                            engine.stats();
                        }
                    }
                }
                return null;
            });
        }
    }

    @Test
    void closingDuringUseIsAnErrorNeverACrash() throws Exception {
        for (int i = 0; i < 20; i++) {
            Engine engine = Support.open();
            Batch batch = Support.generations(engine, 50);
            Job job = engine.submit(batch);
            Thread closer = new Thread(() -> {
                engine.close();
                job.close();
                batch.close();
            });
            AtomicBoolean begun = new AtomicBoolean();
            inThreads(4, () -> {
                try {
                    for (;;) {
                        job.finishedCount();
                        engine.stats();
                        batch.planJson();
                        if (begun.compareAndSet(false, true)) {
                            closer.start();
                        }
                    }
                } catch (IllegalStateException e) {
                    return null;
                } catch (PrefixException e) {
                    assertEquals(Status.MISUSE, e.status());
                    return null;
                }
            });
            closer.join();
        }
    }

    @Test
    void garbageCollectionDuringCalls() throws Exception {
        Support.Golden golden = new Support.Golden();
        AtomicBoolean over = new AtomicBoolean();
        Thread collector = new Thread(() -> {
            while (!over.get()) {
                System.gc();
            }
        });
        collector.start();
        try {
            for (int i = 0; i < 20; i++) {
                // Nothing holds engine and batch once they have been used for the last time.
                Engine engine = Engine.open(Support.LLAMA, Support.exact());
                Job job = engine.run(golden.batch(engine));
                assertEquals(List.of(), golden.differences(job));
                String[] files = Support.byteTokenizer(128);
                Detokenizer stream = Tokenizer.fromJson(files[0], files[1]).detokenizer();
                assertEquals("text", stream.push(Support.tokens("text")));
            }
        } finally {
            over.set(true);
            collector.join();
        }
    }
}
