package io.prefix.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Comparator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Rows that share go together, with the shared cells in front. */
class PlanTest {
    // Columns: one value for each row, one for every fourth row.
    private static final long[][] VALUES =
            IntStream.range(0, 40).mapToObj(i -> new long[] {i, -1 - i % 4}).toArray(long[][]::new);
    private static final int[][] LENGTHS =
            IntStream.range(0, 40).mapToObj(i -> new int[] {10, 100}).toArray(int[][]::new);

    @Test
    void rowsThatShareAreInOnePart() {
        Plan plan = Plan.of(VALUES, LENGTHS, 4);
        for (int row = 0; row < 40; row++) {
            assertArrayEquals(new int[] {1, 0}, plan.columns()[row]);
            assertEquals(plan.part()[row % 4], plan.part()[row], "row " + row);
        }
        assertEquals(4, Arrays.stream(plan.part()).distinct().count());
        assertEquals(40 * 110, plan.bytes());
        assertEquals(0, plan.hitBefore());
        assertEquals(36 * 100, plan.hit());
        assertEquals(plan.distinct(), plan.computed());
    }

    @Test
    void placesAreAWalkThroughThePartsThatSharesTheMost() {
        for (int parts : new int[] {1, 3, 50}) {
            Plan plan = Plan.of(VALUES, LENGTHS, parts);
            int[] rows = IntStream.range(0, 40)
                    .boxed()
                    .sorted(Comparator.comparing(row -> plan.place()[row]))
                    .mapToInt(row -> row)
                    .toArray();
            assertArrayEquals(IntStream.range(0, 40).toArray(), Arrays.stream(rows).map(r -> (int) plan.place()[r]).toArray());
            int hits = 0;
            for (int i = 1; i < 40; i++) {
                assertTrue(plan.part()[rows[i - 1]] <= plan.part()[rows[i]], "a part is in one piece");
                hits += rows[i] % 4 == rows[i - 1] % 4 ? 1 : 0;
            }
            assertEquals(36, hits, parts + " parts");
        }
    }

    @Test
    void thePromptOfARowIsThatOfTheTableInAnyOrder() {
        // Columns that share alike, so that which one is in front of a row is a matter of who came first.
        long[][] values = {{1, 2, 0}, {1, 1, 1}, {1, 1, 2}, {0, 1, 1}};
        long[][] shuffled = {values[2], values[3], values[1], values[0]};
        int[][] lengths = {{10, 10, 10}, {10, 10, 10}, {10, 10, 10}, {10, 10, 10}};
        Plan plan = Plan.of(values, lengths, 1);
        Plan other = Plan.of(shuffled, lengths, 3);
        assertArrayEquals(
                new int[][] {plan.columns()[2], plan.columns()[3], plan.columns()[1], plan.columns()[0]},
                other.columns());
        assertEquals(plan.hit(), other.hit());
        assertEquals(10 + 20, plan.hitBefore(), "as the rows came");
        assertEquals(10, other.hitBefore());
    }

    @Test
    void longTablesAreCountedInLargerUnits() {
        Plan exact = Plan.of(VALUES, LENGTHS, 4);
        Plan plan = Plan.of(VALUES, LENGTHS, 4, 400); // 4,400 bytes, so that 12 are a unit
        assertEquals(4 * 100 + 40 * 10, exact.computed());
        assertEquals(4 * 9 + 40, plan.computed());
        assertEquals(exact.bytes(), plan.bytes());
        assertArrayEquals(exact.part(), plan.part());
    }

    /** However long the texts are: what stands for them is in the driver's heap twice. */
    @Test
    void theNumbersOfATableTake64MiB() {
        int[][] lengths = IntStream.range(0, 40).mapToObj(i -> new int[] {1 << 20, 1 << 20}).toArray(int[][]::new);
        long[][] different = IntStream.range(0, 40).mapToObj(i -> new long[] {i, -1 - i}).toArray(long[][]::new);
        long numbers = Plan.of(different, lengths, 1).computed();
        assertTrue(numbers > 12 << 20 && numbers <= 16 << 20, numbers + " numbers");
    }

    @Test
    void aTableWithoutRows() {
        assertEquals(0, Plan.of(new long[0][], new int[0][], 3).part().length);
    }
}
