package io.prefix;

import io.prefix.internal.Layout;
import io.prefix.internal.Native;
import io.prefix.internal.Struct;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Orders of tables, parts of batches and what batches compute: arithmetic that needs no engine. Any thread may call it. */
public final class Ordering {
    /**
     * Orders the rows of a table, and the columns within each row, so that prompts share the longest prefixes with the one
     * before. A prompt has to name its columns, since they stand otherwise in each.
     *
     * @param values the rows: any number that stands for a cell's text, equal for equal cells of a column
     * @param lengths the tokens of each cell; no rows of them to count each as 1
     * @return the order
     * @throws PrefixException INVALID_ARGUMENT for no rows and a value with two lengths, OUT_OF_RANGE for a negative length
     * @throws IllegalArgumentException for rows of different lengths
     */
    public static TableOrder order(long[][] values, int[][] lengths) {
        int columns = values.length > 0 ? values[0].length : 0;
        long[] flat = new long[Buffers.room((long) values.length * columns)];
        for (int r = 0; r < values.length; r++) {
            require(r, values[r].length, columns);
            System.arraycopy(values[r], 0, flat, r * columns, columns);
        }
        int[] sizes = new int[Buffers.room((long) lengths.length * columns)];
        for (int r = 0; r < lengths.length; r++) {
            require(r, lengths[r].length, columns);
            System.arraycopy(lengths[r], 0, sizes, r * columns, columns);
        }
        long[] rows = new long[values.length];
        int[] order = new int[flat.length];
        Struct info = new Struct(Layout.ORDER_INFO_SIZE);
        Native.prefix_order(flat, sizes, columns, rows, order, info.bytes);
        int[][] each = new int[rows.length][];
        for (int i = 0; i < each.length; i++) {
            each[i] = Arrays.copyOfRange(order, i * columns, (i + 1) * columns);
        }
        return new TableOrder(
                rows,
                each,
                info.getLong(Layout.ORDER_INFO_TOKENS),
                info.getLong(Layout.ORDER_INFO_HIT_BEFORE),
                info.getLong(Layout.ORDER_INFO_HIT));
    }

    /**
     * The same of texts, whose bytes stand for tokens.
     *
     * @param rows the texts of each row
     * @return the order
     */
    public static TableOrder orderTexts(List<List<String>> rows) {
        Map<String, Long> numbers = new HashMap<>();
        long[][] values = new long[rows.size()][];
        int[][] lengths = new int[rows.size()][];
        for (int r = 0; r < values.length; r++) {
            List<String> row = rows.get(r);
            values[r] = row.stream()
                    .mapToLong(text -> numbers.computeIfAbsent(text, t -> (long) numbers.size()))
                    .toArray();
            lengths[r] = row.stream()
                    .mapToInt(text -> text.getBytes(StandardCharsets.UTF_8).length)
                    .toArray();
        }
        return order(values, lengths);
    }

    /**
     * Shares prompts out among workers that each have a cache of their own: parts of about equal work, cut where the
     * fewest tokens are computed more than once.
     *
     * @param prompts all
     * @param parts how many workers
     * @param balance a part has at most so many times the mean; 0 stands for 1.05
     * @return the part of each
     * @throws PrefixException OUT_OF_RANGE for no parts, a balance below 1, a negative token
     */
    public static Parts partition(int[][] prompts, int parts, double balance) {
        Buffers.Lists lists = new Buffers.Lists(prompts);
        int[] part = new int[prompts.length];
        long[] order = new long[prompts.length];
        long[] work = new long[Math.max(0, Math.min(parts, 1 << 20))];
        Struct info = new Struct(Layout.PARTITION_INFO_SIZE);
        Native.prefix_partition(lists.flat, lists.offsets, parts, balance, part, order, work, info.bytes);
        return new Parts(
                part,
                order,
                work,
                info.getLong(Layout.PARTITION_INFO_TOKENS),
                info.getLong(Layout.PARTITION_INFO_DISTINCT),
                info.getLong(Layout.PARTITION_INFO_COMPUTED),
                info.getLong(Layout.PARTITION_INFO_LARGEST));
    }

    /**
     * Counts what requests with these prompts would compute as one batch.
     *
     * @param prompts all
     * @return tokens of each and of all
     */
    public static BatchEstimate estimateBatch(int[]... prompts) {
        Buffers.Lists lists = new Buffers.Lists(prompts);
        long[] computed = new long[prompts.length];
        Struct info = new Struct(Layout.ESTIMATE_INFO_SIZE);
        Native.prefix_estimate_batch(lists.flat, lists.offsets, computed, info.bytes);
        return new BatchEstimate(
                computed, info.getLong(Layout.ESTIMATE_INFO_TOKENS), info.getLong(Layout.ESTIMATE_INFO_COMPUTED));
    }

    private static void require(int row, int cells, int columns) {
        if (cells != columns) {
            throw new IllegalArgumentException("row " + row + " has " + cells + " cells, the first one " + columns);
        }
    }

    private Ordering() {}
}
