package io.prefix;

import java.util.Arrays;
import java.util.Objects;

/**
 * The prompts of a batch, shared out among workers; {@link Ordering#partition} gives them.
 *
 * @param part of each prompt
 * @param order the prompts, part after part, those that share prefixes beside each other
 * @param work the different tokens of each part
 * @param tokens of all prompts
 * @param distinct those of them that differ: what one worker would compute
 * @param computed by all parts together
 * @param largest by the part that computes the most
 */
public record Parts(
        int[] part, long[] order, long[] work, long tokens, long distinct, long computed, long largest) {
    @Override
    public boolean equals(Object other) {
        return other instanceof Parts p
                && tokens == p.tokens
                && distinct == p.distinct
                && computed == p.computed
                && largest == p.largest
                && Arrays.equals(part, p.part)
                && Arrays.equals(order, p.order)
                && Arrays.equals(work, p.work);
    }

    @Override
    public int hashCode() {
        return Objects.hash(
                Arrays.hashCode(part), Arrays.hashCode(order), Arrays.hashCode(work), tokens, distinct, computed, largest);
    }

    /** The counts; the arrays may have millions of numbers. */
    @Override
    public String toString() {
        return "Parts[" + part.length + " prompts in " + work.length + " parts, tokens=" + tokens + ", distinct=" + distinct
                + ", computed=" + computed + ", largest=" + largest + "]";
    }
}
