//! What a session and a fire may say.

use crate::json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A hook that this process serves: payload and call in, a verdict or null out. What it panics with denies on a gate.
///
/// The call has the protocol's keys: `hook`, `event`, `call_id`, `envelope` and others.
pub type Served = Arc<dyn Fn(&Value, &Value) -> Result<Value, String> + Send + Sync>;

/// How a session is opened. `Options { host: Some("my-agent".into()), ..Options::default() }` says the rest by default.
#[derive(Debug, Clone)]
pub struct Options {
    /// The daemon's socket; no other is tried.
    pub path: Option<PathBuf>,
    /// The daemon's folder; by default HOOKLATCH_RUNTIME_DIR, or the known places in turn.
    pub runtime_dir: Option<PathBuf>,
    /// The number of the user whose daemon is taken beside one's own and root's, who would be refused else.
    pub daemon_uid: Option<u32>,
    /// The session's id; by default the daemon makes one.
    pub session_id: Option<String>,
    /// What an earlier connection of that session was given, to join it.
    pub resume_token: Option<String>,
    /// The client's name in `hooklatch status`.
    pub name: Option<String>,
    /// The agent's name, which hooks are told.
    pub host: Option<String>,
    /// The folder that the agent works in, whose project's hooks fire too; by default this process's.
    pub cwd: Option<PathBuf>,
    /// The system whose events and words the session uses, such as `radium`; by default hooklatch's own.
    pub dialect: Option<String>,
    /// The personality whose plugins fire.
    pub personality: Option<String>,
    /// The plugins whose hooks fire; by default all.
    pub plugins: Option<Vec<String>>,
    /// The events that are refused where no hook listens.
    pub require_handlers: Vec<String>,
    /// The events that this host ever fires; by default it does not say.
    pub emits: Vec<String>,
    /// The session that started this one, as its id and child_token; by default HOOKLATCH_PARENT names it.
    pub parent: Option<(String, String)>,
    /// Fail if no daemon is reachable, instead of opening a session whose gates deny.
    pub require: bool,
    /// The time between pings to a silent daemon, one second by default.
    pub interval: Duration,
    /// How many pings may stay unanswered before the connection is given up, five by default.
    pub misses: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            path: None,
            runtime_dir: None,
            daemon_uid: None,
            session_id: None,
            resume_token: None,
            name: None,
            host: None,
            cwd: None,
            dialect: None,
            personality: None,
            plugins: None,
            require_handlers: Vec::new(),
            emits: Vec::new(),
            parent: None,
            require: false,
            interval: Duration::from_secs(1),
            misses: 5,
        }
    }
}

/// What a fire may say besides its payload.
#[derive(Debug, Clone, Default)]
pub struct FireOptions {
    /// The host's id of this call, which hooks and the record are given.
    pub call_id: Option<String>,
    /// Seconds that the daemon may take; by default each event has a deadline of its own.
    pub timeout: Option<f64>,
    /// What hooks left for the ones after them, for systems that thread a context.
    pub context: Option<Value>,
    /// What the host says of the moment: `cwd`, `turn`, `metadata` and others, where they are not the session's.
    pub envelope: Option<Value>,
    /// The plugins whose hooks fire this time.
    pub plugins: Option<Vec<String>>,
}
