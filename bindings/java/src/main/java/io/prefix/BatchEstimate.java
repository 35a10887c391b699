package io.prefix;

/**
 * What a batch of prompts costs an engine that has nothing of them in its cache; {@link Ordering#estimateBatch} gives it.
 *
 * @param computed by each prompt: its tokens without those that a prompt before it has
 * @param tokens of all prompts
 * @param total computed in all
 */
public record BatchEstimate(long[] computed, long tokens, long total) {}
