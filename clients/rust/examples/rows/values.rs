//! Values in the commands' form, and back.

use hooklatch::radium::HookContext;
use hooklatch::{json, Number, Value};

/// Read a value of a command.
pub fn given(value: &Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.iter().map(given).collect()),
        Value::Object(members) if members.len() == 1 => {
            if let Some(text) = value["$f64"].as_str() {
                return Value::from(text.parse::<f64>().unwrap_or(f64::NAN));
            }
            if let Some(number) = value["$u64"].as_u64() {
                return Value::Number(Number::Unsigned(number));
            }
            if let Some(depth) = value["$deep"].as_u64() {
                return (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
            }
            members_of(members, given)
        }
        Value::Object(members) => members_of(members, given),
        other => other.clone(),
    }
}

fn members_of(members: &std::collections::BTreeMap<String, Value>, read: fn(&Value) -> Value) -> Value {
    Value::Object(members.iter().map(|(key, value)| (key.clone(), read(value))).collect())
}

/// Write a value that a hook or the caller was given, which may be too deep to be dropped.
pub fn shown(value: Value) -> Value {
    let found = written(&value);
    std::mem::forget(value);
    found
}

pub fn written(value: &Value) -> Value {
    match value {
        Value::Number(Number::Float(number)) if !number.is_finite() => json!({"$f64": number.to_string()}),
        Value::Number(Number::Unsigned(number)) if i64::try_from(*number).is_ok() => json!({"$u64": *number}),
        Value::Array(values) => match depth_of(value) {
            depth if depth > 50 => json!({ "$deep": depth }),
            _ => Value::Array(values.iter().map(written).collect()),
        },
        Value::Object(members) => members_of(members, written),
        other => other.clone(),
    }
}

fn depth_of(mut value: &Value) -> u64 {
    let mut depth = 0;
    while let Value::Array(values) = value {
        depth += 1;
        value = match values.first() {
            Some(inner) => inner,
            None => return depth,
        };
    }
    depth
}

pub fn forget(context: HookContext) {
    std::mem::forget(context);
}
