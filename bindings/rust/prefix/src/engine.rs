//! One model, one cache, one scheduler. What an engine makes, as batches, jobs and views of its cache, is in modules of
//! their own, with the methods that make it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{call, Result};
use crate::options::raw_or_null;
use crate::raw::{count, milliseconds, mirror, path_text, read_array, read_text, Handle};
use crate::{library, Options, Source, Token};

/// A loaded model with its cache. Clones are the same engine; any thread may use it.
///
/// When the last clone is gone, and every batch and job made from it, running requests are cancelled and all
/// memory is freed.
#[derive(Debug, Clone)]
pub struct Engine(pub(crate) Arc<Owned>);

#[derive(Debug)]
pub(crate) struct Owned(Handle<sys::prefix_engine>);

// Safety: the header lets any thread call every function of an engine at any time.
unsafe impl Sync for Owned {}

impl Engine {
    /// Loads a model: a Hugging Face directory (`config.json` and safetensors) or a `.gguf` file.
    pub fn open(path: impl AsRef<Path>) -> Result<Engine> {
        Engine::create(path.as_ref(), None)
    }

    /// The same with options.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Engine> {
        Engine::create(path.as_ref(), Some(options))
    }

    fn create(path: &Path, options: Option<&Options>) -> Result<Engine> {
        library::ready()?;
        let path = path_text(path, "prefix_engine_create")?;
        let options = raw_or_null(options);
        // Safety: a text with its length, and options that outlive the call or NULL.
        let handle = Handle::create(|out, err| unsafe {
            sys::prefix_engine_create(path.as_ptr().cast(), path.len(), options, out, err)
        })?;
        Ok(Engine::owning(handle))
    }

    pub(crate) fn owning(handle: Handle<sys::prefix_engine>) -> Engine {
        Engine(Arc::new(Owned(handle)))
    }

    /// What a model holds, from the headers of its files alone, as JSON: architecture, sizes, groups of tensors.
    pub fn model_info_json(path: impl AsRef<Path>) -> Result<String> {
        library::ready()?;
        let path = path_text(path.as_ref(), "prefix_model_info_json")?;
        // Safety: a text with its length, a buffer with its capacity.
        read_text(2048, |buf, cap, needed, err| unsafe {
            sys::prefix_model_info_json(path.as_ptr().cast(), path.len(), buf, cap, needed, err)
        })
    }

    /// The bytes that an engine would take, from the headers of the files alone.
    pub fn estimate(path: impl AsRef<Path>, options: Option<&Options>) -> Result<Memory> {
        library::ready()?;
        let path = path_text(path.as_ref(), "prefix_engine_estimate")?;
        let options = raw_or_null(options);
        let mut out = sys::prefix_memory::init();
        // Safety: a text with its length, options or NULL, a struct with its size.
        call(|err| unsafe {
            sys::prefix_engine_estimate(path.as_ptr().cast(), path.len(), options, &mut out, err)
        })?;
        Ok(out.into())
    }

    /// Loads a LoRA adapter, a directory as PEFT writes it, on this thread while requests run. Requests name it by
    /// the option `adapter`. A name that is there stands for the new one from then on.
    pub fn load_adapter(&self, name: &str, path: impl AsRef<Path>) -> Result<()> {
        let path = path_text(path.as_ref(), "prefix_adapter_load")?;
        // Safety: a live handle, texts with their lengths.
        call(|err| unsafe {
            let (name, name_len) = (name.as_ptr().cast(), name.len());
            sys::prefix_adapter_load(
                self.raw(),
                name,
                name_len,
                path.as_ptr().cast(),
                path.len(),
                err,
            )
        })
    }

    /// The same from files in memory, `adapter_config.json` and `adapter_model.safetensors`, which are read until it
    /// returns.
    pub fn load_adapter_source(&self, name: &str, source: &Source) -> Result<()> {
        // Safety: live handles, a text with its length; the source keeps its bytes as long as the call.
        call(|err| unsafe {
            let (name, name_len) = (name.as_ptr().cast(), name.len());
            sys::prefix_adapter_load_source(self.raw(), name, name_len, source.raw(), err)
        })
    }

    /// Ends the name of an adapter. Requests that were submitted keep it until they end.
    pub fn unload_adapter(&self, name: &str) -> Result<()> {
        // Safety: a live handle, a text with its length.
        call(|err| unsafe {
            sys::prefix_adapter_unload(self.raw(), name.as_ptr().cast(), name.len(), err)
        })
    }

    /// Those that are loaded, as JSON.
    pub fn adapters_json(&self) -> Result<String> {
        read_text(1024, |buf, cap, needed, err| unsafe {
            sys::prefix_adapters_json(self.raw(), buf, cap, needed, err)
        })
    }

    /// What it has done so far.
    pub fn stats(&self) -> Result<Stats> {
        let mut out = sys::prefix_engine_stats::init();
        // Safety: a live handle and a struct with its size.
        call(|err| unsafe { sys::prefix_engine_get_stats(self.raw(), &mut out, err) })?;
        Ok(out.into())
    }

    /// The same in Prometheus text format.
    pub fn metrics_text(&self) -> Result<String> {
        // Safety: a live handle and a buffer with its capacity; also below.
        read_text(8192, |buf, cap, needed, err| unsafe {
            sys::prefix_metrics_text(self.raw(), buf, cap, needed, err)
        })
    }

    /// Model, options, device and threads, as JSON.
    pub fn info_json(&self) -> Result<String> {
        read_text(4096, |buf, cap, needed, err| unsafe {
            sys::prefix_engine_info_json(self.raw(), buf, cap, needed, err)
        })
    }

    /// What is often asked of that, as numbers.
    pub fn info(&self) -> Result<EngineInfo> {
        let mut out = sys::prefix_engine_info::init();
        // Safety: a live handle and a struct with its size.
        call(|err| unsafe { sys::prefix_engine_get_info(self.raw(), &mut out, err) })?;
        Ok(out.into())
    }

    /// The tokens after which the model's own files end a generation; option `ignore_eos`.
    pub fn end_tokens(&self) -> Result<Vec<Token>> {
        // Safety: a live handle and a buffer with its capacity.
        read_array(8, |out, capacity, needed, err| unsafe {
            sys::prefix_engine_end_tokens(self.raw(), out, capacity, needed, err)
        })
    }

    /// What it is doing.
    pub fn state(&self) -> EngineState {
        // Safety: a live handle.
        match unsafe { sys::prefix_engine_state(self.raw()) } {
            sys::PREFIX_ENGINE_LOADING => EngineState::Loading,
            sys::PREFIX_ENGINE_READY => EngineState::Ready,
            sys::PREFIX_ENGINE_DRAINING => EngineState::Draining,
            sys::PREFIX_ENGINE_CLOSED => EngineState::Closed,
            sys::PREFIX_ENGINE_FAILED => EngineState::Failed,
            other => EngineState::Other(other),
        }
    }

    /// Takes no more requests, waits up to `patience` for those that run, cancels the rest and frees model
    /// and cache at once, whoever still holds a clone: their calls fail with
    /// [`Status::Misuse`](crate::Status::Misuse).
    ///
    /// ```compile_fail,E0382
    /// # fn engine() -> prefix::Engine { unimplemented!() }
    /// let engine = engine();
    /// let _ = engine.shutdown(std::time::Duration::ZERO);
    /// engine.state(); // there is no engine any more
    /// ```
    pub fn shutdown(self, patience: Duration) -> Result<()> {
        // Safety: a live handle.
        call(|err| unsafe { sys::prefix_engine_shutdown(self.raw(), milliseconds(patience), err) })
    }

    pub(crate) fn raw(&self) -> *mut sys::prefix_engine {
        self.0 .0.get()
    }
}

/// What an engine is doing.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineState {
    /// Reading the model.
    Loading,
    /// Taking requests.
    Ready,
    /// Finishing what runs before it closes.
    Draining,
    /// Shut down.
    Closed,
    /// An internal failure ended it; open a new one.
    Failed,
    /// A state that is newer than this crate.
    Other(i32),
}

/// The shape of a model, and what of it is in force.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineInfo {
    /// Of the model.
    pub layers: u64,
    /// Length of an embedding.
    pub hidden: u64,
    /// Of attention.
    pub heads: u64,
    /// Of keys and values.
    pub kv_heads: u64,
    /// Length of a head.
    pub head_dim: u64,
    /// Token ids are smaller.
    pub vocabulary: u64,
    /// Longest sequence in tokens, as it is in force.
    pub max_positions: u64,
    /// As it is in force; of the pool, if it was given one.
    pub threads: u64,
    /// Tokens that fit a page of keys and values.
    pub page_tokens: u64,
    /// Of the model.
    pub weight_bytes: u64,
    /// Of keys and values.
    pub kv_bytes_per_token: u64,
    /// 0: there are none.
    pub recurrent_layers: u64,
    /// That a state of them takes of the cache.
    pub state_bytes: u64,
    /// Values of a request with option `head`; 0: the model has no such head.
    pub labels: u64,
}

impl From<sys::prefix_engine_info> for EngineInfo {
    fn from(c: sys::prefix_engine_info) -> EngineInfo {
        EngineInfo {
            layers: count(c.layers.into()),
            hidden: count(c.hidden.into()),
            heads: count(c.heads.into()),
            kv_heads: count(c.kv_heads.into()),
            head_dim: count(c.head_dim.into()),
            vocabulary: count(c.vocabulary.into()),
            max_positions: count(c.max_positions.into()),
            threads: count(c.threads.into()),
            page_tokens: count(c.page_tokens.into()),
            weight_bytes: count(c.weight_bytes),
            kv_bytes_per_token: count(c.kv_bytes_per_token),
            recurrent_layers: count(c.recurrent_layers),
            state_bytes: count(c.state_bytes),
            labels: count(c.labels),
        }
    }
}

mirror! {
    /// Bytes that an engine takes.
    Memory = prefix_memory {
        /// Weights.
        weight_bytes,
        /// Keys and values of one token.
        kv_bytes_per_token,
        /// Most bytes for keys and values.
        kv_budget_bytes,
        /// Intermediate results of a step.
        activation_bytes,
        /// All of it.
        total_bytes,
    }
}

mirror! {
    /// Counters since the engine was opened unless said otherwise; `tokens_given` = cached + shared + computed.
    Stats = prefix_engine_stats {
        /// Now.
        requests_waiting,
        /// Now.
        requests_running,
        /// With success.
        requests_finished,
        /// With another status.
        requests_failed,
        /// Tokens of all prompts.
        tokens_given,
        /// Found in the cache.
        tokens_cached,
        /// Computed for another request of the same batch or one that was running.
        tokens_shared,
        /// Computed.
        tokens_computed,
        /// New tokens.
        tokens_generated,
        /// Runs of the model.
        steps,
        /// What the model really computed.
        rows,
        /// Pages of keys and values that there are.
        pages_total,
        /// Pages in use.
        pages_used,
        /// Tokens that fit a page.
        page_tokens,
        /// Now.
        kv_bytes,
        /// The most so far.
        kv_bytes_peak,
        /// The limit.
        kv_budget_bytes,
        /// Weights.
        weight_bytes,
        /// The most so far.
        activation_bytes_peak,
        /// Nodes of the tree, now.
        tree_nodes,
        /// Tokens in the tree, now.
        tree_tokens,
        /// Prefixes dropped to make room.
        evictions,
        /// Tokens dropped to make room.
        evicted_tokens,
        /// Microseconds in matrix products.
        gemm_us,
        /// Microseconds in attention.
        attention_us,
        /// Microseconds in the rest of the model.
        other_us,
        /// Microseconds of planning.
        plan_us,
        /// Microseconds of running, all together.
        run_us,
        /// Microseconds of loading.
        load_us,
        /// Bytes of the tree and of what it says about its pages, now.
        metadata_bytes,
        /// Tokens that came from disk or store.
        fetched_tokens,
        /// Tokens that disk or store had, but computing them was faster.
        fetch_skipped_tokens,
        /// How often a request waited for disk or store in vain (option `cache_fetch_ms`).
        fetch_timeouts,
        /// Tokens computed since nobody had asked for them before. This and the next five say why tokens had
        /// to be computed, as far as it is remembered, of some 32,000 pages that were asked for last.
        miss_first_seen,
        /// Tokens computed since only another namespace had them.
        miss_namespace,
        /// Tokens computed since they had made room (`cache_bytes`, a quota).
        miss_budget,
        /// Tokens computed since they were dropped, expired or not kept.
        miss_evicted,
        /// Tokens computed although they are there, for a result at them.
        miss_granularity,
        /// Tokens computed although their keys are there, since no state of the recurrent layers was.
        miss_state,
        /// States of recurrent layers in the cache, now.
        states,
        /// Bytes of these states.
        state_bytes,
        /// States that made room.
        state_evictions,
        /// Most bytes of states that one layer of a step had at a time.
        live_state_bytes_peak,
        /// Operations of the matrix products that `gemm_us` took; 0 on a GPU, as that is.
        gemm_flops,
        /// Tokens of generations that were guessed and checked (option `draft_tokens`).
        draft_tokens,
        /// Those of them that the model said as well.
        draft_tokens_accepted,
    }
}
