package io.prefix;

/**
 * What the cache has of a prompt.
 *
 * @param cachedTokens longest prefix that is computed; of a model with recurrent layers, that ends at a state
 * @param pendingTokens further tokens that are being computed now
 */
public record CacheInfo(int cachedTokens, int pendingTokens) {}
