package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

/** Three requests in one array: two numbers, none, three. */
class ValuesTest {
    private final Values values = new Values(new float[] {1, 2, 3, 4, 5}, new long[] {0, 2, 2, 5});

    @Test
    void eachRequestHasItsOwn() {
        assertEquals(3, values.size());
        float[][] expected = {{1, 2}, {}, {3, 4, 5}};
        for (int request = 0; request < 3; request++) {
            assertEquals(expected[request].length, values.count(request));
            assertArrayEquals(expected[request], values.of(request));
            assertEquals(expected[request].length, values.view(request).remaining());
            for (int i = 0; i < expected[request].length; i++) {
                assertEquals(expected[request][i], values.get(request, i));
                assertEquals(expected[request][i], values.view(request).get(i));
            }
        }
    }

    /** As records without arrays do. */
    @Test
    void recordsWithArraysAreComparedByTheirNumbers() {
        List<Supplier<Record>> kinds = List.of(
                () -> new CacheEvent(CacheEvent.Kind.STORED, 1, 0, 5, 4, 0, 32, new int[] {7, 8}, 9),
                () -> new Parts(new int[] {0, 1}, new long[] {1, 0}, new long[] {5, 6}, 20, 11, 12, 6),
                () -> new TableOrder(new long[] {1, 0}, new int[][] {{0, 1}, {1, 0}}, 9, 2, 3),
                () -> new BatchEstimate(new long[] {4, 5}, 9, 8));
        List<Record> others = List.of(
                new CacheEvent(CacheEvent.Kind.STORED, 1, 0, 5, 4, 0, 32, new int[] {7, 9}, 9),
                new Parts(new int[] {0, 1}, new long[] {1, 0}, new long[] {5, 7}, 20, 11, 12, 6),
                new TableOrder(new long[] {1, 0}, new int[][] {{0, 1}, {0, 1}}, 9, 2, 3),
                new BatchEstimate(new long[] {4, 6}, 9, 8));
        for (int i = 0; i < kinds.size(); i++) {
            Record one = kinds.get(i).get();
            assertEquals(one, kinds.get(i).get());
            assertEquals(one.hashCode(), kinds.get(i).get().hashCode());
            assertNotEquals(one, others.get(i));
            assertFalse(one.toString().contains("@"), one.toString());
        }
        assertTrue(kinds.get(0).get().toString().contains("tokens=[7, 8]"));
    }

    @Test
    void whatIsBeyondThemIsRefused() {
        for (int[] place : new int[][] {{0, 2}, {0, -1}, {1, 0}, {2, 3}}) {
            assertThrows(IndexOutOfBoundsException.class, () -> values.get(place[0], place[1]));
        }
    }
}
