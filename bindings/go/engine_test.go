package prefix_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"prefix.io/prefix"
)

var background = context.Background()

func TestSystem(t *testing.T) {
	if prefix.ABIVersion() < 1 || strings.Count(prefix.Version(), ".") != 2 || strings.Count(prefix.TextVersion(), ".") != 2 {
		t.Error(prefix.ABIVersion(), prefix.Version(), prefix.TextVersion())
	}
	if !strings.Contains(prefix.BuildInfo(), prefix.Version()) {
		t.Error(prefix.BuildInfo())
	}
	if !slices.Contains(prefix.Features(), "cpu") || !prefix.HasFeature("cpu") || prefix.HasFeature("") {
		t.Error(prefix.Features())
	}
	for i, device := range must(prefix.Devices())(t) {
		if (device.Kind == "cpu") != (i == 0) || device.Chosen != (i == 0) || device.Available != (device.Reason == "") {
			t.Errorf("%+v", device)
		}
		if i == 0 && !prefix.HasFeature(device.Level) {
			t.Errorf("%+v", device)
		}
	}
}

func TestPool(t *testing.T) {
	pool := must(prefix.NewPool(prefix.Options{"threads": 2}))(t)
	options := prefix.Options{"pool": pool, "cache_bytes": "16M"}
	for range 2 {
		engine := must(prefix.Open(background, filepath.Join(models, "llama-base"), options))(t)
		defer engine.Close()
		if info := must(engine.InfoJSON())(t); !strings.Contains(info, `"pool":true`) {
			t.Error(info)
		}
	}
	if _, ok := options["pool"]; !ok {
		t.Error("the caller's options were changed")
	}
	options["threads"] = 2
	if _, err := prefix.Open(background, filepath.Join(models, "llama-base"), options); !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if err := options.Check(); !errors.Is(err, prefix.ErrClosed) {
		t.Error(err)
	}
	if _, err := prefix.NewPool(prefix.Options{"dtype": "f32"}); !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
	if err := (prefix.Options{"pool": 3}).Check(); !errors.Is(err, prefix.ErrUnknownOption) {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	infos := must(prefix.OptionInfos())(t)
	found := slices.IndexFunc(infos, func(info prefix.OptionInfo) bool { return info.Key == "dtype" })
	if found < 0 || !slices.Contains(infos[found].Values, "f32") || infos[found].Scope != prefix.ScopeEngine {
		t.Fatalf("%+v", infos)
	}
	for _, info := range infos {
		if info.Doc == "" || strings.Contains(info.Type.String(), "(") || strings.Contains(info.Scope.String(), "(") {
			t.Errorf("%+v", info)
		}
		if got := must(prefix.Options(nil).Get(info.Key))(t); got != info.Default {
			t.Errorf("%s is %q, its default %q", info.Key, got, info.Default)
		}
	}
	options := prefix.Options{"max_tokens": 7, "temperature": 0.5, "logprobs": true, "stop_tokens": []prefix.Token{4, 5}}
	for key, want := range map[string]string{"max_tokens": "7", "temperature": "0.5", "logprobs": "true", "stop_tokens": "4,5"} {
		if got := must(options.Get(key))(t); got != want {
			t.Errorf("%s is %q", key, got)
		}
	}
	for want, options := range map[error]prefix.Options{
		prefix.ErrUnknownOption:   {"max_token": 7},
		prefix.ErrOutOfRange:      {"max_tokens": -7},
		prefix.ErrInvalidArgument: {"max_tokens": "many"},
	} {
		if err := options.Check(); !errors.Is(err, want) {
			t.Errorf("%v: %v", options, err)
		}
	}
	if err := (prefix.Options{"channel": make(chan int)}).Check(); err == nil {
		t.Error("a channel is no value")
	}
}

func TestOptionMethods(t *testing.T) {
	base := prefix.Options{}.Threads(3)
	options := base.Temperature(0.5).Cache(false).Deadline(1500*time.Millisecond).StopTokens(2, 7).
		Namespace("été").Stop("a", "é").IgnoreEOS(true)
	for key, want := range map[string]string{
		"threads": "3", "temperature": "0.5", "cache": "false", "deadline_ms": "1500", "stop_tokens": "2,7",
		"namespace": "été", "stop": `["a","é"]`, "ignore_eos": "true",
	} {
		if got := must(options.Get(key))(t); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
	if len(base) != 1 || must(base.Threads(4).Get("threads"))(t) != "4" || must(base.Get("threads"))(t) != "3" {
		t.Error(base)
	}
	for limit, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond - 1: "1", time.Millisecond: "1", 2500 * time.Microsecond: "2", math.MaxInt64: "9223372036854",
	} {
		if got := must(base.Deadline(limit).Get("deadline_ms"))(t); got != want {
			t.Errorf("%v is %s ms", limit, got)
		}
	}
	is(t, base.CacheTTL(-1).Check(), prefix.ErrOutOfRange)
	for key, want := range map[string]string{"deadline_ms": "Deadline", "cache_ttl_ms": "CacheTTL", "max_tokens": "a number"} {
		err := prefix.Options{key: 2 * time.Second}.Check()
		is(t, err, prefix.ErrInvalidArgument)
		if text := fmt.Sprint(err); !strings.Contains(text, key+" is 2s") || !strings.Contains(text, want) {
			t.Error(text)
		}
	}
	if err := base.Threads(-1).Check(); !errors.Is(err, prefix.ErrOutOfRange) {
		t.Error(err)
	}
	methods := string(must(os.ReadFile("option_methods.go"))(t))
	for _, info := range must(prefix.OptionInfos())(t) {
		if !strings.Contains(methods, `o.with("`+info.Key+`"`) {
			t.Errorf("%s has no method; tools/option_methods writes it", info.Key)
		}
	}
}

func TestErrorsSayWhat(t *testing.T) {
	_, err := prefix.Open(background, "/nowhere/at all", nil)
	var failure *prefix.Error
	if !errors.As(err, &failure) || !errors.Is(err, prefix.ErrNotFound) || errors.Is(err, prefix.ErrIO) {
		t.Fatalf("%v", err)
	}
	if failure.Domain != "prefix_engine_create" || !strings.Contains(err.Error(), "/nowhere/at all") {
		t.Errorf("%+v", failure)
	}
	if prefix.ErrNotFound.String() != "PREFIX_ERR_NOT_FOUND" || prefix.ErrNotFound.Error() != "prefix: not found" {
		t.Error(prefix.ErrNotFound)
	}
	if !prefix.ErrQueueFull.Retryable() || prefix.ErrFormat.Retryable() {
		t.Error("retryable")
	}
	_, err = prefix.Open(background, "/nowhere", prefix.Options{"thread": 1})
	if !errors.Is(err, prefix.ErrUnknownOption) || !strings.Contains(err.Error(), "threads") {
		t.Error(err)
	}
}

func TestOpenHeedsItsContext(t *testing.T) {
	model := filepath.Join(models, "llama-base")
	ctx, cancel := context.WithCancel(background)
	engine := must(prefix.Open(ctx, model, nil))(t)
	engine.Close()
	cancel()
	if _, err := prefix.Open(ctx, model, nil); !errors.Is(err, context.Canceled) || !errors.Is(err, prefix.ErrCancelled) {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(background, time.Nanosecond)
	defer cancel()
	if _, err := prefix.Open(ctx, model, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(background)
	defer cancel()
	if _, err := prefix.Open(ctx, "/nowhere", nil); !errors.Is(err, prefix.ErrNotFound) {
		t.Error(err)
	}
	go cancel() // in the middle, or before, or after
	engine, err := prefix.Open(ctx, model, nil)
	if err == nil {
		engine.Close()
	} else if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestEngineTellsAboutItself(t *testing.T) {
	var model struct{ Sizes struct{ Layers int } }
	check(t, json.Unmarshal([]byte(must(prefix.ModelInfoJSON(filepath.Join(models, "llama-base")))(t)), &model))
	if model.Sizes.Layers != 2 {
		t.Error(model)
	}
	memory := must(prefix.Estimate(filepath.Join(models, "llama-base"), nil))(t)
	if memory.WeightBytes <= 0 || memory.TotalBytes < memory.WeightBytes {
		t.Errorf("%+v", memory)
	}
	engine := open(t)
	var info struct{ Model struct{ Layers int } }
	check(t, json.Unmarshal([]byte(must(engine.InfoJSON())(t)), &info))
	if info.Model.Layers != 2 || engine.State() != prefix.Ready || engine.State().String() != "ready" {
		t.Error(info, engine.State())
	}
	stats := must(engine.Stats())(t)
	if stats.WeightBytes <= 0 || stats.PageTokens <= 0 || stats.Load <= 0 || stats.RequestsFinished != 0 {
		t.Errorf("%+v", stats)
	}
	batch := must(engine.NewBatch())(t)
	must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1, 2}, IDs: []prefix.Token{3}}))(t)
	must(engine.Run(background, batch))(t).Close()
	if stats := must(engine.Stats())(t); stats.RequestsFinished != 1 || stats.TokensComputed != 2 {
		t.Errorf("%+v", stats)
	}
	if metrics := must(engine.Metrics())(t); !strings.Contains(metrics, "prefix_") {
		t.Error(metrics)
	}
}

func TestUseAfterClose(t *testing.T) {
	engine := open(t)
	batch := must(engine.NewBatch())(t)
	must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1}, IDs: []prefix.Token{3}}))(t)
	job := must(engine.Run(background, batch))(t)
	text, config := byteTokenizer(128)
	tokenizer := must(prefix.TokenizerFromJSON(text, config))(t)
	detok := must(tokenizer.NewDetokenizer(0))(t)
	for _, closer := range []io.Closer{engine, batch, job, tokenizer, detok} {
		check(t, closer.Close())
		check(t, closer.Close())
	}
	_, stats := engine.Stats()
	_, run := engine.Run(background, batch)
	_, lookup := engine.Lookup(0, nil)
	_, made := engine.NewBatch()
	_, add := batch.Add(prefix.Embedding{Tokens: []prefix.Token{1}})
	_, plan := batch.PlanJSON()
	_, values := job.AllValues()
	_, result := job.Result(0)
	_, encode := tokenizer.Encode("a", 0)
	_, push := detok.Push(1)
	_, task := prefix.NewTask(engine, tokenizer, "embed", nil)
	_, zero := new(prefix.Engine).Stats()
	errs := []error{stats, run, lookup, made, add, plan, values, result, encode, push, task, zero, job.Wait(background),
		job.Cancel(), batch.Clear(), engine.Shutdown(background)}
	for _, err := range job.Events(background) {
		errs = append(errs, err)
	}
	if len(errs) != 17 {
		t.Errorf("%d errors", len(errs))
	}
	for i, err := range errs {
		if !errors.Is(err, prefix.ErrClosed) || !errors.Is(err, prefix.ErrMisuse) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if stats.Error() != "prefix: the engine is closed: prefix: misuse" {
		t.Error(stats)
	}
	if engine.State() != prefix.Closed {
		t.Error(engine.State())
	}
}

func TestClosingTheEngineFirst(t *testing.T) {
	engine := open(t)
	batch := goldenBatch(t, engine, readGolden(t))
	job := must(engine.Run(background, batch))(t)
	engine.Close()
	checkGolden(t, job, readGolden(t))
	check(t, job.Close())
}

func TestShutdown(t *testing.T) {
	engine := open(t)
	job := must(engine.Submit(background, generations(t, engine, 500)))(t)
	ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	begin := time.Now()
	check(t, engine.Shutdown(ctx))
	check(t, engine.Shutdown(background))
	check(t, job.Wait(background))
	if _, err := job.Tokens(499); !errors.Is(err, prefix.ErrCancelled) && !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := engine.Run(background, generations(t, engine, 1)); !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
	if stats := must(engine.Stats())(t); stats.RequestsFinished+stats.RequestsFailed != 500 {
		t.Error(stats)
	}
	must(engine.Info())(t)
	must(engine.Metrics())(t)
}

// While it waits for what runs, the library lets nobody in.
func TestShutdownTakesNothingMore(t *testing.T) {
	engine := open(t)
	job := must(engine.Submit(background, generations(t, engine, 500)))(t)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- engine.Shutdown(ctx) }()
	for engine.State() == prefix.Ready {
		runtime.Gosched()
	}
	if _, err := engine.Submit(background, generations(t, engine, 1)); !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
	if state := engine.State(); state != prefix.Draining {
		t.Error(state)
	}
	cancel()
	check(t, <-ended)
	check(t, job.Wait(background))
}

func TestNamespacesAndCache(t *testing.T) {
	engine := open(t)
	prompt := make([]prefix.Token, 100)
	for i := range prompt {
		prompt[i] = int32(i)
	}
	tenant := must(engine.Namespace("tenant"))(t)
	if again := must(engine.FindNamespace("tenant"))(t); again != tenant || tenant == 0 {
		t.Error(tenant, again)
	}
	if empty := must(engine.Namespace(""))(t); empty != 0 {
		t.Error(empty)
	}
	if _, err := engine.FindNamespace("nobody"); !errors.Is(err, prefix.ErrNotFound) {
		t.Error(err)
	}
	if count := must(engine.NamespaceCount())(t); count != 2 {
		t.Error(count)
	}
	batch := must(engine.NewBatch())(t)
	must(batch.Add(prefix.Embedding{Tokens: prompt, Options: prefix.Options{"namespace": "tenant"}}))(t)
	must(engine.Run(background, batch))(t).Close()
	if info := must(engine.Lookup(tenant, prompt))(t); info.CachedTokens < 64 || info.PendingTokens != 0 {
		t.Errorf("%+v", info)
	}
	if info := must(engine.Lookup(0, prompt))(t); info.CachedTokens != 0 {
		t.Errorf("%+v", info)
	}
	if tree := must(engine.CacheTreeJSON())(t); !json.Valid([]byte(tree)) {
		t.Error(tree)
	}
	if freed := must(engine.DropNamespace(tenant))(t); freed < 64 {
		t.Error(freed)
	}
	if freed := must(engine.CloseNamespace(tenant))(t); freed != 0 {
		t.Error(freed)
	}
	if _, err := engine.CloseNamespace(tenant); !errors.Is(err, prefix.ErrNotFound) {
		t.Error(err)
	}
	if again := must(engine.Namespace("tenant"))(t); again == tenant {
		t.Error("a number that was given before")
	}
	must(batch.Add(prefix.Embedding{Tokens: prompt}))(t)
	must(engine.Run(background, batch))(t).Close()
	if freed := must(engine.Trim(0))(t); freed < 64 {
		t.Error(freed)
	}
	if info := must(engine.Lookup(0, prompt))(t); info.CachedTokens != 0 {
		t.Errorf("%+v", info)
	}
	if _, err := engine.Trim(-1); !errors.Is(err, prefix.ErrOutOfRange) && !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestLog(t *testing.T) {
	prefix.SetLogLevel(slog.LevelDebug)
	defer prefix.SetLogLevel(slog.LevelWarn)
	open(t)
	var text strings.Builder
	ctx, cancel := context.WithCancel(background)
	cancel()
	prefix.ForwardLog(ctx, slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if !strings.Contains(text.String(), "level=") {
		t.Errorf("no message at level debug: %q", text.String())
	}
	if _, _, err := prefix.NextLog(); !errors.Is(err, prefix.ErrNoEvent) {
		t.Error(err)
	}
	prefix.SetLogLevel(slog.LevelError + 4)
	open(t)
	if _, text, err := prefix.NextLog(); !errors.Is(err, prefix.ErrNoEvent) {
		t.Error(text, err)
	}
}
