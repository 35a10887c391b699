// Command overhead measures what the bindings cost: ./env go run ./internal/overhead MODEL.
//
// It prints one JSON object per line, with medians in microseconds. engine_us is what the library itself says about
// the job; the rest of wall_us is crossing the interface, copying tokens in and scores out.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"slices"
	"time"

	"prefix.io/prefix"
)

const documents = 1000

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: overhead MODEL")
	}
	ctx := context.Background()
	engine := must(prefix.Open(ctx, os.Args[1], prefix.Options{"threads": 1}))
	defer engine.Close()

	// One call that does nothing: the state of the engine.
	const calls = 1_000_000
	begin := time.Now()
	for range calls {
		engine.State()
	}
	line(map[string]any{"case": "call", "wall_us": micros(time.Since(begin)) / calls})

	// A batch without requests: a job is made, waited for and closed.
	empty := must(engine.NewBatch())
	measure("empty_run", 2000, func() time.Duration { return run(ctx, engine, empty, 0) })

	// One logit, again and again; after the first run all is in the cache.
	small := must(engine.NewBatch())
	must(small.Add(prefix.Logits{Tokens: []prefix.Token{1, 5, 9, 12}, IDs: []prefix.Token{3}}))
	measure("one_logit", 2000, func() time.Duration { return run(ctx, engine, small, 1) })

	// Many documents after one instruction: one call adds them, one runs them, one brings all scores.
	instruction, texts := make([]prefix.Token, 32), make([][]prefix.Token, documents)
	for i := range instruction {
		instruction[i] = 1 + int32(i%97)
	}
	for i := range texts {
		for k := range 8 {
			texts[i] = append(texts[i], 1+int32((8*i+k)*31%127))
		}
	}
	score := must(engine.NewBatch())
	measure("score_1000_documents", 20, func() time.Duration {
		if err := score.Clear(); err != nil {
			log.Fatal(err)
		}
		must(score.Add(prefix.Continuations{Tokens: instruction, Continuations: texts}))
		return run(ctx, engine, score, 8*documents)
	})
}

// run returns the time that the engine says it took.
func run(ctx context.Context, engine *prefix.Engine, batch *prefix.Batch, values int) time.Duration {
	job := must(engine.Run(ctx, batch))
	defer job.Close()
	if got := len(must(job.AllValues()).Flat()); got != values {
		log.Fatalf("%d values instead of %d", got, values)
	}
	return must(job.Totals()).Duration
}

// measure prints the run with the median wall time.
func measure(name string, runs int, once func() time.Duration) {
	once() // fills the cache
	type sample struct{ wall, engine time.Duration }
	samples := make([]sample, runs)
	for i := range samples {
		begin := time.Now()
		engine := once()
		samples[i] = sample{time.Since(begin), engine}
	}
	slices.SortFunc(samples, func(a, b sample) int { return int(a.wall - b.wall) })
	median := samples[runs/2]
	line(map[string]any{"case": name, "wall_us": micros(median.wall), "engine_us": micros(median.engine), "runs": runs})
}

func line(fields map[string]any) {
	fields["binding"] = "go"
	text := must(json.Marshal(fields))
	os.Stdout.Write(append(text, '\n'))
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
