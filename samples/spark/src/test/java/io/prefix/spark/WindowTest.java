package io.prefix.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Order, bounds and the end of what is in work. */
class WindowTest {
    private final List<Integer> open = new ArrayList<>(); // the first input of each batch that was begun and not closed
    private int pulled;

    private Iterator<Integer> source(int count) {
        return IntStream.range(0, count).peek(i -> pulled = i + 1).iterator();
    }

    private Window<Integer, String> window(Iterator<Integer> source, int batch, int batches) {
        return new Window<>(source, batch, batches, inputs -> {
            open.add(inputs.get(0));
            return new Window.Work<String>() {
                @Override
                public List<String> results() {
                    if (inputs.contains(-1)) {
                        throw new IllegalStateException("a bad batch");
                    }
                    return inputs.stream().map(String::valueOf).toList();
                }

                @Override
                public void close() {
                    open.remove(inputs.get(0));
                }
            };
        });
    }

    @Test
    void everythingInItsOrder() {
        Window<Integer, String> window = window(source(23), 5, 3);
        List<String> results = new ArrayList<>();
        window.forEachRemaining(results::add);
        assertEquals(IntStream.range(0, 23).mapToObj(String::valueOf).toList(), results);
        assertEquals(List.of(), open);
        assertFalse(window.hasNext());
        assertThrows(NoSuchElementException.class, window::next);
        assertFalse(window(source(0), 5, 3).hasNext());
    }

    @Test
    void noMoreIsReadThanTheWindowHolds() {
        Window<Integer, String> window = window(source(1000), 5, 3);
        assertEquals(0, pulled);
        for (int taken = 1; taken <= 100; taken++) {
            window.next();
            // The batch that is handed out, and two more in work behind it.
            assertEquals((taken + 4) / 5 * 5 + 10, pulled, "after " + taken);
            assertEquals(2, open.size(), "batches in work");
        }
    }

    @Test
    void closingEndsWhatIsInWork() {
        Window<Integer, String> window = window(source(100), 5, 3);
        window.next();
        assertEquals(List.of(5, 10), open);
        window.close();
        window.close();
        assertEquals(List.of(), open);
        IntStream.range(1, 5).forEach(i -> assertEquals(String.valueOf(i), window.next()));
        assertFalse(window.hasNext(), "nothing is begun after the end");
        assertEquals(15, pulled);
    }

    @Test
    void whatFailsIsThrown() {
        Window<Integer, String> window = window(List.of(1, 2, -1, 4).iterator(), 2, 2);
        window.next();
        window.next();
        assertThrows(IllegalStateException.class, window::hasNext);
        assertEquals(List.of(-1), open);
        window.close();
        assertTrue(open.isEmpty());
        assertThrows(IllegalArgumentException.class, () -> window(source(1), 0, 1));
        assertThrows(IllegalArgumentException.class, () -> window(source(1), 1, 0));
    }
}
