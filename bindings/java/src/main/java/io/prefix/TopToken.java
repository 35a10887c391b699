package io.prefix;

import java.util.List;
import java.util.function.ToLongBiFunction;
import java.util.stream.IntStream;

/**
 * A token that was likely at its place.
 *
 * @param token its number
 * @param logprob its log-probability, of the model's own logits
 */
public record TopToken(int token, float logprob) {
    /** Two arrays of one length. */
    static List<TopToken> of(ToLongBiFunction<int[], float[]> get) {
        float[][] logprobs = new float[1][];
        int[] tokens = Buffers.ints(64, array -> {
            logprobs[0] = new float[array.length];
            return get.applyAsLong(array, logprobs[0]);
        });
        return IntStream.range(0, tokens.length)
                .mapToObj(i -> new TopToken(tokens[i], logprobs[0][i]))
                .toList();
    }
}
