package io.prefix;

/**
 * An order of a table in which prompts share the longest prefixes with the one before; {@link Ordering#order} gives it.
 *
 * @param rows the row of each prompt
 * @param columns the columns of each prompt, as they stand in it
 * @param tokens of all cells
 * @param hitBefore tokens that prompts share with the one before, in the order given
 * @param hit the same in this order
 */
public record TableOrder(long[] rows, int[][] columns, long tokens, long hitBefore, long hit) {}
