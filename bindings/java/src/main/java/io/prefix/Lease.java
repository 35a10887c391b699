package io.prefix;

import io.prefix.internal.Native;
import java.util.concurrent.atomic.AtomicBoolean;

/** Keeps a prefix in the cache until it is closed, or its time is over; see {@link Cache#pin}. */
public final class Lease implements AutoCloseable {
    private final Engine engine;
    private final long number;
    private final int tokens;
    private final AtomicBoolean closed = new AtomicBoolean();

    Lease(Engine engine, long number, int tokens) {
        this.engine = engine;
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
     * closed or shut down.
     */
    @Override
    public void close() {
        if (closed.getAndSet(true)) {
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
