package io.prefix;

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
        int[] part, long[] order, long[] work, long tokens, long distinct, long computed, long largest) {}
