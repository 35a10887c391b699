//! A JSON schema before the crate sees it.
//!
//! ```text
//!   clean.rs     only what it says of values; faults.rs: what the crate would not keep to;
//!                plain.rs: one object of several
//!                bounds.rs: what it would not keep to as it is written
//!   finite.rs    without what has no value
//!   trial.rs     what the crate makes of it, counted; meeting.rs: intersections;
//!                shape.rs: with copies shared
//!   guidance.rs  what it says to the crate itself
//! ```

mod bounds;
mod clean;
mod control;
mod faults;
mod finite;
mod guidance;
mod meeting;
mod plain;
mod shape;
mod trial;
mod words;

pub use guidance::ready;
pub use trial::MAX_COST;
