//! A service over libprefix; `README.md` says what it answers and how.
//!
//! ```text
//!   serve.rs     connections, and their end; places.rs, uploads.rs: how many, and who makes room
//!   router.rs    which path is whose; watch.rs: what is told of each request; cors.rs: scripts of other sites
//!   dialect.rs   failures as each API writes them
//!   cohere.rs, tei.rs, openai/    requests and answers of each API
//!   ranking.rs, vectors.rs, classes.rs    what they share
//!   say.rs       what the operator is told
//!   tools/       how models write calls of tools
//!   page/        what a browser shows; events/: what happens in the cache, for routers
//!   app.rs       one request: key, place, body, task; gate.rs, tenants.rs, body.rs, fields.rs
//! ```

pub mod app;
pub mod body;
pub mod classes;
pub mod cohere;
pub mod config;
pub mod cors;
pub mod dialect;
pub mod events;
pub mod failure;
pub mod fields;
pub mod gate;
pub mod ids;
pub mod metrics;
pub mod model;
pub mod openai;
pub mod page;
pub mod places;
pub mod ranking;
pub mod router;
pub mod say;
pub mod serve;
pub mod stalled;
pub mod status;
pub mod tei;
pub mod tenants;
pub mod tools;
pub mod uploads;
pub mod vectors;
pub mod watch;
