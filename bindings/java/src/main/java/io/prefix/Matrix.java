package io.prefix;

import java.util.Arrays;

/**
 * Rows of numbers. Two are equal when their shapes and numbers are, as {@link Float#equals} compares them: NaN, which
 * stands for what failed, equals NaN.
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
        return flat[begin(row) + column];
    }

    /**
     * One row.
     *
     * @param row its number
     * @return a copy
     */
    public float[] row(int row) {
        int begin = begin(row);
        return Arrays.copyOfRange(flat, begin, begin + columns);
    }

    /** Where a row begins. Of one behind the last, copyOfRange would make zeros. */
    private int begin(int row) {
        if (row < 0 || row >= rows) {
            throw new IndexOutOfBoundsException("there are " + rows + " rows, and no " + row);
        }
        return row * columns;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Matrix m
                && rows == m.rows
                && columns == m.columns
                && Arrays.equals(flat, m.flat);
    }

    @Override
    public int hashCode() {
        return 31 * (31 * rows + columns) + Arrays.hashCode(flat);
    }

    /** The shape; the numbers may be millions. */
    @Override
    public String toString() {
        return "Matrix[" + rows + " x " + columns + "]";
    }
}
