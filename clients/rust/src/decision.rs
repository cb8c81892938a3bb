//! What a host does with the answer to a fire, and the decision when there is no answer.

use crate::error::Error;
use crate::json::Value;
use std::sync::atomic::{AtomicU64, Ordering};

const VERDICTS: [&str; 6] = ["pass", "allow", "deny", "ask", "halt", "claim"];

/// The catalogue's events that cannot refuse. Whatever is not here counts as a gate.
const PASSING: [&str; 36] = [
    "compact_stage",
    "custom_log",
    "error_intercept",
    "error_log",
    "error_recover",
    "error_transform",
    "message_claim",
    "message_dispatch",
    "message_received",
    "message_send",
    "message_sent",
    "metrics",
    "model_request",
    "model_response",
    "notification",
    "performance",
    "permission_denied",
    "personality_switch",
    "post_compact",
    "post_model",
    "post_tool_use",
    "post_tool_batch",
    "post_tool_use_failure",
    "pre_iteration",
    "prompt_build",
    "session_end",
    "session_start",
    "stop",
    "stop_failure",
    "subagent_started",
    "subagent_stop",
    "task_completed",
    "teammate_idle",
    "telemetry",
    "tool_path",
    "tool_result",
];

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
        self.revision.is_none()
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
        if let Some(problem) = problem_of(&wire) {
            return Err(Error::Unreadable(format!("the answer is not a valid decision: {problem}")));
        }
        if !is_native && wire["event"] != *event {
            return Err(Error::Unreadable("the answer decides on another event".to_string()));
        }
        Ok(Decision::of(wire))
    }

    /// Decide in place of the daemon: deny what could refuse, pass with a warning what could not.
    pub(crate) fn local(event: &str, error: &Error) -> Decision {
        let cause = error.cause();
        let id = format!("local-{}-{}", std::process::id(), LAST_LOCAL.fetch_add(1, Ordering::Relaxed));
        Decision::of(if PASSING.contains(&event) {
            let warning = format!("{cause}: {error}");
            crate::json!({"decision_id": id, "event": event, "verdict": "pass", "warnings": [warning]})
        } else {
            let reason = format!("the hook daemon did not decide (fail-safe deny): {error}");
            let retryable = matches!(cause, "no_daemon" | "overload");
            crate::json!({"decision_id": id, "event": event, "verdict": "deny", "cause": cause, "reason": reason,
                "retryable": retryable})
        })
    }

    fn of(wire: Value) -> Decision {
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
        }
    }
}

fn problem_of(wire: &Value) -> Option<String> {
    let members = match wire {
        Value::Object(members) => members,
        _ => return Some("it is no object".to_string()),
    };
    if !wire["decision_id"].is_string() || !wire["event"].is_string() {
        return Some("it names no decision or no event".to_string());
    }
    if !VERDICTS.iter().any(|verdict| wire["verdict"] == **verdict) {
        return Some(format!("its verdict is {}", wire["verdict"]));
    }
    members.iter().find(|(key, value)| !fits(key, value)).map(|(key, _)| format!("its {key} has another shape"))
}

fn fits(key: &str, value: &Value) -> bool {
    let all = |check: fn(&Value) -> bool| value.as_array().map_or(false, |values| values.iter().all(check));
    match key {
        "cause" | "reason" | "layer" | "hook" | "payload_digest" | "append" | "resume" => {
            value.is_null() || value.is_string()
        }
        "patch" | "context" | "record" => value.is_null() || value.is_object(),
        "inject" | "outcomes" => all(Value::is_object),
        "retryable" => value.as_bool().is_some(),
        "revision" => value.is_null() || value.as_i64().is_some(),
        "duration_ms" => value.is_number(),
        "name" => value.is_string(),
        "warnings" => all(Value::is_string),
        "followed_by" => all(|one| problem_of(one).is_none()),
        _ => true,
    }
}
