package io.prefix;

import java.util.Arrays;
import java.util.Objects;

/**
 * An order of a table in which prompts share the longest prefixes with the one before; {@link Ordering#order} gives it.
 *
 * @param rows the row of each prompt
 * @param columns the columns of each prompt, as they stand in it
 * @param tokens of all cells
 * @param hitBefore tokens that prompts share with the one before, in the order given
 * @param hit the same in this order
 */
public record TableOrder(long[] rows, int[][] columns, long tokens, long hitBefore, long hit) {
    @Override
    public boolean equals(Object other) {
        return other instanceof TableOrder o
                && tokens == o.tokens
                && hitBefore == o.hitBefore
                && hit == o.hit
                && Arrays.equals(rows, o.rows)
                && Arrays.deepEquals(columns, o.columns);
    }

    @Override
    public int hashCode() {
        return Objects.hash(Arrays.hashCode(rows), Arrays.deepHashCode(columns), tokens, hitBefore, hit);
    }

    /** The counts; the arrays may have millions of numbers. */
    @Override
    public String toString() {
        return "TableOrder[" + rows.length + " rows, tokens=" + tokens + ", hitBefore=" + hitBefore + ", hit=" + hit + "]";
    }
}
