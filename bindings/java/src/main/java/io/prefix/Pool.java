package io.prefix;

import io.prefix.internal.Native;

/**
 * Worker threads that engines share, so that a process with several engines has one set of them; their steps take
 * turns. Options and engines that were given the pool keep its threads, so it may be closed before them.
 */
public final class Pool extends Owned {
    /** A thread for each processor that the process may use. */
    public Pool() {
        this(null);
    }

    /**
     * Starts the threads.
     *
     * @param options threads and cpus; may be null
     * @throws PrefixException INVALID_ARGUMENT for other options; OUT_OF_RANGE, OUT_OF_MEMORY
     */
    public Pool(Options options) {
        super(Engine.with(options, Native::prefix_pool_create), "pool", Native::prefix_pool_release);
    }
}
