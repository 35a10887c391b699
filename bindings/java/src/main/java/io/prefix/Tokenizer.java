package io.prefix;

import static io.prefix.Buffers.utf8;

import io.prefix.internal.Constants;
import io.prefix.internal.Native;
import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/**
 * Makes tokens from text and text from tokens, exactly as the Hugging Face packages do. It never changes, and any
 * thread may use it.
 */
public final class Tokenizer extends Owned {
    /** Bounds how many tokens SPECIAL adds to a text. */
    private static final int ADDED = 16;

    /** How text becomes tokens. */
    public enum Encode {
        /** Add what the model wants around a text, such as bos in front. */
        SPECIAL(Constants.PREFIX_ENCODE_SPECIAL),
        /**
         * Take special tokens written in the text ("&lt;|im_end|&gt;") as plain characters. Use it for text from
         * outside that must not steer the model.
         */
        LITERAL(Constants.PREFIX_ENCODE_LITERAL),
        /**
         * Take the text for one that goes on another, as what is scored after a prompt does: a tokenizer that puts a
         * space in front of a text puts none here.
         */
        CONTINUES(Constants.PREFIX_ENCODE_CONTINUES);

        private final int flag;

        Encode(int flag) {
            this.flag = flag;
        }
    }

    /** How tokens become text. */
    public enum Decode {
        /** Leave special tokens out. */
        SKIP_SPECIAL(Constants.PREFIX_DECODE_SKIP_SPECIAL);

        private final int flag;

        Decode(int flag) {
            this.flag = flag;
        }
    }

    private Tokenizer(long raw) {
        super(raw, "tokenizer", Native::prefix_tokenizer_release);
    }

    /**
     * Opens a tokenizer.
     *
     * @param path a Hugging Face directory, a tokenizer.json or a .gguf file
     * @return the tokenizer; close it when done
     */
    public static Tokenizer open(Path path) {
        return new Tokenizer(Native.prefix_tokenizer_open(utf8(path.toString())));
    }

    /**
     * Makes a tokenizer from JSON.
     *
     * @param tokenizer contents of tokenizer.json
     * @param config contents of tokenizer_config.json; may be null
     * @return the tokenizer; close it when done
     */
    public static Tokenizer fromJson(String tokenizer, String config) {
        return new Tokenizer(
                Native.prefix_tokenizer_from_json(utf8(tokenizer), config == null ? null : utf8(config)));
    }

    private static int flags(Encode... flags) {
        return Arrays.stream(flags).mapToInt(flag -> flag.flag).reduce(0, (a, b) -> a | b);
    }

    private static int flags(Decode... flags) {
        return Arrays.stream(flags).mapToInt(flag -> flag.flag).reduce(0, (a, b) -> a | b);
    }

    /**
     * Describes the tokenizer: vocabulary size, special tokens, tokens that end a generation, templates.
     *
     * @return JSON
     */
    public String infoJson() {
        return Buffers.text(1024, buffer -> call(raw -> Native.prefix_tokenizer_info_json(raw, buffer)));
    }

    /**
     * Bounds the ids of tokens.
     *
     * @return all are smaller
     */
    public int vocabSize() {
        return (int) call(Native::prefix_tokenizer_vocab_size);
    }

    /**
     * The token of a role.
     *
     * @param role "bos", "eos", ...
     * @return its id
     * @throws PrefixException NOT_FOUND when the model has none
     */
    public int specialToken(String role) {
        return (int) call(raw -> Native.prefix_tokenizer_special_token(raw, utf8(role)));
    }

    /**
     * All tokens after which a generation is over, for the option stop_tokens.
     *
     * @return ascending
     */
    public int[] endTokens() {
        return Buffers.ints(16, buffer -> call(raw -> Native.prefix_tokenizer_end_tokens(raw, buffer)));
    }

    /**
     * The bytes that a token stands for inside a text; they may be a part of a character.
     *
     * @param token its id
     * @return bytes of UTF-8
     */
    public byte[] tokenBytes(int token) {
        return Buffers.bytes(32, buffer -> call(raw -> Native.prefix_tokenizer_token_bytes(raw, token, buffer)));
    }

    /**
     * The id of a token by its name in the vocabulary.
     *
     * @param name such as "&lt;|im_end|&gt;"
     * @return its id
     * @throws PrefixException NOT_FOUND
     */
    public int tokenId(String name) {
        return (int) call(raw -> Native.prefix_tokenizer_token_id(raw, utf8(name)));
    }

    /**
     * Makes tokens of a text of at most 16 MiB. Encoding "AB" is not encoding "A" and then "B".
     *
     * @param text what to encode
     * @param flags how
     * @return its tokens
     */
    public int[] encode(String text, Encode... flags) {
        byte[] bytes = utf8(text);
        int how = flags(flags);
        // A text seldom has more tokens than bytes.
        return Buffers.ints(
                bytes.length + ADDED,
                buffer -> call(raw -> Native.prefix_tokenizer_encode(raw, bytes, how, buffer)));
    }

    /**
     * Tokens with the parts of the text that they come from.
     *
     * @param tokens all tokens
     * @param offsets token i is bytes offsets[2 * i] to offsets[2 * i + 1] of the text in UTF-8; 0, 0 for added tokens
     */
    public record Encoding(int[] tokens, long[] offsets) {
        @Override
        public boolean equals(Object other) {
            return other instanceof Encoding o && Arrays.equals(tokens, o.tokens) && Arrays.equals(offsets, o.offsets);
        }

        @Override
        public int hashCode() {
            return 31 * Arrays.hashCode(tokens) + Arrays.hashCode(offsets);
        }

        @Override
        public String toString() {
            return "Encoding[tokens=" + Arrays.toString(tokens) + ", offsets=" + Arrays.toString(offsets) + "]";
        }
    }

    /**
     * Makes tokens of a text, and says where they come from.
     *
     * @param text what to encode
     * @param flags how
     * @return its tokens and their offsets
     */
    public Encoding encodeOffsets(String text, Encode... flags) {
        byte[] bytes = utf8(text);
        int how = flags(flags);
        long[][] offsets = new long[1][];
        int[] tokens = Buffers.ints(bytes.length + ADDED, buffer -> {
            offsets[0] = new long[2 * buffer.length];
            return call(raw -> Native.prefix_tokenizer_encode_offsets(raw, bytes, how, buffer, offsets[0]));
        });
        return new Encoding(tokens, Arrays.copyOf(offsets[0], 2 * tokens.length));
    }

    /**
     * Encodes many texts in one call. All fail when one is bad; the message says which.
     *
     * @param texts what to encode
     * @param flags how
     * @return the tokens of each
     */
    public int[][] encodeBatch(List<String> texts, Encode... flags) {
        Buffers.Joined joined = new Buffers.Joined(texts);
        int how = flags(flags);
        long[] ends = new long[joined.offsets.length];
        int[] flat = Buffers.ints(
                Buffers.room(joined.bytes.length + (long) ADDED * texts.size()),
                buffer -> call(raw -> Native.prefix_tokenizer_encode_batch(
                        raw, joined.bytes, joined.offsets, how, buffer, ends)));
        int[][] lists = new int[texts.size()][];
        for (int i = 0; i < lists.length; i++) {
            lists[i] = Arrays.copyOfRange(flat, (int) ends[i], (int) ends[i + 1]);
        }
        return lists;
    }

    /**
     * Makes text of tokens. Bytes that are no characters become U+FFFD.
     *
     * @param tokens what to decode
     * @param flags how
     * @return the text
     */
    public String decode(int[] tokens, Decode... flags) {
        int how = flags(flags);
        return Buffers.text(
                Buffers.room(64 + 8L * tokens.length),
                buffer -> call(raw -> Native.prefix_tokenizer_decode(raw, tokens, how, buffer)));
    }

    /**
     * Starts a stream of tokens that become text one by one.
     *
     * @param flags how
     * @return the stream; close it when done. It keeps what it needs of the tokenizer
     */
    public Detokenizer detokenizer(Decode... flags) {
        try {
            return new Detokenizer(raw(), flags(flags));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * The prompt of a conversation, as the model's template writes it.
     *
     * @param messages the turns
     * @param options see {@link ChatOptions}
     * @return the text
     */
    public String chatText(List<Message> messages, ChatOptions options) {
        byte[] conversation = utf8(Json.of(messages.stream().map(Message::fields).toList()));
        byte[] settings = utf8(options.json());
        return Buffers.text(
                Buffers.room(1024 + 2L * conversation.length),
                buffer -> call(raw -> Native.prefix_tokenizer_chat_text(raw, conversation, settings, buffer)));
    }

    /**
     * The tokens of {@link #chatText}, to be continued by the assistant.
     *
     * @param messages the turns
     * @return the tokens
     */
    public int[] chatTokens(List<Message> messages) {
        return chatTokens(messages, new ChatOptions(), null).tokens;
    }

    /**
     * The tokens of {@link #chatText}.
     *
     * @param messages the turns
     * @param options see {@link ChatOptions}
     * @return the tokens
     */
    public int[] chatTokens(List<Message> messages, ChatOptions options) {
        return chatTokens(messages, options, null).tokens;
    }

    /**
     * The tokens of a conversation and where its turns end.
     *
     * @param tokens all tokens
     * @param turns turns[i] is how many of the first tokens belong to messages 0..i and stay the same when the
     *     conversation goes on after message i; the last entry is the number of tokens
     */
    public record Conversation(int[] tokens, long[] turns) {
        @Override
        public boolean equals(Object other) {
            return other instanceof Conversation o && Arrays.equals(tokens, o.tokens) && Arrays.equals(turns, o.turns);
        }

        @Override
        public int hashCode() {
            return 31 * Arrays.hashCode(tokens) + Arrays.hashCode(turns);
        }

        @Override
        public String toString() {
            return "Conversation[tokens=" + Arrays.toString(tokens) + ", turns=" + Arrays.toString(turns) + "]";
        }
    }

    /**
     * The tokens of {@link #chatText} with where the turns end.
     *
     * @param messages the turns
     * @param options see {@link ChatOptions}
     * @return both
     */
    public Conversation chatTurns(List<Message> messages, ChatOptions options) {
        return chatTokens(messages, options, new long[messages.size() + 1]);
    }

    private Conversation chatTokens(List<Message> messages, ChatOptions options, long[] turns) {
        byte[] conversation = utf8(Json.of(messages.stream().map(Message::fields).toList()));
        byte[] settings = utf8(options.json());
        int[] tokens = Buffers.ints(
                Buffers.room(1024L + conversation.length),
                buffer -> call(raw -> Native.prefix_tokenizer_chat_tokens(raw, conversation, settings, buffer, turns)));
        return new Conversation(tokens, turns);
    }
}
