package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SubmissionPublisher;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class PublisherTest {
    private Engine engine;

    @BeforeEach
    void open() {
        engine = Support.open();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    /** Takes events, so many at a time: 0 asks for none by itself. */
    private static class Taker implements Flow.Subscriber<Event> {
        final List<Event> events = Collections.synchronizedList(new ArrayList<>());
        final CompletableFuture<Void> end = new CompletableFuture<>();
        final CompletableFuture<Flow.Subscription> subscribed = new CompletableFuture<>();
        private final int atATime;

        Taker(int atATime) {
            this.atATime = atATime;
        }

        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            subscribed.complete(subscription);
            if (atATime > 0) {
                subscription.request(atATime);
            }
        }

        @Override
        public void onNext(Event event) {
            events.add(event);
            if (atATime > 0 && events.size() % atATime == 0) {
                subscribed.join().request(atATime);
            }
        }

        @Override
        public void onError(Throwable failure) {
            end.completeExceptionally(failure);
        }

        @Override
        public void onComplete() {
            end.complete(null);
        }

        Throwable failure() {
            return assertThrows(Exception.class, () -> end.get(60, TimeUnit.SECONDS)).getCause();
        }
    }

    private Batch oneGeneration() {
        Batch batch = engine.batch();
        Options options = new Options().maxTokens(20).ignoreEos(true);
        batch.add(Request.generate(1, 5, 9).options(options).tag(7));
        return batch;
    }

    @Test
    void everyEventComesInItsOrderHoweverManyAreAskedFor() throws Exception {
        for (int atATime : new int[] {1, 3, Integer.MAX_VALUE}) {
            try (Batch batch = oneGeneration();
                    Job job = engine.submit(batch)) {
                Taker taker = new Taker(atATime);
                job.publisher().subscribe(taker);
                taker.end.get(60, TimeUnit.SECONDS);
                int[] tokens = taker.events.stream()
                        .filter(event -> event.kind() == Event.Kind.TOKEN)
                        .mapToInt(Event::token)
                        .toArray();
                assertArrayEquals(job.tokens(0), tokens);
                assertEquals(Event.Kind.STARTED, taker.events.get(0).kind());
                assertEquals(Event.Kind.FINISHED, taker.events.get(21).kind());
                assertEquals(22, taker.events.size());
            }
        }
    }

    @Test
    void nothingComesUnaskedAndTheEndNeedsNoAsking() throws Exception {
        try (Batch batch = oneGeneration();
                Job job = engine.submit(batch)) {
            Taker taker = new Taker(0);
            job.publisher().subscribe(taker);
            job.await();
            assertTrue(taker.events.isEmpty());
            taker.subscribed.join().request(21);
            while (taker.events.size() < 21) {
                Thread.sleep(1); // the limit is that of the class
            }
            assertEquals(Event.Kind.TOKEN, taker.events.get(20).kind());
            taker.subscribed.join().request(1);
            taker.end.get(60, TimeUnit.SECONDS);
            assertEquals(Event.Kind.FINISHED, taker.events.get(21).kind());
        }
    }

    @Test
    void aCancelledSubscriptionCancelsItsJob() throws Exception {
        try (Batch batch = Support.generations(engine, 2000);
                Job job = engine.submit(batch)) {
            Taker taker = new Taker(1);
            job.publisher().subscribe(taker);
            taker.subscribed.join().cancel();
            job.await();
            assertEquals(Status.CANCELLED, job.result(1999).status());
            taker.subscribed.join().request(1);
            taker.subscribed.join().cancel();
            assertTrue(!taker.end.isDone());
        }
    }

    @Test
    void whatIsWrongIsToldToTheSubscriber() throws Exception {
        try (Batch batch = Support.generations(engine, 100);
                Job job = engine.submit(batch)) {
            assertThrows(NullPointerException.class, () -> job.publisher().subscribe(null));
            Taker first = new Taker(1);
            job.publisher().subscribe(first);
            Taker second = new Taker(1);
            job.publisher().subscribe(second);
            assertInstanceOf(IllegalStateException.class, second.failure());
            first.subscribed.join().request(0);
            assertInstanceOf(IllegalArgumentException.class, first.failure());
        }
        try (Batch batch = oneGeneration()) {
            Job job = engine.submit(batch);
            job.close();
            Taker taker = new Taker(1);
            job.publisher().subscribe(taker);
            assertInstanceOf(IllegalStateException.class, taker.failure());
            assertTrue(taker.subscribed.isDone());
        }
    }

    @Test
    void aSubscriberThatThrowsGetsNoMore() throws Exception {
        try (Batch batch = oneGeneration();
                Job job = engine.submit(batch)) {
            Taker taker = new Taker(1) {
                @Override
                public void onNext(Event event) {
                    events.add(event);
                    throw new UnsupportedOperationException("no more");
                }
            };
            job.publisher().subscribe(taker);
            assertInstanceOf(UnsupportedOperationException.class, taker.failure());
            assertEquals(1, taker.events.size());
        }
    }

    @Test
    void withoutAThreadASubscriberGetsAnErrorAndNobodyElseDoes() throws Exception {
        Executor usual = Waiter.executor;
        try (Batch many = Support.generations(engine, 2000);
                Job job = engine.submit(many);
                Batch batch = oneGeneration()) {
            Waiter.executor = Runnable::run; // subscribe returns after a look that found nothing
            Taker taker = new Taker(Integer.MAX_VALUE);
            job.publisher().subscribe(taker);
            Waiter.executor = run -> {
                throw new RejectedExecutionException("no thread");
            };
            assertInstanceOf(RejectedExecutionException.class, taker.failure());
            Waiter.executor = usual;
            job.cancel();
            engine.runAsync(batch).get(60, TimeUnit.SECONDS).close();
        } finally {
            Waiter.executor = usual;
        }
    }

    @Test
    void aWakerThatThrowsEndsNobodysWait() throws Exception {
        try (Batch batch = oneGeneration();
                Job job = engine.run(batch)) {
            Runnable forget = Waiter.whenever(
                    () -> {
                        throw new OutOfMemoryError("no thread");
                    },
                    job::tell);
            engine.runAsync(batch).get(60, TimeUnit.SECONDS).close();
            forget.run();
        }
    }

    @Test
    void textsComeAsTheyAreWrittenThroughAChainOfThePlatform(@TempDir Path folder) throws Exception {
        Support.asciiModel(folder);
        Options options = new Options().maxTokens(40).ignoreEos(true).stream(true);
        try (Engine reader = Engine.open(folder, Support.exact());
                Tokenizer tokenizer = Tokenizer.open(folder);
                Task task = Task.create(reader, tokenizer, "generate", options);
                SubmissionPublisher<String> pieces = new SubmissionPublisher<>()) {
            StringBuffer text = new StringBuffer();
            CompletableFuture<Void> end = pieces.consume(text::append);
            task.add("Once upon a time");
            task.submit();
            Taker taker = new Taker(2) {
                @Override
                public void onNext(Event event) {
                    pieces.submit(event.text());
                    super.onNext(event);
                }

                @Override
                public void onComplete() {
                    pieces.close();
                    super.onComplete();
                }
            };
            task.publisher().subscribe(taker);
            end.get(60, TimeUnit.SECONDS);
            assertEquals(task.text(0), text.toString().strip());
            assertEquals(
                    task.text(0),
                    taker.events.stream().map(Event::text).collect(Collectors.joining()).strip());
            assertNull(taker.end.get(60, TimeUnit.SECONDS));
        }
    }
}
