package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** The cache from outside: pins, limits, eviction, events, snapshots, namespaces of several parts. */
class CacheTest {
    private static Engine open(String key, Object value) {
        return Engine.open(Support.LLAMA, Support.exact().set(key, value));
    }

    private static int[] prompt(int count) {
        return IntStream.range(0, count).map(i -> i * 3 % 131).toArray();
    }

    private static Status statusOf(Executable call) {
        return assertThrows(PrefixException.class, call).status();
    }

    private static void warm(Engine engine, int... tokens) throws Exception {
        try (Batch batch = engine.batch()) {
            batch.add(Request.warm(tokens));
            try (Job job = engine.run(batch)) {
                assertEquals(0, job.values(0).length);
            }
        }
    }

    /** Values, whose bits are compared, and how many tokens were cached. */
    private record Logits(float[] values, long cached) {
        static Logits of(Engine engine, int... tokens) throws Exception {
            try (Batch batch = engine.batch()) {
                batch.add(Request.logits(tokens, 1, 2, 3));
                try (Job job = engine.run(batch)) {
                    return new Logits(job.values(0), job.result(0).cachedTokens());
                }
            }
        }
    }

    @Test
    void warmedPromptsHaveTheSameBits() throws Exception {
        try (Engine engine = Support.open();
                Engine other = Support.open();
                Batch batch = engine.batch()) {
            batch.add(Request.warm(IntBuffer.wrap(prompt(50))));
            engine.run(batch).close();
            Logits warm = Logits.of(engine, prompt(50));
            assertTrue(warm.cached >= 49);
            assertArrayEquals(Logits.of(other, prompt(50)).values, warm.values, 0);
            int[][] prompts = {prompt(50), {}, prompt(20), prompt(80), {9, 9}};
            assertArrayEquals(new int[] {50, 0, 20, 50, 0}, engine.cache().lookupMany(prompts));
            assertEquals(0, engine.cache().lookupMany().length);
            assertEquals(Status.NOT_FOUND, statusOf(() -> engine.cache(7).lookupMany(prompts)));
        }
    }

    @Test
    void leasesKeepTheirPrefix() throws Exception {
        try (Engine engine = Support.open()) {
            Cache cache = engine.cache();
            assertEquals(Status.NOT_FOUND, statusOf(() -> cache.pin(prompt(50))));
            warm(engine, prompt(50));
            assertEquals(Status.OUT_OF_RANGE, statusOf(() -> cache.pin(prompt(50), Duration.ZERO)));
            Lease second;
            try (Lease first = cache.pin(prompt(50))) {
                second = cache.pin(prompt(50), Duration.ofHours(1));
                assertEquals(50, first.tokens());
            }
            assertEquals(0, cache.trim(0), "the second one still holds");
            second.close();
            second.close();
            assertEquals(50, cache.trim(0));

            warm(engine, prompt(50));
            Lease brief = cache.pin(prompt(50), Duration.ofNanos(1));
            long freed = 0;
            for (long end = System.nanoTime() + 60_000_000_000L; freed == 0 && System.nanoTime() < end; ) {
                freed = cache.trim(0);
            }
            assertEquals(50, freed, "it ends by itself");
            brief.close();
        }
    }

    @Test
    void leasesMayOutliveTheirEngine() throws Exception {
        Engine engine = Support.open();
        warm(engine, prompt(50));
        Lease late = engine.cache().pin(prompt(50));
        Lease later = engine.cache().pin(prompt(50));
        engine.shutdown(Duration.ZERO);
        late.close();
        engine.close();
        later.close();
    }

    /** One that somebody keeps does not keep an engine that nobody has. */
    @Test
    void leasesDoNotKeepTheirEngine() throws Exception {
        List<Lease> leases = new ArrayList<>();
        WeakReference<Engine> gone = forget(leases);
        for (long end = System.nanoTime() + 60_000_000_000L; gone.get() != null && System.nanoTime() < end; ) {
            System.gc();
        }
        assertNull(gone.get());
        leases.get(0).close();
        leases.get(0).close();
    }

    private static WeakReference<Engine> forget(List<Lease> leases) throws Exception {
        Engine engine = Support.open();
        warm(engine, prompt(50));
        leases.add(engine.cache().pin(prompt(50)));
        return new WeakReference<>(engine);
    }

    @Test
    void usageLimitsAndEviction() throws Exception {
        try (Engine engine = Support.open()) {
            Cache cache = engine.cache();
            warm(engine, prompt(50));
            long token = cache.usage().bytes() / 50;
            assertEquals(new CacheUsage(50, 50 * token, 0, 0), cache.usage());
            cache.setLimits(token, 60 * token);
            assertEquals(new CacheUsage(50, 50 * token, token, 60 * token), cache.usage());
            for (long[] bad : new long[][] {{0, 1}, {2 * token, token}, {-1, 0}, {0, -1}}) {
                assertEquals(Status.OUT_OF_RANGE, statusOf(() -> cache.setLimits(bad[0], bad[1])));
            }
            cache.setLimits(0, 0);
            assertEquals(30, cache.evict(prompt(20)));
            assertEquals(20, cache.lookup(prompt(50)).cachedTokens());
            assertEquals(20, cache.evict());
            for (Executable call : List.<Executable>of(
                    () -> engine.cache(5).usage(), () -> engine.cache(-1).evict(), () -> engine.cache(5).setLimits(0, 0))) {
                assertEquals(Status.NOT_FOUND, statusOf(call));
            }
        }
    }

    /** No tokens are a whole namespace to some, which a forgotten array does not mean. */
    @Test
    void nullIsNotNoTokens(@TempDir Path folder) throws Exception {
        try (Engine engine = Support.open()) {
            Cache cache = engine.cache();
            warm(engine, prompt(50));
            int[] forgotten = null;
            Path path = folder.resolve("null.snapshot");
            for (Executable call : List.<Executable>of(
                    () -> cache.evict(forgotten), () -> cache.lookup(forgotten), () -> cache.pin(forgotten),
                    () -> engine.saveSnapshot(path, forgotten), () -> Request.logits(forgotten, 1),
                    () -> Request.logprobs(forgotten, 1), () -> Request.choices(forgotten, prompt(1)),
                    () -> Request.continuations(forgotten, prompt(1)), () -> Request.embedding(forgotten),
                    () -> Request.generate(forgotten), () -> Request.warm(forgotten))) {
                assertThrows(NullPointerException.class, call);
            }
            assertEquals(50, cache.lookup(prompt(50)).cachedTokens());
            assertFalse(Files.exists(path));
        }
    }

    @Test
    void theTreeAsJson() throws Exception {
        try (Engine engine = Support.open()) {
            warm(engine, prompt(50));
            assertTrue(engine.cache().treeJson().startsWith("{\"tokens\":50,"));
        }
    }

    @Test
    void eventsTellWhatComesAndGoes() throws Exception {
        try (Engine engine = open("cache_events", 4)) {
            CacheEvents events = engine.cache().events(0);
            assertTrue(events.poll().isEmpty());
            warm(engine, prompt(70));
            List<CacheEvent> stored = events.stream().toList();
            assertEquals(2, stored.size());
            for (int i = 0; i < 2; i++) {
                CacheEvent event = stored.get(i);
                assertEquals(CacheEvent.Kind.STORED, event.kind());
                assertEquals(stored.get(0).sequence() + i, event.sequence());
                assertEquals(32 * i, event.position());
                assertEquals(i == 0 ? 0 : stored.get(0).block(), event.parent());
                assertArrayEquals(Arrays.copyOfRange(prompt(70), 32 * i, 32 * i + 32), event.tokens());
                assertEquals(0, event.lost() + event.namespace());
            }
            CacheDump dump = engine.cache().dump();
            assertEquals(3, dump.jsonLines().lines().count());
            assertEquals(events.next(), dump.next());
            engine.cache().trim(0);
            List<CacheEvent> gone = engine.cache().events(dump.next()).stream().toList();
            assertEquals(
                    List.of(CacheEvent.Kind.REMOVED, CacheEvent.Kind.REMOVED, CacheEvent.Kind.CLEARED),
                    gone.stream().map(CacheEvent::kind).toList());
            assertEquals(stored.get(1).block(), gone.get(0).block());
            assertEquals(0, gone.get(0).tokens().length);
            // Only the last four are kept, and this reader has seen the first two.
            warm(engine, prompt(32 * 7));
            assertEquals(3 + 7 - 4, events.poll().orElseThrow().lost());
            assertEquals(3, events.stream().count());
            CacheEvent oldest = engine.cache().events(0).poll().orElseThrow(); // a dump of an empty cache says 0 too
            assertEquals(2 + 3 + 7 - 4, oldest.lost());
        }
    }

    @Test
    void eventsOfLargeBlocksAndWithoutTheirOption() throws Exception {
        Options large = Support.exact().set("cache_events", 4).set("cache_event_tokens", 96);
        try (Engine engine = Engine.open(Support.LLAMA, large)) {
            warm(engine, prompt(100));
            assertArrayEquals(prompt(96), engine.cache().events(0).poll().orElseThrow().tokens());
        }
        try (Engine engine = Support.open()) {
            assertEquals(Status.MISUSE, statusOf(() -> engine.cache().events(0).poll()));
            assertEquals(Status.MISUSE, statusOf(() -> engine.cache().dump()));
        }
    }

    @Test
    void aSnapshotStartsALaterEngineWarm(@TempDir Path folder) throws Exception {
        Path path = folder.resolve("cache");
        Logits cold;
        SnapshotInfo saved;
        try (Engine engine = Support.open()) {
            cold = Logits.of(engine, prompt(100));
            saved = engine.saveSnapshot(path);
            assertTrue(saved.tokens() >= 96 && saved.namespaces() == 1, saved.toString());
            assertEquals(Files.size(path), saved.bytes());
        }
        try (Engine engine = Support.open()) {
            SnapshotInfo loaded = engine.loadSnapshot(path);
            assertEquals(saved.tokens(), loaded.tokens());
            assertEquals(0, loaded.skippedTokens());
            Logits warm = Logits.of(engine, prompt(100));
            assertTrue(warm.cached >= 96);
            assertArrayEquals(cold.values, warm.values, 0);
            assertEquals(0, engine.saveSnapshot(folder.resolve("empty"), engine.namespace("empty")).tokens());
            assertEquals(Status.NOT_FOUND, statusOf(() -> engine.saveSnapshot(path, 99)));
            assertEquals(Status.NOT_FOUND, statusOf(() -> engine.loadSnapshot(folder.resolve("none"))));
            assertEquals(Status.INVALID_ARGUMENT, statusOf(() -> engine.loadSnapshot(Path.of(""))));
            assertEquals(Status.IO, statusOf(() -> engine.saveSnapshot(folder.resolve("no/such/folder"))));
            Path bad = Files.writeString(folder.resolve("bad"), "no snapshot");
            assertEquals(Status.FORMAT, statusOf(() -> engine.loadSnapshot(bad)));
        }
        try (Engine other = open("dtype", "bf16")) {
            assertEquals(Status.INCOMPATIBLE_SNAPSHOT, statusOf(() -> other.loadSnapshot(path)));
        }
    }

    @Test
    void namespacesOfSeveralParts() throws Exception {
        try (Engine engine = open("require_salt", true);
                Batch batch = engine.batch()) {
            int tenant = engine.namespaceOf("salt", "adapter");
            assertEquals(tenant, engine.namespaceOf("salt", "adapter"));
            assertNotEquals(tenant, engine.namespaceOf("salta", "dapter"));
            assertNotEquals(0, engine.namespaceOf("", ""));
            assertEquals(0, engine.namespaceOf());
            batch.add(Request.warm(prompt(40)).options(Options.of("namespace_id", tenant)));
            batch.add(Request.warm(prompt(40)));
            try (Job job = engine.run(batch)) {
                assertEquals(Status.OK, job.result(0).status());
                assertEquals(Status.INVALID_ARGUMENT, job.result(1).status(), "no salt");
            }
            assertEquals(40, engine.cache(tenant).usage().tokens());
        }
    }

    private static Result ask(Engine engine, Options options) throws Exception {
        try (Batch batch = engine.batch()) {
            batch.add(Request.generate(1, 2, 3, 4).options(options.set("max_tokens", 8).set("ignore_eos", true)));
            try (Job job = engine.run(batch)) {
                return job.result(0);
            }
        }
    }

    @Test
    void resultsSayWhyTokensWereComputed() throws Exception {
        try (Engine engine = Support.open()) {
            Result first = ask(engine, new Options());
            assertTrue(first.missFirstSeen() == 4 && first.computedTokens() == 4, first.toString());
            assertEquals(0, first.draftTokens());
            Result again = ask(engine, Options.of("draft_tokens", 8));
            assertTrue(again.missGranularity() == 1 && again.computedTokens() == 1, again.toString());
            // The answer is in the cache.
            assertTrue(again.draftTokens() > 0 && again.draftTokensAccepted() == again.draftTokens(), again.toString());
            Result elsewhere = ask(engine, Options.of("namespace", "of nobody else"));
            assertTrue(elsewhere.missNamespace() == 4 && elsewhere.computedTokens() == 4, elsewhere.toString());
            engine.cache().evict();
            Result evicted = ask(engine, new Options());
            assertTrue(evicted.missEvicted() == 4 && evicted.computedTokens() == 4, evicted.toString());
            assertEquals(0, evicted.missBudget() + evicted.missState());
        }
    }

    @Test
    void statsSayWhyTokensWereComputed() throws Exception {
        try (Engine engine = Support.open()) {
            warm(engine, prompt(40));
            engine.cache().evict();
            warm(engine, prompt(40));
            EngineStats stats = engine.stats();
            assertEquals(80, stats.missFirstSeen() + stats.missEvicted(), stats.toString());
            assertTrue(stats.missEvicted() >= 32 && stats.metadataBytes() > 0, stats.toString());
            assertTrue(engine.metrics().contains("miss"));
        }
    }

    @Test
    void aClosedEngineHasNoCache() {
        Engine engine = open("cache_events", 4);
        Cache cache = engine.cache();
        CacheEvents events = cache.events(0);
        engine.close();
        for (Executable call : List.<Executable>of(
                () -> cache.pin(1), cache::lookupMany, cache::usage, cache::evict, () -> cache.setLimits(0, 0),
                cache::treeJson, events::poll, cache::dump, () -> engine.saveSnapshot(Path.of("never")),
                () -> engine.loadSnapshot(Path.of("never")), () -> engine.namespaceOf("a", "b"))) {
            assertEquals("the engine is closed", assertThrows(IllegalStateException.class, call).getMessage());
        }
    }
}
