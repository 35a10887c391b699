package prefix_test

import (
	"errors"
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

// prompt is some tokens of the tiny model.
func prompt(count int) []prefix.Token {
	tokens := make([]prefix.Token, count)
	for i := range tokens {
		tokens[i] = int32(i * 3 % 131)
	}
	return tokens
}

func openWith(t testing.TB, options prefix.Options) *prefix.Engine {
	t.Helper()
	if options["isa"] == nil {
		options["isa"] = "scalar"
	}
	engine := must(prefix.Open(background, filepath.Join(models, "llama-base"), options))(t)
	t.Cleanup(func() { engine.Close() })
	return engine
}

func warm(t testing.TB, engine *prefix.Engine, tokens []prefix.Token) {
	t.Helper()
	batch := must(engine.NewBatch())(t)
	defer batch.Close()
	must(batch.Add(prefix.Warm{Tokens: tokens}))(t)
	job := must(engine.Run(background, batch))(t)
	defer job.Close()
	if values := must(job.Values(0))(t); len(values) != 0 {
		t.Error(values)
	}
}

// logits gives the bits of some values, and how many tokens were cached.
func logits(t testing.TB, engine *prefix.Engine, tokens []prefix.Token) ([]uint32, int) {
	t.Helper()
	batch := must(engine.NewBatch())(t)
	defer batch.Close()
	must(batch.Add(prefix.Logits{Tokens: tokens, IDs: []prefix.Token{1, 2, 3}}))(t)
	job := must(engine.Run(background, batch))(t)
	defer job.Close()
	var bits []uint32
	for _, value := range must(job.Values(0))(t) {
		bits = append(bits, math.Float32bits(value))
	}
	return bits, must(job.Result(0))(t).CachedTokens
}

func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func equal[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWarmedPromptsHaveTheSameBits(t *testing.T) {
	engine := openWith(t, prefix.Options{})
	warm(t, engine, prompt(50))
	values, cached := logits(t, engine, prompt(50))
	if cold, _ := logits(t, openWith(t, prefix.Options{}), prompt(50)); cached < 49 || !slices.Equal(values, cold) {
		t.Error(cached, values, cold)
	}
	prompts := [][]prefix.Token{prompt(50), nil, prompt(20), prompt(80), {9, 9}}
	if found := must(engine.LookupMany(0, prompts))(t); !slices.Equal(found, []int{50, 0, 20, 50, 0}) {
		t.Error(found)
	}
	equal(t, len(must(engine.LookupMany(0, nil))(t)), 0)
	_, err := engine.LookupMany(7, prompts)
	is(t, err, prefix.ErrNotFound)
}

func TestLeases(t *testing.T) {
	engine := openWith(t, prefix.Options{})
	_, err := engine.Pin(0, prompt(50), 0)
	is(t, err, prefix.ErrNotFound)
	warm(t, engine, prompt(50))
	_, err = engine.Pin(0, prompt(50), -1)
	is(t, err, prefix.ErrOutOfRange)
	first := must(engine.Pin(0, prompt(50), 0))(t)
	second := must(engine.Pin(0, prompt(50), time.Hour))(t)
	equal(t, first.Tokens, 50)
	check(t, first.Close())
	check(t, first.Close())
	equal(t, must(engine.Trim(0))(t), 0) // the second one still holds
	check(t, second.Close())
	equal(t, must(engine.Trim(0))(t), 50)

	warm(t, engine, prompt(50))
	short := must(engine.Pin(0, prompt(50), time.Nanosecond))(t)
	var freed int64
	for end := time.Now().Add(time.Minute); freed == 0 && time.Now().Before(end); { // it ends by itself
		freed = must(engine.Trim(0))(t)
	}
	equal(t, freed, 50)
	check(t, short.Close())

	warm(t, engine, prompt(50))
	late, later := must(engine.Pin(0, prompt(50), 0))(t), must(engine.Pin(0, prompt(50), 0))(t)
	check(t, engine.Shutdown(background))
	check(t, late.Close())
	check(t, engine.Close())
	check(t, later.Close())
	check(t, (&prefix.Lease{}).Close())
}

// A lease that somebody keeps does not keep an engine that nobody has.
func TestLeasesDoNotKeepTheirEngine(t *testing.T) {
	gone := make(chan struct{})
	lease := func() *prefix.Lease {
		engine := must(prefix.Open(background, filepath.Join(models, "llama-base"), nil))(t)
		runtime.AddCleanup(engine, func(gone chan struct{}) { close(gone) }, gone)
		warm(t, engine, prompt(50))
		return must(engine.Pin(0, prompt(50), 0))(t)
	}()
	collect(t, gone)
	check(t, lease.Close())
	check(t, lease.Close())
}

func TestUsageLimitsAndEviction(t *testing.T) {
	engine := openWith(t, prefix.Options{})
	warm(t, engine, prompt(50))
	usage := must(engine.CacheUsage(0))(t)
	token := usage.Bytes / 50
	equal(t, usage, prefix.CacheUsage{Tokens: 50, Bytes: 50 * token})
	check(t, engine.SetCacheLimits(0, token, 60*token))
	usage = must(engine.CacheUsage(0))(t)
	equal(t, usage, prefix.CacheUsage{Tokens: 50, Bytes: 50 * token, FloorBytes: token, QuotaBytes: 60 * token})
	for _, bad := range [][2]int64{{0, 1}, {2 * token, token}, {-1, 0}, {0, -1}} {
		is(t, engine.SetCacheLimits(0, bad[0], bad[1]), prefix.ErrOutOfRange)
	}
	_, err := engine.CacheUsage(-1)
	is(t, err, prefix.ErrNotFound)
	is(t, engine.SetCacheLimits(5, 0, 0), prefix.ErrNotFound)
	check(t, engine.SetCacheLimits(0, 0, 0))
	equal(t, must(engine.Evict(0, prompt(20)))(t), 30)
	equal(t, must(engine.Lookup(0, prompt(50)))(t).CachedTokens, 20)
	equal(t, must(engine.Evict(0, nil))(t), 20)
	_, err = engine.Evict(5, nil)
	is(t, err, prefix.ErrNotFound)
}

func TestTheTreeAsJSON(t *testing.T) {
	engine := openWith(t, prefix.Options{})
	warm(t, engine, prompt(50))
	if tree := must(engine.CacheTreeJSON())(t); !strings.HasPrefix(tree, `{"tokens":50,`) {
		t.Error(tree)
	}
}

func readEvents(t testing.TB, engine *prefix.Engine, from int64) (all []prefix.CacheEvent) {
	t.Helper()
	for event, err := range engine.CacheEvents(from) {
		check(t, err)
		all = append(all, event)
	}
	return all
}

func TestCacheEvents(t *testing.T) {
	engine := openWith(t, prefix.Options{"cache_events": 4})
	_, err := engine.NextCacheEvent(0)
	is(t, err, prefix.ErrNoEvent)
	_, err = engine.NextCacheEvent(-1)
	is(t, err, prefix.ErrOutOfRange)
	warm(t, engine, prompt(70))
	stored := readEvents(t, engine, 0)
	equal(t, len(stored), 2)
	for i, event := range stored {
		equal(t, event.Kind, prefix.CacheStored)
		equal(t, event.Position, 32*i)
		equal(t, event.Sequence, stored[0].Sequence+int64(i))
		if !slices.Equal(event.Tokens, prompt(70)[32*i:32*i+32]) || event.Lost != 0 || event.Namespace != 0 {
			t.Errorf("%+v", event)
		}
	}
	equal(t, stored[0].Parent, 0)
	equal(t, stored[1].Parent, stored[0].Block)
	for range engine.CacheEvents(0) {
		break // a reader may stop
	}
	dump := must(engine.CacheDump())(t)
	equal(t, dump.Next, stored[1].Sequence+1)
	equal(t, len(dump.Blocks), 2)
	equal(t, dump.Blocks[1].Parent, stored[0].Block)
	if !slices.Equal(dump.Blocks[1].Tokens, stored[1].Tokens) {
		t.Errorf("%+v", dump)
	}
	must(engine.Trim(0))(t)
	gone := readEvents(t, engine, dump.Next)
	equal(t, len(gone), 3)
	equal(t, gone[0].Block, stored[1].Block)
	equal(t, gone[0].Kind.String()+" "+gone[2].Kind.String(), "removed cleared")
	if gone[0].Tokens != nil {
		t.Error(gone[0].Tokens)
	}
	// Only the last four events are kept.
	late := readEvents(t, engine, stored[0].Sequence+1)
	equal(t, late[0].Lost, 0)
	warm(t, engine, prompt(32*7))
	late = readEvents(t, engine, dump.Next)
	equal(t, len(late), 4)
	equal(t, late[0].Lost, 3+7-4)
	oldest := must(engine.NextCacheEvent(0))(t) // for whom a dump of an empty cache said 0 too
	equal(t, oldest.Lost, 2+3+7-4)
	equal(t, len(must(engine.CacheDump())(t).Blocks), 7)
}

func TestCacheEventsNeedTheirOption(t *testing.T) {
	engine := openWith(t, prefix.Options{})
	_, err := engine.CacheDump()
	is(t, err, prefix.ErrMisuse)
	seen := 0
	for _, err := range engine.CacheEvents(0) {
		is(t, err, prefix.ErrMisuse)
		seen++
	}
	equal(t, seen, 1)
}

func TestSnapshots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	first := openWith(t, prefix.Options{})
	cold, _ := logits(t, first, prompt(100))
	saved := must(first.SaveSnapshot(path))(t)
	if saved.Namespaces != 1 || saved.Tokens < 96 || saved.Bytes != must(os.Stat(path))(t).Size() {
		t.Errorf("%+v", saved)
	}
	check(t, first.Close())

	second := openWith(t, prefix.Options{})
	loaded := must(second.LoadSnapshot(path))(t)
	equal(t, loaded.Tokens, saved.Tokens)
	equal(t, loaded.SkippedTokens, 0)
	if values, cached := logits(t, second, prompt(100)); cached < 96 || !slices.Equal(values, cold) {
		t.Error(cached, values, cold)
	}
	empty := must(second.Namespace("empty"))(t)
	equal(t, must(second.SaveSnapshot(path+"-empty", empty))(t).Tokens, 0)

	fails := func(want error, engine *prefix.Engine, path string) {
		t.Helper()
		_, err := engine.LoadSnapshot(path)
		is(t, err, want)
	}
	fails(prefix.ErrNotFound, second, path+"-none")
	fails(prefix.ErrInvalidArgument, second, "")
	fails(prefix.ErrInvalidArgument, second, "a\x00b")
	fails(prefix.ErrInvalidUTF8, second, "a\xff")
	fails(prefix.ErrIncompatibleSnapshot, openWith(t, prefix.Options{"dtype": "f32"}), path)
	check(t, os.WriteFile(path, []byte("no snapshot"), 0o600))
	fails(prefix.ErrFormat, second, path)
	_, err := second.SaveSnapshot("/no/such/folder/cache")
	is(t, err, prefix.ErrIO)
	_, err = second.SaveSnapshot(path, 99)
	is(t, err, prefix.ErrNotFound)
}

func TestNamespacesOfSeveralParts(t *testing.T) {
	engine := openWith(t, prefix.Options{"require_salt": true})
	tenant := must(engine.NamespaceOf("salt", "adapter"))(t)
	equal(t, must(engine.NamespaceOf("salt", "adapter"))(t), tenant)
	if must(engine.NamespaceOf("salta", "dapter"))(t) == tenant || must(engine.NamespaceOf("", ""))(t) == tenant {
		t.Error("parts are compared one by one")
	}
	equal(t, must(engine.NamespaceOf())(t), 0)
	_, err := engine.NamespaceOf("a\xff")
	is(t, err, prefix.ErrInvalidUTF8)

	batch := must(engine.NewBatch())(t)
	defer batch.Close()
	must(batch.Add(prefix.Warm{Tokens: prompt(40), Options: prefix.Options{"namespace_id": int64(tenant)}}))(t)
	must(batch.Add(prefix.Warm{Tokens: prompt(40)}))(t)
	job := must(engine.Run(background, batch))(t)
	defer job.Close()
	check(t, must(job.Result(0))(t).Err)
	is(t, must(job.Result(1))(t).Err, prefix.ErrInvalidArgument) // no salt
	equal(t, must(engine.CacheUsage(tenant))(t).Tokens, 40)
}

func TestResultsSayWhyTokensWereComputed(t *testing.T) {
	engine := openWith(t, prefix.Options{})
	ask := func(options prefix.Options) prefix.Result {
		batch := must(engine.NewBatch())(t)
		defer batch.Close()
		options = options.MaxTokens(8).IgnoreEOS(true)
		must(batch.Add(prefix.Generate{Tokens: []prefix.Token{1, 2, 3, 4}, Options: options}))(t)
		job := must(engine.Run(background, batch))(t)
		defer job.Close()
		result := must(job.Result(0))(t)
		check(t, result.Err)
		return result
	}
	first := ask(prefix.Options{})
	equal(t, [2]int{first.MissFirstSeen, first.ComputedTokens}, [2]int{4, 4})
	equal(t, first.DraftTokens, 0)
	again := ask(prefix.Options{"draft_tokens": 8})
	equal(t, [2]int{again.MissGranularity, again.ComputedTokens}, [2]int{1, 1})
	if again.DraftTokens <= 0 || again.DraftTokensAccepted != again.DraftTokens { // the answer is in the cache
		t.Errorf("%+v", again)
	}
	elsewhere := ask(prefix.Options{"namespace": "of nobody else"})
	equal(t, [2]int{elsewhere.MissNamespace, elsewhere.ComputedTokens}, [2]int{4, 4})
	must(engine.Evict(0, nil))(t)
	evicted := ask(prefix.Options{})
	equal(t, [2]int{evicted.MissEvicted, evicted.ComputedTokens}, [2]int{4, 4})
	equal(t, evicted.MissBudget+evicted.MissState, 0)
}

func TestStatsSayWhyTokensWereComputed(t *testing.T) {
	engine := openWith(t, prefix.Options{})
	warm(t, engine, prompt(40))
	must(engine.Evict(0, nil))(t)
	warm(t, engine, prompt(40))
	stats := must(engine.Stats())(t)
	if stats.MissFirstSeen+stats.MissEvicted != 80 || stats.MissEvicted < 32 || stats.MetadataBytes <= 0 {
		t.Errorf("%+v", stats)
	}
	if metrics := must(engine.Metrics())(t); !strings.Contains(metrics, "miss") {
		t.Error(metrics)
	}
}

func TestAClosedEngineHasNoCache(t *testing.T) {
	engine := openWith(t, prefix.Options{"cache_events": 4})
	check(t, engine.Close())
	_, pin := engine.Pin(0, prompt(2), 0)
	_, many := engine.LookupMany(0, nil)
	_, usage := engine.CacheUsage(0)
	_, evict := engine.Evict(0, nil)
	_, tree := engine.CacheTreeJSON()
	_, event := engine.NextCacheEvent(0)
	_, dump := engine.CacheDump()
	_, save := engine.SaveSnapshot("never")
	_, load := engine.LoadSnapshot("never")
	_, namespace := engine.NamespaceOf("a", "b")
	limits := engine.SetCacheLimits(0, 0, 0)
	for _, err := range []error{pin, many, usage, evict, tree, event, dump, save, load, namespace, limits} {
		is(t, err, prefix.ErrClosed)
		is(t, err, prefix.ErrMisuse)
	}
}
