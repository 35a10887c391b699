package io.prefix;

import java.util.Arrays;

/**
 * Rows of numbers.
 *
 * @param rows how many
 * @param columns of each
 * @param flat row after row
 */
public record Matrix(int rows, int columns, float[] flat) {
    /**
     * One number.
     *
     * @param row its row
     * @param column its column
     * @return the number
     */
    public float get(int row, int column) {
        if (column < 0 || column >= columns) {
            throw new IndexOutOfBoundsException("there are " + columns + " columns, and no " + column);
        }
        return flat[row * columns + column];
    }

    /**
     * One row.
     *
     * @param row its number
     * @return a copy
     */
    public float[] row(int row) {
        return Arrays.copyOfRange(flat, row * columns, (row + 1) * columns);
    }
}
