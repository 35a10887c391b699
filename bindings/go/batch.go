package prefix

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"prefix.io/prefix/internal/swig"
)

// Request is one of [Logits], [Logprobs], [Choices], [Continuations], [Embedding], [Generate] and [Warm]. Each has the
// tokens of a prompt, Options of the request (may be nil), and a Tag of your own that comes back with results and
// events.
type Request interface {
	// add puts the request into a batch and says how many requests and values it will have.
	add(batch *Batch, raw, options uintptr, index *uintptr, failure *swig.Error) int32
	size(batch *Batch) (requests, values int)
	common() (Options, int64)
}

// Logits asks for the raw logits of IDs after the last token. Values: one per id.
type Logits struct {
	Tokens  []Token
	IDs     []Token
	Options Options
	Tag     int64
}

// Logprobs asks for the log-probabilities of the tokens from position From (at least 1), each after all before it.
// Values: one per token from From on.
type Logprobs struct {
	Tokens  []Token
	From    int
	Options Options
	Tag     int64
}

// Choices scores possible continuations of a prompt, which is computed once. Values: the sum of log-probabilities
// of each choice; those of the single tokens are in [Job.Logprobs].
type Choices struct {
	Tokens  []Token
	Choices [][]Token
	Options Options
	Tag     int64
}

// Continuations are many requests with one beginning, as in ranking: request i scores Tokens + Continuations[i], and
// has the tag Tag + i. Values of each: the log-probabilities of the tokens of its continuation.
type Continuations struct {
	Tokens        []Token
	Continuations [][]Token
	Options       Options
	Tag           int64
}

// Embedding asks for the final hidden state of the last token; see options dimensions and normalize.
type Embedding struct {
	Tokens  []Token
	Options Options
	Tag     int64
}

// Generate asks for a continuation, see [Job.Tokens] and options max_tokens, temperature, top_k, top_p, seed,
// stop_tokens, logprobs and top_logprobs.
type Generate struct {
	Tokens  []Token
	Options Options
	Tag     int64
}

// Warm has no values: the tokens are computed, or fetched from disk or store (options of the engine), and stay in the
// cache for those who come later.
type Warm struct {
	Tokens  []Token
	Options Options
	Tag     int64
}

func (r Logits) common() (Options, int64)        { return r.Options, r.Tag }
func (r Logprobs) common() (Options, int64)      { return r.Options, r.Tag }
func (r Choices) common() (Options, int64)       { return r.Options, r.Tag }
func (r Continuations) common() (Options, int64) { return r.Options, r.Tag }
func (r Embedding) common() (Options, int64)     { return r.Options, r.Tag }
func (r Generate) common() (Options, int64)      { return r.Options, r.Tag }
func (r Warm) common() (Options, int64)          { return r.Options, r.Tag }

func (r Logits) size(*Batch) (int, int)      { return 1, len(r.IDs) }
func (r Choices) size(*Batch) (int, int)     { return 1, len(r.Choices) }
func (r Embedding) size(b *Batch) (int, int) { return 1, b.hidden() }
func (r Generate) size(*Batch) (int, int)    { return 1, 0 }
func (r Warm) size(*Batch) (int, int)        { return 1, 0 }

// The request may be a bad one, which fails later.
func (r Logprobs) size(*Batch) (int, int) {
	return 1, len(r.Tokens) - max(0, min(r.From, len(r.Tokens)))
}

func (r Continuations) size(*Batch) (int, int) {
	values := 0
	for _, continuation := range r.Continuations {
		values += len(continuation)
	}
	return len(r.Continuations), values
}

func (r Logits) add(_ *Batch, raw, options uintptr, index *uintptr, f *swig.Error) int32 {
	return swig.Prefix_batch_add_logits(raw, r.Tokens, r.IDs, options, r.Tag, index, f)
}

func (r Logprobs) add(_ *Batch, raw, options uintptr, index *uintptr, f *swig.Error) int32 {
	from := int32(max(math.MinInt32, min(r.From, math.MaxInt32)))
	return swig.Prefix_batch_add_logprobs(raw, r.Tokens, from, options, r.Tag, index, f)
}

func (r Choices) add(_ *Batch, raw, options uintptr, index *uintptr, f *swig.Error) int32 {
	joined, offsets := join(r.Choices)
	return swig.Prefix_batch_add_choices(raw, r.Tokens, joined, offsets, options, r.Tag, index, f)
}

func (r Continuations) add(_ *Batch, raw, options uintptr, index *uintptr, f *swig.Error) int32 {
	joined, offsets := join(r.Continuations)
	return swig.Prefix_batch_add_continuations(raw, r.Tokens, joined, offsets, options, r.Tag, index, f)
}

func (r Embedding) add(_ *Batch, raw, options uintptr, index *uintptr, f *swig.Error) int32 {
	return swig.Prefix_batch_add_embedding(raw, r.Tokens, options, r.Tag, index, f)
}

func (r Warm) add(_ *Batch, raw, options uintptr, index *uintptr, f *swig.Error) int32 {
	return swig.Prefix_batch_add_warm(raw, r.Tokens, options, r.Tag, index, f)
}

func (r Generate) add(_ *Batch, raw, options uintptr, index *uintptr, f *swig.Error) int32 {
	return swig.Prefix_batch_add_generate(raw, r.Tokens, options, r.Tag, index, f)
}

// Batch collects requests that are run together. What is wrong with one request only (a token outside the
// vocabulary, a prompt that is too long) is reported with its result, not by Add.
type Batch struct {
	handle
	hidden func() int

	mutex    sync.Mutex // the library takes one caller at a time
	requests int
	values   int // how many a run will have, for the size of its buffer
}

// NewBatch makes an empty batch.
func (e *Engine) NewBatch() (*Batch, error) {
	raw, err := e.ptr()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(e)
	return newBatch(raw, e.hidden)
}

// NewPlan makes a batch without an engine, which can be planned but not run.
func NewPlan() (*Batch, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	return newBatch(0, func() int { return 0 })
}

func newBatch(engine uintptr, hidden func() int) (*Batch, error) {
	var raw uintptr
	if err := call(func(f *swig.Error) int32 { return swig.Prefix_batch_create(engine, &raw, f) }); err != nil {
		return nil, err
	}
	batch := &Batch{hidden: hidden}
	batch.own(raw, "batch", swig.Prefix_batch_release)
	return batch, nil
}

// Add appends a request and returns its number in the batch; for [Continuations], that of the first.
func (b *Batch) Add(request Request) (int, error) {
	if request == nil {
		return 0, fmt.Errorf("prefix: the request is nil: %w", ErrInvalidArgument)
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	options, _ := request.common()
	native, release, err := options.native()
	if err != nil {
		return 0, err
	}
	defer release()
	var index uintptr
	if err := callOn(&b.handle, func(raw uintptr, f *swig.Error) int32 {
		return request.add(b, raw, native, &index, f)
	}); err != nil {
		return 0, err
	}
	requests, values := request.size(b)
	b.requests += requests
	b.values += values
	return int(index), nil
}

// Len counts the requests.
func (b *Batch) Len() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.requests
}

// Clear removes all requests.
func (b *Batch) Clear() error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if err := callOn(&b.handle, swig.Prefix_batch_clear); err != nil {
		return err
	}
	b.requests, b.values = 0, 0
	return nil
}

// PlanJSON says how the batch shares, without running it: prefix_batch_plan_json in prefix.h describes the fields.
func (b *Batch) PlanJSON() (string, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return textOf(&b.handle, 1024+128*b.requests, swig.Prefix_batch_plan_json)
}

func (b *Batch) submit(ctx context.Context, engine uintptr) (*Job, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	var raw uintptr
	if err := callOn(&b.handle, func(batch uintptr, f *swig.Error) int32 {
		return swig.Prefix_submit(engine, batch, &raw, f)
	}); err != nil {
		return nil, err
	}
	return newJob(ctx, raw, b.requests, b.values), nil
}
