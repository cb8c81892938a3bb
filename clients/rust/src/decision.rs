//! What a host does with the answer to a fire, and the decision when there is no answer.

use crate::error::Error;
use crate::json::Value;
use crate::table;
use std::sync::atomic::{AtomicU64, Ordering};

static LAST_LOCAL: AtomicU64 = AtomicU64::new(0);

/// The one answer to a fire. `wire` has all of it under the protocol's keys.
#[derive(Debug, Clone)]
#[must_use = "a decision that nobody reads guards nothing"]
pub struct Decision {
    /// The event, by its name in the catalogue, also in a session with a dialect.
    pub event: String,
    /// `pass`, `allow`, `claim`, `ask`, `deny` or `halt`; `is_allowed` says what that means for the action.
    pub verdict: String,
    /// Why it is so, by the protocol's word: `policy`, `crash`, `no_daemon` …; none for a pass.
    pub cause: Option<String>,
    /// What the hook that decided said, for a person.
    pub reason: Option<String>,
    /// The shell command that the hook names in place of what it refuses, or asks about: the model's next step.
    pub instead: Option<String>,
    /// The id of the hook that decided.
    pub hook: Option<String>,
    /// What hooks and the daemon have to tell, which changes nothing of the verdict.
    pub warnings: Vec<String>,
    /// The revision of the registry that decided.
    pub revision: Option<i64>,
    /// The whole answer, under the protocol's keys.
    pub wire: Value,
    is_local: bool,
}

impl Decision {
    /// Whether the action may go on: not for deny and halt, and not for ask, which needs approval first.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict.as_str(), "pass" | "allow" | "claim")
    }

    /// Whether a person has to approve the action before it may go on.
    #[must_use]
    pub fn needs_asking(&self) -> bool {
        self.verdict == "ask"
    }

    /// Whether the client decided by itself, without an answer of the daemon.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whole new values for keys of the payload: run that, not what you fired.
    #[must_use]
    pub fn patch(&self) -> &Value {
        self.wire.at("patch")
    }

    /// In a session with a dialect, the answer in its words; null where the client decided by itself.
    #[must_use]
    pub fn rendered(&self) -> &Value {
        self.wire.at("rendered")
    }

    /// What was decided and why, for a person; never empty.
    #[must_use]
    pub fn explanation(&self) -> String {
        if let Some(reason) = self.reason.as_deref().filter(|reason| !reason.is_empty()) {
            return reason.to_string();
        }
        let by = self.hook.as_deref().unwrap_or("the hook daemon");
        match self.verdict.as_str() {
            "pass" => format!("no hook objects to {}", self.event),
            "allow" | "claim" => format!("{} may go on, says {by}", self.event),
            "ask" => format!("{} needs approval, says {by}", self.event),
            _ => format!("{} refused by {by}", self.event),
        }
    }

    pub(crate) fn warn(&mut self, text: String) {
        self.warnings.push(text);
        if let Some(members) = self.wire.as_object_mut() {
            members.insert("warnings".to_string(), Value::from(self.warnings.clone()));
        }
    }

    pub(crate) fn read(wire: Value, event: &str, is_native: bool) -> Result<Decision, Error> {
        if let Some(problem) = table::fault(&wire) {
            return Err(Error::Unreadable(format!("the answer is not a valid decision: {problem}")));
        }
        if !is_native && wire.at("event").as_str() != Some(event) {
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
        let text = |key: &str| wire.at(key).as_str().map(str::to_string);
        let warnings = wire.at("warnings").as_array().into_iter().flatten();
        Decision {
            event: text("event").unwrap_or_default(),
            verdict: text("verdict").unwrap_or_else(|| "deny".to_string()),
            cause: text("cause"),
            reason: text("reason"),
            instead: text("instead"),
            hook: text("hook"),
            warnings: warnings.filter_map(|warning| warning.as_str().map(str::to_string)).collect(),
            revision: wire.at("revision").as_i64(),
            wire,
            is_local,
        }
    }
}
