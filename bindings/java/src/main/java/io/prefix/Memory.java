package io.prefix;

/**
 * What an engine takes, in bytes.
 *
 * @param weights of the model
 * @param kvPerToken key and value of a token
 * @param kvBudget of the cache
 * @param activations of a step
 * @param total of all
 */
public record Memory(long weights, long kvPerToken, long kvBudget, long activations, long total) {}
