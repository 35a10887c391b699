package io.prefix;

import io.prefix.internal.Native;
import java.lang.ref.WeakReference;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Keeps a prefix in the cache until it is closed, or its time is over; see {@link Cache#pin}. It does not keep its engine:
 * when that is gone, the lease has ended.
 */
public final class Lease implements AutoCloseable {
    private final WeakReference<Engine> engine;
    private final long number;
    private final int tokens;
    private final AtomicBoolean closed = new AtomicBoolean();

    Lease(Engine engine, long number, int tokens) {
        this.engine = new WeakReference<>(engine);
        this.number = number;
        this.tokens = tokens;
    }

    /**
     * Counts what it keeps.
     *
     * @return tokens
     */
    public int tokens() {
        return tokens;
    }

    /**
     * Gives the prefix back. Does nothing when that was done, when the time of the lease is over, or when the engine is
     * closed, shut down or collected.
     */
    @Override
    public void close() {
        Engine engine = this.engine.get();
        if (closed.getAndSet(true) || engine == null) {
            return;
        }
        try {
            engine.call(raw -> Native.prefix_cache_unpin(raw, number));
        } catch (IllegalStateException e) {
            // The engine is closed, and the lease has ended with it.
        } catch (PrefixException e) {
            if (e.status() != Status.NOT_FOUND && e.status() != Status.MISUSE) {
                throw e;
            }
        }
    }
}
