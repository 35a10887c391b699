package io.prefix;

import static io.prefix.Buffers.utf8;
import static java.util.Objects.requireNonNull;

import io.prefix.internal.Layout;
import io.prefix.internal.Native;
import io.prefix.internal.Struct;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.DoubleConsumer;
import java.util.function.LongUnaryOperator;

/**
 * One model with its cache and scheduler. Any thread may use it; runs of several threads share steps and prefixes.
 */
public final class Engine extends Owned {
    private static final int SLICE_MILLIS = 100;

    private volatile int hidden = -1;

    private Engine(long raw) {
        super(raw, "engine", Native::prefix_engine_release);
    }

    /**
     * Loads a model.
     *
     * @param path a Hugging Face directory or a .gguf file
     * @return the engine; close it when done
     */
    public static Engine open(Path path) {
        return open(path, null);
    }

    /**
     * Loads a model.
     *
     * @param path a Hugging Face directory or a .gguf file
     * @param options of the engine; may be null
     * @return the engine; close it when done
     */
    public static Engine open(Path path, Options options) {
        return new Engine(with(options, raw -> Native.prefix_engine_create(utf8(path.toString()), raw)));
    }

    /**
     * Loads a model, telling how far it is.
     *
     * @param path a Hugging Face directory or a .gguf file
     * @param options of the engine; may be null
     * @param progress takes how much is loaded, in [0, 1], several times a second and at the end; what it throws ends
     *     the load and comes out here
     * @return the engine; close it when done
     * @throws InterruptedException when this thread is interrupted, which ends the load
     */
    public static Engine open(Path path, Options options, DoubleConsumer progress) throws InterruptedException {
        Engine engine = start(path, options);
        try {
            double[] fraction = new double[1];
            long answer;
            do {
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
                answer = engine.call(raw -> Native.prefix_engine_wait(raw, SLICE_MILLIS, fraction));
                progress.accept(fraction[0]);
            } while (answer < 0);
            return engine;
        } catch (InterruptedException | RuntimeException | Error e) {
            engine.close(); // ends the load
            throw e;
        }
    }

    /**
     * Starts to load a model.
     *
     * @param path a Hugging Face directory or a .gguf file
     * @param options of the engine; may be null
     * @return completed with the engine; cancelling the future, or ending it by orTimeout, ends the load
     */
    public static CompletableFuture<Engine> openAsync(Path path, Options options) {
        return Waiter.load(start(path, options));
    }

    /**
     * Loads a model from memory.
     *
     * @param source its files
     * @param options of the engine; may be null
     * @return the engine; close it when done
     */
    public static Engine open(Source source, Options options) {
        Engine engine = start(source, options);
        try {
            engine.call(raw -> Native.prefix_engine_wait(raw, -1, null));
            engine.keep(null);
            return engine;
        } catch (RuntimeException e) {
            engine.close();
            throw e;
        }
    }

    /**
     * Starts to load a model from memory.
     *
     * @param source its files, which may be closed at once
     * @param options of the engine; may be null
     * @return completed with the engine; cancelling the future, or ending it by orTimeout, ends the load
     */
    public static CompletableFuture<Engine> openAsync(Source source, Options options) {
        return Waiter.load(start(source, options));
    }

    private static Engine start(Source source, Options options) {
        List<ByteBuffer> files = source.kept();
        Engine engine =
                new Engine(with(options, raw -> source.call(from -> Native.prefix_engine_open_source(from, raw))));
        engine.keep(files); // until it is open
        return engine;
    }

    /** An engine that is loading. */
    private static Engine start(Path path, Options options) {
        return new Engine(with(options, raw -> Native.prefix_engine_open(utf8(path.toString()), raw)));
    }

    /** Lets the queue have the tag when the load has ended. */
    void tell(long queue, long tag) {
        call(raw -> Native.prefix_engine_notify(raw, queue, tag));
    }

    /** Throws how the load failed that has ended. */
    void requireReady() {
        call(raw -> Native.prefix_engine_wait(raw, 0, null));
        keep(null);
    }

    /**
     * Says what a model holds, from the headers of its files alone: architecture, sizes, groups of tensors.
     *
     * @param path as for {@link #open}
     * @return JSON
     */
    public static String modelInfoJson(Path path) {
        byte[] name = utf8(path.toString());
        return Buffers.text(2048, buffer -> Native.prefix_model_info_json(name, buffer));
    }

    /**
     * Says what an engine would take, from the headers of the files alone.
     *
     * @param path as for {@link #open}
     * @param options as for {@link #open}
     * @return its memory
     */
    public static Memory estimate(Path path, Options options) {
        Struct raw = new Struct(Layout.MEMORY_SIZE);
        with(options, o -> Native.prefix_engine_estimate(utf8(path.toString()), o, raw.bytes));
        return new Memory(
                raw.getLong(Layout.MEMORY_WEIGHT_BYTES),
                raw.getLong(Layout.MEMORY_KV_BYTES_PER_TOKEN),
                raw.getLong(Layout.MEMORY_KV_BUDGET_BYTES),
                raw.getLong(Layout.MEMORY_ACTIVATION_BYTES),
                raw.getLong(Layout.MEMORY_TOTAL_BYTES));
    }

    /** Runs a function with the handle of options that may be null. */
    static long with(Options options, LongUnaryOperator function) {
        return options == null ? function.applyAsLong(0) : options.call(function);
    }

    /** How an engine does, in the order of the C interface. */
    public enum State {
        /** Its model is being loaded. */
        LOADING,
        /** It takes requests. */
        READY,
        /** It finishes what it has. */
        DRAINING,
        /** It was shut down or closed. */
        CLOSED,
        /** It broke; open a new one. */
        FAILED,
        /** Of a newer library. */
        UNKNOWN
    }

    /**
     * How the engine does.
     *
     * @return CLOSED after close() too
     */
    public State state() {
        try {
            return Buffers.pick(State.values(), Native.prefix_engine_state(rawOrZero()));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Describes the model, the options in force and the device.
     *
     * @return JSON
     */
    public String infoJson() {
        return Buffers.text(1024, buffer -> call(raw -> Native.prefix_engine_info_json(raw, buffer)));
    }

    /**
     * What is often asked of that.
     *
     * @return numbers
     */
    public EngineInfo info() {
        Struct info = new Struct(Layout.ENGINE_INFO_SIZE);
        call(raw -> Native.prefix_engine_get_info(raw, info.bytes));
        return EngineInfo.of(info);
    }

    /**
     * Those after which the model's own files end a generation; option ignore_eos.
     *
     * @return tokens
     */
    public int[] endTokens() {
        return Buffers.ints(8, buffer -> call(raw -> Native.prefix_engine_end_tokens(raw, buffer)));
    }

    /**
     * The counters of {@link #stats()} for Prometheus.
     *
     * @return its text format
     */
    public String metrics() {
        return Buffers.text(16384, buffer -> call(raw -> Native.prefix_metrics_text(raw, buffer)));
    }

    /**
     * Reads the counters.
     *
     * @return all of them, as they are now
     */
    public EngineStats stats() {
        Struct stats = new Struct(Layout.ENGINE_STATS_SIZE);
        call(raw -> Native.prefix_engine_get_stats(raw, stats.bytes));
        return EngineStats.of(stats);
    }

    /**
     * Takes no more requests, waits for those that run, cancels what then still runs, and frees model and cache.
     * What would compute afterwards, or use the cache, fails with MISUSE; stats, info and metrics can still be read until
     * the engine is closed.
     *
     * @param timeout the longest time to wait
     * @throws InterruptedException when this thread is interrupted while it waits; what still ran has been cancelled then,
     *     and the engine is shut down
     */
    public void shutdown(Duration timeout) throws InterruptedException {
        long millis = Math.max(0, Job.millis(timeout));
        if (millis == 0) {
            end(0);
            return;
        }
        // Slices would cancel at the end of the first one, so another thread waits for all of the time.
        FutureTask<Long> waiting = new FutureTask<>(() -> end(millis));
        Thread thread = new Thread(waiting, "prefix-shutdown");
        thread.setDaemon(true);
        thread.start();
        try {
            waiting.get();
        } catch (InterruptedException e) {
            end(0); // which ends the other one too
            throw e;
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RuntimeException failure ? failure : new IllegalStateException(e.getCause());
        }
    }

    private long end(long millis) {
        return call(raw -> Native.prefix_engine_shutdown(raw, millis));
    }

    /**
     * Makes an empty batch.
     *
     * @return the batch; close it when done
     */
    public Batch batch() {
        try {
            return new Batch(raw(), this);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Computes a batch and waits for it. A request that fails does not fail the run: its failure comes with its
     * result. The batch may be used again afterwards.
     *
     * @param batch the requests
     * @return the finished job; close it when done
     * @throws InterruptedException when this thread is interrupted; the job has been cancelled then
     */
    public Job run(Batch batch) throws InterruptedException {
        Job job = submit(batch);
        try {
            job.await();
            return job;
        } catch (InterruptedException | RuntimeException e) {
            job.close(); // cancels it
            throw e;
        }
    }

    /**
     * Starts a batch and returns at once.
     *
     * @param batch the requests
     * @return the running job; close it when done
     */
    public Job submit(Batch batch) {
        return batch.submit(this);
    }

    /**
     * Starts a batch.
     *
     * @param batch the requests
     * @return completed with the finished job; cancelling the future, or ending it by orTimeout, closes the job
     */
    public CompletableFuture<Job> runAsync(Batch batch) {
        Job job = submit(batch);
        return Waiter.own(job, job::tell, Job::close);
    }

    /**
     * The cache of the namespace "", which requests use when they name none.
     *
     * @return a view, which needs no close
     */
    public Cache cache() {
        return new Cache(this, 0);
    }

    /**
     * The cache of a namespace.
     *
     * @param namespace see {@link #namespace}; 0 is the empty one
     * @return a view, which needs no close
     */
    public Cache cache(int namespace) {
        return new Cache(this, namespace);
    }

    /**
     * Saves what these namespaces have in the cache, so that a later process starts warm. The engine goes on
     * meanwhile, and the file appears when it is complete.
     *
     * @param path of the file
     * @param namespaces their numbers; none for all
     * @return what was saved
     * @throws PrefixException NOT_FOUND for a namespace that is not open, IO, INVALID_ARGUMENT when a folder, a device
     *     or a pipe has that name, MISUSE when another save to the same path runs or the engine shares nothing
     */
    public SnapshotInfo saveSnapshot(Path path, int... namespaces) {
        requireNonNull(namespaces, "namespaces"); // not all of them
        Struct info = new Struct(Layout.SNAPSHOT_INFO_SIZE);
        call(raw -> Native.prefix_snapshot_save(raw, utf8(path.toString()), namespaces, info.bytes));
        return SnapshotInfo.of(info);
    }

    /**
     * Loads a snapshot beside what is in the cache, without evicting anything: it begins with what was used last, and
     * ends when the cache is full. Every page is checked; what is damaged is left out.
     *
     * @param path of the file
     * @return what was loaded
     * @throws PrefixException NOT_FOUND, IO, FORMAT for a damaged file, INCOMPATIBLE_SNAPSHOT for one of another model,
     *     number type, device or instruction-set level; nothing is loaded then
     */
    public SnapshotInfo loadSnapshot(Path path) {
        Struct info = new Struct(Layout.SNAPSHOT_INFO_SIZE);
        call(raw -> Native.prefix_snapshot_load(raw, utf8(path.toString()), info.bytes));
        return SnapshotInfo.of(info);
    }

    /**
     * Gives a namespace, and makes it when it is new. Nothing is shared across namespaces: a tenant, an adapter, a
     * salt. Requests name theirs with the option "namespace", or by number with "namespace_id".
     *
     * @param name "" is always there with number 0
     * @return its number
     */
    public int namespace(String name) {
        return (int) call(raw -> Native.prefix_namespace_open(raw, utf8(name)));
    }

    /**
     * Gives the namespace of several parts (a tenant's salt, an adapter, the epoch of its weights), and makes it when it
     * is new. They are compared one by one. With option require_salt, an engine refuses requests in namespaces whose
     * first part is empty.
     *
     * @param parts one is the namespace of that name, none the empty one
     * @return its number, for the option "namespace_id"
     */
    public int namespaceOf(String... parts) {
        Buffers.Joined joined = new Buffers.Joined(List.of(parts));
        return (int) call(raw -> Native.prefix_namespace_open_tuple(raw, joined.bytes, joined.offsets));
    }

    /**
     * Finds a namespace.
     *
     * @param name its name
     * @return its number
     * @throws PrefixException NOT_FOUND when it is not open
     */
    public int findNamespace(String name) {
        return (int) call(raw -> Native.prefix_namespace_find(raw, utf8(name)));
    }

    /**
     * Evicts everything in a namespace that no running request uses.
     *
     * @param namespace its number
     * @return how many tokens it freed
     */
    public long dropNamespace(int namespace) {
        return call(raw -> Native.prefix_namespace_drop(raw, namespace));
    }

    /**
     * Ends a namespace: what it holds is evicted, its leases end, its name is free, and its number is never given again
     * (NOT_FOUND later). Requests that were submitted before run to their end, and what they still use goes with the
     * last of them.
     *
     * @param namespace its number
     * @return how many tokens this call freed
     * @throws PrefixException INVALID_ARGUMENT for the empty one, NOT_FOUND
     */
    public long closeNamespace(int namespace) {
        return call(raw -> Native.prefix_namespace_close(raw, namespace));
    }

    /**
     * Loads a LoRA adapter, a directory as PEFT writes it, while requests run. Requests name it by the option
     * "adapter". A name that is there stands for the new one from then on.
     *
     * @param name what requests call it
     * @param path the directory
     * @throws PrefixException NOT_FOUND, IO, FORMAT, UNSUPPORTED_MODEL, UNSUPPORTED_DEVICE
     */
    public void loadAdapter(String name, Path path) {
        call(raw -> Native.prefix_adapter_load(raw, utf8(name), utf8(path.toString())));
    }

    /**
     * The same from files in memory, which are read until it returns.
     *
     * @param name what requests call it
     * @param source with adapter_config.json and adapter_model.safetensors
     * @throws PrefixException as above, and INVALID_ARGUMENT for a source without files
     */
    public void loadAdapter(String name, Source source) {
        call(raw -> source.call(from -> Native.prefix_adapter_load_source(raw, utf8(name), from)));
    }

    /**
     * Ends the name of an adapter. Requests that were submitted keep it until they end.
     *
     * @param name its name
     * @throws PrefixException NOT_FOUND
     */
    public void unloadAdapter(String name) {
        call(raw -> Native.prefix_adapter_unload(raw, utf8(name)));
    }

    /**
     * Gives the namespace in which requests of another one with an adapter run, and makes it when it is new.
     *
     * @param namespace the number of that one
     * @param adapter the adapter's name
     * @return its number
     */
    public int adapterNamespace(int namespace, String adapter) {
        return (int) call(raw -> Native.prefix_adapter_namespace(raw, namespace, utf8(adapter)));
    }

    /**
     * Lists the adapters that are loaded.
     *
     * @return JSON
     */
    public String adaptersJson() {
        return Buffers.text(1024, buffer -> call(raw -> Native.prefix_adapters_json(raw, buffer)));
    }

    /**
     * Counts the namespaces, with the empty one.
     *
     * @return at least 1
     */
    public int namespaceCount() {
        return (int) call(Native::prefix_namespace_count);
    }

    /** The length of an embedding; a hint for buffers. */
    int hidden() {
        if (hidden < 0) {
            hidden = info().hidden();
        }
        return hidden;
    }
}
