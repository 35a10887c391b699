package io.prefix;

/**
 * What the cache has of a prompt.
 *
 * @param cachedTokens longest prefix that is computed
 * @param pendingTokens further tokens that are being computed now
 */
public record CacheInfo(int cachedTokens, int pendingTokens) {}
