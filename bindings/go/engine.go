package prefix

import (
	"context"
	"math"
	"runtime"
	"sync"
	"time"

	"prefix.io/prefix/internal/swig"
)

// Token is the id of a token.
type Token = int32

// Engine is one model with its cache and scheduler.
type Engine struct {
	handle
	hidden func() int // length of an embedding, 0 when unknown
}

// Open loads a model: a Hugging Face directory or a .gguf file. When ctx ends first, the load is given up and Open
// returns at once. Close the engine when done.
func Open(ctx context.Context, path string, options Options) (*Engine, error) {
	return open(ctx, options, func(native uintptr, raw *uintptr, f *swig.Error) int32 {
		if ctx.Done() == nil {
			return swig.Prefix_engine_create(path, native, raw, f) // without a thread of its own
		}
		return swig.Prefix_engine_open(path, native, raw, f)
	})
}

// open makes an engine by start and waits for it.
func open(
	ctx context.Context, options Options, start func(native uintptr, raw *uintptr, f *swig.Error) int32,
) (*Engine, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	native, release, err := options.native()
	if err != nil {
		return nil, err
	}
	defer release()
	var raw uintptr
	if err := call(func(f *swig.Error) int32 { return start(native, &raw, f) }); err != nil {
		return nil, err
	}
	engine := &Engine{}
	engine.own(raw, "engine", swig.Prefix_engine_release)
	engine.hidden = sync.OnceValue(func() int { return hiddenSize(raw) })
	if err := engine.loaded(ctx); err != nil {
		engine.Close()
		return nil, err
	}
	return engine, nil
}

// loaded waits until the engine is ready.
func (e *Engine) loaded(ctx context.Context) error {
	raw := e.raw.Load()
	look := func() error {
		return call(func(f *swig.Error) int32 { return swig.Prefix_engine_wait(raw, 0, nil, f) })
	}
	if err := look(); !isStatus(err, ErrTimeout) {
		return err
	}
	waiter, err := theWaiter()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	forget, err := waiter.watch(func() { close(done) }, func(queue uintptr, tag int64, f *swig.Error) int32 {
		return swig.Prefix_engine_notify(raw, queue, tag, f) // one tag
	})
	if err != nil {
		return err
	}
	defer forget()
	select {
	case <-done:
		return look()
	case <-ctx.Done():
		return cancelled(ctx)
	}
}

// hiddenSize is the length of embeddings.
func hiddenSize(raw uintptr) int {
	info := swig.EngineInfo{StructSize: swig.SizeofEngineInfo}
	if err := call(func(f *swig.Error) int32 { return swig.Prefix_engine_get_info(raw, &info, f) }); err != nil {
		return 0
	}
	return int(info.Hidden)
}

// EngineInfo is what is often asked of [Engine.InfoJSON].
type EngineInfo struct {
	Layers, Hidden, Heads, KVHeads, HeadDim int
	Vocabulary                              int // token ids are smaller
	MaxPositions                            int // longest sequence in tokens, as it is in force
	Threads                                 int // as it is in force; of the pool, if it was given one
	PageTokens                              int // of a page of keys and values
	WeightBytes, KVBytesPerToken            int64
	RecurrentLayers, StateBytes             int64 // that a state takes of the cache; 0: there are none
	Labels                                  int   // values of a request with option head; 0: the model has no such head
}

// Info describes the model.
func (e *Engine) Info() (EngineInfo, error) {
	raw := swig.EngineInfo{StructSize: swig.SizeofEngineInfo}
	err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_engine_get_info(h, &raw, f) })
	return EngineInfo{
		Layers: int(raw.Layers), Hidden: int(raw.Hidden), Heads: int(raw.Heads), KVHeads: int(raw.KvHeads),
		HeadDim: int(raw.HeadDim), Vocabulary: int(raw.Vocabulary), MaxPositions: int(raw.MaxPositions),
		Threads: int(raw.Threads), PageTokens: int(raw.PageTokens), WeightBytes: raw.WeightBytes,
		KVBytesPerToken: raw.KvBytesPerToken, RecurrentLayers: raw.RecurrentLayers, StateBytes: raw.StateBytes,
		Labels: int(raw.Labels),
	}, err
}

// EndTokens are those after which the model's own files end a generation; option ignore_eos.
func (e *Engine) EndTokens() ([]Token, error) {
	return arrayOf(&e.handle, 8, swig.Prefix_engine_end_tokens)
}

// Memory is what an engine takes.
type Memory struct {
	WeightBytes, KVBytesPerToken, KVBudgetBytes, ActivationBytes, TotalBytes int64
}

// ModelInfoJSON says what a model holds, from the headers of its files alone: architecture, sizes, groups of tensors.
func ModelInfoJSON(path string) (string, error) {
	return getText(2048, func(b []byte, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_model_info_json(path, b, needed, f)
	})
}

// Estimate says what an engine would take, from the headers of the files alone.
func Estimate(path string, options Options) (Memory, error) {
	native, release, err := options.native()
	if err != nil {
		return Memory{}, err
	}
	defer release()
	raw := swig.Memory{StructSize: swig.SizeofMemory}
	if err := call(func(f *swig.Error) int32 { return swig.Prefix_engine_estimate(path, native, &raw, f) }); err != nil {
		return Memory{}, err
	}
	return Memory{raw.WeightBytes, raw.KvBytesPerToken, raw.KvBudgetBytes, raw.ActivationBytes, raw.TotalBytes}, nil
}

// State is how an engine does.
type State int32

// The states of an engine.
const (
	Loading  State = swig.PREFIX_ENGINE_LOADING
	Ready    State = swig.PREFIX_ENGINE_READY
	Draining State = swig.PREFIX_ENGINE_DRAINING
	Closed   State = swig.PREFIX_ENGINE_CLOSED
	Failed   State = swig.PREFIX_ENGINE_FAILED
)

func (s State) String() string {
	return nameOf(int32(s), "State", "loading", "ready", "draining", "closed", "failed")
}

// State is [Closed] after Close too.
func (e *Engine) State() State {
	defer runtime.KeepAlive(e)
	return State(swig.Prefix_engine_state(e.raw.Load()))
}

// InfoJSON describes the model, the options in force and the device.
func (e *Engine) InfoJSON() (string, error) {
	return textOf(&e.handle, 1024, swig.Prefix_engine_info_json)
}

// Metrics are the counters of [Engine.Stats] in the text format of Prometheus.
func (e *Engine) Metrics() (string, error) {
	return textOf(&e.handle, 16384, swig.Prefix_metrics_text)
}

// EngineStats counts since the engine was opened, unless a comment says otherwise. TokensGiven is TokensCached +
// TokensShared + TokensComputed.
type EngineStats struct {
	RequestsWaiting, RequestsRunning                                         int64 // now
	RequestsFinished, RequestsFailed                                         int64
	TokensGiven, TokensCached, TokensShared, TokensComputed, TokensGenerated int64
	Steps, Rows                                                              int64 // rows: what the model really computed
	PagesTotal, PagesUsed, PageTokens                                        int64 // key-value pages, now
	KVBytes, KVBytesPeak, KVBudgetBytes                                      int64
	WeightBytes, ActivationBytesPeak                                         int64
	TreeNodes, TreeTokens                                                    int64 // now
	Evictions, EvictedTokens                                                 int64
	Gemm, Attention, Other, Plan, Run, Load                                  time.Duration
	MetadataBytes                                                            int64 // of the tree, now

	// Tokens that came from disk or store, that were there while computing them was faster, and how often a request
	// waited for them in vain (option cache_fetch_ms).
	FetchedTokens, FetchSkippedTokens, FetchTimeouts int64

	// Why tokens had to be computed, as far as it is remembered (of some 32,000 pages that were asked
	// for last): nobody asked for them before, only
	// in another namespace, they made room, they were dropped or expired, they are there and a result at them was asked
	// for.
	MissFirstSeen, MissNamespace, MissBudget, MissEvicted, MissGranularity int64

	// Of models with recurrent layers: tokens whose keys are there, but no state to go on from; states in the cache and
	// their bytes, now; those that made room; the most bytes of states that one layer of a step had at a time.
	MissState, States, StateBytes, StateEvictions, LiveStateBytesPeak int64

	GemmFlops int64 // operations of the matrix products that Gemm took; 0 on a GPU, as that is

	// Tokens of generations that were guessed and checked (option draft_tokens), and those of them that were right.
	DraftTokens, DraftTokensAccepted int64
}

// Stats reads the counters.
func (e *Engine) Stats() (EngineStats, error) {
	raw := swig.EngineStats{StructSize: swig.SizeofEngineStats}
	if err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_engine_get_stats(h, &raw, f)
	}); err != nil {
		return EngineStats{}, err
	}
	return EngineStats{
		RequestsWaiting: raw.RequestsWaiting, RequestsRunning: raw.RequestsRunning,
		RequestsFinished: raw.RequestsFinished, RequestsFailed: raw.RequestsFailed,
		TokensGiven: raw.TokensGiven, TokensCached: raw.TokensCached, TokensShared: raw.TokensShared,
		TokensComputed: raw.TokensComputed, TokensGenerated: raw.TokensGenerated, Steps: raw.Steps, Rows: raw.Rows,
		PagesTotal: raw.PagesTotal, PagesUsed: raw.PagesUsed, PageTokens: raw.PageTokens, KVBytes: raw.KvBytes,
		KVBytesPeak: raw.KvBytesPeak, KVBudgetBytes: raw.KvBudgetBytes, WeightBytes: raw.WeightBytes,
		ActivationBytesPeak: raw.ActivationBytesPeak, TreeNodes: raw.TreeNodes, TreeTokens: raw.TreeTokens,
		Evictions: raw.Evictions, EvictedTokens: raw.EvictedTokens, Gemm: microseconds(raw.GemmUs),
		Attention: microseconds(raw.AttentionUs), Other: microseconds(raw.OtherUs), Plan: microseconds(raw.PlanUs),
		Run: microseconds(raw.RunUs), Load: microseconds(raw.LoadUs), MetadataBytes: raw.MetadataBytes,
		FetchedTokens: raw.FetchedTokens, FetchSkippedTokens: raw.FetchSkippedTokens, FetchTimeouts: raw.FetchTimeouts,
		MissFirstSeen: raw.MissFirstSeen, MissNamespace: raw.MissNamespace, MissBudget: raw.MissBudget,
		MissEvicted: raw.MissEvicted, MissGranularity: raw.MissGranularity, MissState: raw.MissState, States: raw.States,
		StateBytes: raw.StateBytes, StateEvictions: raw.StateEvictions, LiveStateBytesPeak: raw.LiveStateBytesPeak,
		GemmFlops: raw.GemmFlops, DraftTokens: raw.DraftTokens, DraftTokensAccepted: raw.DraftTokensAccepted,
	}, nil
}

// Shutdown takes no more requests, waits for those that run, and frees model and cache. When ctx ends first, it
// cancels what still runs. A task hands its requests over little by little: wait for it before. What would compute
// afterwards, or use the cache, gives [ErrMisuse]; Stats, Info and Metrics can still be read until Close.
func (e *Engine) Shutdown(ctx context.Context) error {
	shutdown := func(timeout int64) error {
		return callOn(&e.handle, func(raw uintptr, f *swig.Error) int32 {
			return swig.Prefix_engine_shutdown(raw, timeout, f)
		})
	}
	// The library waits for a time, not for a context: a call that has none ends the wait of the other.
	defer context.AfterFunc(ctx, func() { _ = shutdown(0) })()
	return shutdown(math.MaxInt32)
}

// Run computes a batch and waits for it. When ctx ends first the job is cancelled, and the error is both
// [ErrCancelled] and that of ctx. A request that fails does not fail the run: its error comes with its result.
// The batch may be used again afterwards.
func (e *Engine) Run(ctx context.Context, batch *Batch) (*Job, error) {
	job, err := e.Submit(ctx, batch)
	if err != nil {
		return nil, err
	}
	// The end of ctx cancels the job, so it is over soon in any case.
	if err := job.Wait(context.Background()); err != nil {
		job.Close()
		return nil, err
	}
	if !job.stop() && ctx.Err() != nil {
		job.Close()
		return nil, cancelled(ctx)
	}
	return job, nil
}

// Submit starts a batch and returns at once. The job is cancelled when ctx ends.
func (e *Engine) Submit(ctx context.Context, batch *Batch) (*Job, error) {
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	raw, err := e.ptr()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(e)
	return batch.submit(ctx, raw)
}

// Namespace is the number of a namespace of an engine: a tenant, an adapter, a salt. Nothing is shared across
// namespaces. Requests name theirs with the option "namespace", or by number with "namespace_id"; 0 is the empty
// one, which is always there.
type Namespace int32

// Namespace gives the namespace of that name, and makes it when it is new.
func (e *Engine) Namespace(name string) (Namespace, error) {
	var ns int32
	err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_namespace_open(h, name, &ns, f) })
	return Namespace(ns), err
}

// NamespaceOf gives the namespace of several parts (a tenant's salt, an adapter, the epoch of its weights), and makes it
// when it is new. They are compared one by one; one part is the namespace of that name, no part the empty one. With the
// option require_salt, an engine refuses requests in namespaces whose first part is empty.
func (e *Engine) NamespaceOf(parts ...string) (Namespace, error) {
	text, ends := joinTexts(parts)
	var ns int32
	err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_namespace_open_tuple(h, text, ends, &ns, f)
	})
	return Namespace(ns), err
}

// FindNamespace is [ErrNotFound] when there is no such namespace.
func (e *Engine) FindNamespace(name string) (Namespace, error) {
	var ns int32
	err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_namespace_find(h, name, &ns, f) })
	return Namespace(ns), err
}

// DropNamespace evicts everything in a namespace that no running request uses, and returns how many tokens it freed.
func (e *Engine) DropNamespace(namespace Namespace) (freed int64, err error) {
	err = callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_namespace_drop(h, int32(namespace), &freed, f)
	})
	return freed, err
}

// CloseNamespace ends a namespace: what it holds is evicted, its leases end, its name is free, and its number is never
// given again ([ErrNotFound] later). Requests that were submitted before run to their end, and what they still use goes
// with the last of them. It returns how many tokens this call freed. [ErrInvalidArgument]: the empty one.
func (e *Engine) CloseNamespace(namespace Namespace) (freed int64, err error) {
	err = callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_namespace_close(h, int32(namespace), &freed, f)
	})
	return freed, err
}

// LoadAdapter loads a LoRA adapter, a directory as PEFT writes it, while requests run. Requests name it by the option
// "adapter". A name that is there stands for the new one from then on.
func (e *Engine) LoadAdapter(name, path string) error {
	return callOn(&e.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_adapter_load(h, name, path, f) })
}

// LoadAdapterSource is LoadAdapter for files in memory, adapter_config.json and adapter_model.safetensors, which are read
// until it returns.
func (e *Engine) LoadAdapterSource(name string, source *Source) error {
	source.mutex.RLock()
	defer source.mutex.RUnlock()
	files, err := source.ptr()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(source)
	return callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_adapter_load_source(h, name, files, f)
	})
}

// UnloadAdapter ends the name of an adapter; [ErrNotFound]. Requests that were submitted keep it until they end.
func (e *Engine) UnloadAdapter(name string) error {
	return callOn(&e.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_adapter_unload(h, name, f) })
}

// AdapterNamespace gives the namespace in which requests of this one with the adapter run, and makes it when it is new.
func (e *Engine) AdapterNamespace(namespace Namespace, adapter string) (Namespace, error) {
	var ns int32
	err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_adapter_namespace(h, int32(namespace), adapter, &ns, f)
	})
	return Namespace(ns), err
}

// AdaptersJSON lists the adapters that are loaded.
func (e *Engine) AdaptersJSON() (string, error) {
	return textOf(&e.handle, 1024, swig.Prefix_adapters_json)
}

// NamespaceCount counts the namespaces that are open, with the empty one.
func (e *Engine) NamespaceCount() (int, error) {
	var count int32
	err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_namespace_count(h, &count, f) })
	return int(count), err
}
