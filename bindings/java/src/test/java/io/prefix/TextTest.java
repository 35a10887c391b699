package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class TextTest {
    private Tokenizer tokenizer;

    @BeforeEach
    void open() {
        String[] files = Support.byteTokenizer(256);
        tokenizer = Tokenizer.fromJson(files[0], files[1]);
    }

    @AfterEach
    void close() {
        tokenizer.close();
    }

    private static Status statusOf(Executable call) {
        return assertThrows(PrefixException.class, call).status();
    }

    @Test
    void textAndBack() {
        for (String text : List.of("", "été, 😀 \"quoted\"", "a\0b", "word ".repeat(10000))) {
            int[] tokens = tokenizer.encode(text, Tokenizer.Encode.SPECIAL);
            assertArrayEquals(Support.tokens(text), tokens);
            assertEquals(text, tokenizer.decode(tokens));
        }
        Tokenizer.Encoding encoding = tokenizer.encodeOffsets("aé");
        assertArrayEquals(Support.tokens("aé"), encoding.tokens());
        assertArrayEquals(new long[] {0, 1, 1, 3, 1, 3}, encoding.offsets());
        List<String> texts = List.of("one", "", "three", "😀");
        int[][] batch = tokenizer.encodeBatch(texts);
        for (int i = 0; i < batch.length; i++) {
            assertArrayEquals(Support.tokens(texts.get(i)), batch[i]);
        }
        assertEquals(0, tokenizer.encodeBatch(List.of()).length);
        assertEquals(Status.OUT_OF_RANGE, statusOf(() -> tokenizer.decode(new int[] {999})));
        assertThrows(PrefixException.class, () -> Tokenizer.fromJson("{}", null));
    }

    @Test
    void halfACharacterIsNoText() {
        PrefixException e = assertThrows(PrefixException.InvalidArgument.class, () -> tokenizer.encode("aé\ud83d"));
        assertEquals(Status.INVALID_UTF8, e.status());
        assertEquals("a text cannot be UTF-8: U+D83D at 2 of 3 is half of a surrogate pair", e.getMessage());
        e = assertThrows(PrefixException.class, () -> tokenizer.encodeBatch(List.of("?", "é\ude00!", "?")));
        assertEquals(Status.INVALID_UTF8, e.status());
        assertTrue(e.getMessage().contains("text 1 is not UTF-8 from byte 2 on"), e.getMessage());
        assertEquals(Status.INVALID_UTF8, statusOf(() -> tokenizer.chatText(List.of(Message.user("\ud83d")), new ChatOptions())));
    }

    @Test
    void specialTokens() {
        assertEquals(258, tokenizer.vocabSize());
        assertEquals(257, tokenizer.specialToken("eos"));
        assertEquals(256, tokenizer.tokenId("<|start|>"));
        assertTrue(Arrays.stream(tokenizer.endTokens()).anyMatch(token -> token == 257));
        assertArrayEquals(new byte[] {(byte) 0xc3}, tokenizer.tokenBytes(0xc3));
        assertEquals(Status.NOT_FOUND, statusOf(() -> tokenizer.specialToken("bos")));
        assertEquals(Status.NOT_FOUND, statusOf(() -> tokenizer.tokenId("word")));
        assertEquals(Status.OUT_OF_RANGE, statusOf(() -> tokenizer.tokenBytes(258)));
        assertArrayEquals(new int[] {97, 257}, tokenizer.encode("a<|end|>"));
        assertArrayEquals(Support.tokens("a<|end|>"), tokenizer.encode("a<|end|>", Tokenizer.Encode.LITERAL));
        assertEquals("a", tokenizer.decode(new int[] {97, 257}, Tokenizer.Decode.SKIP_SPECIAL));
        assertEquals("a<|end|>", tokenizer.decode(new int[] {97, 257}));
        assertTrue(tokenizer.infoJson().contains("\"vocab_size\""));
    }

    @Test
    void streamsNeverCutACharacter() {
        try (Detokenizer stream = tokenizer.detokenizer(Tokenizer.Decode.SKIP_SPECIAL)) {
            tokenizer.close(); // the stream keeps it
            List<String> pieces = new ArrayList<>();
            for (int token : Support.tokens("né 😀")) {
                pieces.add(stream.push(token));
            }
            assertEquals(List.of("n", "", "é", " ", "", "", "", "😀"), pieces);
            assertEquals("a\ufffd", stream.push(0x61, 0xc3) + stream.flush());
            String text = "word ".repeat(5000);
            assertEquals(text, stream.push(Support.tokens(text)) + stream.flush());
            assertEquals(Status.OUT_OF_RANGE, statusOf(() -> stream.push(97, 9999)));
            assertEquals("b", stream.push(98), "none of the failed call was taken");
        }
    }

    @Test
    void aTextThatGoesOnAnotherHasNoSpacePutInFront() {
        String json = "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"?\": 0, \"a\": 1, \" a\": 2},"
                + " \"unk_token\": \"?\"}, \"normalizer\": {\"type\": \"Prepend\", \"prepend\": \" \"}}";
        try (Tokenizer puts = Tokenizer.fromJson(json, null)) {
            assertArrayEquals(new int[] {2}, puts.encode("a"));
            assertArrayEquals(new int[] {1}, puts.encode("a", Tokenizer.Encode.CONTINUES));
        }
    }

    @Test
    void aTokenMayBeLongerThanAnyGuess() {
        String longest = "=".repeat(1000);
        String json = "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"" + longest
                + "\": 1, \"b\": 2}, \"merges\": []}, \"decoder\": {\"type\": \"Fuse\"}}";
        try (Tokenizer long1 = Tokenizer.fromJson(json, null);
                Detokenizer stream = long1.detokenizer()) {
            assertEquals("a", stream.push(0));
            assertEquals(longest, stream.push(1));
            assertEquals("b" + longest, stream.push(2, 1) + stream.flush());
        }
    }

    @Test
    void conversations() {
        List<Message> messages = List.of(
                Message.user("Hi \"<&>\"\n😀"), new Message("assistant", "Ho", Map.of("x", List.of(1, 2.5, true))));
        String begin = "<|start|>user: Hi \"<&>\"\n😀<|end|><|start|>assistant: Ho";
        String text = tokenizer.chatText(messages, new ChatOptions());
        assertEquals(begin + "<|end|><|start|>assistant: ", text);
        assertEquals(
                begin + "<|end|>",
                tokenizer.chatText(
                        messages, new ChatOptions().addGenerationPrompt(false).now(LocalDateTime.now())));
        assertEquals(begin, tokenizer.chatText(messages, new ChatOptions().continueFinalMessage()));
        assertEquals(
                text,
                tokenizer.chatText(
                        messages,
                        new ChatOptions()
                                .tools(List.of())
                                .documents(List.of())
                                .variables(Map.of("enable_thinking", false))));
        Tokenizer.Conversation turns = tokenizer.chatTurns(messages, new ChatOptions());
        assertArrayEquals(tokenizer.chatTokens(messages), turns.tokens());
        assertEquals(3, turns.turns().length);
        assertEquals(turns.tokens().length, turns.turns()[2]);
        assertTrue(turns.turns()[0] < turns.turns()[1] && turns.turns()[1] < turns.turns()[2]);
        assertEquals(
                Status.NOT_FOUND, statusOf(() -> tokenizer.chatText(messages, new ChatOptions().template("none"))));
        ChatOptions wrong = new ChatOptions().tools(List.of(new Object()));
        assertThrows(IllegalArgumentException.class, () -> tokenizer.chatText(messages, wrong));
        assertThrows(IllegalArgumentException.class, () -> Json.of(Double.NaN));
    }

    @Test
    void theRealTokenizer() {
        try (Tokenizer smollm2 = Tokenizer.open(Support.SMOLLM2)) {
            int[] tokens = smollm2.chatTokens(
                    List.of(Message.system("Be brief."), Message.user("What is a prefix tree?")));
            assertEquals(
                    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is a prefix tree?<|im_end|>\n"
                            + "<|im_start|>assistant\n",
                    smollm2.decode(tokens));
        }
    }
}
