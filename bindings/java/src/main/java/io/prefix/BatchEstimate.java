package io.prefix;

import java.util.Arrays;
import java.util.Objects;

/**
 * What a batch of prompts costs an engine that has nothing of them in its cache; {@link Ordering#estimateBatch} gives it.
 *
 * @param computed by each prompt: its tokens without those that a prompt before it has
 * @param tokens of all prompts
 * @param total computed in all
 */
public record BatchEstimate(long[] computed, long tokens, long total) {
    @Override
    public boolean equals(Object other) {
        return other instanceof BatchEstimate e
                && tokens == e.tokens
                && total == e.total
                && Arrays.equals(computed, e.computed);
    }

    @Override
    public int hashCode() {
        return Objects.hash(Arrays.hashCode(computed), tokens, total);
    }

    /** The counts; the arrays may have millions of numbers. */
    @Override
    public String toString() {
        return "BatchEstimate[" + computed.length + " prompts, tokens=" + tokens + ", total=" + total + "]";
    }
}
