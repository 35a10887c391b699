package io.prefix;

import io.prefix.internal.Constants;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** A stream that waits for each event. */
final class EventStream extends Spliterators.AbstractSpliterator<Event> {
    /** Waits for the next event; empty when there will be no more. */
    interface Source {
        Optional<Event> next() throws InterruptedException;
    }

    private final Source source;

    private EventStream(Source source) {
        super(Long.MAX_VALUE, Spliterator.ORDERED | Spliterator.NONNULL);
        this.source = source;
    }

    static Stream<Event> of(Source source) {
        return StreamSupport.stream(new EventStream(source), false);
    }

    @Override
    public boolean tryAdvance(Consumer<? super Event> action) {
        Optional<Event> event;
        try {
            event = source.next();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw PrefixException.of(
                    Constants.PREFIX_ERR_CANCELLED, "events", "the thread that waited was interrupted");
        }
        event.ifPresent(action);
        return event.isPresent();
    }
}
