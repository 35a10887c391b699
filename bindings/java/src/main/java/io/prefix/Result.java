package io.prefix;

import io.prefix.internal.Constants;
import io.prefix.internal.Layout;
import io.prefix.internal.Struct;
import java.time.Duration;
import java.util.function.Supplier;

/**
 * How a request, or an item of a task, went. promptTokens = cachedTokens + sharedTokens + computedTokens. Why tokens
 * were computed is told by the reasons of {@link EngineStats}, whose counters are the sums of these: together the six
 * are computedTokens, and with sharing=false all are 0.
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
 * @param missFirstSeen computed since nobody had asked for them before
 * @param missNamespace since only another namespace had them
 * @param missBudget since they had made room (cache_bytes, a quota)
 * @param missEvicted since they were dropped, expired or not kept
 * @param missGranularity although they are there, for a result at them
 * @param missState although their keys are there, since no state of the recurrent layers was
 * @param draftTokens tokens of a generation that were guessed and checked (option draft_tokens)
 * @param draftTokensAccepted those of them that the model said as well
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
        long seed,
        long missFirstSeen,
        long missNamespace,
        long missBudget,
        long missEvicted,
        long missGranularity,
        long missState,
        long draftTokens,
        long draftTokensAccepted) {
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
                raw.getLong(Layout.RESULT_INFO_SEED),
                raw.getLong(Layout.RESULT_INFO_MISS_FIRST_SEEN),
                raw.getLong(Layout.RESULT_INFO_MISS_NAMESPACE),
                raw.getLong(Layout.RESULT_INFO_MISS_BUDGET),
                raw.getLong(Layout.RESULT_INFO_MISS_EVICTED),
                raw.getLong(Layout.RESULT_INFO_MISS_GRANULARITY),
                raw.getLong(Layout.RESULT_INFO_MISS_STATE),
                raw.getLong(Layout.RESULT_INFO_DRAFT_TOKENS),
                raw.getLong(Layout.RESULT_INFO_DRAFT_TOKENS_ACCEPTED));
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
