package prefix_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"prefix.io/prefix"
)

// flat runs a cycle many times; memory may not grow between the first tenth and the end.
func flat(t *testing.T, what string, cycles int, cycle func()) {
	t.Helper()
	for range cycles / 10 {
		cycle()
	}
	debug.FreeOSMemory()
	before := resident(t)
	for range cycles - cycles/10 {
		cycle()
	}
	debug.FreeOSMemory()
	grown := resident(t) - before
	t.Logf("%s: %d cycles, %d KiB more", what, cycles, grown>>10)
	// The race detector keeps notes of its own.
	if limit := int64(4 << 20); grown > limit && !raceDetector {
		t.Errorf("%s: %d bytes more after %d cycles", what, grown, cycles)
	}
}

func TestMemoryIsFlat(t *testing.T) {
	engine := open(t)
	flat(t, "create, run, close", 10_000, func() {
		batch := must(engine.NewBatch())(t)
		must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1, 5, 9, 12}, IDs: []prefix.Token{3, 4}}))(t)
		must(batch.Add(prefix.Generate{Tokens: []prefix.Token{1, 5, 9}, Options: prefix.Options{"max_tokens": 2}}))(t)
		must(batch.Add(prefix.Embedding{Tokens: []prefix.Token{1, 99_999}}))(t) // fails, with a message
		job := must(engine.Run(background, batch))(t)
		if values := must(job.AllValues())(t); len(values.At(0)) != 2 {
			t.Fatal(values)
		}
		if _, err := job.Values(2); err == nil {
			t.Fatal("no error")
		}
		job.Close()
		batch.Close()
	})
	flat(t, "errors", 10_000, func() {
		if prefix.Options.Check(prefix.Options{"thread": 1}) == nil {
			t.Fatal("no error")
		}
		if _, err := prefix.Open(background, "/nowhere", nil); err == nil {
			t.Fatal("no error")
		}
	})
	model, reader := asciiModel(t)
	flat(t, "tasks", 2000, func() {
		task := must(prefix.NewTask(model, reader, "rerank", prefix.Options{"top_n": 1}))(t)
		must(task.AddProduct([]string{"Which city?"}, documents))(t)
		check(t, task.Run(background))
		if ranking := must(task.Ranking(0, 3))(t); len(ranking) != 1 {
			t.Fatal(ranking)
		}
		task.Close()
	})
	text, config := byteTokenizer(128)
	flat(t, "tokenizers", 1000, func() {
		tokenizer := must(prefix.TokenizerFromJSON(text, config))(t)
		detok := must(tokenizer.NewDetokenizer(0))(t)
		must(detok.Push(must(tokenizer.Encode("some text", 0))(t)...))(t)
		detok.Close()
		tokenizer.Close()
	})
	flat(t, "engines", 300, func() {
		options := prefix.Options{"threads": 1, "cache_bytes": "4M"}
		engine := must(prefix.Open(background, filepath.Join(models, "llama-base"), options))(t)
		batch := must(engine.NewBatch())(t)
		must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1, 5}, IDs: []prefix.Token{3}}))(t)
		must(engine.Run(background, batch))(t).Close()
		batch.Close()
		engine.Close()
	})
}

// What is never closed is freed by the garbage collector.
func TestForgottenValuesAreFreed(t *testing.T) {
	cycle := func() {
		engine := must(prefix.Open(background, filepath.Join(models, "llama-base"), prefix.Options{"cache_bytes": "16M"}))(t)
		batch := must(engine.NewBatch())(t)
		must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1, 5}, IDs: []prefix.Token{3}}))(t)
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		must(engine.Run(ctx, batch))(t)
	}
	settle := func() {
		for range 5 {
			runtime.GC()
			time.Sleep(20 * time.Millisecond)
		}
		debug.FreeOSMemory()
	}
	for range 3 {
		cycle()
	}
	settle()
	before := resident(t)
	for range 30 {
		cycle()
		runtime.GC()
	}
	settle()
	// 30 engines have caches of 480 MiB together.
	if grown := resident(t) - before; grown > 64<<20 {
		t.Errorf("%d bytes more", grown)
	}
}

// watched is a context that tells when something that it would call at its end is taken away.
type watched struct {
	context.Context
	done, stopped chan struct{}
}

func (w watched) Done() <-chan struct{} { return w.done }

func (w watched) AfterFunc(func()) (stop func() bool) {
	return func() bool {
		w.stopped <- struct{}{}
		return true
	}
}

// What is never closed leaves nothing in the context of its submission.
func TestForgottenJobsLeaveTheirContext(t *testing.T) {
	engine := open(t)
	const jobs = 10
	long := watched{background, make(chan struct{}), make(chan struct{}, jobs)}
	for range jobs {
		batch := must(engine.NewBatch())(t)
		must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1, 5}, IDs: []prefix.Token{3}}))(t)
		check(t, must(engine.Submit(long, batch))(t).Wait(background))
	}
	for range jobs {
		collect(t, long.stopped)
	}
}

func TestManyGoroutinesOnOneEngine(t *testing.T) {
	g := readGolden(t)
	engine := open(t)
	batches := make([]*prefix.Batch, 8)
	for i := range batches {
		batches[i] = goldenBatch(t, engine, g)
	}
	done := make(chan error, len(batches))
	for i, batch := range batches {
		go func() {
			done <- func() error {
				for round := range 20 {
					job, err := engine.Run(background, batch)
					if err != nil {
						return err
					}
					checkGolden(t, job, g)
					if (i+round)%3 == 0 {
						if _, err := engine.Stats(); err != nil {
							return err
						}
						if _, err := engine.Trim(0); err != nil {
							return err
						}
					}
					job.Close()
				}
				return nil
			}()
		}()
	}
	for range batches {
		check(t, <-done)
	}
}

// One job and one batch in many hands, closed while they are in use: values or a clear error, never a crash.
func TestCloseDuringUse(t *testing.T) {
	for range 20 {
		engine := open(t)
		batch := generations(t, engine, 50)
		job := must(engine.Submit(background, batch))(t)
		done := make(chan error)
		for range 4 {
			go func() {
				for {
					_, err := job.FinishedCount()
					if err == nil {
						_, err = engine.Stats()
					}
					if err == nil {
						_, err = batch.PlanJSON()
					}
					if err != nil {
						done <- err
						return
					}
				}
			}()
		}
		time.Sleep(time.Millisecond)
		engine.Close()
		job.Close()
		batch.Close()
		for range 4 {
			if err := <-done; !errors.Is(err, prefix.ErrMisuse) {
				t.Error(err)
			}
		}
	}
}

// With the build tag prefix_gcstress every call collects garbage; without it this test does so beside the calls.
func TestGarbageCollectionDuringCalls(t *testing.T) {
	g := readGolden(t)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	defer close(stop)
	for range 10 {
		engine := must(prefix.Open(background, filepath.Join(models, g.Model), g.Options))(t)
		batch := must(engine.NewBatch())(t)
		for _, request := range g.Requests {
			must(batch.Add(request.request()))(t)
		}
		job := must(engine.Run(background, batch))(t)
		// Nothing holds engine and batch any longer.
		checkGolden(t, job, g)
	}
}
