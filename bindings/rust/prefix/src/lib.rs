#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod batch;
mod cache;
mod engine;
mod error;
mod events;
mod future;
mod job;
pub mod library;
pub mod log;
mod options;
mod raw;
mod system;
#[cfg(feature = "text")]
pub mod tasks;
#[cfg(feature = "text")]
pub mod text;

pub use batch::{Batch, Request};
pub use cache::{Cache, CacheInfo, Namespace};
pub use engine::{Engine, EngineState, Memory, Stats};
pub use error::{Error, Result, Status};
pub use events::{Event, EventKind, Events};
pub use future::Finished;
pub use job::{Finish, Job, JobTotals, ResultInfo, Values};
pub use options::{option_infos, OptionInfo, OptionType, Options, Scope, Value};
pub use system::{build_info, devices, features, version, DeviceInfo};
#[cfg(feature = "text")]
pub use text::{Chat, Detok, Tokenizer};

/// The number of a token in the vocabulary of a model.
pub type Token = prefix_sys::prefix_token;
