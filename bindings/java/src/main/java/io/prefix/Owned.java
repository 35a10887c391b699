package io.prefix;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongUnaryOperator;

/**
 * Owns one reference of a native object. A cleaner drops it when close() never does. The library answers calls on a
 * handle that was released with a status, so a close() that overtakes a call of another thread is an exception there,
 * never a crash.
 */
abstract class Owned implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    private final String what;
    private final Release release;
    private final Cleaner.Cleanable cleanable;

    private static final class Release extends AtomicLong implements Runnable {
        private static final long serialVersionUID = 1;
        private final transient LongConsumer function;
        private transient volatile Object kept;

        Release(long raw, LongConsumer function) {
            super(raw);
            this.function = function;
        }

        @Override
        public void run() {
            long raw = getAndSet(0);
            if (raw != 0) {
                function.accept(raw);
            }
            kept = null;
        }
    }

    Owned(long raw, String what, LongConsumer release) {
        this.what = what;
        this.release = new Release(raw, release);
        this.cleanable = CLEANER.register(this, this.release);
    }

    /** Runs one function with the handle, which lives until it is over. */
    final long call(LongUnaryOperator function) {
        try {
            return function.applyAsLong(raw());
        } catch (PrefixException.Misuse e) {
            raw(); // where close() came between, it is said as before the call
            throw e;
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** The handle; the caller keeps this object reachable. */
    final long raw() {
        long raw = release.get();
        if (raw == 0) {
            throw new IllegalStateException("the " + what + " is closed");
        }
        return raw;
    }

    /** The handle or 0. */
    final long rawOrZero() {
        return release.get();
    }

    /** Keeps memory that the native object reads reachable until the object is released, or another is kept instead. */
    final void keep(Object memory) {
        release.kept = memory;
    }

    @Override
    public void close() {
        cleanable.clean();
    }
}
