package io.prefix;

import io.prefix.internal.Native;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Completes futures of jobs, tasks and engines that are loading, and wakes readers of events. One daemon thread of the
 * process takes from a completion queue which are done or have events. Dependents run on the default executor of
 * CompletableFuture, so that a slow one holds up nobody.
 */
final class Waiter {
    /** Tests put another one here. */
    static volatile Executor executor = new CompletableFuture<Void>().defaultExecutor();
    /** By tag, what is called when it comes; it returns at once. */
    private static final Map<Long, Runnable> WAKERS = new ConcurrentHashMap<>();
    private static final AtomicLong NEXT = new AtomicLong(1);
    private static final long QUEUE = Native.prefix_queue_create();

    static {
        Thread thread = new Thread(Waiter::run, "prefix-waiter");
        thread.setDaemon(true);
        thread.start();
    }

    /** Lets the queue have the tag when something is done. */
    interface Notice {
        void ask(long queue, long tag);
    }

    private static final class DoneFuture<T> extends CompletableFuture<T> {
        private final T owner;
        private final Consumer<T> check;

        /** Whoever ends it without the owner, by a time limit or otherwise, does not want that any more. */
        DoneFuture(T owner, Consumer<T> check, Consumer<T> givenUp) {
            this.owner = owner;
            this.check = check;
            whenComplete((result, failure) -> {
                if (result != owner) {
                    givenUp.accept(owner);
                }
            });
        }

        void done() {
            try {
                check.accept(owner);
                complete(owner);
            } catch (RuntimeException e) {
                completeExceptionally(e);
            }
        }
    }

    /** For what somebody else holds too: whoever gives it up cancels it. */
    static <T> CompletableFuture<T> watch(T owner, Notice notice, Consumer<T> cancel) {
        return own(owner, notice, given -> {
            try {
                cancel.accept(given);
            } catch (IllegalStateException | PrefixException e) {
                // It was closed, which has cancelled it.
            }
        });
    }

    /** For what only those hold whom the future gives it. */
    static <T> CompletableFuture<T> own(T owner, Notice notice, Consumer<T> close) {
        return start(new DoneFuture<>(owner, done -> {}, close), notice);
    }

    /** For an engine that is loading; whoever gives it up ends the load. */
    static CompletableFuture<Engine> load(Engine engine) {
        return start(new DoneFuture<>(engine, Engine::requireReady, Engine::close), engine::tell);
    }

    private static <T> CompletableFuture<T> start(DoneFuture<T> future, Notice notice) {
        try {
            Runnable forget = whenever(() -> run(future::done), notice);
            future.whenComplete((result, failure) -> forget.run());
        } catch (RuntimeException e) {
            future.completeExceptionally(e);
        }
        return future;
    }

    /** Has something called whenever the tag comes that the notice asks for; what it gives ends that. */
    static Runnable whenever(Runnable wake, Notice notice) {
        long tag = NEXT.getAndIncrement();
        WAKERS.put(tag, wake);
        try {
            notice.ask(QUEUE, tag);
        } catch (RuntimeException e) {
            WAKERS.remove(tag);
            throw e;
        }
        return () -> WAKERS.remove(tag);
    }

    /** By the executor, or here where that has no thread to spare. */
    private static void run(Runnable done) {
        try {
            executor.execute(done);
        } catch (RuntimeException | OutOfMemoryError e) {
            done.run();
        }
    }

    /** All others wait for this thread too, so that the failure of one may not end it. */
    private static void quietly(Runnable wake) {
        try {
            wake.run();
        } catch (Throwable e) {
            // Whoever can be told was told.
        }
    }

    private static void run() {
        for (;;) {
            Runnable wake = WAKERS.get(Native.prefix_queue_next(QUEUE, -1));
            if (wake != null) {
                quietly(wake);
            }
        }
    }
}
