//! A client of the hooklatch daemon. No answer is a deny: `fire` never fails, and never allows a gate by itself.
//!
//! ```no_run
//! use hooklatch::{json, Options, Session};
//!
//! # fn main() -> Result<(), hooklatch::Error> {
//! let session = Session::open(Options { host: Some("my-agent".into()), ..Options::default() })?;
//! let decision = session.fire("pre_tool_use", json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}));
//! if decision.is_allowed() {
//!     // run it
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `fire` waits in the calling thread. `fire_async` is the same for a task: it knows no runtime, and any one can poll it,
//! from any thread; who drops it gives up the answer. [`radium`] has Radium's hook registry over a session.
//!
//! Nothing here panics on what a daemon or a host gives it: a value that cannot be sent refuses the gate that it is for,
//! and its path is in the reason.

#![deny(missing_docs, missing_debug_implementations, unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::indexing_slicing
    )
)]

mod decision;
mod error;
mod executor;
mod json;
mod link;
mod paths;
#[allow(unsafe_code)] // the only place that calls the C library
mod peer;
pub mod radium;
mod session;
mod table;
mod turns;

pub use decision::Decision;
pub use error::Error;
pub use executor::block_on;
pub use json::{Number, Value};
pub use session::{FireOptions, Options, Served, Session};

/// The examples of README.md are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
