package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.prefix.internal.Layout;
import io.prefix.internal.Struct;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

@Timeout(120)
class JobTest {
    private Engine engine;

    @BeforeEach
    void open() {
        engine = Support.open();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    @Test
    void aPlanNeedsNoEngine() {
        try (Batch plan = Batch.planOnly()) {
            plan.add(Request.continuations(new int[] {1, 2, 3}, new int[] {4}, new int[] {5, 6}, new int[] {5, 7}));
            assertEquals(3, plan.add(Request.embedding(1, 2)));
            assertEquals(4, plan.size());
            Map<?, ?> shape = (Map<?, ?>) JsonReader.read(plan.planJson());
            assertEquals(16L, shape.get("tokens_given"));
            assertTrue((Long) shape.get("tokens_distinct") < 16);
            assertThrows(PrefixException.class, () -> engine.run(plan));
            plan.clear();
            assertEquals(0, plan.size());
        }
    }

    @Test
    void aBadRequestFailsAlone() throws Exception {
        try (Batch batch = engine.batch()) {
            batch.add(Request.logits(new int[] {1, 999}, 3).tag(7));
            batch.add(Request.logits(new int[] {1, 9}, 3, 4).tag(8));
            batch.add(Request.embedding(new int[1000]));
            try (Job job = engine.run(batch)) {
                assertEquals(0, job.firstFailure().orElseThrow());
                Result bad = job.result(0);
                assertTrue(bad.status() != Status.OK && bad.tag() == 7 && !bad.message().isEmpty(), bad.toString());
                assertEquals(Finish.ERROR, bad.finish());
                Result good = job.result(1);
                assertTrue(good.status() == Status.OK && good.tag() == 8 && good.promptTokens() == 2, good.toString());
                assertEquals(bad.status(), assertThrows(PrefixException.class, () -> job.values(0)).status());
                assertEquals(Status.PROMPT_TOO_LONG, job.result(2).status());
                Values values = job.allValues();
                assertEquals(1, values.count(0));
                assertTrue(Float.isNaN(values.get(0, 0)));
                assertEquals(2, values.count(1));
                Totals totals = job.totals();
                assertTrue(totals.requests() == 3 && totals.failed() == 2 && !totals.time().isZero(), totals.toString());
                Map<Integer, String> sentences = Map.of(3, "request 3; the job has 3", -1, "index is -1; at least 0");
                sentences.forEach((index, sentence) -> {
                    for (Executable call : List.<Executable>of(
                            () -> job.values(index), () -> job.result(index), () -> job.cancelRequest(index))) {
                        PrefixException e = assertThrows(PrefixException.class, call);
                        assertEquals(Status.OUT_OF_RANGE, e.status());
                        assertEquals(sentence, e.getMessage());
                        assertTrue(e.domain().startsWith("prefix_job_"), e.domain());
                    }
                });
            }
        }
    }

    @Test
    void eventsComeInOrderAndEnd() throws Exception {
        Options options = Options.of("max_tokens", 5).set("ignore_eos", true).set("logprobs", true);
        try (Batch batch = engine.batch()) {
            batch.add(Request.generate(1, 2, 3).options(options).tag(11));
            try (Job job = engine.submit(batch)) {
                List<Event> events = job.events().toList();
                assertTrue(events.stream().allMatch(e -> e.request() == 0 && e.tag() == 11), events.toString());
                int[] tokens = events.stream()
                        .filter(e -> e.kind() == Event.Kind.TOKEN && e.logprob() < 0)
                        .mapToInt(Event::token)
                        .toArray();
                assertArrayEquals(job.tokens(0), tokens);
                assertEquals(5, tokens.length);
                Event last = events.get(events.size() - 1);
                assertTrue(last.kind() == Event.Kind.FINISHED && last.computed() == 3, last.toString());
                assertEquals(Finish.LENGTH, job.result(0).finish());
                assertEquals(0, job.events().count());
                assertTrue(job.nextEvent(Duration.ZERO).isEmpty());
            }
        }
    }

    @Test
    void cancellingMidRunFreesTheEngine() throws Exception {
        try (Batch batch = Support.generations(engine, 2000);
                Job job = engine.submit(batch)) {
            assertTrue(job.nextEvent(Duration.ofSeconds(60)).isPresent(), "it has begun");
            assertFalse(job.await(Duration.ofMillis(20)));
            PrefixException unfinished = assertThrows(PrefixException.class, () -> job.result(1999));
            assertEquals(Status.MISUSE, unfinished.status());
            new Thread(job::cancel).start();
            assertTimeout(Duration.ofSeconds(5), () -> job.await());
            assertEquals(Status.CANCELLED, job.result(1999).status());
            assertEquals(2000, job.finishedCount());
            assertEquals(0, engine.stats().requestsRunning());
        }
    }

    @Test
    void oneRequestCanBeCancelled() throws Exception {
        try (Batch batch = Support.generations(engine, 30);
                Job job = engine.submit(batch)) {
            job.cancelRequest(20);
            assertThrows(PrefixException.class, () -> job.cancelRequest(30));
            job.await();
            assertEquals(Status.CANCELLED, job.result(20).status());
            assertEquals(200, job.tokens(21).length);
        }
    }

    @Test
    void anInterruptEndsTheWaiting() throws Exception {
        try (Batch batch = Support.generations(engine, 2000)) {
            Thread runner = Thread.currentThread();
            CompletableFuture.delayedExecutor(50, TimeUnit.MILLISECONDS).execute(runner::interrupt);
            assertThrows(InterruptedException.class, () -> engine.run(batch));
            for (int i = 0; i < 100 && engine.stats().requestsRunning() + engine.stats().requestsWaiting() > 0; i++) {
                Thread.sleep(50);
            }
            assertEquals(0, engine.stats().requestsRunning(), "the run was cancelled");
            try (Job job = engine.submit(batch)) {
                Thread.currentThread().interrupt();
                PrefixException e = assertThrows(PrefixException.class, () -> job.events().count());
                assertEquals(Status.CANCELLED, e.status());
                assertTrue(Thread.interrupted());
            }
        }
    }

    @Test
    void theFirstFailureIsKnownWhenTheJobIsDone() throws Exception {
        try (Batch batch = engine.batch()) {
            batch.add(Request.logits(new int[] {1, 9}, 3));
            try (Job job = engine.run(batch)) {
                assertTrue(job.firstFailure().isEmpty());
            }
        }
        try (Batch batch = Support.generations(engine, 2000);
                Job job = engine.submit(batch)) {
            job.cancelRequest(0);
            while (job.nextEvent(Duration.ofSeconds(60)).orElseThrow().kind() != Event.Kind.ERROR) {}
            assertThrows(PrefixException.Misuse.class, job::firstFailure);
            job.cancel();
            job.await();
            assertEquals(Status.CANCELLED, job.result(job.firstFailure().getAsInt()).status());
        }
    }

    @Test
    void aStatusOfANewerLibraryKeepsItsNumber() {
        Struct raw = new Struct(Layout.RESULT_INFO_SIZE);
        ByteBuffer.wrap(raw.bytes).order(ByteOrder.nativeOrder()).putInt(Layout.RESULT_INFO_STATUS, 999);
        Result result = Result.of(raw, () -> "something new");
        assertTrue(result.status() == Status.UNKNOWN && result.code() == 999, result.toString());
        PrefixException failure = result.failure("item");
        assertTrue(failure.status() == Status.UNKNOWN && failure.code() == 999, failure.toString());
    }

    @Test
    void aDeadlineEndsARequest() throws Exception {
        try (Batch batch = Support.generations(engine, 500)) {
            Options options = Options.of("deadline_ms", 1).set("max_tokens", 200);
            int number = batch.add(Request.generate(9, 9).options(options));
            try (Job job = engine.submit(batch)) {
                Event failed = job.events()
                        .filter(e -> e.request() == number && e.kind() == Event.Kind.ERROR)
                        .findFirst()
                        .orElseThrow();
                assertEquals(Status.DEADLINE, failed.status());
            }
        }
    }

    @Test
    void futuresComplete() throws Exception {
        try (Batch batch = engine.batch()) {
            batch.add(Request.logits(new int[] {1, 5, 9, 12}, 3, 4));
            List<CompletableFuture<Float>> all = IntStream.range(0, 50)
                    .mapToObj(i -> engine.runAsync(batch).thenApply(job -> {
                        try (job) {
                            return job.allValues().get(0, 1);
                        }
                    }))
                    .toList();
            float first = all.get(0).get(60, TimeUnit.SECONDS);
            for (CompletableFuture<Float> each : all) {
                assertEquals(first, each.get(60, TimeUnit.SECONDS));
            }
            Job job = engine.submit(batch);
            assertSame(job, job.whenDone().get(60, TimeUnit.SECONDS));
            assertSame(job, job.whenDone().get(60, TimeUnit.SECONDS), "it is done already");
            job.close();
        }
    }

    @Test
    void aDetachedJobGoesOnWithoutAHandle() throws Exception {
        try (Batch batch = Support.generations(engine, 1);
                Job job = engine.submit(batch)) {
            job.detach();
            job.close();
            try (Job next = engine.submit(batch)) {
                next.await();
            }
            while (engine.stats().requestsRunning() + engine.stats().requestsWaiting() > 0) {
                Thread.sleep(1); // the limit is that of the class
            }
            assertEquals(0, engine.stats().requestsFailed());
        }
    }

    @Test
    void cancellingAFutureCancelsItsJob() throws Exception {
        try (Batch batch = Support.generations(engine, 2000);
                Job job = engine.submit(batch)) {
            CompletableFuture<Job> future = job.whenDone();
            assertTrue(future.cancel(true));
            assertThrows(CancellationException.class, future::join);
            assertTimeout(Duration.ofSeconds(5), () -> job.await());
            assertEquals(Status.CANCELLED, job.result(1999).status());
            CompletableFuture<Job> late = job.whenDone();
            job.close();
            late.cancel(true);
        }
    }

    @Test
    void aFutureThatRunsOutOfTimeCancelsItsJob() throws Exception {
        try (Batch batch = Support.generations(engine, 2000);
                Job job = engine.submit(batch)) {
            CompletableFuture<Job> future = job.whenDone().orTimeout(1, TimeUnit.MILLISECONDS);
            Throwable cause = assertThrows(ExecutionException.class, future::get).getCause();
            assertTrue(cause instanceof TimeoutException, cause.toString());
            job.await();
            assertEquals(Status.CANCELLED, job.result(1999).status());
        }
    }

    @Test
    void aJobThatNobodyHoldsIsClosedWhenItsFutureRunsOutOfTime() throws Exception {
        try (Batch batch = Support.generations(engine, 2000)) {
            CompletableFuture<Job> future = engine.runAsync(batch).orTimeout(1, TimeUnit.MILLISECONDS);
            assertThrows(ExecutionException.class, future::get);
            while (engine.stats().requestsRunning() + engine.stats().requestsWaiting() > 0) {
                Thread.sleep(1); // the limit is that of the class
            }
            assertTrue(engine.stats().requestsFinished() < 2000, "it was cancelled");
        }
    }

    @Test
    void aFutureThatEndsWithItsJobLeavesItAlone() throws Exception {
        try (Batch batch = Support.generations(engine, 20);
                Job job = engine.submit(batch)) {
            assertSame(job, job.whenDone().completeOnTimeout(job, 1, TimeUnit.MILLISECONDS).get());
            job.await();
            assertEquals(Status.OK, job.result(19).status());
        }
    }
}
