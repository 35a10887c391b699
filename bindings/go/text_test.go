package prefix_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"prefix.io/prefix"
)

func byteLevel(t testing.TB) *prefix.Tokenizer {
	t.Helper()
	text, config := byteTokenizer(256)
	tokenizer := must(prefix.TokenizerFromJSON(text, config))(t)
	t.Cleanup(func() { tokenizer.Close() })
	return tokenizer
}

func bytesOf(text string) []prefix.Token {
	tokens := make([]prefix.Token, len(text))
	for i := range tokens {
		tokens[i] = prefix.Token(text[i])
	}
	return tokens
}

func TestTextAndBack(t *testing.T) {
	tokenizer := byteLevel(t)
	for _, text := range []string{"", "été, 😀 \"quoted\"", "a\x00b", strings.Repeat("word ", 10000)} {
		tokens := must(tokenizer.Encode(text, prefix.AddSpecial))(t)
		if !slices.Equal(tokens, bytesOf(text)) {
			t.Errorf("%.20q: %d tokens", text, len(tokens))
		}
		if back := must(tokenizer.Decode(tokens, 0))(t); back != text {
			t.Errorf("%.20q: %.20q", text, back)
		}
	}
	if _, err := tokenizer.Encode("a\xff", 0); !errors.Is(err, prefix.ErrInvalidUTF8) {
		t.Error(err)
	}
	tokens, spans, err := tokenizer.EncodeOffsets("aé", 0)
	if err != nil || len(tokens) != 3 || !slices.Equal(spans, []prefix.Span{{0, 1}, {1, 3}, {1, 3}}) {
		t.Error(tokens, spans, err)
	}
	texts := []string{"one", "", "three", "😀"}
	for i, list := range must(tokenizer.EncodeBatch(texts, 0))(t) {
		if !slices.Equal(list, bytesOf(texts[i])) {
			t.Error(i, list)
		}
	}
	if lists := must(tokenizer.EncodeBatch(nil, 0))(t); len(lists) != 0 {
		t.Error(lists)
	}
}

func TestSpecialTokens(t *testing.T) {
	tokenizer := byteLevel(t)
	if size := must(tokenizer.VocabSize())(t); size != 258 {
		t.Error(size)
	}
	if end := must(tokenizer.SpecialToken("eos"))(t); end != 257 {
		t.Error(end)
	}
	if start := must(tokenizer.TokenID("<|start|>"))(t); start != 256 {
		t.Error(start)
	}
	if ends := must(tokenizer.EndTokens())(t); !slices.Contains(ends, 257) {
		t.Error(ends)
	}
	if b := must(tokenizer.TokenBytes(0xc3))(t); string(b) != "\xc3" {
		t.Error(b)
	}
	_, bos := tokenizer.SpecialToken("bos")
	_, word := tokenizer.TokenID("word")
	_, far := tokenizer.TokenBytes(258)
	if !errors.Is(bos, prefix.ErrNotFound) || !errors.Is(word, prefix.ErrNotFound) || !errors.Is(far, prefix.ErrOutOfRange) {
		t.Error(bos, word, far)
	}
	if tokens := must(tokenizer.Encode("a<|end|>", 0))(t); !slices.Equal(tokens, []prefix.Token{97, 257}) {
		t.Error(tokens)
	}
	if tokens := must(tokenizer.Encode("a<|end|>", prefix.Literal))(t); !slices.Equal(tokens, bytesOf("a<|end|>")) {
		t.Error(tokens)
	}
	if text := must(tokenizer.Decode([]prefix.Token{97, 257}, prefix.SkipSpecial))(t); text != "a" {
		t.Error(text)
	}
	if info := must(tokenizer.InfoJSON())(t); !strings.Contains(info, `"vocab_size"`) {
		t.Error(info)
	}
}

// The text of a token may need more room than there is at first: it comes whole, and once.
func TestStreamsTakeLongTokensOnce(t *testing.T) {
	text, config := byteTokenizer(256)
	long := strings.Repeat("long", 100)
	tokenizer := must(prefix.TokenizerFromJSON(strings.ReplaceAll(text, "|start|", long), config))(t)
	defer tokenizer.Close()
	detok := must(tokenizer.NewDetokenizer(0))(t)
	defer detok.Close()
	if text := must(detok.Push(97, 256, 98))(t); text != "a<"+long+">b" {
		t.Errorf("%d bytes: %.20q", len(text), text)
	}
}

func TestStreamsNeverCutACharacter(t *testing.T) {
	tokenizer := byteLevel(t)
	detok := must(tokenizer.NewDetokenizer(prefix.SkipSpecial))(t)
	tokenizer.Close() // the stream keeps it
	var pieces []string
	for _, token := range bytesOf("né 😀") {
		pieces = append(pieces, must(detok.Push(token))(t))
	}
	if !slices.Equal(pieces, []string{"n", "", "é", " ", "", "", "", "😀"}) {
		t.Errorf("%q", pieces)
	}
	if text := must(detok.Push(0x61, 0xc3))(t) + must(detok.Flush())(t); text != "a\ufffd" {
		t.Errorf("%q", text)
	}
	long := strings.Repeat("word ", 5000)
	if text := must(detok.Push(bytesOf(long)...))(t) + must(detok.Flush())(t); text != long {
		t.Errorf("%.20q", text)
	}
	if _, err := detok.Push(97, 9999); !errors.Is(err, prefix.ErrOutOfRange) {
		t.Error(err)
	}
	if text := must(detok.Push(98))(t); text != "b" || !utf8.ValidString(text) {
		t.Errorf("%q: none of the failed call was taken", text)
	}
	check(t, detok.Close())
}

func TestChat(t *testing.T) {
	tokenizer := byteLevel(t)
	messages := []prefix.Message{{Role: "user", Content: "Hi <&>"}, {Role: "assistant", Content: "Ho", Extra: map[string]any{"x": 1}}}
	text := must(tokenizer.ChatText(messages, prefix.ChatOptions{}))(t)
	if text != "<|start|>user: Hi <&><|end|><|start|>assistant: Ho<|end|><|start|>assistant: " {
		t.Errorf("%q", text)
	}
	plain := must(tokenizer.ChatText(messages, prefix.ChatOptions{NoGenerationPrompt: true, Now: time.Now()}))(t)
	if plain != strings.TrimSuffix(text, "<|start|>assistant: ") {
		t.Errorf("%q", plain)
	}
	open := must(tokenizer.ChatText(messages, prefix.ChatOptions{ContinueFinalMessage: true}))(t)
	if open != strings.TrimSuffix(plain, "<|end|>") {
		t.Errorf("%q", open)
	}
	tokens, turns, err := tokenizer.ChatTurns(messages, prefix.ChatOptions{})
	if err != nil || len(turns) != 3 || turns[2] != len(tokens) || turns[0] >= turns[1] || turns[1] >= turns[2] {
		t.Error(turns, err)
	}
	if again := must(tokenizer.ChatTokens(messages, prefix.ChatOptions{}))(t); !slices.Equal(again, tokens) {
		t.Error(again)
	}
	for _, options := range []prefix.ChatOptions{{Template: "none"}, {Tools: []any{make(chan int)}}, {Documents: []any{"d"}}} {
		if _, err := tokenizer.ChatTokens(messages, options); err == nil {
			t.Errorf("%+v", options)
		}
	}
	empty := prefix.ChatOptions{Documents: []any{}, Tools: []any{}, Variables: map[string]any{"enable_thinking": false}}
	if same := must(tokenizer.ChatText(messages, empty))(t); same != text {
		t.Errorf("%q", same)
	}
	if _, err := tokenizer.ChatText(nil, prefix.ChatOptions{}); err != nil && !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
}
