//! Joins the daemon's list of results with what the hooks of this process answered themselves.
//!
//! The decision counts: no result is looser than the daemon's, and what the daemon did not take over of the changes that
//! it knows is not there. All else of a hook's result is what the hook gave.

use super::types::{HookContext, HookResult, HookType};
use crate::decision::Decision;
use crate::json::{is_same, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

const OWN_LAYER: &str = "session";

/// Return the results of a decision, or nothing if it has no whole list of them.
pub(super) fn joined(
    hook_type: HookType,
    context: &HookContext,
    decision: &Decision,
    mut answers: HashMap<String, HookResult>,
) -> Option<Vec<HookResult>> {
    let rendered = decision.rendered().as_array()?;
    let mut results = rendered.iter().map(HookResult::read).collect::<Option<Vec<HookResult>>>()?;
    let hooks = hooks_of(&decision.wire);
    let decided = results.clone();
    let is_taken = |key: &str| decided.iter().any(|result| of_result(result, key).is_some());
    // One more result than hooks carries what theirs do not add up to; with fewer, nobody knows whose is whose.
    if results.len() >= hooks.len() && results.len() <= hooks.len() + 1 {
        for (result, hook) in results.iter_mut().zip(hooks) {
            let answer = hook.and_then(|hook| Some((answers.remove(&hook.id)?, hook.is_usable)));
            // An answer that the daemon could not use counts as what the daemon says; a failed one is no more than that.
            if let Some((own, _)) = answer.filter(|(own, is_usable)| *is_usable || !own.success) {
                *result = native(&Judged { hook_type, context, is_taken: &is_taken }, result, own);
            }
        }
    }
    Some(results)
}

struct OwnHook {
    id: String,
    is_usable: bool, // what it answered
}

/// Return the hooks whose results are listed, in that order; nothing where it is none of this process.
fn hooks_of(wire: &Value) -> Vec<Option<OwnHook>> {
    let followed = wire.at("followed_by").as_array().into_iter().flatten();
    let mut hooks = Vec::new();
    for decision in std::iter::once(wire).chain(followed) {
        let mut seen = HashSet::new();
        for outcome in decision.at("outcomes").as_array().into_iter().flatten() {
            let is_unneeded = outcome.at("unneeded").as_bool() == Some(true);
            if !is_unneeded && seen.insert((outcome.at("layer").to_string(), outcome.at("hook").to_string())) {
                let is_own = outcome.at("layer").as_str() == Some(OWN_LAYER);
                let is_usable = outcome.at("outcome").as_str() == Some("answered");
                let id = outcome.at("hook").as_str().filter(|_| is_own);
                hooks.push(id.map(|id| OwnHook { id: id.to_string(), is_usable }));
            }
        }
    }
    hooks
}

/// What a hook's answer is held to: the type, what was fired, and which changes the daemon took from anybody.
struct Judged<'a> {
    hook_type: HookType,
    context: &'a HookContext,
    is_taken: &'a dyn Fn(&str) -> bool,
}

fn of_result<'a>(result: &'a HookResult, key: &str) -> Option<&'a Value> {
    result.modified_data.as_ref().and_then(|data| data.get(key))
}

fn native(judged: &Judged<'_>, decided: &HookResult, own: HookResult) -> HookResult {
    if judged.hook_type.is_gate() && !decided.should_continue {
        let is_its_own = !own.success || !own.should_continue;
        return HookResult {
            success: false,
            message: own.message.filter(|_| is_its_own).or_else(|| decided.message.clone()),
            modified_data: own.modified_data.filter(|_| !own.should_continue),
            should_continue: false,
        };
    }
    let should_continue = own.should_continue && decided.should_continue;
    let modified_data = own.modified_data.and_then(|data| changes(judged, decided, data));
    HookResult { success: own.success, message: own.message, modified_data, should_continue }
}

/// Return a hook's changes without those that the daemon did not take over.
fn changes(judged: &Judged<'_>, decided: &HookResult, data: Value) -> Option<Value> {
    let members = match data {
        Value::Object(members) => members,
        other => return Some(other), // no type has such a change; on a gate it has stopped
    };
    let was_empty = members.is_empty();
    let mut kept = BTreeMap::new();
    for (key, value) in members {
        let known = judged.hook_type.changes().iter().find(|(changed, _)| *changed == key);
        match (known, of_result(decided, &key)) {
            (Some(_), Some(taken)) if !is_same(taken, &value) => kept.insert(key, taken.clone()),
            (Some((_, before)), None) if !judged.is_no_change(&key, before, &value) => None,
            _ => kept.insert(key, value),
        };
    }
    Some(Value::Object(kept)).filter(|data| was_empty || data.as_object().map_or(false, |kept| !kept.is_empty()))
}

impl Judged<'_> {
    /// Whether a value that the daemon does not count as a change is none: null where nothing was before, or nothing is
    /// guarded; or what was there before, if nobody else has changed that.
    fn is_no_change(&self, key: &str, before: &str, value: &Value) -> bool {
        let before = self.context.data.at(before);
        if value.is_null() {
            return !self.hook_type.is_gate() || before.is_null();
        }
        is_same(value, before) && !(self.is_taken)(key)
    }
}

/// Return a gate's results, whose last one is a stop wherever the decision does not allow.
pub(super) fn stopped_unless_allowed(results: Option<Vec<HookResult>>, decision: &Decision) -> Vec<HookResult> {
    let mut results = match results {
        Some(results) => results,
        None => return vec![HookResult::stop(decision.explanation())],
    };
    // The decision and its rendering are one answer; if they differ, the stricter one counts.
    if !decision.is_allowed() && results.iter().all(|result| result.should_continue) {
        results.push(HookResult::stop(decision.explanation()));
    }
    results
}

/// Whether the daemon could not be given a fire, or gave no answer that can be read: with a daemon that is away, or has
/// too much to do, that is said of the fire as a whole.
pub(super) fn was_not_taken(decision: &Decision) -> bool {
    let is_of_payload = decision.cause.as_deref() == Some("payload");
    is_of_payload || (decision.is_local() && decision.cause.as_deref() == Some("protocol"))
}
