package io.prefix;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Completes futures of jobs. One daemon thread looks at all of them in every millisecond, less often when they are
 * more than a hundred, and sleeps while there are none. Dependents run on the default executor of CompletableFuture,
 * so that a slow one holds up nobody.
 */
final class Poller implements Runnable {
    private static final BlockingQueue<JobFuture> NEW = new LinkedBlockingQueue<>();
    private static final Executor EXECUTOR = new CompletableFuture<Void>().defaultExecutor();

    static {
        Thread thread = new Thread(new Poller(), "prefix-poller");
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
        return watch(job, Poller::cancel);
    }

    /** For a job that only those hold whom the future gives it. */
    static CompletableFuture<Job> own(Job job) {
        return watch(job, Job::close); // cancels it
    }

    private static CompletableFuture<Job> watch(Job job, Consumer<Job> givenUp) {
        JobFuture future = new JobFuture(job, givenUp);
        NEW.add(future);
        return future;
    }

    private static void cancel(Job job) {
        try {
            job.cancel();
        } catch (IllegalStateException | PrefixException e) {
            // It was closed, which has cancelled it.
        }
    }

    @Override
    public void run() {
        List<JobFuture> waiting = new ArrayList<>();
        for (;;) {
            try {
                long pause = 1 + waiting.size() / 100;
                JobFuture next = waiting.isEmpty() ? NEW.take() : NEW.poll(pause, TimeUnit.MILLISECONDS);
                if (next != null) {
                    waiting.add(next);
                    NEW.drainTo(waiting);
                }
            } catch (InterruptedException e) {
                continue; // nobody has a reason to
            }
            waiting.removeIf(Poller::finish);
        }
    }

    /** Whether the future needs no more looks. */
    private static boolean finish(JobFuture future) {
        if (future.isDone()) {
            return true;
        }
        try {
            if (!future.job.isDone()) {
                return false;
            }
            EXECUTOR.execute(() -> future.complete(future.job));
        } catch (RuntimeException e) {
            EXECUTOR.execute(() -> future.completeExceptionally(e));
        }
        return true;
    }
}
