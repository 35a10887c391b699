package io.prefix.spark;

import io.prefix.Ordering;
import io.prefix.Parts;
import io.prefix.TableOrder;
import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * Where each row of a table goes, found from hashes and lengths of its cells: the texts themselves stay where they are.
 *
 * @param columns of each row, as they stand in its prompt
 * @param part of each row
 * @param place of each row; within a part ascending
 * @param bytes of all cells
 * @param hitBefore bytes that prompts share with the one before, as the table came
 * @param hit the same as it is laid out
 * @param distinct what one engine would compute, in the units of {@link #computed}
 * @param computed what all parts together compute; what is above {@link #distinct} is computed more than once
 */
record Plan(
        int[][] columns,
        int[] part,
        long[] place,
        long bytes,
        long hitBefore,
        long hit,
        long distinct,
        long computed) {
    /** The most numbers that stand for the prompts while they are shared out: 64 MiB of them, and a copy. */
    private static final long MOST_UNITS = 1L << 24;

    /**
     * Plans a table.
     *
     * @param values of each row, a hash of each cell
     * @param lengths of each row, the bytes of each cell; 0 for one that the prompt leaves out
     * @param parts how many
     * @return the plan
     */
    static Plan of(long[][] values, int[][] lengths, int parts) {
        return of(values, lengths, parts, MOST_UNITS);
    }

    /** The same with at most about so many numbers in place of the prompts. */
    static Plan of(long[][] values, int[][] lengths, int parts, long mostUnits) {
        if (values.length == 0) {
            return new Plan(new int[0][], new int[0], new long[0], 0, 0, 0, 0, 0);
        }
        // From one order of rows, whatever the table comes in: which fields of a row are in front decides its bits too.
        Integer[] sorted = IntStream.range(0, values.length).boxed().toArray(Integer[]::new);
        Arrays.sort(sorted, (a, b) -> Arrays.compare(values[a], values[b]));
        TableOrder order = Ordering.order(
                Arrays.stream(sorted).map(row -> values[row]).toArray(long[][]::new),
                Arrays.stream(sorted).map(row -> lengths[row]).toArray(int[][]::new));
        int[][] prompts = new int[values.length][];
        Units units = new Units(1 + order.tokens() / mostUnits, values);
        int[][] columns = new int[values.length][];
        for (int i = 0; i < prompts.length; i++) {
            int row = sorted[Math.toIntExact(order.rows()[i])];
            columns[row] = order.columns()[i];
            prompts[i] = units.of(values[row], lengths[row], columns[row]);
        }
        Parts shared = Ordering.partition(prompts, parts, 0);
        int[] part = new int[prompts.length];
        long[] place = new long[prompts.length];
        for (int i = 0; i < prompts.length; i++) {
            int prompt = Math.toIntExact(shared.order()[i]);
            int row = sorted[Math.toIntExact(order.rows()[prompt])];
            part[row] = shared.part()[prompt];
            place[row] = i;
        }
        return new Plan(
                columns,
                part,
                place,
                order.tokens(),
                hitOf(values, lengths),
                order.hit(),
                shared.distinct(),
                shared.computed());
    }

    /** What prompts share with the one before, with all columns in their order. */
    private static long hitOf(long[][] values, int[][] lengths) {
        long hit = 0;
        for (int row = 1; row < values.length; row++) {
            for (int c = 0; c < values[row].length && values[row][c] == values[row - 1][c]; c++) {
                hit += lengths[row][c];
            }
        }
        return hit;
    }

    /** Prompts as token ids: a cell is as many equal numbers as its length asks for. */
    private static final class Units {
        private final long bytes;
        /** Of each column what is in it, ascending, and the number that stands for it, 0 until it is seen: arrays, since a
         * map has two objects and more for each cell that is like no other. */
        private final long[][] cells;
        private final int[][] numbers;
        private int last;

        Units(long bytes, long[][] values) {
            this.bytes = bytes;
            cells = IntStream.range(0, values[0].length)
                    .mapToObj(c -> Arrays.stream(values).mapToLong(row -> row[c]).sorted().distinct().toArray())
                    .toArray(long[][]::new);
            numbers = Arrays.stream(cells).map(column -> new int[column.length]).toArray(int[][]::new);
        }

        int[] of(long[] values, int[] lengths, int[] columns) {
            int[] room = new int[Arrays.stream(lengths).map(this::count).sum()];
            int end = 0;
            for (int c : columns) {
                int number = number(c, values[c]);
                int count = count(lengths[c]);
                Arrays.fill(room, end, end + count, number);
                end += count;
            }
            return room;
        }

        private int number(int column, long cell) {
            int place = Arrays.binarySearch(cells[column], cell);
            if (numbers[column][place] == 0) {
                numbers[column][place] = ++last;
            }
            return numbers[column][place];
        }

        private int count(int length) {
            return (int) ((length + bytes - 1) / bytes);
        }
    }
}
