package io.prefix;

/**
 * What an engine takes, in bytes.
 *
 * @param weightBytes of the model
 * @param kvBytesPerToken keys and values of a token
 * @param kvBudgetBytes of the cache
 * @param activationBytes of a step
 * @param totalBytes of all
 */
public record Memory(
        long weightBytes, long kvBytesPerToken, long kvBudgetBytes, long activationBytes, long totalBytes) {}
