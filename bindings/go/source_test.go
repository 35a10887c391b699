package prefix_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"prefix.io/prefix"
)

func sourceOf(t testing.TB) *prefix.Source {
	t.Helper()
	source := must(prefix.NewSource())(t)
	for _, name := range []string{"config.json", "model.safetensors"} {
		check(t, source.Add(name, must(os.ReadFile(filepath.Join(models, "llama-base", name)))(t)))
	}
	return source
}

func TestAModelInMemoryComputesWhatItsFilesDo(t *testing.T) {
	score := func(engine *prefix.Engine) []float32 {
		defer engine.Close()
		batch := must(engine.NewBatch())(t)
		defer batch.Close()
		must(batch.Add(prefix.Logits{Tokens: []prefix.Token{1, 5, 9, 12}, IDs: []prefix.Token{3, 4}}))(t)
		job := must(engine.Run(background, batch))(t)
		defer job.Close()
		return must(job.Values(0))(t)
	}
	expected := score(open(t))
	source := sourceOf(t)
	exact := prefix.Options{"isa": "scalar", "dtype": "f32"}
	runtime.GC() // nobody but the source has the files
	var wait sync.WaitGroup
	for range 4 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			if found := score(must(prefix.OpenSource(background, source, exact))(t)); !slices.Equal(expected, found) {
				t.Error(expected, found)
			}
		}()
	}
	wait.Wait()
	check(t, source.Close())
	check(t, source.Close())
	if _, err := prefix.OpenSource(background, source, nil); !errors.Is(err, prefix.ErrClosed) {
		t.Error(err)
	}
	if err := source.Add("more", []byte{1}); !errors.Is(err, prefix.ErrClosed) {
		t.Error(err)
	}
}

func TestSourcesRefuseWhatCannotBeAModel(t *testing.T) {
	source := sourceOf(t)
	defer source.Close()
	for _, name := range []string{"config.json", "../config.json", ""} {
		if err := source.Add(name, []byte{1}); !errors.Is(err, prefix.ErrInvalidArgument) {
			t.Error(name, err)
		}
	}
	empty := must(prefix.NewSource())(t)
	defer empty.Close()
	if _, err := prefix.OpenSource(background, empty, nil); !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
	check(t, empty.Add("model.gguf", make([]byte, 64)))
	if _, err := prefix.OpenSource(background, empty, nil); !errors.Is(err, prefix.ErrFormat) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	if _, err := prefix.OpenSource(ctx, source, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAdaptersAreReadFromSources(t *testing.T) {
	engine := open(t)
	source := must(prefix.NewSource())(t)
	if err := engine.LoadAdapterSource("fed", source); !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
	check(t, source.Add("adapter_config.json", []byte(`{"peft_type": "LORA", "r": 1}`)))
	if err := engine.LoadAdapterSource("fed", source); !errors.Is(err, prefix.ErrNotFound) {
		t.Error(err)
	}
	check(t, source.Add("adapter_model.safetensors", make([]byte, 64)))
	if err := engine.LoadAdapterSource("fed", source); !errors.Is(err, prefix.ErrFormat) {
		t.Error(err)
	}
	check(t, source.Close())
	if err := engine.LoadAdapterSource("fed", source); err == nil {
		t.Error("the source is closed")
	}
}

// One batch is computed with an adapter, with another one, and without.
func TestRequestsNameTheirAdapter(t *testing.T) {
	engine := open(t)
	folder := "../../build/golden-models/adapter-llama"
	check(t, engine.LoadAdapter("one", folder))
	check(t, engine.LoadAdapter("two", folder))
	batch := must(engine.NewBatch())(t)
	defer batch.Close()
	prompt, ids := []prefix.Token{1, 5, 9, 12}, []prefix.Token{3, 4}
	must(batch.Add(prefix.Logits{Tokens: prompt, IDs: ids}))(t)
	for _, name := range []string{"one", "two"} {
		must(batch.Add(prefix.Logits{Tokens: prompt, IDs: ids, Options: prefix.Options{}.Adapter(name)}))(t)
	}
	job := must(engine.Run(background, batch))(t)
	defer job.Close()
	plain, one, two := must(job.Values(0))(t), must(job.Values(1))(t), must(job.Values(2))(t)
	if slices.Equal(plain, one) || !slices.Equal(one, two) {
		t.Error(plain, one, two)
	}
	namespace := must(engine.AdapterNamespace(0, "one"))(t)
	equal(t, must(engine.CacheUsage(namespace))(t).Tokens, int64(len(prompt)))
	if json := must(engine.AdaptersJSON())(t); !strings.Contains(json, `"two"`) {
		t.Error(json)
	}
	check(t, engine.UnloadAdapter("two"))
	if err := engine.UnloadAdapter("two"); !errors.Is(err, prefix.ErrNotFound) {
		t.Error(err)
	}
	later := must(engine.Run(background, batch))(t)
	defer later.Close()
	must(later.Values(1))(t)
	if _, err := later.Values(2); !errors.Is(err, prefix.ErrNotFound) {
		t.Error(err)
	}
	if err := engine.LoadAdapter("one", folder+"/none"); !errors.Is(err, prefix.ErrNotFound) {
		t.Error(err)
	}
}

func TestInfo(t *testing.T) {
	engine := open(t)
	info := must(engine.Info())(t)
	if info.Layers < 1 || info.Hidden < 1 || info.Vocabulary < 1 || info.MaxPositions < 1 || info.KVBytesPerToken < 1 {
		t.Errorf("%+v", info)
	}
	for _, token := range must(engine.EndTokens())(t) {
		if token < 0 || int(token) >= info.Vocabulary {
			t.Error(token)
		}
	}
}

func TestMatricesAreEqualBitForBit(t *testing.T) {
	nan := float32(math.NaN())
	one := prefix.Matrix{Rows: 1, Columns: 2, Flat: []float32{1, nan}}
	if !one.Equal(prefix.Matrix{Rows: 1, Columns: 2, Flat: []float32{1, nan}}) {
		t.Error("NaN stands for what failed")
	}
	for _, other := range []prefix.Matrix{
		{Rows: 2, Columns: 1, Flat: []float32{1, nan}}, {Rows: 1, Columns: 2, Flat: []float32{nan, 1}},
		{Rows: 1, Columns: 2, Flat: []float32{1}}, {},
	} {
		if one.Equal(other) || other.Equal(one) {
			t.Error(other)
		}
	}
}
