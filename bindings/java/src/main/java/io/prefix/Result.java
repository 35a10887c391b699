package io.prefix;

import io.prefix.internal.Constants;
import io.prefix.internal.Layout;
import io.prefix.internal.Struct;
import java.time.Duration;
import java.util.function.Supplier;

/**
 * How a request, or an item of a task, went. promptTokens = cachedTokens + sharedTokens + computedTokens.
 *
 * @param status of the request
 * @param code its number in the C interface, also where {@link Status} does not know it
 * @param message the sentence that goes with a failure; "" for OK
 * @param finish why it ended
 * @param cut whether the prompt was cut to fit; of tasks only
 * @param tag of the request
 * @param promptTokens of the request
 * @param cachedTokens found computed before this batch
 * @param sharedTokens computed in this batch for another request
 * @param computedTokens computed for this one
 * @param generatedTokens of generate
 * @param queue until the first step
 * @param first until the first result
 * @param total until the end
 * @param seed of a generation's draws
 */
public record Result(
        Status status,
        int code,
        String message,
        Finish finish,
        boolean cut,
        long tag,
        long promptTokens,
        long cachedTokens,
        long sharedTokens,
        long computedTokens,
        long generatedTokens,
        Duration queue,
        Duration first,
        Duration total,
        long seed) {
    static Result of(Struct raw, Supplier<String> message) {
        int status = raw.getInt(Layout.RESULT_INFO_STATUS);
        return new Result(
                Status.of(status),
                status,
                status == 0 ? "" : message.get(),
                Buffers.pick(Finish.values(), raw.getInt(Layout.RESULT_INFO_FINISH)),
                (raw.getInt(Layout.RESULT_INFO_FLAGS) & Constants.PREFIX_RESULT_CUT) != 0,
                raw.getLong(Layout.RESULT_INFO_USER_TAG),
                raw.getLong(Layout.RESULT_INFO_PROMPT_TOKENS),
                raw.getLong(Layout.RESULT_INFO_CACHED_TOKENS),
                raw.getLong(Layout.RESULT_INFO_SHARED_TOKENS),
                raw.getLong(Layout.RESULT_INFO_COMPUTED_TOKENS),
                raw.getLong(Layout.RESULT_INFO_GENERATED_TOKENS),
                micros(raw.getLong(Layout.RESULT_INFO_QUEUE_US)),
                micros(raw.getLong(Layout.RESULT_INFO_FIRST_US)),
                micros(raw.getLong(Layout.RESULT_INFO_TOTAL_US)),
                raw.getLong(Layout.RESULT_INFO_SEED));
    }

    static Duration micros(long number) {
        return Duration.ofNanos(number * 1000);
    }

    /** Throws the failure of the request. */
    void check() {
        if (status != Status.OK) {
            throw failure("request");
        }
    }

    PrefixException failure(String domain) {
        return PrefixException.of(code, domain, message);
    }
}
