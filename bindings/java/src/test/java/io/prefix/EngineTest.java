package io.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.ResourceBundle;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class EngineTest {
    private static Status statusOf(Executable call) {
        return assertThrows(PrefixException.class, call).status();
    }

    @Test
    void theLibraryTellsAboutItself() {
        assertTrue(Prefix.abiVersion() >= 1);
        assertEquals(3, Prefix.version().split("\\.").length);
        assertEquals(3, Prefix.textVersion().split("\\.").length);
        assertTrue(Prefix.buildInfo().contains(Prefix.version()));
        assertTrue(Prefix.features().contains("cpu"));
        assertTrue(Prefix.hasFeature("cpu"));
        assertFalse(Prefix.hasFeature(""));
        List<Device> devices = Prefix.devices();
        assertTrue(Prefix.hasFeature(devices.get(0).level()), devices.toString());
        for (Device device : devices) {
            boolean first = device == devices.get(0);
            assertEquals(first ? "cpu" : "cuda", device.kind());
            assertEquals(first, device.chosen());
            assertEquals(device.available(), device.reason().isEmpty(), device.toString());
        }
    }

    @Test
    void enginesShareAPool() {
        Options options = Options.of("cache_bytes", "16M");
        try (Pool pool = new Pool(Options.of("threads", 2))) {
            options.setPool(pool);
        }
        try (Engine first = Engine.open(Support.LLAMA, options);
                Engine second = Engine.open(Support.LLAMA, options)) {
            assertTrue(first.infoJson().contains("\"pool\":true"), first.infoJson());
            assertTrue(second.infoJson().contains("\"pool\":true"), second.infoJson());
        }
        options.set("threads", 2);
        assertThrows(PrefixException.class, () -> Engine.open(Support.LLAMA, options));
        Engine.open(Support.LLAMA, options.setPool(null)).close();
        assertThrows(PrefixException.class, () -> new Pool(Options.of("dtype", "f32")));
    }

    @Test
    void optionsAreListedAndChecked() {
        Options none = new Options();
        for (OptionInfo info : Prefix.optionInfos()) {
            assertFalse(info.doc().isEmpty() || info.type() == OptionInfo.Type.UNKNOWN, info.toString());
            assertEquals(info.defaultValue(), none.get(info.key()), info.key());
        }
        OptionInfo dtype = Prefix.optionInfos().stream().filter(i -> i.key().equals("dtype")).findFirst().orElseThrow();
        assertEquals(OptionInfo.Scope.ENGINE, dtype.scope());
        assertTrue(dtype.values().contains("f32"));

        Options options = Options.of(Map.of("max_tokens", 7L, "temperature", 0.5, "logprobs", true));
        options.set("stop_tokens", new int[] {4, 5}).setJson("{\"seed\": 9}");
        assertEquals("7", options.get("max_tokens"));
        assertEquals("0.5", options.get("temperature"));
        assertEquals("true", options.get("logprobs"));
        assertEquals("4,5", options.get("stop_tokens"));
        assertEquals("9", options.get("seed"));
        assertEquals("6,7", options.set("stop_tokens", List.of(6, 7)).get("stop_tokens"));
        assertEquals("[\".\"]", options.set("stop", ".").get("stop"));
        assertEquals("[\"[1]\"]", options.set("stop", "[1]").get("stop"));
        PrefixException unknown = assertThrows(PrefixException.class, () -> options.set("max_token", 7));
        assertEquals(Status.UNKNOWN_OPTION, unknown.status());
        assertTrue(unknown.getMessage().contains("max_tokens"));
        assertEquals(Status.OUT_OF_RANGE, statusOf(() -> options.set("max_tokens", -7)));
        assertEquals(Status.INVALID_ARGUMENT, statusOf(() -> options.set("max_tokens", "many")));
        options.close();
        assertThrows(IllegalStateException.class, () -> options.get("seed"));
    }

    @Test
    void everyOptionHasAMethod() {
        Options options = new Options()
                .threads(3)
                .temperature(0.5)
                .cache(false)
                .deadline(Duration.ofMillis(1500))
                .stopTokens(2, 7)
                .namespace("\u00e9t\u00e9")
                .stop("a", "\u00e9");
        Map<String, String> wanted = Map.of(
                "threads", "3",
                "temperature", "0.5",
                "cache", "false",
                "deadline_ms", "1500",
                "stop_tokens", "2,7",
                "namespace", "\u00e9t\u00e9",
                "stop", "[\"a\",\"\u00e9\"]");
        wanted.forEach((key, value) -> assertEquals(value, options.get(key)));
        assertEquals(Status.OUT_OF_RANGE, statusOf(() -> options.threads(-1)));
        List<String> methods = Arrays.stream(Options.class.getMethods())
                .map(method -> method.getName().toLowerCase(Locale.ROOT))
                .toList();
        for (OptionInfo info : Prefix.optionInfos()) {
            String name = info.key().replaceAll("_ms$", "").replace("_", "");
            assertTrue(methods.contains(name), info.key() + ": tools/option_methods writes it");
        }
    }

    @Test
    void aTimeIsNeverTakenForNone() {
        for (Duration past : List.of(Duration.ofNanos(-1), Duration.ofSeconds(Long.MIN_VALUE))) {
            assertEquals(-1, Job.millis(past), "what has passed of a wait is subtracted from it");
        }
        Map.of(
                        Duration.ZERO, "0",
                        Duration.ofNanos(1), "1",
                        Duration.ofNanos(999_999), "1",
                        Duration.ofNanos(2_500_000), "2")
                .forEach((time, millis) -> {
                    assertEquals(millis, new Options().deadline(time).get("deadline_ms"));
                    assertEquals(millis, new Options().cacheTtl(time).get("cache_ttl_ms"));
                });
        for (Duration time : List.of(Duration.ofNanos(-1), Duration.ofSeconds(Long.MAX_VALUE))) {
            assertEquals(Status.OUT_OF_RANGE, statusOf(() -> new Options().deadline(time)));
        }
    }

    @Test
    void optionsMayBeUsedWhileAModelLoads() throws Exception {
        Options options = Support.exact();
        synchronized (options) { // as a setter of another thread does
            CompletableFuture.supplyAsync(() -> Engine.open(Support.LLAMA, options))
                    .get(60, TimeUnit.SECONDS)
                    .close();
        }
    }

    @Test
    void optionsMayBeClosedWhileAModelLoads() throws Exception {
        for (int i = 0; i < 50; i++) {
            Options options = Support.exact();
            CompletableFuture<Void> closing = CompletableFuture.runAsync(options::close);
            try {
                Engine.open(Support.LLAMA, options).close();
            } catch (IllegalStateException e) {
                // It was closed before.
            } catch (PrefixException e) {
                assertEquals(Status.MISUSE, e.status());
            }
            closing.get(60, TimeUnit.SECONDS);
        }
    }

    @Test
    void failuresSayWhat() {
        PrefixException e =
                assertThrows(PrefixException.class, () -> Engine.open(Path.of("/nowhere/at all \ud83d\ude00")));
        assertEquals(Status.NOT_FOUND, e.status());
        assertEquals(300, e.code());
        assertEquals("prefix_engine_create", e.domain());
        assertTrue(e.getMessage().contains("/nowhere/at all \ud83d\ude00"), e.getMessage());
        assertTrue(Status.QUEUE_FULL.isRetryable());
        assertFalse(Status.FORMAT.isRetryable());
        assertEquals(Status.UNKNOWN, PrefixException.of(31415, "", "").status());
    }

    @Test
    void failuresThatProgramsTellApartHaveClasses() {
        PrefixException.NotFound missing =
                assertThrows(PrefixException.NotFound.class, () -> Engine.open(Path.of("/nowhere")));
        assertThrows(PrefixException.NotFound.class, () -> Tokenizer.open(Path.of("/nowhere")));
        assertThrows(PrefixException.InvalidArgument.class, () -> Options.of("thread", 3));
        assertInstanceOf(NoSuchFileException.class, missing.toIOException());
        assertSame(missing, missing.toIOException().getCause());
        assertEquals(missing.getMessage(), missing.toIOException().getMessage());
        Map<Status, Class<?>> classes = Map.ofEntries(
                Map.entry(Status.INVALID_ARGUMENT, PrefixException.InvalidArgument.class),
                Map.entry(Status.INVALID_UTF8, PrefixException.InvalidArgument.class),
                Map.entry(Status.UNKNOWN_OPTION, PrefixException.InvalidArgument.class),
                Map.entry(Status.OUT_OF_RANGE, PrefixException.InvalidArgument.class),
                Map.entry(Status.PROMPT_TOO_LONG, PrefixException.InvalidArgument.class),
                Map.entry(Status.MISUSE, PrefixException.Misuse.class),
                Map.entry(Status.FORKED, PrefixException.Misuse.class),
                Map.entry(Status.NOT_FOUND, PrefixException.NotFound.class),
                Map.entry(Status.FORMAT, PrefixException.Model.class),
                Map.entry(Status.UNSUPPORTED_MODEL, PrefixException.Model.class),
                Map.entry(Status.UNSUPPORTED_DEVICE, PrefixException.Model.class),
                Map.entry(Status.OUT_OF_MEMORY, PrefixException.OutOfMemory.class),
                Map.entry(Status.OUT_OF_DEVICE_MEMORY, PrefixException.OutOfMemory.class),
                Map.entry(Status.CACHE_FULL, PrefixException.OutOfMemory.class),
                Map.entry(Status.DEADLINE, PrefixException.Deadline.class),
                Map.entry(Status.CANCELLED, PrefixException.Cancelled.class));
        for (Status status : Status.values()) {
            PrefixException e = PrefixException.of(status.code(), "here", "why");
            assertEquals(classes.getOrDefault(status, PrefixException.class), e.getClass(), status.name());
            assertEquals(status, e.status());
            assertEquals("why", e.getMessage());
            boolean missingFile = e.toIOException() instanceof NoSuchFileException;
            assertEquals(status == Status.NOT_FOUND, missingFile);
        }
    }

    @Test
    void aLoadTellsHowFarItIs() throws Exception {
        List<Double> seen = new ArrayList<>();
        Engine.open(Support.LLAMA, null, seen::add).close();
        assertEquals(1.0, seen.get(seen.size() - 1));
        assertEquals(seen.stream().sorted().toList(), seen);
        assertThrows(
                IllegalStateException.class,
                () -> Engine.open(Support.LLAMA, null, fraction -> {
                    throw new IllegalStateException("enough");
                }));
        assertEquals(Status.NOT_FOUND, statusOf(() -> Engine.open(Path.of("/nowhere"), null, fraction -> {})));
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> Engine.open(Support.LLAMA, null, fraction -> {}));
    }

    @Test
    void aLoadCanBeAwaited() throws Exception {
        try (Engine engine = Engine.openAsync(Support.LLAMA, null).get()) {
            assertEquals(Engine.State.READY, engine.state());
        }
        ExecutionException failed = assertThrows(
                ExecutionException.class,
                () -> Engine.openAsync(Path.of("/nowhere"), null).get());
        assertEquals(Status.NOT_FOUND, ((PrefixException) failed.getCause()).status());
        Engine.openAsync(Support.LLAMA, null).cancel(true);
    }

    @Test
    void anEngineTellsAboutItself() throws Exception {
        assertTrue(Engine.modelInfoJson(Support.LLAMA).contains("\"layers\":2"));
        Memory memory = Engine.estimate(Support.LLAMA, null);
        assertTrue(memory.weightBytes() > 0 && memory.totalBytes() >= memory.weightBytes(), memory.toString());
        try (Engine engine = Support.open();
                Batch batch = engine.batch()) {
            assertEquals(Engine.State.READY, engine.state());
            assertTrue(engine.infoJson().contains("\"layers\":2"), engine.infoJson());
            EngineStats before = engine.stats();
            assertTrue(before.weightBytes() > 0 && before.pageTokens() > 0 && !before.load().isZero(), before.toString());
            batch.add(Request.logits(new int[] {1, 2}, 3));
            engine.run(batch).close();
            assertEquals(1, engine.stats().requestsFinished());
            assertEquals(2, engine.stats().tokensComputed());
            assertTrue(engine.metrics().contains("prefix_"));
        }
    }

    @Test
    void useAfterCloseIsAClearError() throws Exception {
        Engine engine = Support.open();
        Batch batch = engine.batch();
        batch.add(Request.logits(new int[] {1}, 3));
        Job job = engine.run(batch);
        String[] files = Support.byteTokenizer(128);
        Tokenizer tokenizer = Tokenizer.fromJson(files[0], files[1]);
        Detokenizer detokenizer = tokenizer.detokenizer();
        for (AutoCloseable closeable : List.of(engine, batch, job, tokenizer, detokenizer)) {
            closeable.close();
            closeable.close();
        }
        List<Executable> calls = List.of(
                engine::stats, () -> engine.run(batch), engine::batch, () -> engine.cache().lookup(1),
                () -> engine.shutdown(Duration.ZERO), batch::clear, batch::planJson,
                () -> batch.add(Request.embedding(1)), job::allValues, job::await, job::cancel, () -> job.result(0),
                () -> job.events().toList(), () -> tokenizer.encode("a"), tokenizer::detokenizer,
                () -> detokenizer.push(1), () -> Task.create(engine, tokenizer, "embed", null));
        for (Executable call : calls) {
            String message = assertThrows(IllegalStateException.class, call).getMessage();
            assertTrue(message.matches("the \\w+ is closed"), message);
        }
        Throwable cause = assertThrows(ExecutionException.class, () -> job.whenDone().get()).getCause();
        assertTrue(cause instanceof IllegalStateException, cause.toString());
        assertEquals(Engine.State.CLOSED, engine.state());
    }

    @Test
    void closingTheEngineFirstIsFine() throws Exception {
        Support.Golden golden = new Support.Golden();
        Engine engine = Support.open();
        try (Batch batch = golden.batch(engine);
                Job job = engine.run(batch)) {
            engine.close();
            assertEquals(List.of(), golden.differences(job));
        }
    }

    @Test
    void shutdownEndsWhatRuns() throws Exception {
        Engine engine = Support.open();
        try (Batch batch = Support.generations(engine, 500);
                Job job = engine.submit(batch)) {
            engine.shutdown(Duration.ofMillis(10));
            engine.shutdown(Duration.ZERO);
            job.await();
            assertEquals(Status.CANCELLED, job.result(499).status());
            assertTrue(job.partialTokens(499).length < 200);
            assertEquals(Status.CANCELLED, statusOf(() -> job.tokens(499)));
            assertEquals(Status.MISUSE, statusOf(() -> engine.run(batch)));
            EngineStats stats = engine.stats();
            assertEquals(500, stats.requestsFinished() + stats.requestsFailed());
            assertTrue(engine.info().layers() > 0 && !engine.metrics().isEmpty());
        }
    }

    @Test
    void anInterruptEndsAShutdown() throws Exception {
        Engine engine = Support.open();
        try (Batch batch = Support.generations(engine, 2000);
                Job job = engine.submit(batch)) {
            Thread caller = Thread.currentThread();
            CompletableFuture<Void> interrupter = CompletableFuture.runAsync(() -> {
                while (engine.state() == Engine.State.READY) {
                    Thread.onSpinWait();
                }
                caller.interrupt();
            });
            assertThrows(InterruptedException.class, () -> engine.shutdown(Duration.ofDays(1)));
            interrupter.join();
            assertEquals(Engine.State.CLOSED, engine.state());
            assertEquals(Status.CANCELLED, job.result(1999).status());
        } finally {
            Thread.interrupted();
            engine.close();
        }
        assertThrows(IllegalStateException.class, () -> engine.shutdown(Duration.ofDays(1)));
    }

    @Test
    void halfACharacterIsNoName() throws Exception {
        try (Engine engine = Support.open()) {
            for (String bad : List.of("tenant\ud83d", "tenant\ude00", "tenant\ude00\ud83d")) {
                for (Executable call : List.<Executable>of(
                        () -> engine.namespace(bad), () -> engine.namespaceOf("a", bad), () -> Options.of("namespace", bad),
                        () -> Options.of("stop", List.of(bad)))) {
                    assertEquals(Status.INVALID_UTF8, statusOf(call));
                }
            }
            assertEquals(1, engine.namespaceCount());
            assertEquals(1, engine.namespace("tenant\ud83d\ude00"));
        }
    }

    @Test
    void namespacesAndCache() throws Exception {
        try (Engine engine = Support.open();
                Batch batch = engine.batch()) {
            int[] prompt = IntStream.range(0, 100).toArray();
            int tenant = engine.namespace("tenant");
            assertEquals(tenant, engine.findNamespace("tenant"));
            assertEquals(0, engine.namespace(""));
            assertEquals(Status.NOT_FOUND, statusOf(() -> engine.findNamespace("nobody")));
            assertEquals(2, engine.namespaceCount());
            batch.add(Request.embedding(prompt).options(Options.of("namespace", "tenant")));
            engine.run(batch).close();
            assertTrue(engine.cache(tenant).lookup(prompt).cachedTokens() >= 64);
            assertEquals(0, engine.cache().lookup(prompt).cachedTokens());
            assertTrue(JsonReader.read(engine.cache().treeJson()) instanceof Map);
            assertTrue(engine.dropNamespace(tenant) >= 64);
            assertEquals(0, engine.closeNamespace(tenant));
            assertEquals(1, engine.namespaceCount());
            assertEquals(Status.NOT_FOUND, statusOf(() -> engine.closeNamespace(tenant)));
            batch.add(Request.embedding(prompt));
            engine.run(batch).close();
            assertTrue(engine.cache().trim(0) >= 64);
            assertEquals(0, engine.cache().lookup(prompt).cachedTokens());
        }
    }

    @Test
    void messagesGoToALogger() {
        record Entry(System.Logger.Level level, String text) {}
        List<Entry> seen = new ArrayList<>();
        System.Logger logger = new System.Logger() {
            @Override
            public String getName() {
                return "test";
            }

            @Override
            public boolean isLoggable(Level level) {
                return true;
            }

            @Override
            public void log(Level level, ResourceBundle bundle, String text, Throwable thrown) {
                seen.add(new Entry(level, text));
            }

            @Override
            public void log(Level level, ResourceBundle bundle, String format, Object... parameters) {
                seen.add(new Entry(level, format));
            }
        };
        Prefix.setLogLevel(System.Logger.Level.DEBUG);
        try (LogForwarder forwarder = Prefix.forwardLog(logger)) {
            Support.open().close();
        } finally {
            Prefix.setLogLevel(System.Logger.Level.WARNING);
        }
        assertFalse(seen.isEmpty());
        assertTrue(Prefix.nextLog().isEmpty());
    }
}
