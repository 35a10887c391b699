//! The program as a process: under load, under attack, and told to stop in the middle of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attack;
mod client;
mod load;
mod program;
mod said;
mod start;
