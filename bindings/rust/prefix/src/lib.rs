#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod awaited;
mod batch;
mod cache;
mod cache_events;
mod constraint;
mod engine;
mod error;
mod event;
mod events;
mod future;
mod job;
mod lease;
pub mod library;
mod loading;
pub mod log;
mod option_methods;
mod options;
mod order;
mod pool;
mod raw;
mod readers;
mod results;
mod snapshot;
mod source;
mod system;
#[cfg(feature = "text")]
pub mod tasks;
#[cfg(feature = "text")]
pub mod text;
mod waiter;

pub use batch::{Batch, Request};
pub use cache::{Cache, CacheInfo, CacheUsage, Namespace};
pub use cache_events::{CacheDump, CacheEvent, CacheEventKind, CacheEvents};
pub use constraint::{Constraint, ConstraintState, TokenMask};
pub use engine::{Engine, EngineInfo, EngineState, Memory, Stats};
pub use error::{Error, Result, Status};
pub use event::{Event, EventKind};
pub use events::Events;
pub use future::{Done, EventStream, Finished};
pub use job::Job;
pub use lease::Lease;
pub use loading::Loading;
pub use options::{option_infos, OptionInfo, OptionType, Options, OptionsBuilder, Scope, Value};
pub use order::{estimate_batch, order, order_texts, partition, BatchEstimate, Parts, TableOrder};
pub use pool::Pool;
pub use results::{Finish, JobTotals, ResultInfo, TextToken, TopToken, Values};
pub use snapshot::SnapshotInfo;
pub use source::{Bytes, Source};
pub use system::{build_info, devices, features, has_feature, version, DeviceInfo};
#[cfg(feature = "text")]
pub use tasks::{
    answer, chat, classify, embed, generate, rerank, Ranked, Ranking, Task, TaskBuilder, TaskKind,
};
#[cfg(feature = "text")]
pub use text::{Chat, Detokenizer, Tokenizer};

/// The number of a token in the vocabulary of a model.
pub type Token = prefix_sys::prefix_token;
