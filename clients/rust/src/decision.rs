//! What a host does with the answer to a fire, and the decision when there is no answer.

use crate::error::Error;
use crate::json::Value;
use crate::table;
use std::sync::atomic::{AtomicU64, Ordering};

static LAST_LOCAL: AtomicU64 = AtomicU64::new(0);

/// The one answer to a fire. `wire` has all of it under the protocol's keys.
#[derive(Debug, Clone)]
pub struct Decision {
    pub event: String,
    pub verdict: String,
    pub cause: Option<String>,
    pub reason: Option<String>,
    pub hook: Option<String>,
    pub warnings: Vec<String>,
    pub revision: Option<i64>,
    pub wire: Value,
    is_local: bool,
}

impl Decision {
    /// Whether the action may go on: not for deny and halt, and not for ask, which needs approval first.
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict.as_str(), "pass" | "allow" | "claim")
    }

    pub fn needs_asking(&self) -> bool {
        self.verdict == "ask"
    }

    /// Whether the client decided by itself, without an answer of the daemon.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whole new values for keys of the payload: run that, not what you fired.
    pub fn patch(&self) -> &Value {
        &self.wire["patch"]
    }

    /// In a session with a dialect, the answer in its words; null where the client decided by itself.
    pub fn rendered(&self) -> &Value {
        &self.wire["rendered"]
    }

    /// Why it was refused, never empty.
    pub fn explanation(&self) -> String {
        match self.reason.as_deref() {
            Some(reason) if !reason.is_empty() => reason.to_string(),
            _ => format!("{} refused by {}", self.event, self.hook.as_deref().unwrap_or("the hook daemon")),
        }
    }

    pub(crate) fn read(wire: Value, event: &str, is_native: bool) -> Result<Decision, Error> {
        if let Some(problem) = table::fault(&wire) {
            return Err(Error::Unreadable(format!("the answer is not a valid decision: {problem}")));
        }
        if !is_native && wire["event"] != *event {
            return Err(Error::Unreadable("the answer decides on another event".to_string()));
        }
        Ok(Decision::of(wire, false))
    }

    /// Decide in place of the daemon: deny what could refuse, pass with a warning what could not.
    pub(crate) fn local(event: &str, error: &Error) -> Decision {
        let cause = error.cause();
        let id = format!("local-{}-{}", std::process::id(), LAST_LOCAL.fetch_add(1, Ordering::Relaxed));
        let wire = if !table::is_gate(event) {
            let warning = format!("{cause}: {error}");
            crate::json!({"decision_id": id, "event": event, "verdict": "pass", "warnings": [warning]})
        } else {
            let reason = format!("the hook daemon did not decide (fail-safe deny): {error}");
            let retryable = matches!(cause, "no_daemon" | "overload");
            crate::json!({"decision_id": id, "event": event, "verdict": "deny", "cause": cause, "reason": reason,
                "retryable": retryable})
        };
        Decision::of(wire, true)
    }

    fn of(wire: Value, is_local: bool) -> Decision {
        let text = |key: &str| wire[key].as_str().map(str::to_string);
        let warnings = wire["warnings"].as_array().into_iter().flatten();
        Decision {
            event: text("event").unwrap_or_default(),
            verdict: text("verdict").unwrap_or_else(|| "deny".to_string()),
            cause: text("cause"),
            reason: text("reason"),
            hook: text("hook"),
            warnings: warnings.filter_map(|one| one.as_str().map(str::to_string)).collect(),
            revision: wire["revision"].as_i64(),
            wire,
            is_local,
        }
    }
}
