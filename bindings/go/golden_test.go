package prefix_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"prefix.io/prefix"
)

// The tests run in a checkout, after the library and the tiny models have been built.
const models = "../../build/golden-models"

type golden struct {
	Model    string
	Options  prefix.Options
	Requests []goldenRequest
}

type goldenRequest struct {
	Task          string
	Tokens        []prefix.Token
	IDs           []prefix.Token
	From          int
	Choices       [][]prefix.Token
	Continuations [][]prefix.Token
	MaxTokens     int `json:"max_tokens"`
	Status        prefix.Status
	ValuesBits    []uint32 `json:"values_bits"`
	LogprobsBits  []uint32 `json:"logprobs_bits"`
	Generated     []prefix.Token
}

func readGolden(t testing.TB) golden {
	t.Helper()
	text, err := os.ReadFile("../golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func (r goldenRequest) request() prefix.Request {
	switch r.Task {
	case "logits":
		return prefix.Logits{Tokens: r.Tokens, IDs: r.IDs}
	case "logprobs":
		return prefix.Logprobs{Tokens: r.Tokens, From: r.From}
	case "choices":
		return prefix.Choices{Tokens: r.Tokens, Choices: r.Choices}
	case "continuations":
		return prefix.Continuations{Tokens: r.Tokens, Continuations: r.Continuations}
	case "embedding":
		return prefix.Embedding{Tokens: r.Tokens}
	case "generate":
		return prefix.Generate{Tokens: r.Tokens, Options: prefix.Options{"max_tokens": r.MaxTokens, "logprobs": true}}
	}
	return nil
}

func (r goldenRequest) parts() int { return max(1, len(r.Continuations)) }

func bitsOf(values []float32) []uint32 {
	bits := make([]uint32, len(values))
	for i, value := range values {
		bits[i] = math.Float32bits(value)
	}
	return bits
}

// must fails the test for an error, and passes the value on.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB) *prefix.Engine {
	t.Helper()
	g := readGolden(t)
	engine := must(prefix.Open(context.Background(), filepath.Join(models, g.Model), g.Options))(t)
	t.Cleanup(func() { engine.Close() })
	return engine
}

// goldenBatch has all requests of the file, in its order.
func goldenBatch(t testing.TB, engine *prefix.Engine, g golden) *prefix.Batch {
	t.Helper()
	batch := must(engine.NewBatch())(t)
	t.Cleanup(func() { batch.Close() })
	next := 0
	for _, request := range g.Requests {
		if index := must(batch.Add(request.request()))(t); index != next {
			t.Fatalf("%s has number %d, not %d", request.Task, index, next)
		}
		next += request.parts()
	}
	return batch
}

func checkGolden(t testing.TB, job *prefix.Job, g golden) {
	t.Helper()
	values, err := job.AllValues()
	if err != nil {
		t.Error(err)
		return
	}
	next := 0
	for _, request := range g.Requests {
		first := next
		next += request.parts()
		var bits []uint32
		for i := first; i < next; i++ {
			bits = append(bits, bitsOf(values.At(i))...)
		}
		if !slices.Equal(bits, request.ValuesBits) {
			t.Errorf("%s: values %v instead of %v", request.Task, bits, request.ValuesBits)
		}
		result, err := job.Result(first)
		if err != nil {
			t.Error(err)
			continue
		}
		if request.Status != 0 {
			if !errors.Is(result.Err, request.Status) {
				t.Errorf("%s: %v instead of status %d", request.Task, result.Err, request.Status)
			}
			if _, err := job.Values(first); !errors.Is(err, request.Status) {
				t.Errorf("%s: Values fails with %v", request.Task, err)
			}
			continue
		}
		if result.Err != nil {
			t.Errorf("%s: %v", request.Task, result.Err)
		}
		if request.LogprobsBits != nil {
			if logprobs, err := job.Logprobs(first); err != nil || !slices.Equal(bitsOf(logprobs), request.LogprobsBits) {
				t.Errorf("%s: other log-probabilities, %v", request.Task, err)
			}
		}
		if request.Generated != nil {
			if tokens, err := job.Tokens(first); err != nil || !slices.Equal(tokens, request.Generated) {
				t.Errorf("%s: generated %v, %v", request.Task, tokens, err)
			}
		}
	}
}

func TestGolden(t *testing.T) {
	g := readGolden(t)
	engine := open(t)
	job := must(engine.Run(context.Background(), goldenBatch(t, engine, g)))(t)
	defer job.Close()
	checkGolden(t, job, g)
}
