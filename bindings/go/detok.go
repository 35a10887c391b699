package prefix

import (
	"runtime"
	"sync"

	"prefix.io/prefix/internal/swig"
)

// Detokenizer makes text of tokens that arrive one by one, and never cuts a character. The pieces, with that of
// Flush, add up to what [Tokenizer.Decode] gives for all tokens.
type Detokenizer struct {
	handle
	mutex sync.Mutex // the library takes one caller at a time
}

// NewDetokenizer starts a stream. The detokenizer keeps what it needs of the tokenizer.
func (t *Tokenizer) NewDetokenizer(flags DecodeFlags) (*Detokenizer, error) {
	tokenizer, err := t.ptr()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(t)
	var raw uintptr
	if err := call(func(f *swig.Error) int32 {
		return swig.Prefix_detok_create(tokenizer, int32(flags), &raw, f)
	}); err != nil {
		return nil, err
	}
	detok := &Detokenizer{}
	detok.own(raw, "detokenizer", swig.Prefix_detok_release)
	return detok, nil
}

// Push takes tokens and returns the text that has become complete, often none.
func (d *Detokenizer) Push(tokens ...Token) (string, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return textOf(&d.handle, 64+16*len(tokens), func(h uintptr, b []byte, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_detok_push(h, tokens, b, needed, f)
	})
}

// Flush ends the stream and returns the rest, with U+FFFD for an unfinished character. The detokenizer may then be
// used for the next stream.
func (d *Detokenizer) Flush() (string, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return textOf(&d.handle, 64, swig.Prefix_detok_flush)
}
