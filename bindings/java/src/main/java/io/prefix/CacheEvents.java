package io.prefix;

import io.prefix.internal.Layout;
import io.prefix.internal.Native;
import io.prefix.internal.Struct;
import java.util.Arrays;
import java.util.Optional;
import java.util.stream.Stream;

/** Reads the events of a cache; {@link Cache#events} gives it. One thread at a time uses it; others wait. */
public final class CacheEvents {
    private final Engine engine;
    private final Struct event = new Struct(Layout.CACHE_EVENT_SIZE);
    private int[] tokens = new int[64];
    private long next;

    CacheEvents(Engine engine, long next) {
        this.engine = engine;
        this.next = next;
    }

    /**
     * Where it is.
     *
     * @return the sequence number from which it goes on
     */
    public synchronized long next() {
        return next;
    }

    /**
     * The next event.
     *
     * @return empty when there is none yet
     * @throws PrefixException MISUSE when the engine lacks option cache_events
     */
    public synchronized Optional<CacheEvent> poll() {
        long from = next;
        for (;;) {
            long needed = engine.call(raw -> Native.prefix_cache_next_event(raw, from, event.bytes, tokens));
            if (needed < 0) {
                return Optional.empty();
            }
            if (needed <= tokens.length) {
                CacheEvent read = CacheEvent.of(event, Arrays.copyOf(tokens, (int) needed), from);
                next = read.sequence() + 1;
                return Optional.of(read);
            }
            tokens = new int[Buffers.room(needed)];
        }
    }

    /**
     * The events that there are now. Ask again for later ones.
     *
     * @return a stream that ends when there is none yet
     */
    public Stream<CacheEvent> stream() {
        return Stream.generate(this::poll).takeWhile(Optional::isPresent).map(Optional::get);
    }
}
