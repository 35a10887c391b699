package prefix

import (
	"slices"

	"prefix.io/prefix/internal/swig"
)

// Tokenizer makes tokens from text and text from tokens, exactly as the Hugging Face packages do. It never changes.
type Tokenizer struct{ handle }

// OpenTokenizer opens a Hugging Face directory, a tokenizer.json or a .gguf file.
func OpenTokenizer(path string) (*Tokenizer, error) {
	return newTokenizer(func(raw *uintptr, f *swig.Error) int32 { return swig.Prefix_tokenizer_open(path, raw, f) })
}

// TokenizerFromJSON makes a tokenizer from the contents of tokenizer.json and tokenizer_config.json; the latter may
// be empty.
func TokenizerFromJSON(tokenizer, config string) (*Tokenizer, error) {
	return newTokenizer(func(raw *uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_from_json(tokenizer, config, raw, f)
	})
}

func newTokenizer(open func(raw *uintptr, f *swig.Error) int32) (*Tokenizer, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	var raw uintptr
	if err := call(func(f *swig.Error) int32 { return open(&raw, f) }); err != nil {
		return nil, err
	}
	tokenizer := &Tokenizer{}
	tokenizer.own(raw, "tokenizer", swig.Prefix_tokenizer_release)
	return tokenizer, nil
}

// InfoJSON describes the tokenizer: vocabulary size, special tokens, tokens that end a generation, templates.
func (t *Tokenizer) InfoJSON() (string, error) {
	return textOf(&t.handle, 1024, swig.Prefix_tokenizer_info_json)
}

// VocabSize bounds the ids of tokens.
func (t *Tokenizer) VocabSize() (int, error) {
	var size int64
	err := callOn(&t.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_tokenizer_vocab_size(h, &size, f) })
	return int(size), err
}

// SpecialToken is the token of a role, such as "bos" or "eos"; [ErrNotFound] when the model has none.
func (t *Tokenizer) SpecialToken(role string) (Token, error) {
	var token Token
	err := callOn(&t.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_special_token(h, role, &token, f)
	})
	return token, err
}

// EndTokens are all tokens after which a generation is over, for the option stop_tokens.
func (t *Tokenizer) EndTokens() ([]Token, error) {
	return arrayOf(&t.handle, 16, swig.Prefix_tokenizer_end_tokens)
}

// TokenBytes are the bytes that a token stands for inside a text; they may be a part of a character.
func (t *Tokenizer) TokenBytes(token Token) ([]byte, error) {
	return arrayOf(&t.handle, 32, func(h uintptr, b []byte, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_token_bytes(h, token, b, needed, f)
	})
}

// TokenID is the id of a token by its name in the vocabulary, such as "<|im_end|>".
func (t *Tokenizer) TokenID(name string) (Token, error) {
	var token Token
	err := callOn(&t.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_token_id(h, name, &token, f)
	})
	return token, err
}

// EncodeFlags say how text becomes tokens.
type EncodeFlags int32

const (
	// AddSpecial adds what the model wants around a text, such as bos in front.
	AddSpecial EncodeFlags = swig.PREFIX_ENCODE_SPECIAL
	// Literal takes special tokens written in the text ("<|im_end|>") as plain characters. Use it for text from
	// outside that must not steer the model.
	Literal EncodeFlags = swig.PREFIX_ENCODE_LITERAL
	// Continues takes the text for one that goes on another, as what is scored after a prompt does: a tokenizer that
	// puts a space in front of a text puts none here.
	Continues EncodeFlags = swig.PREFIX_ENCODE_CONTINUES
)

// added bounds how many tokens AddSpecial adds to a text.
const added = 16

// Encode makes tokens of a text of at most 16 MiB. Encoding "AB" is not encoding "A" and then "B".
func (t *Tokenizer) Encode(text string, flags EncodeFlags) ([]Token, error) {
	tokens, err := arrayOf(&t.handle, len(text)+added, func(h uintptr, b []Token, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_encode(h, text, int32(flags), b, needed, f)
	})
	return slices.Clone(tokens), err // a text has mostly fewer tokens than bytes
}

// Span is a part of a text, in bytes.
type Span struct{ Start, End int }

// EncodeOffsets is Encode with the part of the text that each token comes from; 0, 0 for tokens that were added.
func (t *Tokenizer) EncodeOffsets(text string, flags EncodeFlags) ([]Token, []Span, error) {
	var offsets []int64
	tokens, err := arrayOf(&t.handle, len(text)+added, func(h uintptr, b []Token, needed *uintptr, f *swig.Error) int32 {
		offsets = make([]int64, 2*len(b))
		return swig.Prefix_tokenizer_encode_offsets(h, text, int32(flags), b, needed, offsets, f)
	})
	spans := make([]Span, len(tokens))
	for i := range spans {
		spans[i] = Span{int(offsets[2*i]), int(offsets[2*i+1])}
	}
	return slices.Clone(tokens), spans, err
}

// EncodeBatch encodes many texts in one call. All fail when one is bad; the error says which.
func (t *Tokenizer) EncodeBatch(texts []string, flags EncodeFlags) ([][]Token, error) {
	joined, ends := joinTexts(texts)
	offsets := make([]int64, len(ends))
	guess := len(joined) + added*len(texts)
	flat, err := arrayOf(&t.handle, guess, func(h uintptr, b []Token, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_encode_batch(h, joined, ends, int32(flags), b, needed, offsets, f)
	})
	if err != nil {
		return nil, err
	}
	flat = slices.Clone(flat)
	lists := make([][]Token, len(texts))
	for i := range lists {
		lists[i] = flat[offsets[i]:offsets[i+1]:offsets[i+1]]
	}
	return lists, nil
}

// DecodeFlags say how tokens become text.
type DecodeFlags int32

// SkipSpecial leaves special tokens out.
const SkipSpecial DecodeFlags = swig.PREFIX_DECODE_SKIP_SPECIAL

// Decode makes text of tokens. Bytes that are no characters become U+FFFD.
func (t *Tokenizer) Decode(tokens []Token, flags DecodeFlags) (string, error) {
	return textOf(&t.handle, 64+8*len(tokens), func(h uintptr, b []byte, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_decode(h, tokens, int32(flags), b, needed, f)
	})
}

// ChatText is the prompt of a conversation, as the model's template writes it.
func (t *Tokenizer) ChatText(messages []Message, options ChatOptions) (string, error) {
	conversation, settings, err := chat(messages, options)
	if err != nil {
		return "", err
	}
	return textOf(&t.handle, 2*len(conversation)+1024, func(h uintptr, b []byte, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_chat_text(h, conversation, settings, b, needed, f)
	})
}

// ChatTokens are the tokens of ChatText.
func (t *Tokenizer) ChatTokens(messages []Message, options ChatOptions) ([]Token, error) {
	tokens, _, err := t.chatTokens(messages, options, 0)
	return tokens, err
}

// ChatTurns is ChatTokens with where the turns end: turns[i] is how many of the first tokens belong to messages
// 0..i and stay the same when the conversation goes on after message i. The last entry is the number of tokens.
func (t *Tokenizer) ChatTurns(messages []Message, options ChatOptions) (tokens []Token, turns []int, err error) {
	tokens, ends, err := t.chatTokens(messages, options, len(messages)+1)
	turns = make([]int, len(ends))
	for i, end := range ends {
		turns[i] = int(end)
	}
	return tokens, turns, err
}

func (t *Tokenizer) chatTokens(messages []Message, options ChatOptions, ends int) ([]Token, []int64, error) {
	conversation, settings, err := chat(messages, options)
	if err != nil {
		return nil, nil, err
	}
	segments := make([]int64, ends)
	tokens, err := arrayOf(&t.handle, len(conversation)+1024, func(h uintptr, b []Token, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_tokenizer_chat_tokens(h, conversation, settings, b, needed, segments, f)
	})
	return slices.Clone(tokens), segments, err
}

// joinTexts puts texts into one with the places where they begin and end.
func joinTexts(texts []string) (joined string, offsets []int64) {
	total := 0
	for _, text := range texts {
		total += len(text)
	}
	bytes, offsets := make([]byte, 0, total), make([]int64, 1, len(texts)+1)
	for _, text := range texts {
		bytes = append(bytes, text...)
		offsets = append(offsets, int64(len(bytes)))
	}
	return string(bytes), offsets
}
