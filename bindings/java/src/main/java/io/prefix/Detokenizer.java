package io.prefix;

import io.prefix.internal.Native;

/**
 * Makes text of tokens that arrive one by one, and never cuts a character. The pieces, with that of flush(), add up to
 * what {@link Tokenizer#decode} gives for all tokens. One thread at a time uses it; others wait.
 */
public final class Detokenizer extends Owned {
    Detokenizer(long tokenizer, int flags) {
        super(Native.prefix_detok_create(tokenizer, flags), "detokenizer", Native::prefix_detok_release);
    }

    /**
     * Takes tokens.
     *
     * @param tokens the next ones
     * @return the text that has become complete, often none
     */
    public synchronized String push(int... tokens) {
        // Where the text finds no room, none of the tokens are taken.
        return Buffers.text(
                64 + 16 * tokens.length, buffer -> call(raw -> Native.prefix_detok_push(raw, tokens, buffer)));
    }

    /**
     * Ends the stream; the next one may begin.
     *
     * @return the rest, with U+FFFD for an unfinished character
     */
    public synchronized String flush() {
        return Buffers.text(64, buffer -> call(raw -> Native.prefix_detok_flush(raw, buffer)));
    }
}
