package io.prefix.spark;

import io.prefix.Engine;
import io.prefix.Options;
import io.prefix.Pool;
import io.prefix.Tokenizer;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.network.util.JavaUtils;

/**
 * The engines of this process: one for each model and its options, whatever number of tasks uses it, so that an executor
 * holds a model and its cache once. All of them have one set of threads and one budget of bytes for keys and values.
 *
 * <p>An engine stays when its last task has ended, since the next one is likely to want it; it goes when another one
 * needs its share of the budget. One that broke is loaded again for the next task, such as the one that Spark tries again.
 */
public final class Engines {
    /** What all engines of a process have together. */
    record Limits(int threads, String cpus, long cacheBytes) {}

    /** What makes two tasks use the same engine. */
    record Key(String model, Map<String, String> options) {}

    /** A model that is loaded, for as long as the lease is open. */
    static final class Lease implements AutoCloseable {
        private final Loaded loaded;
        private boolean open = true;

        private Lease(Loaded loaded) {
            this.loaded = loaded;
        }

        Engine engine() {
            return loaded.engine;
        }

        Tokenizer tokenizer() {
            return loaded.tokenizer;
        }

        @Override
        public void close() {
            synchronized (loaded.of) {
                loaded.leases -= open ? 1 : 0;
                open = false;
            }
        }
    }

    private static final class Loaded {
        final Engines of;
        final long cacheBytes;
        final Engine engine;
        final Tokenizer tokenizer;
        int leases;

        Loaded(Engines of, long cacheBytes, Engine engine, Tokenizer tokenizer) {
            this.of = of;
            this.cacheBytes = cacheBytes;
            this.engine = engine;
            this.tokenizer = tokenizer;
        }

        void close() {
            engine.close();
            tokenizer.close();
        }
    }

    private static final String SHARE = "cache_bytes";

    private static Engines ofProcess;

    private final Limits limits;
    private final Pool pool;
    /** Those used last are last. */
    private final Map<Key, Loaded> loaded = new LinkedHashMap<>(16, 0.75f, true);

    Engines(Limits limits) {
        this.limits = limits;
        Options threads = Options.of("threads", limits.threads());
        if (!limits.cpus().isEmpty()) {
            threads.set("cpus", limits.cpus());
        }
        pool = new Pool(threads);
    }

    /** Those of this process; the first caller says their limits. */
    static synchronized Engines ofProcess(Limits limits) {
        if (ofProcess == null) {
            ofProcess = new Engines(limits);
        }
        return ofProcess;
    }

    /**
     * Counts what the engines of this process have computed.
     *
     * @return tokens, of engines that are loaded
     */
    public static long tokensComputed() {
        Engines engines;
        synchronized (Engines.class) {
            engines = ofProcess;
        }
        if (engines == null) {
            return 0;
        }
        synchronized (engines) {
            return engines.loaded.values().stream()
                    .mapToLong(l -> l.engine.stats().tokensComputed())
                    .sum();
        }
    }

    /**
     * The engine of a model, which is loaded by the first one who asks. Others wait meanwhile, for other models too:
     * what a model takes is known when it is there.
     *
     * @param model a folder or a .gguf file
     * @param options of the engine; cache_bytes is its share of the budget, which is all that idle engines leave unless
     *     it is set
     * @return a lease of it; close it when done
     * @throws IllegalStateException when engines that are in use leave no such share
     */
    synchronized Lease lease(String model, Map<String, String> options) {
        Key key = new Key(model, Map.copyOf(options));
        Loaded engine = loaded.get(key);
        if (engine != null && engine.engine.state() != Engine.State.READY) {
            loaded.remove(key).close(); // it computes nothing more, also for those who still hold it
            engine = null;
        }
        if (engine == null) {
            engine = load(model, options);
            loaded.put(key, engine);
        }
        engine.leases++;
        return new Lease(engine);
    }

    private Loaded load(String model, Map<String, String> settings) {
        Options options = Options.of(settings);
        long asked = settings.containsKey(SHARE) ? JavaUtils.byteStringAsBytes(settings.get(SHARE)) : 0;
        long left = makeRoom(asked > 0 ? asked : limits.cacheBytes());
        if (left < Math.max(asked, 1)) {
            throw new IllegalStateException("an engine with " + SHARE + " = " + (asked > 0 ? asked : "what is left")
                    + " does not fit the " + limits.cacheBytes() + " bytes of this process (spark.prefix.cacheBytes), "
                    + "of which engines in use have " + (limits.cacheBytes() - left));
        }
        long share = asked > 0 ? asked : left;
        options.set(SHARE, share).setPool(pool);
        Engine engine = Engine.open(Path.of(model), options);
        try {
            return new Loaded(this, share, engine, Tokenizer.open(Path.of(model)));
        } catch (RuntimeException e) {
            engine.close();
            throw e;
        }
    }

    /** Closes idle engines, those used longest ago first, until so many bytes are left; returns what is left. */
    private long makeRoom(long bytes) {
        long left = limits.cacheBytes()
                - loaded.values().stream().mapToLong(l -> l.cacheBytes).sum();
        Iterator<Loaded> oldest = loaded.values().iterator();
        while (left < bytes && oldest.hasNext()) {
            Loaded engine = oldest.next();
            if (engine.leases == 0) {
                oldest.remove();
                left += engine.cacheBytes;
                engine.close();
            }
        }
        return left;
    }
}
