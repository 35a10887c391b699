package io.prefix;

import io.prefix.internal.Native;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Completes futures of jobs. One daemon thread of the process takes from a completion queue which jobs are done.
 * Dependents run on the default executor of CompletableFuture, so that a slow one holds up nobody.
 */
final class Waiter {
    private static final Executor EXECUTOR = new CompletableFuture<Void>().defaultExecutor();
    private static final Map<Long, JobFuture> WAITING = new ConcurrentHashMap<>();
    private static final AtomicLong NEXT = new AtomicLong(1);
    private static final long QUEUE = Native.prefix_queue_create();

    static {
        Thread thread = new Thread(Waiter::run, "prefix-waiter");
        thread.setDaemon(true);
        thread.start();
    }

    private static final class JobFuture extends CompletableFuture<Job> {
        private final Job job;

        /** Whoever ends it without the job, by a time limit or otherwise, does not want the job any more. */
        JobFuture(Job job, Consumer<Job> givenUp) {
            this.job = job;
            whenComplete((result, failure) -> {
                if (result != job) {
                    givenUp.accept(job);
                }
            });
        }
    }

    /** For a job that somebody else holds too. */
    static CompletableFuture<Job> watch(Job job) {
        return watch(job, Waiter::cancel);
    }

    /** For a job that only those hold whom the future gives it. */
    static CompletableFuture<Job> own(Job job) {
        return watch(job, Job::close); // cancels it
    }

    private static CompletableFuture<Job> watch(Job job, Consumer<Job> givenUp) {
        JobFuture future = new JobFuture(job, givenUp);
        long tag = NEXT.getAndIncrement();
        WAITING.put(tag, future);
        try {
            job.tell(QUEUE, tag);
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
            JobFuture future = WAITING.remove(tag);
            if (future != null) {
                EXECUTOR.execute(() -> future.complete(future.job));
            }
        }
    }
}
