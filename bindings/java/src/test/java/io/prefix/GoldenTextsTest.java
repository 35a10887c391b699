package io.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** bindings/golden_texts.txt: texts in, bits of scores out. bindings/make_golden says what its lines mean. */
class GoldenTextsTest {
    private static List<String> lines(String part, String word) {
        return part.lines()
                .filter(line -> line.startsWith(word + " "))
                .map(line -> line.substring(word.length() + 1))
                .toList();
    }

    private static Options options(List<String> settings) {
        Options options = new Options();
        for (String setting : settings) {
            int equals = setting.indexOf('=');
            options.set(setting.substring(0, equals), setting.substring(equals + 1));
        }
        return options;
    }

    private static List<String> texts(int[] numbers) {
        String joined = Arrays.stream(numbers).mapToObj(Integer::toString).collect(Collectors.joining(" "));
        return List.of(joined);
    }

    @Test
    void bitForBit() throws Exception {
        String[] parts = Files.readString(Support.ROOT.resolve("bindings/golden_texts.txt")).split("\ntask ");
        Path path = Support.MODELS.resolve(lines(parts[0], "model").get(0));
        assertTrue(parts.length >= 6);
        try (Engine engine = Engine.open(path, options(lines(parts[0], "engine")));
                Tokenizer tokenizer = Tokenizer.open(path)) {
            for (String part : List.of(parts).subList(1, parts.length)) {
                String kind = part.lines().findFirst().get();
                try (Task task = Task.create(engine, tokenizer, kind, options(lines(part, "option")))) {
                    List<String> labels = lines(part, "label");
                    if (!labels.isEmpty()) {
                        task.setLabels(labels);
                    }
                    task.add(lines(part, "text"));
                    assertEquals(lines(part, "tokens"), texts(task.tokens(0)), kind);
                    task.run();
                    int[] statuses =
                            Arrays.stream(task.statuses()).mapToInt(Status::code).toArray();
                    assertEquals(lines(part, "statuses"), texts(statuses), kind);
                    float[] values = task.values().flat();
                    String bits = IntStream.range(0, values.length)
                            .mapToObj(i -> String.format("%08x", Float.floatToRawIntBits(values[i])))
                            .collect(Collectors.joining(" "));
                    assertEquals(String.join("", lines(part, "bits")), bits, kind);
                    List<String> written = lines(part, "written");
                    assertEquals(
                            written,
                            IntStream.range(0, written.size())
                                    .mapToObj(task::text)
                                    .toList(),
                            kind);
                    assertNotEquals(written.isEmpty(), bits.isEmpty(), kind);
                }
            }
        }
    }
}
