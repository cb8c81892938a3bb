//! A client of the hooklatch daemon. No answer is a deny: `fire` never fails, and never allows a gate by itself.
//!
//! ```no_run
//! use hooklatch::{json, Options, Session};
//!
//! let session = Session::open(Options { host: Some("my-agent".into()), ..Options::default() }).unwrap();
//! let decision = session.fire("pre_tool_use", json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}));
//! if decision.is_allowed() { /* run it */ }
//! ```

mod decision;
mod error;
mod executor;
mod json;
mod link;
mod paths;
mod peer;
pub mod radium;
mod session;
mod table;

pub use decision::Decision;
pub use error::Error;
pub use executor::block_on;
pub use json::{Number, Value};
pub use session::{FireOptions, Options, Served, Session};
