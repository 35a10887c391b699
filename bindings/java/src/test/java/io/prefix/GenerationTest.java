package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The likeliest tokens of each place, and numbers that change what comes. */
@Timeout(120)
class GenerationTest {
    private static final int[] PROMPT = {1, 5, 9};
    private Engine engine;

    @BeforeEach
    void open() {
        engine = Support.open();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    /** The likeliest tokens after these, from the logits of all. */
    private List<TopToken> likeliest(int[] tokens, int count) throws InterruptedException {
        try (Batch batch = engine.batch()) {
            batch.add(Request.logits(tokens, IntStream.range(0, 131).toArray()));
            try (Job job = engine.run(batch)) {
                float[] logits = job.values(0);
                double sum = IntStream.range(0, logits.length)
                        .mapToDouble(i -> Math.exp(logits[i]))
                        .sum();
                return IntStream.range(0, logits.length)
                        .mapToObj(i -> new TopToken(i, (float) (logits[i] - Math.log(sum))))
                        .sorted(Comparator.comparingDouble(top -> -top.logprob()))
                        .limit(count)
                        .toList();
            }
        }
    }

    private static void assertAre(List<TopToken> expected, List<TopToken> top) {
        assertEquals(
                expected.stream().map(TopToken::token).toList(),
                top.stream().map(TopToken::token).toList());
        for (int i = 0; i < top.size(); i++) {
            assertEquals(expected.get(i).logprob(), top.get(i).logprob(), 1e-4);
        }
    }

    @Test
    void theLikeliestTokensAreThoseOfAllLogits() throws Exception {
        Options options = new Options().maxTokens(4).ignoreEos(true).topLogprobs(3);
        Options all = new Options().maxTokens(4).ignoreEos(true).topLogprobs(131);
        try (Batch batch = engine.batch()) {
            batch.add(Request.generate(PROMPT).options(options));
            batch.add(Request.logprobs(PROMPT, 1).options(new Options().topLogprobs(3)));
            batch.add(Request.generate(PROMPT).options(all));
            batch.add(Request.generate(PROMPT));
            batch.add(Request.generate(999).options(options));
            try (Job job = engine.run(batch)) {
                int[] generated = job.tokens(0);
                List<List<TopToken>> top = job.top(0);
                assertEquals(4, top.size());
                for (int place = 0; place < 4; place++) {
                    int[] before = Arrays.copyOf(PROMPT, 3 + place);
                    System.arraycopy(generated, 0, before, 3, place);
                    assertAre(likeliest(before, 3), top.get(place));
                    assertEquals(top.get(place), job.partialTop(0, place));
                }
                List<List<TopToken>> scored = job.top(1);
                assertEquals(2, scored.size());
                assertAre(likeliest(new int[] {1}, 3), scored.get(0));
                assertAre(likeliest(new int[] {1, 5}, 3), scored.get(1));
                assertAre(likeliest(PROMPT, 131), job.top(2).get(0));
                assertEquals(List.of(), job.top(3));
                assertEquals(Status.OUT_OF_RANGE, assertThrows(PrefixException.class, () -> job.top(4)).status());
                for (int place : new int[] {-1, 4}) {
                    PrefixException e = assertThrows(PrefixException.class, () -> job.partialTop(0, place));
                    assertEquals(Status.OUT_OF_RANGE, e.status());
                }
            }
        }
    }

    @Test
    void biasesAreNumbersOfTokens() throws Exception {
        int best = likeliest(PROMPT, 1).get(0).token();
        Options options = new Options().maxTokens(1).logitBias(Map.of(best, -100, 77, 100, 78, 2.5e-7));
        assertEquals(
                List.of("77:100.0", "78:2.5E-7", best + ":-100.0").stream()
                        .sorted()
                        .toList(),
                Arrays.stream(options.get("logit_bias").split(",")).sorted().toList());
        try (Batch batch = engine.batch()) {
            batch.add(Request.generate(PROMPT).options(options));
            try (Job job = engine.run(batch)) {
                assertArrayEquals(new int[] {77}, job.tokens(0));
            }
        }
        PrefixException e = assertThrows(PrefixException.class, () -> new Options().logitBias(Map.of(7, 100.5)));
        assertEquals(Status.OUT_OF_RANGE, e.status());
    }
}
