package io.prefix;

import java.util.List;

/**
 * One of the tokens that a text is made of.
 *
 * @param token its number
 * @param logprob its log-probability, of the model's own logits
 * @param offset the byte of the text, in UTF-8, where it begins
 * @param top the likeliest tokens of its place, with option top_logprobs
 */
public record TextToken(int token, float logprob, long offset, List<TopToken> top) {}
