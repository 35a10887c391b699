package io.prefix;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Arrays that the library fills whole or not at all: with too small a guess it is asked again. */
class BuffersTest {
    @Test
    void textNeedsRoomForItsZero() {
        byte[] all = "naïve text".getBytes(UTF_8);
        for (int guess = 1; guess < all.length + 3; guess++) {
            List<Integer> asked = new ArrayList<>();
            String text = Buffers.text(guess, array -> {
                asked.add(array.length);
                if (array.length > all.length) {
                    System.arraycopy(all, 0, array, 0, all.length);
                }
                return all.length;
            });
            assertEquals("naïve text", text);
            assertEquals(guess > all.length ? 1 : 2, asked.size(), "with room for " + guess);
            assertArrayEquals(all, Buffers.bytes(guess, array -> {
                if (array.length > all.length) {
                    System.arraycopy(all, 0, array, 0, all.length);
                }
                return all.length;
            }));
        }
    }

    @Test
    void arraysNeedNoMoreThanTheirLength() {
        int[] all = {7, 8, 9};
        for (int guess = 0; guess < 6; guess++) {
            List<Integer> asked = new ArrayList<>();
            int[] array = Buffers.ints(guess, room -> {
                asked.add(room.length);
                if (room.length >= all.length) {
                    System.arraycopy(all, 0, room, 0, all.length);
                }
                return all.length;
            });
            assertArrayEquals(all, array);
            assertEquals(guess >= all.length ? 1 : 2, asked.size(), "with room for " + guess);
        }
    }

    /** The JVM's own sentence would have numbers of parameters. */
    @Test
    void nullIsNamed() {
        assertNull("text 1 is null", () -> Buffers.pack(Arrays.asList("a", null)));
        assertNull("text 0 is null", () -> new Buffers.Joined(Arrays.asList((String) null)));
        assertNull("option stop is null", () -> Options.of("stop", null));
        assertNull("extra", () -> new Message("user", "Hi", null));
        assertNull("engine", () -> Task.create(null, null, "chat", null));
    }

    private static void assertNull(String sentence, Executable call) {
        assertEquals(sentence, assertThrows(NullPointerException.class, call).getMessage());
    }
}
