package prefix

import (
	"iter"
	"slices"
	"time"

	"prefix.io/prefix/internal/swig"
)

// Finish is why a generation ended.
type Finish int32

// The reasons.
const (
	FinishNone      Finish = swig.PREFIX_FINISH_NONE
	FinishStop      Finish = swig.PREFIX_FINISH_STOP
	FinishLength    Finish = swig.PREFIX_FINISH_LENGTH
	FinishCancelled Finish = swig.PREFIX_FINISH_CANCELLED
	FinishError     Finish = swig.PREFIX_FINISH_ERROR
)

func (f Finish) String() string {
	return nameOf(int32(f), "Finish", "none", "stop", "length", "cancelled", "error")
}

// Result says how a request, or an item of a task, went. PromptTokens is CachedTokens (found computed before this batch) + SharedTokens
// (computed in this batch for another request) + ComputedTokens (computed for this one).
type Result struct {
	Err                                                      error // why the request failed; nil when it did not
	Finish                                                   Finish
	Cut                                                      bool // of a task: the prompt was cut to fit
	Tag                                                      int64
	PromptTokens, CachedTokens, SharedTokens, ComputedTokens int
	GeneratedTokens                                          int
	Queue, First, Total                                      time.Duration // until first step, first result, end
	Seed                                                     int64         // of a generation's draws

	// Why tokens of the prompt were computed, by the reasons of [EngineStats], whose counters are the sums of these:
	// together they are ComputedTokens. With sharing=false all are 0.
	MissFirstSeen, MissNamespace, MissBudget, MissEvicted, MissGranularity, MissState int

	// Of a generation with option draft_tokens: tokens that were guessed and checked, and those of them that were right.
	DraftTokens, DraftTokensAccepted int
}

func microseconds(number int64) time.Duration { return time.Duration(number) * time.Microsecond }

func newResult(raw *swig.ResultInfo, message func() (string, error)) (Result, error) {
	result := Result{
		Finish: Finish(raw.Finish), Cut: raw.Flags&swig.PREFIX_RESULT_CUT != 0, Tag: raw.UserTag,
		PromptTokens: int(raw.PromptTokens),
		CachedTokens: int(raw.CachedTokens), SharedTokens: int(raw.SharedTokens),
		ComputedTokens: int(raw.ComputedTokens), GeneratedTokens: int(raw.GeneratedTokens),
		Queue: microseconds(raw.QueueUs), First: microseconds(raw.FirstUs), Total: microseconds(raw.TotalUs),
		Seed: raw.Seed, MissFirstSeen: int(raw.MissFirstSeen), MissNamespace: int(raw.MissNamespace),
		MissBudget: int(raw.MissBudget), MissEvicted: int(raw.MissEvicted), MissGranularity: int(raw.MissGranularity),
		MissState: int(raw.MissState), DraftTokens: int(raw.DraftTokens), DraftTokensAccepted: int(raw.DraftTokensAccepted),
	}
	if raw.Status != swig.PREFIX_OK {
		sentence, err := message()
		if err != nil {
			return Result{}, err
		}
		result.Err = &Error{Status(raw.Status), "request", sentence}
	}
	return result, nil
}

// Result is about one request. It is [ErrMisuse] while the request is unfinished; the request's own failure is in
// Result.Err.
func (j *Job) Result(request int) (Result, error) {
	raw := swig.ResultInfo{StructSize: swig.SizeofResultInfo}
	if err := callAt(&j.handle, "request", request, func(h, at uintptr, f *swig.Error) int32 {
		return swig.Prefix_job_result_info(h, at, &raw, f)
	}); err != nil {
		return Result{}, err
	}
	return newResult(&raw, func() (string, error) {
		message, err := arrayAt(&j.handle, "request", request, 256, swig.Prefix_job_result_message)
		return string(message), err
	})
}

// resultArray reads an array of one request; of one that failed, its error.
func resultArray[E int32 | float32](
	j *Job, request int, get func(uintptr, uintptr, []E, *uintptr, *swig.Error) int32,
) ([]E, error) {
	return arrayAt(&j.handle, "request", request, 64, get)
}

// Values are the numbers of one request, see the kinds of requests; the error is that of the request if it failed.
// [Job.AllValues] reads those of all requests at once.
func (j *Job) Values(request int) ([]float32, error) {
	return resultArray(j, request, swig.Prefix_job_result_values)
}

// Tokens are what a [Generate] request generated, with the one that stopped it. When it was cancelled or ran out of
// time, what it had generated comes together with the error.
func (j *Job) Tokens(request int) ([]Token, error) {
	tokens, err := resultArray(j, request, swig.Prefix_job_result_tokens)
	if err != nil {
		tokens, _ = resultArray(j, request, swig.Prefix_job_partial_tokens)
	}
	return tokens, err
}

// Logprobs are the log-probabilities of the tokens of [Generate] (with option logprobs) or of all [Choices] in a row.
func (j *Job) Logprobs(request int) ([]float32, error) {
	return resultArray(j, request, swig.Prefix_job_result_logprobs)
}

// TopToken is a token that was likely at its place, with the log-probability of the model's own logits.
type TopToken struct {
	Token   Token
	Logprob float32
}

// topOf reads two arrays of one length, of a request or an item.
func topOf(
	h *handle, what string, number int,
	get func(raw, at uintptr, tokens []Token, needed *uintptr, logprobs []float32, failure *swig.Error) int32,
) ([]TopToken, error) {
	var logprobs []float32
	tokens, err := arrayAt(h, what, number, 64,
		func(raw, at uintptr, tokens []Token, needed *uintptr, f *swig.Error) int32 {
			logprobs = make([]float32, len(tokens))
			return get(raw, at, tokens, needed, logprobs, f)
		})
	if err != nil {
		return nil, err
	}
	top := make([]TopToken, len(tokens))
	for i, token := range tokens {
		top[i] = TopToken{token, logprobs[i]}
	}
	return top, nil
}

// Top has, with option top_logprobs, for each token that was generated or scored the likeliest tokens of its place, in
// their order. The error is that of the request if it failed.
func (j *Job) Top(request int) ([][]TopToken, error) {
	all, err := topOf(&j.handle, "request", request, swig.Prefix_job_result_top)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	tokens, err := j.Tokens(request)
	if err != nil {
		return nil, err
	}
	places := len(tokens)
	if places == 0 {
		values, err := j.Values(request)
		if err != nil {
			return nil, err
		}
		places = len(values)
	}
	return slices.Collect(slices.Chunk(all, len(all)/places)), nil
}

// PartialTop is that of one place of a [Generate] request, as soon as its event can be read, and however the request
// ends.
func (j *Job) PartialTop(request, position int) ([]TopToken, error) {
	at, err := place("place", position)
	if err != nil {
		return nil, err
	}
	return topOf(&j.handle, "request", request, func(
		job, request uintptr, tokens []Token, needed *uintptr, logprobs []float32, f *swig.Error,
	) int32 {
		return swig.Prefix_job_partial_top(job, request, at, tokens, needed, logprobs, f)
	})
}

// FirstFailure is the error of the first request that failed, with its number; nil when all succeeded. The job must be
// done.
func (j *Job) FirstFailure() (request int, err error) {
	var index uintptr
	err = callOn(&j.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_job_first_failure(h, &index, f) })
	return int(index), err
}

// AllValues reads the values of all requests in one call of the library. The job must be done. Those of requests that
// failed are NaN; [Job.Result] says why.
func (j *Job) AllValues() (Values, error) {
	offsets := make([]int64, j.requests+1)
	flat, err := arrayOf(&j.handle, j.values, func(h uintptr, b []float32, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_job_all_values(h, b, needed, offsets, f)
	})
	if err != nil {
		return Values{}, err
	}
	return Values{flat, offsets}, nil
}

// Values are the numbers of many requests in one array.
type Values struct {
	flat    []float32
	offsets []int64
}

// Len counts the requests.
func (v Values) Len() int { return max(0, len(v.offsets)-1) }

// Flat is the array: request after request.
func (v Values) Flat() []float32 { return v.flat }

// At is the part of one request.
func (v Values) At(request int) []float32 {
	return v.flat[v.offsets[request]:v.offsets[request+1]:v.offsets[request+1]]
}

// All yields the requests with their values.
func (v Values) All() iter.Seq2[int, []float32] {
	return func(yield func(int, []float32) bool) {
		for i := range v.Len() {
			if !yield(i, v.At(i)) {
				return
			}
		}
	}
}

// Totals is what a whole job or task did.
type Totals struct {
	Requests, Failed                                                         int
	TokensGiven, TokensComputed, TokensCached, TokensShared, TokensGenerated int64
	Steps, Rows                                                              int64
	Duration                                                                 time.Duration
}

func newTotals(raw *swig.JobTotals) Totals {
	return Totals{
		int(raw.Requests), int(raw.Failed), raw.TokensGiven, raw.TokensComputed, raw.TokensCached, raw.TokensShared,
		raw.TokensGenerated, raw.Steps, raw.Rows, microseconds(raw.TotalUs),
	}
}

// Totals is complete when the job is done.
func (j *Job) Totals() (Totals, error) {
	raw := swig.JobTotals{StructSize: swig.SizeofJobTotals}
	err := callOn(&j.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_job_get_totals(h, &raw, f) })
	return newTotals(&raw), err
}
