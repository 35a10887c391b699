//! The service from outside, with a real model: every path, and what goes wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;
mod ends;
mod fields;
mod form;
mod formats;
mod heads;
mod limits;
mod logprobs;
mod paths;
mod samples;
mod support;
mod tenants;
mod thoughts;
mod told;
mod tools;
mod writing;
mod wrong;
mod wrong_tools;
