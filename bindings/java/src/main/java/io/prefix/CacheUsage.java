package io.prefix;

/**
 * What a namespace holds, and its limits; see {@link Cache#setLimits}.
 *
 * @param tokens in the cache
 * @param bytes of their keys and values
 * @param floorBytes others do not evict it below this
 * @param quotaBytes the most it may hold; 0: no quota
 */
public record CacheUsage(long tokens, long bytes, long floorBytes, long quotaBytes) {}
