package io.prefix;

import io.prefix.internal.Native;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Completes futures of jobs and of engines that are loading. One daemon thread of the process takes from a completion
 * queue which are done. Dependents run on the default executor of CompletableFuture, so that a slow one holds up nobody.
 */
final class Waiter {
    private static final Executor EXECUTOR = new CompletableFuture<Void>().defaultExecutor();
    private static final Map<Long, Awaited<?>> WAITING = new ConcurrentHashMap<>();
    private static final AtomicLong NEXT = new AtomicLong(1);
    private static final long QUEUE = Native.prefix_queue_create();

    static {
        Thread thread = new Thread(Waiter::run, "prefix-waiter");
        thread.setDaemon(true);
        thread.start();
    }

    private static final class Awaited<T> extends CompletableFuture<T> {
        private final T object;
        private final Consumer<T> check;

        /** Whoever ends it without the object, by a time limit or otherwise, does not want that any more. */
        Awaited(T object, Consumer<T> check, Consumer<T> givenUp) {
            this.object = object;
            this.check = check;
            whenComplete((result, failure) -> {
                if (result != object) {
                    givenUp.accept(object);
                }
            });
        }

        void finish() {
            try {
                check.accept(object);
                complete(object);
            } catch (RuntimeException e) {
                completeExceptionally(e);
            }
        }
    }

    /** Asks the library for a tag. */
    private interface Tell {
        void accept(long queue, long tag);
    }

    /** For a job that somebody else holds too. */
    static CompletableFuture<Job> watch(Job job) {
        return watch(new Awaited<>(job, done -> {}, Waiter::cancel), job::tell);
    }

    /** For a job that only those hold whom the future gives it. */
    static CompletableFuture<Job> own(Job job) {
        return watch(new Awaited<>(job, done -> {}, Job::close), job::tell); // close cancels it
    }

    /** For an engine that is loading. */
    static CompletableFuture<Engine> load(Engine engine) {
        return watch(new Awaited<>(engine, Engine::requireReady, Engine::close), engine::tell); // close ends the load
    }

    private static <T> CompletableFuture<T> watch(Awaited<T> future, Tell tell) {
        long tag = NEXT.getAndIncrement();
        WAITING.put(tag, future);
        try {
            tell.accept(QUEUE, tag);
        } catch (RuntimeException e) {
            future.completeExceptionally(e);
        }
        future.whenComplete((result, failure) -> WAITING.remove(tag));
        return future;
    }

    private static void cancel(Job job) {
        try {
            job.cancel();
        } catch (IllegalStateException | PrefixException e) {
            // It was closed, which has cancelled it.
        }
    }

    private static void run() {
        for (;;) {
            long tag = Native.prefix_queue_next(QUEUE, -1);
            Awaited<?> future = WAITING.remove(tag);
            if (future != null) {
                EXECUTOR.execute(future::finish);
            }
        }
    }
}
