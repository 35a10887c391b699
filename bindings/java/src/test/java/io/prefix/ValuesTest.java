package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

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

    @Test
    void whatIsBeyondThemIsRefused() {
        for (int[] place : new int[][] {{0, 2}, {0, -1}, {1, 0}, {2, 3}}) {
            assertThrows(IndexOutOfBoundsException.class, () -> values.get(place[0], place[1]));
        }
    }
}
