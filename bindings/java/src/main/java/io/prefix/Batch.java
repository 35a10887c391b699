package io.prefix;

import io.prefix.internal.Native;
import java.lang.ref.Reference;

/**
 * Requests that are run together. What is wrong with one request only (a token outside the vocabulary, a prompt that
 * is too long) is reported with its result, not by {@link #add}. One thread at a time uses a batch; others wait.
 */
public final class Batch extends Owned {
    private final Engine engine;
    private int requests;
    private long values; // how many a run will have, for the size of its buffer

    Batch(long engineRaw, Engine engine) {
        super(Native.prefix_batch_create(engineRaw), "batch", Native::prefix_batch_release);
        this.engine = engine;
    }

    /**
     * A batch without an engine, which can be planned but not run.
     *
     * @return the batch
     */
    public static Batch planOnly() {
        return new Batch(0, null);
    }

    /**
     * Appends a request.
     *
     * @param request what to compute
     * @return its number in the batch; of continuations, that of the first
     */
    public synchronized int add(Request request) {
        long more = request.values >= 0 ? request.values : engine == null ? 0 : engine.hidden();
        long index = Engine.with(
                request.options, options -> call(raw -> request.adder.add(raw, options, request.tag)));
        requests += request.requests;
        values += more;
        return (int) index;
    }

    /**
     * Counts the requests.
     *
     * @return how many were added
     */
    public synchronized int size() {
        return requests;
    }

    /** Removes all requests. */
    public synchronized void clear() {
        call(Native::prefix_batch_clear);
        requests = 0;
        values = 0;
    }

    /**
     * Says how the batch shares, without running it.
     *
     * @return JSON; prefix_batch_plan_json in prefix.h describes the fields
     */
    public synchronized String planJson() {
        return Buffers.text(1024 + 128 * requests, buffer -> call(raw -> Native.prefix_batch_plan_json(raw, buffer)));
    }

    synchronized Job submit(Engine on) {
        try {
            long job = call(raw -> Native.prefix_submit(on.raw(), raw));
            return new Job(job, requests, (int) Math.min(values, Integer.MAX_VALUE - 8));
        } finally {
            Reference.reachabilityFence(on);
        }
    }
}
