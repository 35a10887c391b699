package io.prefix;

import io.prefix.internal.Layout;
import io.prefix.internal.Struct;

/**
 * Something that happened to a request, or to an item of a task.
 *
 * @param kind what
 * @param request number in the batch; of a task, of the item
 * @param tag of the request
 * @param text of TEXT: more of the text; "" otherwise
 * @param token of TOKEN
 * @param logprob of TOKEN, with option logprobs
 * @param status of FINISHED and ERROR
 * @param cached tokens found computed; of FINISHED and ERROR
 * @param computed tokens computed; of FINISHED and ERROR
 * @param count of tokens, of LOST
 * @param micros when, on the library's monotonic clock
 */
public record Event(
        Kind kind,
        int request,
        long tag,
        String text,
        int token,
        float logprob,
        Status status,
        long cached,
        long computed,
        long count,
        long micros) {
    /** Kinds of events, in the order of the C interface. */
    public enum Kind {
        /** The first step of the request. */
        STARTED,
        /** A token was generated. */
        TOKEN,
        /** Tokens that were not read in time; results have all of them. */
        LOST,
        /** The request succeeded. */
        FINISHED,
        /** The request failed. */
        ERROR,
        /** Of a task with option stream: more of a text. */
        TEXT,
        /** Of a newer library. */
        UNKNOWN
    }

    static Event of(Struct raw, String text) {
        return new Event(
                Buffers.pick(Kind.values(), raw.getInt(Layout.EVENT_KIND)),
                (int) raw.getLong(Layout.EVENT_REQUEST),
                raw.getLong(Layout.EVENT_USER_TAG),
                text,
                raw.getInt(Layout.EVENT_TOKEN),
                raw.getFloat(Layout.EVENT_LOGPROB),
                Status.of(raw.getInt(Layout.EVENT_STATUS)),
                raw.getLong(Layout.EVENT_CACHED),
                raw.getLong(Layout.EVENT_COMPUTED),
                raw.getLong(Layout.EVENT_COUNT),
                raw.getLong(Layout.EVENT_TIME_US));
    }
}
