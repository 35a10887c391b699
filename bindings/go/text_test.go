package prefix_test

import (
	"bytes"
	"encoding/json"
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

func TestATextThatGoesOnAnotherHasNoSpacePutInFront(t *testing.T) {
	text, config := byteTokenizer(256)
	text = strings.Replace(text, `"normalizer":null`, `"normalizer":{"type":"Prepend","prepend":" "}`, 1)
	tokenizer := must(prefix.TokenizerFromJSON(text, config))(t)
	defer tokenizer.Close()
	if tokens := must(tokenizer.Encode("a", 0))(t); !slices.Equal(tokens, bytesOf(" a")) {
		t.Error(tokens)
	}
	if tokens := must(tokenizer.Encode("a", prefix.Continues))(t); !slices.Equal(tokens, bytesOf("a")) {
		t.Error(tokens)
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

// spelled has a text only when it is asked for.
type spelled struct{ text string }

func (s spelled) MarshalText() ([]byte, error) { return []byte(s.text), nil }

// digit is a byte that writes itself.
type digit byte

func (d digit) MarshalText() ([]byte, error) { return []byte{'0' + byte(d)}, nil }

// JSON has no bytes that are not UTF-8, and would make one text of two that differ in these.
func TestWhatIsNotUTF8IsRefused(t *testing.T) {
	tokenizer := byteLevel(t)
	type definition struct {
		Name   string
		Hidden string `json:"-"`
	}
	cut := "caf\xc3"
	for i, options := range []prefix.Options{
		{"namespace": cut}, {cut: 1}, {"stop": []string{"a", cut}}, {"stop": []any{"a", cut}}, {"stop": [1]string{cut}},
		{"namespace": &cut}, {"namespace": spelled{cut}},
	} {
		if err := options.Check(); !errors.Is(err, prefix.ErrInvalidUTF8) || !strings.Contains(err.Error(), `caf\xc3`) ||
			!strings.Contains(err.Error(), "byte 0xc3 at 3") {
			t.Error(i, err)
		}
	}
	check(t, prefix.Options{"namespace": "caf\ufffd", "stop": []any{"\U0001f600", "\u00e9"}}.Check())
	for i, given := range []struct {
		message prefix.Message
		options prefix.ChatOptions
	}{
		{message: prefix.Message{Role: cut}},
		{message: prefix.Message{Content: cut}},
		{message: prefix.Message{Extra: map[string]any{cut: 1}}},
		{message: prefix.Message{Extra: map[string]any{"calls": []map[string]any{{"name": cut}}}}},
		{message: prefix.Message{Extra: map[string]any{"earlier": &prefix.Message{Content: cut}}}},
		{message: prefix.Message{Extra: map[string]any{"raw": json.RawMessage(`"` + cut + `"`)}}},
		{options: prefix.ChatOptions{Template: cut}},
		{options: prefix.ChatOptions{Variables: map[string]any{"x": cut}}},
		{options: prefix.ChatOptions{Documents: []any{map[spelled]int{{cut}: 1}}}},
		{options: prefix.ChatOptions{Tools: []any{[]*definition{{Name: cut}}}}},
	} {
		if _, err := tokenizer.ChatText([]prefix.Message{given.message}, given.options); !errors.Is(err, prefix.ErrInvalidUTF8) {
			t.Error(i, err)
		}
	}
	_, err := newTask(t, "chat", nil).AddChat([]prefix.Message{{Role: "user", Content: cut}}, prefix.ChatOptions{Template: "short"})
	if !errors.Is(err, prefix.ErrInvalidUTF8) {
		t.Error(err)
	}
	fine := prefix.ChatOptions{
		Tools:     []any{definition{Name: "a", Hidden: cut}, &definition{}},
		Variables: map[string]any{"x": nil, "y": (*definition)(nil), "z": []digit{1, 2}},
	}
	must(tokenizer.ChatText([]prefix.Message{{Role: "user", Extra: map[string]any{"at": time.Now()}}}, fine))(t)
	// A []byte would be base64.
	err = prefix.Options{"stop": []byte("abc")}.Check()
	if !errors.Is(err, prefix.ErrInvalidArgument) || !strings.Contains(err.Error(), `"abc" is a []byte`) {
		t.Error(err)
	}
}

// Templates that print a message as JSON see the order of its fields.
// What a client sent is what the template gets, with all that this package does not know.
func TestMessagesAreReadFromJSON(t *testing.T) {
	for _, text := range []string{
		`{"role":"user","content":"Hi é"}`,
		`{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"b":1,"a":2.50}}}]}`,
		`{"role":"assistant","content":null}`,
		`{"role":"user","content":[{"type":"text","text":"Hi"}]}`,
	} {
		var message prefix.Message
		check(t, json.Unmarshal([]byte(strings.ReplaceAll(text, `":`, `" : `)), &message))
		var written bytes.Buffer
		encoder := json.NewEncoder(&written)
		encoder.SetEscapeHTML(false)
		check(t, encoder.Encode(message))
		equal(t, strings.TrimSpace(written.String()), text)
	}
	var messages []prefix.Message
	check(t, json.Unmarshal([]byte(`[{"role":"user","content":"Hi","name":"a"},{"role":"user","content":"Ho"}]`), &messages))
	if len(messages) != 2 || messages[0].Content != "Hi" || messages[0].Extra == nil || messages[1].Extra != nil {
		t.Errorf("%+v", messages)
	}
	for _, text := range []string{`"Hi"`, `["user"]`, `{"role":"user\ud8"}`} {
		if err := json.Unmarshal([]byte(text), new(prefix.Message)); err == nil {
			t.Error(text)
		}
	}
}

func TestMessagesHaveAnOrder(t *testing.T) {
	calls := json.RawMessage(`[{"name":"f","arguments":{"z":1,"a":2}}]`)
	for _, given := range []struct {
		message prefix.Message
		want    string
	}{
		{prefix.Message{Role: "user", Content: "Hi"}, `{"role":"user","content":"Hi"}`},
		{
			prefix.Message{Role: "assistant", Extra: map[string]any{"tool_calls": calls, "b": 1, "content": nil}},
			`{"role":"assistant","content":null,"b":1,"tool_calls":` + string(calls) + `}`,
		},
		{prefix.Message{Extra: map[string]any{"role": "tool"}}, `{"role":"tool","content":""}`},
	} {
		if text := must(json.Marshal(given.message))(t); string(text) != given.want {
			t.Errorf("%s", text)
		}
	}
}
