package io.prefix.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.prefix.Engine;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** One engine for each model and options, within one budget. */
class EnginesTest {
    @TempDir
    static Path folder;

    private static String model;

    @BeforeAll
    static void make() throws Exception {
        Support.model(folder);
        model = folder.toString();
    }

    private static Map<String, String> options(String cacheBytes) {
        return Map.of("isa", "scalar", "dtype", "f32", "cache_bytes", cacheBytes);
    }

    @Test
    void thoseWhoAskForTheSameShareIt() {
        Engines engines = new Engines(new Engines.Limits(1, "", 64 << 20));
        try (Engines.Lease one = engines.lease(model, options("8M"));
                Engines.Lease two = engines.lease(model, options("8M"));
                Engines.Lease other = engines.lease(model, options("16M"))) {
            assertSame(one.engine(), two.engine());
            assertSame(one.tokenizer(), two.tokenizer());
            assertNotSame(one.engine(), other.engine());
            assertTrue(one.engine().infoJson().contains("\"pool\":true"), one.engine().infoJson());
            assertEquals(8 << 20, one.engine().stats().kvBudgetBytes());
        }
        Engine kept;
        try (Engines.Lease again = engines.lease(model, options("8M"))) {
            kept = again.engine();
        }
        assertEquals(Engine.State.READY, kept.state(), "it stays for the next task");
    }

    @Test
    void idleOnesMakeRoomAndOthersDoNot() {
        Engines engines = new Engines(new Engines.Limits(1, "", 32 << 20));
        Engines.Lease busy = engines.lease(model, options("16M"));
        Engines.Lease idle = engines.lease(model, options("8M"));
        Engine gone = idle.engine();
        idle.close();
        idle.close(); // counts once
        try (Engines.Lease third = engines.lease(model, options("12M"))) {
            assertEquals(Engine.State.CLOSED, gone.state());
            assertEquals(Engine.State.READY, third.engine().state());
            var refused = assertThrows(IllegalStateException.class, () -> engines.lease(model, options("20M")));
            assertTrue(refused.getMessage().contains(String.valueOf(20 << 20)), refused.getMessage());
            assertTrue(refused.getMessage().contains(String.valueOf(28 << 20)), refused.getMessage());
        }
        assertEquals(Engine.State.READY, busy.engine().state());
        busy.close();
        // Without a wish it gets all that there is.
        try (Engines.Lease all = engines.lease(model, Map.of("isa", "scalar", "dtype", "f32"))) {
            assertEquals(32 << 20, all.engine().stats().kvBudgetBytes());
            assertEquals(Engine.State.CLOSED, busy.engine().state());
            assertThrows(IllegalStateException.class, () -> engines.lease(model, options("8M")));
        }
    }

    @Test
    void oneThatComputesNothingMoreIsLoadedAgain() throws Exception {
        Engines engines = new Engines(new Engines.Limits(1, "", 32 << 20));
        try (Engines.Lease broken = engines.lease(model, options("20M"))) {
            broken.engine().shutdown(Duration.ZERO);
            try (Engines.Lease again = engines.lease(model, options("20M"))) {
                assertEquals(Engine.State.READY, again.engine().state());
            }
        }
        try (Engines.Lease other = engines.lease(model, options("30M"))) { // nobody holds the first two any more
            assertEquals(Engine.State.READY, other.engine().state());
        }
    }

    @Test
    void limitsAreThoseOfTheApplication() {
        SparkConf conf = new SparkConf(false);
        assertEquals(new Engines.Limits(0, "", 1L << 30), TableTask.limits(conf));
        conf.set("spark.executor.cores", "3");
        assertEquals(3, TableTask.limits(conf).threads());
        conf.set("spark.prefix.threads", "2").set("spark.prefix.cacheBytes", "64m");
        assertEquals(new Engines.Limits(2, "", 64 << 20), TableTask.limits(conf));
        conf.set("spark.prefix.cpus", "0");
        assertEquals(new Engines.Limits(0, "0", 64 << 20), TableTask.limits(conf));
    }
}
