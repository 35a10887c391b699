package io.prefix;

/**
 * One of many values; see {@link Task#ranking}.
 *
 * @param index its place among them
 * @param score higher is better
 */
public record Ranked(int index, float score) {}
