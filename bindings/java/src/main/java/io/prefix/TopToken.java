package io.prefix;

/**
 * A token that was likely at its place.
 *
 * @param token its number
 * @param logprob its log-probability, of the model's own logits
 */
public record TopToken(int token, float logprob) {}
