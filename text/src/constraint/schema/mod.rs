//! A JSON schema before the crate sees it.
//!
//! ```text
//!   clean.rs     only what it says of values; faults.rs: what the crate would not keep to;
//!                plain.rs: one object of several
//!                bounds.rs: what it would not keep to as it is written
//!   trial.rs     what the crate makes of it, counted; meeting.rs: intersections;
//!                shape.rs: with copies shared; wording.rs: what they say
//!   finite.rs    without references to what has no value; leaf.rs: texts and numbers
//!   guidance.rs  what it says to the crate itself
//!   blame.rs     where something is that the crate does not keep to
//! ```

mod blame;
mod bounds;
mod clean;
mod control;
mod faults;
mod finite;
mod guidance;
mod leaf;
mod meeting;
mod plain;
mod shape;
mod trial;
mod wording;
mod words;

pub use blame::{undecided, unwritable};
pub use guidance::ready;
pub use leaf::UNDECIDED;
pub use trial::MAX_COST;
