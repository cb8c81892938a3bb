//! What this process knows of its fires that are under way: the context as the host gave it, and what each hook answered.
//!
//! A fire has a call id of its own, by which the hooks that the daemon calls find it. So hooks of one process give and
//! get that process's values, and the wire has a plain copy.

use super::types::{HookContext, HookResult, HookType};
use crate::json;
use crate::json::{is_same, plain, restored, write, Fault, Value};
use crate::link::lock;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// The fires that are under way, by their call ids.
pub(super) type Fires = Mutex<HashMap<String, Arc<Fire>>>;

pub(super) struct Fire {
    hook_type: HookType,
    context: HookContext,
    wrapped: Option<Value>, // the data as the daemon has it, where it is no object
    answers: Mutex<Vec<(String, HookResult)>>, // by hook, in the order in which they came
}

/// A fire for as long as somebody waits for what comes of it.
pub(super) struct Begun<'a> {
    fires: &'a Fires,
    call_id: String,
    fire: Arc<Fire>,
}

impl<'a> Begun<'a> {
    /// The context must be no deeper than what can be sent: it is cloned.
    pub(super) fn new(fires: &'a Fires, call_id: String, hook_type: HookType, context: &HookContext) -> Begun<'a> {
        let wrapped = if context.data.is_object() {
            None
        } else if hook_type.is_of_telemetry() {
            Some(json!({"data": context.data.clone()})) // where the operator's hooks look for it
        } else {
            Some(json!({"value": context.data.clone()}))
        };
        let fire = Arc::new(Fire { hook_type, context: context.clone(), wrapped, answers: Mutex::default() });
        lock(fires).insert(call_id.clone(), fire.clone());
        Begun { fires, call_id, fire }
    }

    pub(super) fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Return the payload to fire: an object, in its plain form.
    pub(super) fn payload(&self) -> Value {
        plain(self.fire.data())
    }

    /// Return the last answer of each hook that was called.
    pub(super) fn take_answers(&self) -> HashMap<String, HookResult> {
        lock(&self.fire.answers).drain(..).collect()
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        lock(self.fires).remove(&self.call_id);
    }
}

impl Fire {
    fn data(&self) -> &Value {
        self.wrapped.as_ref().unwrap_or(&self.context.data)
    }

    /// Return the context of a call whose payload came over the wire: the host's own values, but for what was changed.
    pub(super) fn context_of(&self, payload: &Value) -> Cow<'_, HookContext> {
        if is_same(payload, self.data()) {
            return Cow::Borrowed(&self.context);
        }
        let mut data = restored(payload, self.data());
        let answers = lock(&self.answers);
        for (_, result) in answers.iter() {
            for (changed, key) in self.hook_type.changes() {
                let given = result.modified_data.as_ref().and_then(|data| data.get(changed));
                if let (Some(given), Some(members)) = (given, data.as_object_mut()) {
                    if members.get(*key).map_or(false, |value| is_same(value, given)) {
                        members.insert((*key).to_string(), given.clone());
                    }
                }
            }
        }
        Cow::Owned(HookContext { data, ..self.context.clone() })
    }

    /// Keep what a hook answered, and return what the daemon is told of it.
    ///
    /// On a gate that is all of it, so that what hooklatch does not know stops. Elsewhere the changes that hooklatch
    /// does not know are this process's alone.
    pub(super) fn answered(&self, hook: &str, result: HookResult) -> Result<Value, String> {
        let wire = wire_result(self.hook_type, &result)?;
        lock(&self.answers).push((hook.to_string(), result));
        Ok(wire)
    }
}

/// Return what the daemon is told of a result.
pub(super) fn wire_result(hook_type: HookType, result: &HookResult) -> Result<Value, String> {
    let is_gate = hook_type.is_gate();
    let data = match &result.modified_data {
        Some(_) if is_gate && !result.should_continue => Value::Null, // a stop changes nothing
        Some(data) => {
            let fault = write(data).err();
            match fault {
                Some(fault) if is_gate || !fault.is_replaceable => return Err(fault.below("modified_data")),
                _ if is_gate => data.clone(),
                _ => known_changes(hook_type, data),
            }
        }
        None => Value::Null,
    };
    Ok(json!({"success": result.success, "message": result.message.clone(), "modified_data": data,
        "should_continue": result.should_continue}))
}

fn known_changes(hook_type: HookType, data: &Value) -> Value {
    let is_set = |(key, _): &(&str, &str)| Some(((*key).to_string(), plain(data.get(key)?)));
    let known: BTreeMap<String, Value> = hook_type.changes().iter().filter_map(is_set).collect();
    if known.is_empty() {
        Value::Null
    } else {
        Value::Object(known)
    }
}

/// Return how many bytes a context's data has, or why it cannot be sent as it is, and where.
pub(super) fn measured(context: &HookContext) -> Result<usize, (Fault, &'static str)> {
    let data = write(&context.data).map_err(|fault| (fault, "context.data"))?;
    write(&context.metadata).map_err(|fault| (fault, "context.metadata"))?;
    Ok(data.len())
}

/// Return the envelope with the host's metadata, which is an object there: anything else stands below `value`.
pub(super) fn envelope_of(metadata: &Value) -> Option<Value> {
    match metadata {
        Value::Null => None,
        Value::Object(members) if members.is_empty() => None,
        Value::Object(_) => Some(json!({"metadata": plain(metadata)})),
        other => Some(json!({"metadata": {"value": plain(other)}})),
    }
}

/// Return the metadata that another process put into the envelope of its own fire.
pub(super) fn metadata_of(envelope: &Value) -> Value {
    match envelope.at("metadata") {
        Value::Null => json!({}),
        metadata => metadata.clone(),
    }
}
