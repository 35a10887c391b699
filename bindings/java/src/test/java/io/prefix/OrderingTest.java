package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Orders, parts and estimates. */
class OrderingTest {
    private static final int[][] NONE = {};

    private static void check(TableOrder found) {
        assertArrayEquals(new long[] {0, 2, 1}, found.rows());
        assertArrayEquals(new int[][] {{1, 0}, {1, 0}, {0, 1}}, found.columns());
        assertEquals(13, found.tokens());
        assertEquals(0, found.hitBefore());
        assertEquals(4, found.hit());
    }

    private static Status failure(Runnable call) {
        return assertThrows(PrefixException.class, call::run).status();
    }

    @Test
    void aTableIsOrdered() {
        check(Ordering.order(new long[][] {{7, 5}, {8, 6}, {9, 5}}, new int[][] {{1, 4}, {1, 2}, {1, 4}}));
        check(Ordering.orderTexts(List.of(List.of("a", "Dune"), List.of("b", "It"), List.of("c", "Dune"))));
        assertEquals(1, Ordering.order(new long[][] {{7, 5}, {9, 5}}, NONE).hit());
        assertEquals(Status.INVALID_ARGUMENT, failure(() -> Ordering.order(new long[][] {}, NONE)));
        assertEquals(Status.INVALID_ARGUMENT, failure(() -> Ordering.order(new long[][] {{}}, NONE)));
        assertEquals(Status.OUT_OF_RANGE, failure(() -> Ordering.order(new long[][] {{1}}, new int[][] {{-1}})));
        assertThrows(IllegalArgumentException.class, () -> Ordering.order(new long[][] {{1, 2}, {1}}, NONE));
    }

    @Test
    void promptsAreSharedOut() {
        int[][] prompts = {{1, 2, 3}, {7, 8, 9}, {1, 2, 4}, {7, 8, 6}};
        Parts found = Ordering.partition(prompts, 2, 0);
        assertArrayEquals(new int[] {0, 1, 0, 1}, found.part());
        assertArrayEquals(new long[] {0, 2, 3, 1}, found.order());
        assertArrayEquals(new long[] {4, 4}, found.work());
        assertEquals(12, found.tokens());
        assertEquals(8, found.distinct());
        assertEquals(8, found.computed());
        assertEquals(4, found.largest());
        for (int parts : new int[] {0, -1, (1 << 20) + 1}) {
            assertEquals(Status.OUT_OF_RANGE, failure(() -> Ordering.partition(prompts, parts, 0)), "" + parts);
        }
        assertEquals(Status.OUT_OF_RANGE, failure(() -> Ordering.partition(prompts, 2, 0.5)));
    }

    @Test
    void aBatchIsEstimated() {
        BatchEstimate found = Ordering.estimateBatch(new int[] {1, 2}, new int[] {1, 3}, new int[] {4, 5}, new int[] {});
        assertArrayEquals(new long[] {2, 1, 2, 0}, found.computed());
        assertEquals(6, found.tokens());
        assertEquals(5, found.total());
        assertEquals(0, Ordering.estimateBatch().tokens());
    }
}
