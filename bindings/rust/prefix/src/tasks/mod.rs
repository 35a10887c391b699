//! Ready-made tasks: text in, scores, vectors or texts out.
//!
//! ```text
//!   Task::builder ──> TaskBuilder ──submit──> Task ──> wait, finished().await ──> values, text, ranking
//!                       set_labels             │       items that are finished can be read
//!                       add, add_product       └── cancel at any time, and events as they come
//! ```
//!
//! What the prompts of a task share is computed once. Which prompts it writes is said by a recipe ([`recipes`],
//! option `recipe`). [`rerank`], [`embed`], [`classify`], [`answer`], [`generate`] and [`chat`] are a whole task in
//! one call.

mod builder;
mod calls;
mod task;

pub use builder::{TaskBuilder, TaskKind};
pub use calls::{answer, chat, classify, embed, generate, rerank, Ranking};
pub use task::{Ranked, Task};

use prefix_sys as sys;

use crate::error::{static_text, Result};
use crate::library;
use crate::raw::read_text;

/// The names of the recipes that the library holds.
pub fn recipes() -> Result<Vec<&'static str>> {
    library::text_ready()?;
    // Safety: no precondition; also below.
    let count = unsafe { sys::prefix_recipe_count() };
    let name = |index| static_text(unsafe { sys::prefix_recipe_name(index) });
    Ok((0..count).map(name).collect())
}

/// The file of a recipe that the library holds, to start from.
pub fn recipe_json(name: &str) -> Result<String> {
    library::text_ready()?;
    // Safety: a text with its length and a buffer with its capacity.
    read_text(2048, |buf, cap, needed, err| unsafe {
        sys::prefix_recipe_json(name.as_ptr().cast(), name.len(), buf, cap, needed, err)
    })
}
