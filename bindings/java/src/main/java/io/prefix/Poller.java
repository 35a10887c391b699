package io.prefix;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

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

    static final class JobFuture extends CompletableFuture<Job> {
        private final Job job;

        JobFuture(Job job) {
            this.job = job;
        }

        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            boolean cancelled = super.cancel(mayInterruptIfRunning);
            if (cancelled) {
                try {
                    job.cancel();
                } catch (IllegalStateException | PrefixException e) {
                    // It was closed, which has cancelled it.
                }
            }
            return cancelled;
        }
    }

    static CompletableFuture<Job> watch(Job job) {
        JobFuture future = new JobFuture(job);
        NEW.add(future);
        return future;
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
