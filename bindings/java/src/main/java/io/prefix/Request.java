package io.prefix;

import static java.util.Objects.requireNonNull;

import io.prefix.internal.Native;
import java.nio.IntBuffer;

/**
 * What a {@link Batch} can be asked for. Tokens are an int[] or an IntBuffer; a direct one in the byte order of the
 * machine is read without a copy. A request never changes: options and tag give a new one.
 */
public final class Request {
    /** Adds to a batch and returns the number of the (first) request. */
    interface Adder {
        long add(long batch, long options, long tag);
    }

    final Adder adder;
    final int requests;
    final int values; // how many it will have, -1 for the length of an embedding
    final Options options;
    final long tag;

    private Request(Adder adder, int requests, int values, Options options, long tag) {
        this.adder = adder;
        this.requests = requests;
        this.values = values;
        this.options = options;
        this.tag = tag;
    }

    private Request(Adder adder, int requests, int values) {
        this(adder, requests, values, null, 0);
    }

    /**
     * The raw logits of some tokens after the prompt. Values: one per id.
     *
     * @param tokens the prompt
     * @param ids whose logits
     * @return the request
     */
    public static Request logits(int[] tokens, int... ids) {
        return logits((Object) tokens, ids);
    }

    /**
     * The same with tokens in a buffer.
     *
     * @param tokens the prompt
     * @param ids whose logits
     * @return the request
     */
    public static Request logits(IntBuffer tokens, int... ids) {
        return logits(Buffers.tokens(tokens), ids);
    }

    private static Request logits(Object tokens, int[] ids) {
        requireNonNull(tokens, "tokens");
        return new Request(
                (batch, o, tag) -> Native.prefix_batch_add_logits(batch, tokens, ids, o, tag),
                1,
                ids.length);
    }

    /**
     * The log-probabilities of the tokens from a position on, each after all before it. Values: one per token.
     *
     * @param tokens all tokens
     * @param from the first position, at least 1
     * @return the request
     */
    public static Request logprobs(int[] tokens, int from) {
        return logprobs(tokens, tokens.length, from);
    }

    /**
     * The same with tokens in a buffer.
     *
     * @param tokens all tokens
     * @param from the first position, at least 1
     * @return the request
     */
    public static Request logprobs(IntBuffer tokens, int from) {
        return logprobs(Buffers.tokens(tokens), tokens.remaining(), from);
    }

    private static Request logprobs(Object tokens, int count, int from) {
        return new Request(
                (batch, o, tag) -> Native.prefix_batch_add_logprobs(batch, tokens, from, o, tag),
                1,
                count - Math.max(0, Math.min(from, count)));
    }

    /**
     * Scores possible continuations of a prompt, which is computed once. Values: the sum of log-probabilities of each
     * choice; those of the single tokens are in {@link Job#logprobs}.
     *
     * @param tokens the prompt
     * @param choices tokens of each choice
     * @return the request
     */
    public static Request choices(int[] tokens, int[]... choices) {
        requireNonNull(tokens, "tokens");
        Buffers.Lists lists = new Buffers.Lists(choices);
        return new Request(
                (batch, o, tag) -> Native.prefix_batch_add_choices(
                        batch, tokens, lists.flat, lists.offsets, o, tag),
                1,
                choices.length);
    }

    /**
     * Many requests with one beginning, as in ranking. Request i has the tag tag + i; its values are the
     * log-probabilities of the tokens of its continuation.
     *
     * @param tokens the beginning
     * @param continuations tokens of each request after it
     * @return the requests
     */
    public static Request continuations(int[] tokens, int[]... continuations) {
        Buffers.Lists lists = new Buffers.Lists(continuations);
        return continuations((Object) tokens, lists.flat, lists.flat.length, lists.offsets);
    }

    /**
     * The same with all continuations in one buffer.
     *
     * @param tokens the beginning
     * @param continuations their tokens, one after another
     * @param offsets continuation i is from offsets[i] to offsets[i + 1]
     * @return the requests
     */
    public static Request continuations(IntBuffer tokens, IntBuffer continuations, long[] offsets) {
        return continuations(
                Buffers.tokens(tokens), Buffers.tokens(continuations), continuations.remaining(), offsets.clone());
    }

    private static Request continuations(Object tokens, Object flat, int count, long[] offsets) {
        requireNonNull(tokens, "tokens");
        return new Request(
                (batch, o, tag) -> Native.prefix_batch_add_continuations(
                        batch, tokens, flat, offsets, o, tag),
                Math.max(0, offsets.length - 1),
                count);
    }

    /**
     * The final hidden state of the last token; see options dimensions and normalize.
     *
     * @param tokens the prompt
     * @return the request
     */
    public static Request embedding(int... tokens) {
        return embedding((Object) tokens);
    }

    /**
     * The same with tokens in a buffer.
     *
     * @param tokens the prompt
     * @return the request
     */
    public static Request embedding(IntBuffer tokens) {
        return embedding(Buffers.tokens(tokens));
    }

    private static Request embedding(Object tokens) {
        requireNonNull(tokens, "tokens");
        return new Request(
                (batch, o, tag) -> Native.prefix_batch_add_embedding(batch, tokens, o, tag), 1, -1);
    }

    /**
     * A continuation of the prompt; see {@link Job#tokens} and options max_tokens, temperature, top_k, top_p, seed,
     * stop_tokens, logprobs and top_logprobs.
     *
     * @param tokens the prompt
     * @return the request
     */
    public static Request generate(int... tokens) {
        return generate((Object) tokens);
    }

    /**
     * The same with tokens in a buffer.
     *
     * @param tokens the prompt
     * @return the request
     */
    public static Request generate(IntBuffer tokens) {
        return generate(Buffers.tokens(tokens));
    }

    private static Request generate(Object tokens) {
        requireNonNull(tokens, "tokens");
        return new Request(
                (batch, o, tag) -> Native.prefix_batch_add_generate(batch, tokens, o, tag), 1, 0);
    }

    /**
     * No values: the tokens are computed, or fetched from disk or store (options of the engine), and stay in the cache
     * for those who come later.
     *
     * @param tokens the prompt
     * @return the request
     */
    public static Request warm(int... tokens) {
        return warm((Object) tokens);
    }

    /**
     * The same with tokens in a buffer.
     *
     * @param tokens the prompt
     * @return the request
     */
    public static Request warm(IntBuffer tokens) {
        return warm(Buffers.tokens(tokens));
    }

    private static Request warm(Object tokens) {
        requireNonNull(tokens, "tokens");
        return new Request((batch, o, tag) -> Native.prefix_batch_add_warm(batch, tokens, o, tag), 1, 0);
    }

    /**
     * The request with options.
     *
     * @param options of the request
     * @return a new request
     */
    public Request options(Options options) {
        return new Request(adder, requests, values, options, tag);
    }

    /**
     * The request with a number of your own, which comes back with results and events.
     *
     * @param tag the number
     * @return a new request
     */
    public Request tag(long tag) {
        return new Request(adder, requests, values, options, tag);
    }
}
