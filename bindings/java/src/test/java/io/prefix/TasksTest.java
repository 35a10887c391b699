package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class TasksTest {
    private static final List<String> DOCUMENTS = List.of("Bread is baked.", "Paris is big.", "A tree.");

    private Engine engine;
    private Tokenizer tokenizer;

    @BeforeEach
    void open(@TempDir Path folder) throws Exception {
        Support.asciiModel(folder);
        engine = Engine.open(folder, Support.exact());
        tokenizer = Tokenizer.open(folder);
    }

    @AfterEach
    void close() {
        engine.close();
        tokenizer.close();
    }

    @Test
    void rerank() throws Exception {
        List<String> queries = List.of("Which city?", "What is baked?");
        try (Task task = Task.rerank(engine, tokenizer, queries, DOCUMENTS, null)) {
            PrefixException early = assertThrows(PrefixException.class, task::values);
            assertEquals(Status.MISUSE, early.status());
            task.run();
            assertEquals(new Task.Progress(6, 6), task.progress());
            Matrix scores = task.values();
            assertEquals(2, scores.rows());
            assertEquals(3, scores.columns());
            for (int row = 0; row < 2; row++) {
                int[] order = task.order(row);
                assertEquals(3, order.length);
                assertTrue(scores.get(row, order[0]) >= scores.get(row, order[1]));
                assertTrue(scores.get(row, order[1]) >= scores.get(row, order[2]));
            }
            assertEquals(Status.OUT_OF_RANGE, assertThrows(PrefixException.class, () -> task.order(2)).status());
            assertTrue(Arrays.stream(task.statuses()).allMatch(status -> status == Status.OK));
            assertTrue(task.result(5).promptTokens() > 0);
            assertTrue(task.totals().tokensShared() > 0, "documents are computed once");
            List<Tasks.Ranked> ranking = Tasks.rerank(engine, tokenizer, queries.get(1), DOCUMENTS, null);
            assertArrayEquals(task.order(1), ranking.stream().mapToInt(Tasks.Ranked::document).toArray());
            assertEquals(scores.row(1)[ranking.get(0).document()], ranking.get(0).score());
            assertThrows(IndexOutOfBoundsException.class, () -> scores.get(0, 3));
        }
    }

    @Test
    void embedAnswerClassify() throws Exception {
        Matrix vectors = Tasks.embed(engine, tokenizer, DOCUMENTS, Map.of("dimensions", 8));
        assertEquals(3, vectors.rows());
        assertEquals(8, vectors.columns());
        for (int row = 0; row < 3; row++) {
            double norm = 0;
            for (float x : vectors.row(row)) {
                norm += x * x;
            }
            assertEquals(1, norm, 1e-3);
        }
        Map<String, ?> few = Map.of("request", Map.of("max_tokens", 5));
        List<String> questions = List.of("What is baked?", "Where?");
        assertEquals(2, Tasks.answer(engine, tokenizer, DOCUMENTS.get(0), questions, few).size());
        Matrix classes = Tasks.classify(engine, tokenizer, DOCUMENTS, List.of("food", "town"), null);
        for (int row = 0; row < 3; row++) {
            assertEquals(1, classes.get(row, 0) + classes.get(row, 1), 1e-4);
        }
        assertEquals(0, Tasks.embed(engine, tokenizer, List.of(), null).rows());
    }

    @Test
    void aFailedItemIsNamed() throws Exception {
        List<String> mixed = List.of(DOCUMENTS.get(0), "long ".repeat(100), DOCUMENTS.get(2));
        Map<String, ?> options = Map.of("truncate", "off");
        TaskException e = assertThrows(TaskException.class, () -> Tasks.embed(engine, tokenizer, mixed, options));
        assertEquals(Status.PROMPT_TOO_LONG, e.status());
        assertTrue(e.getMessage().startsWith("item 1: "), e.getMessage());
        try (Task task = Task.embed(engine, tokenizer, mixed, options)) {
            task.run();
            assertArrayEquals(new Status[] {Status.OK, Status.PROMPT_TOO_LONG, Status.OK}, task.statuses());
            assertTrue(Float.isNaN(task.values().get(1, 0)));
            assertFalse(Float.isNaN(task.values().get(2, 0)));
        }
    }

    @Test
    void whatDidNotFailIsKept() throws Exception {
        String tooLong = "long ".repeat(100);
        List<String> mixed = List.of(DOCUMENTS.get(0), tooLong, DOCUMENTS.get(2), tooLong);
        List<String> good = List.of(DOCUMENTS.get(0), DOCUMENTS.get(2));
        Map<String, ?> options = Map.of("truncate", "off");

        TaskException ranked = assertThrows(
                TaskException.class, () -> Tasks.rerank(engine, tokenizer, "What is baked?", mixed, options));
        List<Tasks.Ranked> expected = Tasks.rerank(engine, tokenizer, "What is baked?", good, options).stream()
                .map(r -> new Tasks.Ranked(r.document() * 2, r.score()))
                .toList();
        assertEquals(expected, ranked.ranking());
        assertEquals(List.of(1, 3), List.copyOf(ranked.failures().keySet()));
        assertEquals(Status.PROMPT_TOO_LONG, ranked.failures().get(3).status());
        assertTrue(ranked.getMessage().endsWith(" (and 1 more failed)"), ranked.getMessage());
        assertThrows(IllegalStateException.class, ranked::values);
        assertThrows(IllegalStateException.class, ranked::answers);

        TaskException embedded =
                assertThrows(TaskException.class, () -> Tasks.embed(engine, tokenizer, mixed, options));
        assertArrayEquals(
                Tasks.embed(engine, tokenizer, good, options).row(1), embedded.values().row(2));
        assertTrue(Float.isNaN(embedded.values().get(1, 0)));
        assertThrows(IllegalStateException.class, embedded::ranking);

        TaskException classified = assertThrows(
                TaskException.class, () -> Tasks.classify(engine, tokenizer, mixed, List.of("food", "town"), options));
        assertEquals(1, classified.values().get(0, 0) + classified.values().get(0, 1), 1e-4);

        List<String> questions = List.of("What is baked?", tooLong);
        Map<String, ?> few = Map.of("truncate", "off", "request", Map.of("max_tokens", 5));
        TaskException answered = assertThrows(
                TaskException.class, () -> Tasks.answer(engine, tokenizer, DOCUMENTS.get(0), questions, few));
        String answer = Tasks.answer(engine, tokenizer, DOCUMENTS.get(0), questions.subList(0, 1), few).get(0);
        assertEquals(List.of(answer, ""), answered.answers());
    }

    @Test
    void resultsAreEqualWhenTheirNumbersAre() throws Exception {
        Matrix one = Tasks.embed(engine, tokenizer, DOCUMENTS, null);
        Matrix same = new Matrix(one.rows(), one.columns(), one.flat().clone());
        assertEquals(one, same);
        assertEquals(one.hashCode(), same.hashCode());
        assertEquals("Matrix[3 x " + one.columns() + "]", one.toString());
        same.flat()[5] += 1;
        assertNotEquals(one, same);
        assertNotEquals(new Matrix(2, 3, new float[6]), new Matrix(3, 2, new float[6]));
        assertEquals(new Matrix(1, 1, new float[] {Float.NaN}), new Matrix(1, 1, new float[] {Float.NaN}));

        Tokenizer.Encoding encoding = new Tokenizer.Encoding(new int[] {7}, new long[] {0, 2});
        assertEquals(encoding, new Tokenizer.Encoding(new int[] {7}, new long[] {0, 2}));
        assertEquals(encoding.hashCode(), new Tokenizer.Encoding(new int[] {7}, new long[] {0, 2}).hashCode());
        assertNotEquals(encoding, new Tokenizer.Encoding(new int[] {7}, new long[] {0, 3}));
        assertEquals("Encoding[tokens=[7], offsets=[0, 2]]", encoding.toString());
        Tokenizer.Conversation chat = new Tokenizer.Conversation(new int[] {7}, new long[] {1});
        assertEquals(chat, new Tokenizer.Conversation(new int[] {7}, new long[] {1}));
        assertEquals(chat.hashCode(), new Tokenizer.Conversation(new int[] {7}, new long[] {1}).hashCode());
        assertNotEquals(chat, new Tokenizer.Conversation(new int[] {8}, new long[] {1}));
        assertEquals("Conversation[tokens=[7], turns=[1]]", chat.toString());
    }

    @Test
    void aTaskCanBeCancelled() throws Exception {
        List<String> many = IntStream.range(0, 2000).mapToObj(i -> "Document " + i + " on trees.").toList();
        try (Task task = Task.rerank(engine, tokenizer, List.of("Trees?"), many, null)) {
            assertFalse(task.run(Duration.ZERO));
            CompletableFuture.delayedExecutor(10, TimeUnit.MILLISECONDS).execute(task::cancel);
            task.run();
            assertEquals(Status.CANCELLED, task.statuses()[1999]);
            assertEquals(
                    Status.CANCELLED, assertThrows(PrefixException.class, () -> task.text(1999)).status());
        }
        Thread runner = Thread.currentThread();
        CompletableFuture.delayedExecutor(10, TimeUnit.MILLISECONDS).execute(runner::interrupt);
        assertThrows(InterruptedException.class, () -> Tasks.rerank(engine, tokenizer, "Trees?", many, null));
    }

    @Test
    void anAnswerThatWasCancelledIsKeptSoFar() throws Exception {
        List<String> questions = IntStream.range(0, 300).mapToObj(i -> "What is " + i + "?").toList();
        Map<String, ?> many = Map.of("request", Map.of("max_tokens", 100, "ignore_eos", true));
        try (Task task = Task.answer(engine, tokenizer, DOCUMENTS.get(0), questions, many)) {
            while (engine.stats().steps() < 5) {
                assertFalse(task.run(Duration.ofMillis(1)));
            }
            task.cancel();
            task.run();
            PrefixException failed = assertThrows(PrefixException.class, () -> task.text(299));
            assertEquals(Status.CANCELLED, failed.status());
            assertTrue(IntStream.range(0, 300).anyMatch(i -> !task.textSoFar(i).isEmpty()));
        }
    }

    @Test
    void optionsAndRecipes() {
        PrefixException unknown = assertThrows(
                PrefixException.class, () -> Task.embed(engine, tokenizer, DOCUMENTS, Map.of("topn", 1)));
        assertEquals(Status.UNKNOWN_OPTION, unknown.status());
        PrefixException none = assertThrows(
                PrefixException.class, () -> Task.embed(engine, tokenizer, DOCUMENTS, Map.of("recipe", "none")));
        assertEquals(Status.NOT_FOUND, none.status());
        assertTrue(Prefix.recipes().contains("query-likelihood"));
        assertTrue(Prefix.recipeJson(Prefix.recipes().get(0)).contains(Prefix.recipes().get(0)));
    }
}
