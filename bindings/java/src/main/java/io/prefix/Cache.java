package io.prefix;

import static java.util.Objects.requireNonNull;

import io.prefix.internal.Layout;
import io.prefix.internal.Native;
import io.prefix.internal.Struct;
import java.time.Duration;
import java.util.Arrays;

/** The cache of an engine, seen from one namespace; {@link Engine#cache()} gives it. Any thread may use it. */
public final class Cache {
    private final Engine engine;
    private final int namespace;

    Cache(Engine engine, int namespace) {
        this.engine = engine;
        this.namespace = namespace;
    }

    /**
     * Says what the cache has of a prompt. It does not change what is evicted next.
     *
     * @param tokens the prompt
     * @return how much of it is there
     * @throws PrefixException NOT_FOUND for a namespace that is not open, here and below
     */
    public CacheInfo lookup(int... tokens) {
        requireNonNull(tokens, "tokens");
        Struct info = new Struct(Layout.CACHE_INFO_SIZE);
        engine.call(raw -> Native.prefix_cache_lookup(raw, namespace, tokens, info.bytes));
        return new CacheInfo(
                (int) info.getLong(Layout.CACHE_INFO_CACHED_TOKENS),
                (int) info.getLong(Layout.CACHE_INFO_PENDING_TOKENS));
    }

    /**
     * The cached tokens of many prompts, in one call of the library.
     *
     * @param prompts all
     * @return one number for each
     */
    public int[] lookupMany(int[]... prompts) {
        Buffers.Lists lists = new Buffers.Lists(prompts);
        long[] found = Buffers.longs(
                prompts.length,
                out -> engine.call(
                        raw -> Native.prefix_cache_lookup_many(raw, namespace, lists.flat, lists.offsets, out)));
        return Arrays.stream(found).mapToInt(tokens -> (int) tokens).toArray();
    }

    /**
     * Says what of the cache the namespace uses.
     *
     * @return that, and its limits
     */
    public CacheUsage usage() {
        Struct usage = new Struct(Layout.CACHE_USAGE_SIZE);
        engine.call(raw -> Native.prefix_cache_get_usage(raw, namespace, usage.bytes));
        return new CacheUsage(
                usage.getLong(Layout.CACHE_USAGE_TOKENS),
                usage.getLong(Layout.CACHE_USAGE_BYTES),
                usage.getLong(Layout.CACHE_USAGE_FLOOR_BYTES),
                usage.getLong(Layout.CACHE_USAGE_QUOTA_BYTES));
    }

    /**
     * Limits the namespace. A request that does not fit fails with CACHE_FULL.
     *
     * @param floorBytes others do not evict it below this
     * @param quotaBytes the most it may hold; 0: no quota
     * @throws PrefixException OUT_OF_RANGE for a negative number, a quota smaller than one token, a floor above the quota
     */
    public void setLimits(long floorBytes, long quotaBytes) {
        engine.call(raw -> Native.prefix_cache_set_limits(raw, namespace, floorBytes, quotaBytes));
    }

    /**
     * Keeps the longest computed prefix of these tokens in the cache until the lease is closed; one that is never closed
     * holds as long as the engine. Pins add up: a prefix goes when the last lease on it has ended. What is pinned counts
     * against cache_bytes.
     *
     * @param tokens the prefix
     * @return the lease
     * @throws PrefixException NOT_FOUND when nothing of it is computed
     */
    public Lease pin(int... tokens) {
        return pin(tokens, 0);
    }

    /**
     * The same for some time at most.
     *
     * @param tokens the prefix
     * @param time after which the lease ends by itself; more than 0
     * @return the lease
     * @throws PrefixException NOT_FOUND when nothing of it is computed, OUT_OF_RANGE for no time
     */
    public Lease pin(int[] tokens, Duration time) {
        return pin(tokens, time.isZero() ? -1 : Options.millis(time)); // 0 stands for no end
    }

    private Lease pin(int[] tokens, long millis) {
        requireNonNull(tokens, "tokens");
        long[] lease = new long[1];
        long[] pinned = new long[1];
        engine.call(raw -> Native.prefix_cache_pin(raw, namespace, tokens, millis, lease, pinned));
        return new Lease(engine, lease[0], (int) pinned[0]);
    }

    /**
     * Evicts what continues these tokens, as far as no request uses and no lease keeps it; the tokens themselves stay.
     *
     * @param tokens none for the whole namespace
     * @return how many tokens it freed
     */
    public long evict(int... tokens) {
        requireNonNull(tokens, "tokens"); // not the whole namespace
        return engine.call(raw -> Native.prefix_cache_evict(raw, namespace, tokens));
    }

    /**
     * Evicts prefixes of all namespaces, in the order of the option cache_policy, until at most this many bytes are held
     * or all that is left is in use or pinned.
     *
     * @param bytes how much to keep
     * @return how many tokens it freed
     */
    public long trim(long bytes) {
        return engine.call(raw -> Native.prefix_cache_trim(raw, bytes));
    }

    /**
     * The tree of all namespaces, for debugging; "prefix tree --from" paints it.
     *
     * @return JSON
     */
    public String treeJson() {
        return Buffers.text(4096, buffer -> engine.call(raw -> Native.prefix_cache_tree_json(raw, buffer)));
    }

    /**
     * Reads what comes into the cache and leaves it, in all namespaces. Needs option cache_events of the engine. Any
     * number of readers have their own place.
     *
     * @param from the first sequence number; 0 for the oldest that is kept
     * @return the reader, for one thread at a time
     */
    public CacheEvents events(long from) {
        return new CacheEvents(engine, from);
    }

    /**
     * All blocks of all namespaces that are in memory: where a reader of events begins, or begins again when it has lost
     * some.
     *
     * @return the blocks, and where events go on
     * @throws PrefixException MISUSE without option cache_events
     */
    public CacheDump dump() {
        String lines = Buffers.text(16384, buffer -> engine.call(raw -> Native.prefix_cache_dump_events(raw, buffer)));
        String last = lines.substring(lines.lastIndexOf("{\"next\":"));
        return new CacheDump(lines, Long.parseLong(last.replaceAll("\\D", "")));
    }
}
