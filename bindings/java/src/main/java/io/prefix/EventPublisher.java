package io.prefix;

import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/**
 * The events of one job or task for one subscriber, as many as it asks for, while no thread waits.
 *
 * <pre>
 *   request(n) ──┐                     ┌── looks for an event until there is none, or nobody wants one
 *                ├──> wake() ──> run() ┤
 *   queue's tag ─┘                     └── one at a time, on the executor of Waiter
 * </pre>
 *
 * One event is read ahead of what is asked for, so that the end is told as soon as the last event is taken.
 */
final class EventPublisher implements Flow.Publisher<Event> {
    /** What a look finds when there will be no more. */
    static final Event OVER = new Event(Event.Kind.UNKNOWN, 0, 0, "", 0, 0, Status.OK, 0, 0, 0, 0);

    private final Supplier<Event> look;
    private final Waiter.Notice notice;
    private final Runnable cancel;
    private final AtomicBoolean taken = new AtomicBoolean();

    /**
     * Makes one.
     *
     * @param look the next event, null when there is none yet, or OVER
     * @param notice has the queue get the tag when there is an event, and again after a look that found none
     * @param cancel ends the work
     */
    EventPublisher(Supplier<Event> look, Waiter.Notice notice, Runnable cancel) {
        this.look = look;
        this.notice = notice;
        this.cancel = cancel;
    }

    @Override
    public void subscribe(Flow.Subscriber<? super Event> subscriber) {
        if (subscriber == null) {
            throw new NullPointerException("subscriber");
        }
        if (taken.getAndSet(true)) {
            subscriber.onSubscribe(new Flow.Subscription() {
                @Override
                public void request(long events) {}

                @Override
                public void cancel() {}
            });
            subscriber.onError(new IllegalStateException("these events have a subscriber already"));
            return;
        }
        new Reader(subscriber).begin();
    }

    private final class Reader implements Flow.Subscription, Runnable {
        private final Flow.Subscriber<? super Event> subscriber;
        private final AtomicLong wanted = new AtomicLong();
        private final AtomicInteger calls = new AtomicInteger(); // of wake() that run() has not answered
        private final AtomicBoolean over = new AtomicBoolean();
        private volatile IllegalArgumentException refused;
        private volatile Runnable forget = () -> {};
        private Event ahead; // only run() uses it

        Reader(Flow.Subscriber<? super Event> subscriber) {
            this.subscriber = subscriber;
        }

        void begin() {
            calls.incrementAndGet(); // nothing is told before onSubscribe has returned
            try {
                forget = Waiter.whenever(this::wake, notice);
            } catch (RuntimeException e) {
                subscriber.onSubscribe(this);
                end(e);
                return;
            }
            subscriber.onSubscribe(this);
            start();
        }

        @Override
        public void request(long events) {
            if (events <= 0) {
                refused = new IllegalArgumentException("a request for " + events + " events; at least 1 may be asked for");
            } else {
                wanted.accumulateAndGet(events, (a, b) -> a > Long.MAX_VALUE - b ? Long.MAX_VALUE : a + b);
            }
            wake();
        }

        @Override
        public void cancel() {
            if (!over.getAndSet(true)) {
                forget.run();
                try {
                    cancel.run();
                } catch (IllegalStateException | PrefixException e) {
                    // It was closed, which has cancelled it.
                }
            }
        }

        private void wake() {
            if (calls.getAndIncrement() == 0) {
                start();
            }
        }

        /** Without a thread there are no more events: nobody else runs, since the call stays unanswered. */
        private void start() {
            try {
                Waiter.executor.execute(this);
            } catch (RuntimeException | Error e) {
                end(e);
            }
        }

        @Override
        public void run() {
            int answered;
            do {
                answered = calls.get();
                try {
                    tell();
                } catch (RuntimeException | Error e) { // of the look or of the subscriber
                    end(e);
                }
            } while (calls.addAndGet(-answered) != 0);
        }

        private void tell() {
            while (!over.get()) {
                if (refused != null) {
                    throw refused;
                }
                if (ahead == null) {
                    ahead = look.get();
                }
                if (ahead == OVER) {
                    end(null);
                } else if (ahead == null || wanted.get() == 0) {
                    return;
                } else {
                    Event event = ahead;
                    ahead = null;
                    wanted.updateAndGet(n -> n == Long.MAX_VALUE ? n : n - 1);
                    subscriber.onNext(event);
                }
            }
        }

        private void end(Throwable failure) {
            if (over.getAndSet(true)) {
                return;
            }
            forget.run();
            if (failure == null) {
                subscriber.onComplete();
            } else {
                subscriber.onError(failure);
            }
        }
    }
}
