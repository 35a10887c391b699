package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
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

    private Task ranking(List<String> documents) {
        Task task = Task.create(engine, tokenizer, "rerank", null);
        task.addProduct(List.of("Which tree?"), documents);
        return task;
    }

    /** A text with half a character is a bad one, and not the same as another with "?" there. */
    @Test
    void halfACharacterFailsAlone() throws Exception {
        try (Task task = Task.create(engine, tokenizer, "embed", null)) {
            task.add("a ?", "a \ud83d.", "b");
            task.run();
            PrefixException e = assertThrows(PrefixException.InvalidArgument.class, () -> task.values(1));
            assertEquals(Status.INVALID_UTF8, e.status());
            assertTrue(e.getMessage().contains("not UTF-8 from byte 2 on"), e.getMessage());
            assertTrue(task.values(0).length > 0 && task.values(2).length > 0);
        }
        try (Task task = Task.create(engine, tokenizer, "classify", null)) {
            PrefixException e = assertThrows(PrefixException.class, () -> task.setLabels(List.of("a", "\ude00")));
            assertEquals(Status.INVALID_UTF8, e.status());
        }
    }

    /** A task's prompts are tokens: to warm them before it, to find all of them after it, and to keep them. */
    @Test
    void rankedDocumentsAreFoundInTheCache() throws Exception {
        List<String> documents =
                IntStream.range(0, 13).mapToObj(i -> "Tree " + i + " is green.").toList();
        Cache cache = engine.cache();
        try (Task before = ranking(documents);
                Batch batch = engine.batch();
                Task task = ranking(documents)) {
            int[] warm = before.tokens(5);
            assertEquals(0, cache.lookup(warm).cachedTokens());
            batch.add(Request.warm(warm));
            engine.run(batch).close();
            task.run();
            int[][] prompts = IntStream.range(0, 13).mapToObj(task::tokens).toArray(int[][]::new);
            // Without the last token, which is only scored, but for the prompt that was warmed.
            int[] lengths = Arrays.stream(prompts).mapToInt(tokens -> tokens.length - 1).toArray();
            lengths[5]++;
            assertArrayEquals(lengths, cache.lookupMany(prompts));
            assertTrue(task.result(5).computedTokens() <= 12, "only the query, whose tokens are scored");
            try (Lease lease = cache.pin(prompts[7])) {
                assertEquals(lengths[7], lease.tokens());
                cache.evict();
                assertEquals(lengths[7], cache.lookup(prompts[7]).cachedTokens());
                assertTrue(cache.lookup(prompts[8]).cachedTokens() < lengths[8]);
            }
        }
    }

    @Test
    void inOneCall() throws Exception {
        Outcome<List<Ranked>> ranked = Tasks.rerank(engine, tokenizer, "What is baked?", DOCUMENTS, null);
        assertTrue(ranked.failures().isEmpty());
        List<Ranked> ranking = ranked.results();
        assertEquals(3, ranking.size());
        assertTrue(ranking.get(0).score() >= ranking.get(1).score() && ranking.get(1).score() >= ranking.get(2).score());
        assertEquals(
                ranking.subList(0, 1),
                Tasks.rerank(engine, tokenizer, "What is baked?", DOCUMENTS, Options.of("top_n", 1)).results());
        Matrix vectors =
                Tasks.embed(engine, tokenizer, DOCUMENTS, Options.of("dimensions", 8)).results();
        assertEquals(3, vectors.rows());
        assertEquals(8, vectors.columns());
        for (int row = 0; row < 3; row++) {
            double norm = 0;
            for (float x : vectors.row(row)) {
                norm += x * x;
            }
            assertEquals(1, norm, 1e-3);
        }
        assertThrows(IndexOutOfBoundsException.class, () -> vectors.get(0, 8));
        Matrix classes = Tasks.classify(engine, tokenizer, DOCUMENTS, List.of("food", "town"), null).results();
        for (int row = 0; row < 3; row++) {
            assertEquals(1, classes.get(row, 0) + classes.get(row, 1), 1e-4);
        }
        Options few = Options.of("max_tokens", 5).set("ignore_eos", true);
        List<String> questions = List.of("What is baked?", "Where?");
        assertEquals(2, Tasks.answer(engine, tokenizer, DOCUMENTS.get(0), questions, few).results().size());
        assertFalse(Tasks.generate(engine, tokenizer, DOCUMENTS, few).results().get(2).isEmpty());
        String message = Tasks.chat(engine, tokenizer, List.of(Message.user("Hello")), few);
        assertFalse(message.isEmpty());
        List<List<Message>> greetings = List.of(List.of(Message.user("Hello")), List.of(Message.user("Bye")));
        few.set("samples", 2);
        List<String> messages =
                Tasks.chats(engine, tokenizer, greetings, new ChatOptions(), few).results();
        assertEquals(4, messages.size());
        assertEquals(List.of(message, message), messages.subList(0, 2));
        assertEquals(messages.get(2), messages.get(3));
        PrefixException several = assertThrows(
                PrefixException.InvalidArgument.class, () -> Tasks.chat(engine, tokenizer, greetings.get(0), few));
        assertEquals("option samples is 2; chat gives one text, chats gives all", several.getMessage());
        assertEquals(0, Tasks.embed(engine, tokenizer, List.of(), null).results().rows());
    }

    /** One conversation for each thing that a template can be told, and what the one of the tests makes of it. */
    @Test
    void templatesAreToldWhatTheOptionsSay() throws Exception {
        String turn = "<|start|>user: Hi<|end|>";
        String next = "<|start|>assistant: ";
        Map<ChatOptions, String> told = new LinkedHashMap<>();
        told.put(new ChatOptions(), turn + next);
        told.put(new ChatOptions().addGenerationPrompt(false), turn);
        told.put(new ChatOptions().continueFinalMessage(), "<|start|>user: Hi");
        told.put(
                new ChatOptions().tools(List.of(Map.of("name", "go"), Map.of("name", "stop"))),
                "[go][stop]" + turn + next);
        told.put(new ChatOptions().documents(List.of(Map.of("text", "d"))), "(d)" + turn + next);
        told.put(new ChatOptions().variables(Map.of("enable_thinking", true)), turn + next + "<think>");
        told.put(
                new ChatOptions().variables(Map.of("dated", true)).now(LocalDateTime.of(2026, 1, 31, 23, 59, 59)),
                "2026-01-31 " + turn + next);
        told.put(new ChatOptions().template("short"), "Hi");
        List<Message> messages = List.of(Message.user("Hi"));
        Options few = Options.of("max_tokens", 8).set("ignore_eos", true);
        try (Task task = Task.create(engine, tokenizer, "chat", few)) {
            for (Map.Entry<ChatOptions, String> one : told.entrySet()) {
                assertEquals(one.getValue(), tokenizer.chatText(messages, one.getKey()));
                int item = task.addChat(messages, one.getKey());
                assertEquals(one.getValue(), tokenizer.decode(task.tokens(item)));
            }
            task.run();
            List<String> answers = new ArrayList<>();
            for (ChatOptions options : told.keySet()) {
                answers.add(Tasks.chat(engine, tokenizer, messages, options, few));
                assertEquals(task.text(answers.size() - 1), answers.get(answers.size() - 1));
            }
            assertEquals(8, answers.size());
            assertNotEquals(answers.get(0), answers.get(5), "what thinks says something else");
        }
    }

    @Test
    void aTemplateOptionThatIsWrongIsNamed() {
        Map<String, ChatOptions> wrong = Map.of(
                "\"none\"", new ChatOptions().template("none"),
                "tools[0]", new ChatOptions().tools(List.of("go")),
                "documents[0]", new ChatOptions().documents(List.of(1)),
                "not one of variables", new ChatOptions().variables(Map.of("tools", 1)),
                "continue_final_message", new ChatOptions().continueFinalMessage().addGenerationPrompt(true),
                "java.lang.Object", new ChatOptions().variables(Map.of("x", new Object())));
        List<Message> messages = List.of(Message.user("Hi"));
        wrong.forEach((named, options) -> {
            for (Executable call : List.<Executable>of(
                    () -> tokenizer.chatText(messages, options),
                    () -> Tasks.chat(engine, tokenizer, messages, options, null))) {
                String message = assertThrows(RuntimeException.class, call).getMessage();
                assertTrue(message.contains(named), message);
            }
        });
    }

    @Test
    void resultsComeWithTheirFailures() throws Exception {
        String tooLong = "long ".repeat(100);
        List<String> mixed = List.of(DOCUMENTS.get(0), tooLong, DOCUMENTS.get(2), tooLong);
        List<String> good = List.of(DOCUMENTS.get(0), DOCUMENTS.get(2));
        Options off = Options.of("truncate", "off");
        Outcome<List<Ranked>> ranked = Tasks.rerank(engine, tokenizer, "What is baked?", mixed, off);
        List<Ranked> expected = Tasks.rerank(engine, tokenizer, "What is baked?", good, off).results().stream()
                .map(r -> new Ranked(r.index() * 2, r.score()))
                .toList();
        assertEquals(expected, ranked.results());
        assertEquals(List.of(1, 3), List.copyOf(ranked.failures().keySet()));
        PrefixException failure = ranked.failures().get(3);
        assertEquals(Status.PROMPT_TOO_LONG, failure.status());
        assertEquals("item", failure.domain());
        assertFalse(failure.getMessage().isEmpty());

        Matrix vectors = Tasks.embed(engine, tokenizer, mixed, off).results();
        assertArrayEquals(Tasks.embed(engine, tokenizer, good, off).results().row(1), vectors.row(2));
        assertTrue(Float.isNaN(vectors.get(1, 0)));

        Options few = Options.of("truncate", "off").set("max_tokens", 5);
        Outcome<List<String>> answers =
                Tasks.answer(engine, tokenizer, DOCUMENTS.get(0), List.of("What is baked?", tooLong), few);
        assertEquals("", answers.results().get(1));
        assertEquals(1, answers.failures().size());

        // It is an exception when nothing succeeded.
        PrefixException none = assertThrows(
                PrefixException.class, () -> Tasks.embed(engine, tokenizer, List.of(tooLong, tooLong), off));
        assertEquals(Status.PROMPT_TOO_LONG, none.status());
        assertThrows(
                PrefixException.class,
                () -> Tasks.chat(engine, tokenizer, List.of(Message.user(tooLong)), Options.of("max_tokens", 5)));
    }

    @Test
    void pairsProductsAndTags() throws Exception {
        List<String> queries = List.of("Which city?", "What is baked?");
        try (Task task = Task.create(engine, tokenizer, "rerank", null)) {
            assertEquals(
                    Status.MISUSE, assertThrows(PrefixException.class, task::values).status());
            assertEquals(0, task.tag(7).addProduct(queries, DOCUMENTS));
            assertEquals(6, task.tag(8).add(queries.get(1), DOCUMENTS.get(0), queries.get(0), DOCUMENTS.get(2)));
            assertEquals(
                    Status.INVALID_ARGUMENT,
                    assertThrows(PrefixException.class, () -> task.add("one text")).status());
            assertEquals(8, task.size());
            assertEquals(0, task.finishedCount());
            int[] tokens = task.tokens(4);
            task.run();
            assertEquals(task.result(4).promptTokens(), tokens.length);
            assertArrayEquals(tokens, task.tokens(4));
            assertEquals(8, task.finishedCount());
            Matrix scores = task.values();
            assertEquals(8, scores.rows());
            assertEquals(1, scores.columns());
            // The same query and document have the same score, wherever they stand.
            assertEquals(scores.get(3, 0), scores.get(6, 0));
            assertEquals(scores.get(2, 0), scores.get(7, 0));
            for (int item = 0; item < 8; item++) {
                Result result = task.result(item);
                assertEquals(item < 6 ? 7 : 8, result.tag());
                assertEquals(Status.OK, result.status());
                assertFalse(result.cut());
                assertTrue(result.promptTokens() > 0);
                assertArrayEquals(scores.row(item), task.values(item));
            }
            assertTrue(Arrays.stream(task.statuses()).allMatch(status -> status == Status.OK));
            assertTrue(task.firstFailure().isEmpty());
            assertTrue(task.totals().tokensShared() > 0, "documents are computed once");
            List<Ranked> ranking = task.ranking(3, 3);
            assertEquals(3, ranking.size());
            for (Ranked ranked : ranking) {
                assertEquals(scores.get(3 + ranked.index(), 0), ranked.score());
            }
            assertEquals(
                    Status.OUT_OF_RANGE,
                    assertThrows(PrefixException.class, () -> task.ranking(6, 3)).status());
            for (Executable negative : List.<Executable>of(
                    () -> task.ranking(0, -1), () -> task.ranking(-1, 1), () -> task.partialText(-1))) {
                PrefixException e = assertThrows(PrefixException.class, negative);
                assertEquals(Status.OUT_OF_RANGE, e.status());
                assertTrue(e.getMessage().endsWith(" is -1; at least 0"), e.getMessage());
            }
            assertEquals(
                    Status.MISUSE,
                    assertThrows(PrefixException.class, () -> task.add("late", "late")).status());
        }
    }

    @Test
    void labels() throws Exception {
        try (Task task = Task.create(engine, tokenizer, "classify", null)) {
            task.add(DOCUMENTS);
            assertEquals(
                    Status.INVALID_ARGUMENT,
                    assertThrows(PrefixException.class, task::submit).status());
            task.setLabels(List.of("one")).setLabels(List.of("food", "town", "")).run();
            Matrix classes = task.values();
            assertEquals(3, classes.columns());
            for (int row = 0; row < 3; row++) {
                float[] values = classes.row(row);
                assertEquals(1, values[0] + values[1] + values[2], 1e-4);
                List<Ranked> ranking = task.ranking(3 * row, 3);
                assertEquals(Math.max(values[0], Math.max(values[1], values[2])), ranking.get(0).score());
            }
        }
    }

    private static Options writing() {
        return Options.of("max_tokens", 40).set("ignore_eos", true).set("stream", true);
    }

    @Test
    void piecesAddUpToTheText() throws Exception {
        try (Task task = Task.create(engine, tokenizer, "generate", writing())) {
            task.tag(5).add(DOCUMENTS);
            task.submit();
            String[] texts = {"", "", ""};
            List<Event> events = task.events()
                    .peek(event -> {
                        texts[event.request()] += event.text();
                        assertEquals(5, event.tag());
                        if (event.kind() == Event.Kind.FINISHED) {
                            assertEquals(task.text(event.request()), texts[event.request()]);
                        } else {
                            assertEquals(Event.Kind.TEXT, event.kind());
                        }
                    })
                    .toList();
            assertTrue(events.size() >= 6, events.toString());
            assertEquals(3, events.stream().filter(e -> e.kind() == Event.Kind.FINISHED).count());
            assertEquals(0, task.events().count(), "events come once");
        }
    }

    @Test
    void stopTexts() throws Exception {
        Options options = Options.of("max_tokens", 40).set("ignore_eos", true);
        List<String> prompts = DOCUMENTS.subList(0, 1);
        String whole = Tasks.generate(engine, tokenizer, prompts, options).results().get(0);
        String stop = whole.substring(2, 4);
        options.set("stop", List.of("no such text", stop));
        String ended = Tasks.generate(engine, tokenizer, prompts, options).results().get(0);
        assertEquals(whole.substring(0, whole.indexOf(stop)).strip(), ended);
        options.set("stop", new String[] {"z"});
        assertEquals("[\"z\"]", options.get("stop"));
        assertEquals("[]", options.set("stop", List.of()).get("stop"));
        assertEquals("1,2", options.set("stop_tokens", List.of(1, 2)).get("stop_tokens"));
        assertEquals("", options.set("stop_tokens", new int[0]).get("stop_tokens"));
    }

    private static List<String> many(int count) {
        return IntStream.range(0, count).mapToObj(i -> "Document " + i + " on trees.").toList();
    }

    @Test
    void cancelKeepsWhatIsFinished() throws Exception {
        try (Task task = Task.create(engine, tokenizer, "rerank", Options.of("chunk_tokens", 256))) {
            task.addProduct(List.of("Trees?"), many(500));
            task.submit();
            assertTrue(task.nextEvent(Duration.ofSeconds(60)).isPresent());
            task.cancel();
            task.await();
            List<Ranked> ranking = task.ranking(0, 500);
            assertTrue(!ranking.isEmpty() && ranking.size() < 500, ranking.size() + " are ranked");
            Matrix scores = task.values();
            Status[] statuses = task.statuses();
            for (int item = 0; item < 500; item++) {
                assertEquals(Float.isNaN(scores.get(item, 0)) ? Status.CANCELLED : Status.OK, statuses[item]);
            }
            int failed = task.firstFailure().getAsInt();
            assertEquals(
                    Status.CANCELLED,
                    assertThrows(PrefixException.class, () -> task.values(failed)).status());
        }
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> Tasks.rerank(engine, tokenizer, "Trees?", many(500), null));
        try (Task task = Task.create(engine, tokenizer, "generate", writing())) {
            task.add(many(50));
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, task::run);
            task.await(); // it was cancelled
            assertEquals(Status.CANCELLED, task.statuses()[49]);
        }
    }

    @Test
    void textsThatWereBegunAreKept() throws Exception {
        Options options = writing().set("max_tokens", 100);
        try (Task task = Task.create(engine, tokenizer, "generate", options)) {
            task.add(many(50));
            task.submit();
            while (task.nextEvent(Duration.ofSeconds(60)).orElseThrow().kind() != Event.Kind.TEXT) {}
            task.cancel();
            assertTrue(task.await(Duration.ofSeconds(60)));
            PrefixException failed = assertThrows(PrefixException.class, () -> task.text(49));
            assertEquals(Status.CANCELLED, failed.status());
            assertTrue(IntStream.range(0, 50).anyMatch(i -> !task.partialText(i).isEmpty()));
        }
    }

    @Test
    void deadline() throws Exception {
        Options options = Options.of("max_tokens", 200).set("ignore_eos", true).set("deadline_ms", 1);
        try (Task task = Task.create(engine, tokenizer, "generate", options)) {
            task.add(many(300));
            task.run();
            Result result = task.result(task.firstFailure().getAsInt());
            assertEquals(Status.DEADLINE, result.status());
            assertTrue(result.message().contains("deadline_ms"), result.message());
        }
    }

    /** As Python's error.partial and what Go's Chat gives beside its error. */
    @Test
    void whatADeadlineCutOffComesWithTheFailure() throws Exception {
        String whole = Tasks.generate(engine, tokenizer, List.of("once"), writing().set("max_tokens", 200)).results().get(0);
        int count = 400;
        for (int deadline = 1; ; ) {
            assertTrue(count < 10_000, "no deadline cut a text");
            List<String> prompts = new ArrayList<>(many(count));
            prompts.set(0, "once");
            Options options = writing().set("max_tokens", 200).set("deadline_ms", deadline);
            try {
                Tasks.generate(engine, tokenizer, prompts, options);
                count *= 2; // some were done in time
            } catch (PrefixException.Deadline e) {
                assertEquals(count, e.partialTexts().size());
                assertTrue(whole.startsWith(e.partialTexts().get(0)), e.partialTexts().get(0));
                if (!e.partialTexts().get(0).isEmpty()) {
                    break;
                }
                deadline *= 2; // it was not begun
            }
        }
        List<Message> tooLong = List.of(Message.user("long ".repeat(200)));
        PrefixException e = assertThrows(PrefixException.class, () -> Tasks.chat(engine, tokenizer, tooLong, null));
        assertEquals(List.of(""), e.partialTexts());
        List<String> bad = List.of("\ud83d");
        e = assertThrows(PrefixException.class, () -> Tasks.embed(engine, tokenizer, bad, null));
        assertEquals(List.of(), e.partialTexts());
    }

    @Test
    void aCutPromptIsTold() throws Exception {
        try (Task task = Task.create(engine, tokenizer, "embed", Options.of("max_prompt_tokens", 20))) {
            task.add("short", "long ".repeat(100));
            task.run();
            assertFalse(task.result(0).cut());
            assertTrue(task.result(1).cut());
        }
    }

    @Test
    void manyTasksHaveOneThreadThatWaits() throws Exception {
        List<Task> tasks = new ArrayList<>();
        List<CompletableFuture<Task>> futures = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            Task task = Task.create(engine, tokenizer, "generate", writing());
            tasks.add(task);
            task.add(DOCUMENTS.get(i % 3));
            futures.add(task.whenDone()); // before it begins
            task.submit();
        }
        long waiters = Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("prefix-waiter"))
                .count();
        assertEquals(1, waiters);
        for (int i = 0; i < 200; i++) {
            assertSame(tasks.get(i), futures.get(i).get(60, TimeUnit.SECONDS));
            assertFalse(tasks.get(i).text(0).isEmpty());
            tasks.get(i).close();
        }
    }

    @Test
    void aFutureThatIsCancelledCancelsTheTask() throws Exception {
        try (Task task = Task.create(engine, tokenizer, "generate", writing().set("max_tokens", 200))) {
            task.add(many(300));
            task.submit();
            assertTrue(task.whenDone().cancel(true));
            task.await();
            assertEquals(Status.CANCELLED, task.statuses()[299]);
            assertSame(task, task.whenDone().get(60, TimeUnit.SECONDS), "it is done already");
        }
    }

    private Status refusal(String kind, Options options) {
        return assertThrows(PrefixException.class, () -> Task.create(engine, tokenizer, kind, options)).status();
    }

    @Test
    void optionsAndRecipes() {
        assertEquals(
                Status.UNKNOWN_OPTION,
                assertThrows(PrefixException.class, () -> Options.of("topn", 1)).status());
        assertEquals(Status.INVALID_ARGUMENT, refusal("embed", Options.of("max_tokens", 1)));
        assertEquals(Status.INVALID_ARGUMENT, refusal("embed", Options.of("stream", true)));
        assertEquals(Status.INVALID_ARGUMENT, refusal("rerank", Options.of("stop", List.of("."))));
        assertEquals(Status.INVALID_ARGUMENT, refusal("ranking", null));
        assertEquals(Status.NOT_FOUND, refusal("embed", Options.of("recipe", "none")));
        assertTrue(Prefix.recipes().contains("query-likelihood"));
        assertTrue(Prefix.recipeJson(Prefix.recipes().get(0)).contains(Prefix.recipes().get(0)));
    }

    @Test
    void aClosedTask() throws Exception {
        Task task = Task.create(engine, tokenizer, "generate", writing().set("max_tokens", 200));
        task.add(many(100));
        task.submit();
        CompletableFuture<Task> future = task.whenDone();
        task.close();
        task.close();
        assertSame(task, future.get(60, TimeUnit.SECONDS));
        List<Executable> calls = List.of(
                task::values, () -> task.add("x"), task::size, task::submit, task::run, task::cancel,
                () -> task.setLabels(DOCUMENTS), () -> task.text(0), () -> task.events().toList());
        for (Executable call : calls) {
            assertEquals(
                    "the task is closed",
                    assertThrows(IllegalStateException.class, call).getMessage());
        }
    }

    @Test
    void aMatrixHasNoRowBehindTheLast() {
        Matrix matrix = new Matrix(2, 3, new float[] {1, 2, 3, 4, 5, 6});
        assertArrayEquals(new float[] {4, 5, 6}, matrix.row(1));
        assertEquals(6, matrix.get(1, 2));
        for (int row : new int[] {2, 3, 1 << 30, Integer.MAX_VALUE, -1}) {
            assertThrows(IndexOutOfBoundsException.class, () -> matrix.get(row, 0), "row " + row);
            String told = assertThrows(IndexOutOfBoundsException.class, () -> matrix.row(row), "row " + row).getMessage();
            assertEquals("there are 2 rows, and no " + row, told);
        }
    }

    @Test
    void resultsAreEqualWhenTheirNumbersAre() throws Exception {
        Matrix one = Tasks.embed(engine, tokenizer, DOCUMENTS, null).results();
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
    void textsAreOfASchemaAnExpressionOrAGrammar() throws Exception {
        assertTrue(text(new Options().regex("[ab]{4}")).matches("[ab]{4}"));
        assertEquals("yes", text(new Options().grammar("start: \"yes\"")));
        assertEquals("\"only\"", text(new Options().jsonSchema("{\"enum\": [\"only\"]}")));
        PrefixException e = assertThrows(
                PrefixException.class, () -> text(new Options().jsonSchema("{\"type\": \"thing\"}")));
        assertEquals(Status.INVALID_ARGUMENT, e.status());
    }

    private String text(Options rules) throws InterruptedException {
        List<String> prompts = List.of("one");
        String text = Tasks.generate(engine, tokenizer, prompts, rules.maxTokens(8)).results().get(0);
        return text.replaceAll("\\x02+$", ""); // ends texts of the model, and is a character for the tokenizer
    }

    @Test
    void theTokensOfATextHaveLogProbabilities() throws Exception {
        for (int likely : new int[] {0, 2}) {
            Options options =
                    new Options().maxTokens(100).ignoreEos(true).logprobs(true).topLogprobs(likely);
            try (Task task = Task.create(engine, tokenizer, "generate", options);
                    Batch batch = engine.batch()) {
                task.add("one");
                task.run();
                batch.add(Request.generate(task.tokens(0)).options(options));
                List<TextToken> tokens = task.logprobs(0);
                assertEquals(100, tokens.size());
                try (Job job = engine.run(batch)) {
                    for (int i = 0; i < 100; i++) {
                        assertEquals(job.tokens(0)[i], tokens.get(i).token());
                        assertEquals(job.logprobs(0)[i], tokens.get(i).logprob());
                        assertEquals(likely == 0 ? List.of() : job.top(0).get(i), tokens.get(i).top());
                        assertTrue(tokens.get(i).offset() <= task.text(0).length());
                    }
                }
                assertEquals(tokens.subList(97, 100), task.logprobs(0, 97));
                assertEquals(List.of(), task.logprobs(0, 100));
                PrefixException e = assertThrows(PrefixException.class, () -> task.logprobs(0, 101));
                assertEquals(Status.OUT_OF_RANGE, e.status());
            }
        }
    }
}
