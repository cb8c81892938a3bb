//! What a session does with what the daemon asks and says: it runs the hooks that it serves, and passes on what is new.

use super::Inner;
use crate::json;
use crate::json::{restored, Value};
use crate::link::{error_body, lock, Link, Owner};
use crate::table;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

impl Owner for Arc<Inner> {
    fn announce(&self, params: Value) -> Result<(), String> {
        if !params.at("topic").is_string() {
            return Err("an announcement names no topic".to_string());
        }
        if let Some(problem) = params.get("decision").and_then(table::fault) {
            return Err(format!("the announced decision is not valid: {problem}"));
        }
        if let Some(current) = params.at("resync").as_i64().or_else(|| params.at("revision").as_i64()) {
            lock(&self.state).revision = Some(current);
        }
        self.tell(&params);
        Ok(())
    }

    /// Run a served hook in a thread of its own, where a panic ends nothing else.
    fn call(&self, link: &Arc<Link>, id: Value, params: Value) {
        let (hook, payload) = match (params.at("hook").as_str(), params.at("event").as_str(), params.get("payload")) {
            (Some(hook), Some(_), Some(payload)) if payload.is_object() => (hook.to_string(), payload.clone()),
            _ => return link.reply(&id, error_body(-32602, "invalid_params", "it is no call of a hook")),
        };
        let (is_retired, served, native) = {
            let state = lock(&self.state);
            let served = state.hooks.iter().find(|kept| kept.id == hook).and_then(|kept| kept.served.clone());
            let native = params.at("call_id").as_str().and_then(|call| state.natives.get(call)).cloned();
            (state.retired.contains(&hook), served, native)
        };
        if is_retired {
            return link.reply(&id, result_body(Value::Null)); // it was never there for this process: no opinion
        }
        let payload = native.map_or(payload.clone(), |native| restored(&payload, &native));
        let link = link.clone();
        let answering = thread::Builder::new().name(format!("hook {hook}").replace('\0', "")).spawn({
            let (link, id) = (link.clone(), id.clone());
            move || {
                let body = match served {
                    None => Err(format!("this client serves no hook {hook}")),
                    Some(function) => catch_unwind(AssertUnwindSafe(|| function(&payload, &params)))
                        .unwrap_or_else(|panic| Err(text_of(&*panic))),
                };
                link.reply(&id, body.map_or_else(|text| error_body(-32603, "internal_error", &text), result_body));
            }
        });
        if let Err(error) = answering {
            link.reply(&id, error_body(-32603, "internal_error", &error.to_string()));
        }
    }
}

fn result_body(result: Value) -> Value {
    json!({ "result": result })
}

pub(crate) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_string())
}
