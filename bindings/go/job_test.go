package prefix_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"prefix.io/prefix"
)

func TestBatch(t *testing.T) {
	plan := must(prefix.NewPlan())(t)
	defer plan.Close()
	must(plan.Add(prefix.Continuations{
		Tokens: []prefix.Token{1, 2, 3}, Continuations: [][]prefix.Token{{4}, {5, 6}, {5, 7}},
	}))(t)
	if number := must(plan.Add(prefix.Embedding{Tokens: []prefix.Token{1, 2}}))(t); number != 3 || plan.Len() != 4 {
		t.Error(number, plan.Len())
	}
	var shape struct {
		Requests       int
		TokensGiven    int `json:"tokens_given"`
		TokensDistinct int `json:"tokens_distinct"`
	}
	check(t, json.Unmarshal([]byte(must(plan.PlanJSON())(t)), &shape))
	if shape.Requests != 4 || shape.TokensGiven != 16 || shape.TokensDistinct >= 16 {
		t.Errorf("%+v", shape)
	}
	engine := open(t)
	if _, err := engine.Run(background, plan); !errors.Is(err, prefix.ErrMisuse) && !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
	check(t, plan.Clear())
	if plan.Len() != 0 {
		t.Error(plan.Len())
	}
	batch := must(engine.NewBatch())(t)
	job := must(engine.Run(background, batch))(t)
	if values := must(job.AllValues())(t); values.Len() != 0 || len(values.Flat()) != 0 {
		t.Error(values)
	}
	if new(prefix.Values).Len() != 0 {
		t.Error("no values")
	}
}

// waited is a context that tells when somebody begins to wait for its end.
type waited struct {
	context.Context
	begun func()
}

func (w *waited) Done() <-chan struct{} {
	w.begun()
	return w.Context.Done()
}

func TestCloseEndsAWait(t *testing.T) {
	engine := open(t)
	job := must(engine.Submit(background, generations(t, engine, 2000)))(t)
	begun, ended := make(chan struct{}), make(chan error)
	go func() { ended <- job.Wait(&waited{background, sync.OnceFunc(func() { close(begun) })}) }()
	<-begun
	check(t, job.Close())
	err := <-ended
	is(t, err, prefix.ErrClosed)
	is(t, err, prefix.ErrMisuse)
}

// What makes no sense is refused by Add or has an error as its result.
func TestBadRequests(t *testing.T) {
	engine := open(t)
	tokens := []prefix.Token{1, 2}
	for i, request := range []prefix.Request{
		nil, prefix.Logits{}, prefix.Logits{Tokens: tokens}, prefix.Logprobs{Tokens: tokens, From: -1 << 40},
		prefix.Logprobs{Tokens: tokens, From: 1 << 40}, prefix.Choices{Tokens: tokens}, prefix.Embedding{},
		prefix.Generate{Tokens: tokens, Options: prefix.Options{"max_token": 1}},
		prefix.Embedding{Tokens: make([]prefix.Token, 1000)},
	} {
		batch := must(engine.NewBatch())(t)
		_, err := batch.Add(request)
		if err == nil {
			job := must(engine.Run(background, batch))(t)
			err = must(job.Result(0))(t).Err
			for _, value := range must(job.AllValues())(t).Flat() {
				if value == value {
					t.Errorf("%d has the value %v", i, value)
				}
			}
			if request, failure := job.FirstFailure(); request != 0 || failure == nil {
				t.Error(request, failure)
			}
		}
		if err == nil {
			t.Errorf("%d: no error", i)
		}
	}
}

func TestABadRequestFailsAlone(t *testing.T) {
	engine := open(t)
	batch := must(engine.NewBatch())(t)
	must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1, 999}, IDs: []prefix.Token{3}, Tag: 7}))(t)
	must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1, 9}, IDs: []prefix.Token{3, 4}, Tag: 8}))(t)
	job := must(engine.Run(background, batch))(t)
	bad, good := must(job.Result(0))(t), must(job.Result(1))(t)
	if bad.Err == nil || bad.Tag != 7 || bad.Finish != prefix.FinishError {
		t.Errorf("%+v", bad)
	}
	if good.Err != nil || good.Tag != 8 || good.PromptTokens != 2 || good.Total <= 0 {
		t.Errorf("%+v", good)
	}
	values := must(job.AllValues())(t)
	for i, part := range values.All() {
		if len(part) != i+1 || (part[0] != part[0]) != (i == 0) {
			t.Error(i, part)
		}
	}
	totals := must(job.Totals())(t)
	if totals.Requests != 2 || totals.Failed != 1 || totals.Duration <= 0 {
		t.Errorf("%+v", totals)
	}
	for index, sentence := range map[int]string{2: "request 2; the job has 2", -1: "request is -1; at least 0"} {
		_, result := job.Result(index)
		_, values := job.Values(index)
		_, tokens := job.Tokens(index)
		_, logprobs := job.Logprobs(index)
		for i, err := range []error{result, values, tokens, logprobs, job.CancelRequest(index)} {
			if !errors.Is(err, prefix.ErrOutOfRange) || !strings.Contains(err.Error(), sentence) {
				t.Error(i, err)
			}
		}
	}
}

func TestASentenceNamesThePositionThatWasGiven(t *testing.T) {
	engine := open(t)
	batch := must(engine.NewBatch())(t)
	must(batch.Add(prefix.Logprobs{Tokens: []prefix.Token{1, 2}, From: -5}))(t)
	job := must(engine.Run(background, batch))(t)
	if err := must(job.Result(0))(t).Err; err == nil || !strings.Contains(err.Error(), "from is -5;") {
		t.Error(err)
	}
}

func threads(t *testing.T) int {
	return len(must(os.ReadDir("/proc/self/task"))(t))
}

// However many wait, one thread waits inside the library.
func TestManyWaits(t *testing.T) {
	engine := open(t)
	batch := must(engine.NewBatch())(t)
	options := prefix.Options{"max_tokens": 400, "ignore_eos": true}
	must(batch.Add(prefix.Generate{Tokens: []prefix.Token{1, 2, 3}, Options: options}))(t)
	before := threads(t)
	var group sync.WaitGroup
	jobs := make([]*prefix.Job, 200)
	for i := range jobs {
		jobs[i] = must(engine.Submit(background, batch))(t)
		group.Add(1)
		go func() {
			defer group.Done()
			if err := jobs[i].Wait(background); err != nil {
				t.Error(err)
			}
		}()
	}
	if now := threads(t); now > before+20 {
		t.Errorf("%d threads, %d before", now, before)
	}
	for _, job := range jobs {
		check(t, job.Cancel())
	}
	group.Wait()
	ctx, cancel := context.WithCancel(background)
	long := must(engine.Submit(background, batch))(t)
	cancel()
	if err := long.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	check(t, long.Detach())
	check(t, long.Close())
}

func TestEvents(t *testing.T) {
	engine := open(t)
	batch := must(engine.NewBatch())(t)
	options := prefix.Options{"max_tokens": 5, "ignore_eos": true, "logprobs": true}
	must(batch.Add(prefix.Generate{Tokens: []prefix.Token{1, 2, 3}, Options: options, Tag: 11}))(t)
	job := must(engine.Submit(background, batch))(t)
	var tokens []prefix.Token
	var last prefix.Event
	for event, err := range job.Events(background) {
		check(t, err)
		if event.Request != 0 || event.Tag != 11 || event.Time < last.Time {
			t.Errorf("%+v", event)
		}
		if event.Kind == prefix.EventToken {
			tokens = append(tokens, event.Token)
			if event.Logprob >= 0 {
				t.Errorf("%+v", event)
			}
		}
		last = event
	}
	if last.Kind != prefix.EventFinished || last.Computed != 3 || last.Kind.String() != "finished" {
		t.Errorf("%+v", last)
	}
	if got := must(job.Tokens(0))(t); len(got) != 5 || len(tokens) != 5 || got[4] != tokens[4] {
		t.Error(got, tokens)
	}
	if result := must(job.Result(0))(t); result.Finish != prefix.FinishLength || result.GeneratedTokens != 5 {
		t.Errorf("%+v", result)
	}
	for range job.Events(background) {
		t.Error("events come once")
	}
}

// One thread waits for the events of all jobs, and several readers of one job share them.
func TestManyStreams(t *testing.T) {
	engine := open(t)
	before := threads(t)
	var group sync.WaitGroup
	for i := range 100 {
		batch := must(engine.NewBatch())(t)
		options := prefix.Options{"max_tokens": 1 + i%9, "ignore_eos": true}
		must(batch.Add(prefix.Generate{Tokens: []prefix.Token{1, 2, prefix.Token(i)}, Options: options}))(t)
		job := must(engine.Submit(background, batch))(t)
		var tokens, readers atomic.Int64
		for range 2 {
			group.Add(1)
			go func() {
				defer group.Done()
				for event, err := range job.Events(background) {
					if err != nil {
						t.Error(err)
					}
					if event.Kind == prefix.EventToken {
						tokens.Add(1)
					}
				}
				if readers.Add(1) == 2 && tokens.Load() != int64(1+i%9) {
					t.Errorf("%d tokens of %d", tokens.Load(), 1+i%9)
				}
			}()
		}
	}
	if now := threads(t); now > before+20 {
		t.Errorf("%d threads, %d before", now, before)
	}
	group.Wait()
}

func TestAContextEndsAWaitForEvents(t *testing.T) {
	engine := open(t)
	job := must(engine.Submit(background, generations(t, engine, 2000)))(t)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	events := 0
	var last error
	for _, err := range job.Events(ctx) {
		if events++; events == 5 {
			cancel()
		}
		last = err
	}
	if events < 5 || !errors.Is(last, context.Canceled) {
		t.Error(events, last)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range job.Events(background) {
		}
	}()
	check(t, job.Close()) // ends the other's wait
	<-done
}

func TestCancelMidRun(t *testing.T) {
	engine := open(t)
	job := must(engine.Submit(background, generations(t, engine, 2000)))(t)
	for _, err := range job.Events(background) {
		check(t, err)
		break // it has begun
	}
	if _, err := job.Result(1999); !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if err := job.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	begin := time.Now()
	go job.Cancel()
	check(t, job.Wait(background))
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := job.Tokens(1999); !errors.Is(err, prefix.ErrCancelled) {
		t.Error(err)
	}
	if finished := must(job.FinishedCount())(t); finished != job.Len() || finished != 2000 {
		t.Error(finished)
	}
	if stats := must(engine.Stats())(t); stats.RequestsRunning != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestCancelOneRequest(t *testing.T) {
	engine := open(t)
	job := must(engine.Submit(background, generations(t, engine, 30)))(t)
	check(t, job.CancelRequest(20))
	if err := job.CancelRequest(30); !errors.Is(err, prefix.ErrOutOfRange) {
		t.Error(err)
	}
	check(t, job.Wait(background))
	if result := must(job.Result(20))(t); !errors.Is(result.Err, prefix.ErrCancelled) {
		t.Errorf("%+v", result)
	}
	if result := must(job.Result(21))(t); result.Err != nil {
		t.Errorf("%+v", result)
	}
}

func TestTheContextCancelsARun(t *testing.T) {
	engine := open(t)
	batch := generations(t, engine, 2000)
	ctx, cancel := context.WithCancelCause(background)
	why := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	begin := time.Now()
	if _, err := engine.Run(ctx, batch); !errors.Is(err, why) || !errors.Is(err, prefix.ErrCancelled) {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := engine.Submit(ctx, batch); !errors.Is(err, why) {
		t.Error(err)
	}
	// A context that ends while its job runs, and one that ends after the job was closed.
	ctx, stop := context.WithCancel(background)
	job := must(engine.Submit(ctx, batch))(t)
	stop()
	check(t, job.Wait(background))
	if _, err := job.Tokens(1999); !errors.Is(err, prefix.ErrCancelled) {
		t.Error(err)
	}
	ctx, stop = context.WithCancel(background)
	check(t, must(engine.Submit(ctx, batch))(t).Close())
	stop()
	for event, err := range must(engine.Submit(background, batch))(t).Events(ctx) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(event, err)
		}
	}
}

func TestDeadline(t *testing.T) {
	engine := open(t)
	batch := generations(t, engine, 500)
	options := prefix.Options{"deadline_ms": 1, "max_tokens": 200}
	number := must(batch.Add(prefix.Generate{Tokens: []prefix.Token{9, 9}, Options: options}))(t)
	job := must(engine.Submit(background, batch))(t)
	defer job.Close()
	for event, err := range job.Events(background) {
		check(t, err)
		if event.Request == number && event.Kind == prefix.EventError {
			if event.Status != prefix.ErrDeadline {
				t.Errorf("%+v", event)
			}
			return
		}
	}
	t.Error("no event of the request")
}
