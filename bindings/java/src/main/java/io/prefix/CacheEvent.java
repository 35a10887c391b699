package io.prefix;

import io.prefix.internal.Layout;
import io.prefix.internal.Struct;
import java.util.Arrays;
import java.util.Objects;

/**
 * Something that happened to a block: option cache_event_tokens of tokens of a path.
 *
 * @param kind what
 * @param sequence counts up without gaps
 * @param lost how many events before this one nobody read in time; with any, go on from a dump
 * @param block its name, the same in every process with this model and namespace
 * @param parent the block before it on its path; of STORED, 0: it is the first one
 * @param namespace the number of its namespace
 * @param position of its first token
 * @param tokens of STORED: of the block; else empty
 * @param micros when, on the library's monotonic clock
 */
public record CacheEvent(
        Kind kind,
        long sequence,
        long lost,
        long block,
        long parent,
        int namespace,
        int position,
        int[] tokens,
        long micros) {
    /** Kinds of events, in the order of the C interface. */
    public enum Kind {
        /** The block is there; its parent was before. */
        STORED,
        /** The block is gone; its parent goes later. */
        REMOVED,
        /** Nothing is left in any namespace. */
        CLEARED,
        /** Of a newer library. */
        UNKNOWN
    }

    static CacheEvent of(Struct raw, int[] tokens, long from) {
        long sequence = raw.getLong(Layout.CACHE_EVENT_SEQUENCE);
        return new CacheEvent(
                Buffers.pick(Kind.values(), raw.getInt(Layout.CACHE_EVENT_KIND)),
                sequence,
                sequence - from,
                raw.getLong(Layout.CACHE_EVENT_BLOCK),
                raw.getLong(Layout.CACHE_EVENT_PARENT),
                raw.getInt(Layout.CACHE_EVENT_NS),
                raw.getInt(Layout.CACHE_EVENT_POSITION),
                tokens,
                raw.getLong(Layout.CACHE_EVENT_TIME_US));
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof CacheEvent e
                && kind == e.kind
                && sequence == e.sequence
                && lost == e.lost
                && block == e.block
                && parent == e.parent
                && namespace == e.namespace
                && position == e.position
                && micros == e.micros
                && Arrays.equals(tokens, e.tokens);
    }

    @Override
    public int hashCode() {
        return Objects.hash(kind, sequence, lost, block, parent, namespace, position, Arrays.hashCode(tokens), micros);
    }

    @Override
    public String toString() {
        return "CacheEvent[kind=" + kind + ", sequence=" + sequence + ", lost=" + lost + ", block=" + block + ", parent=" + parent
                + ", namespace=" + namespace + ", position=" + position + ", tokens=" + Arrays.toString(tokens) + ", micros="
                + micros + "]";
    }
}
