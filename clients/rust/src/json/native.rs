//! A value's plain form, which can cross the wire, and the way back: what nobody has changed is the value that was sent.

use super::{Number, Value};
use crate::json;

/// Return the value with a mark in the place of each number that JSON cannot say.
///
/// The value must not be nested deeper than what can be sent: this is recursive.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.iter().map(plain).collect()),
        Value::Object(members) => Value::Object(members.iter().map(|(key, one)| (key.clone(), plain(one))).collect()),
        Value::Number(Number::Float(number)) if !number.is_finite() => mark(*number),
        other => other.clone(),
    }
}

/// Return what came over the wire, with the sender's own values wherever they are the same.
pub(crate) fn restored(wire: &Value, native: &Value) -> Value {
    match (wire, native) {
        (Value::Array(values), Value::Array(own)) if values.len() == own.len() => {
            Value::Array(values.iter().zip(own).map(|(value, own)| restored(value, own)).collect())
        }
        (Value::Object(members), Value::Object(own)) => {
            let pair = |(key, value): (&String, &Value)| {
                let value = own.get(key).map_or_else(|| value.clone(), |own| restored(value, own));
                (key.clone(), value)
            };
            Value::Object(members.iter().map(pair).collect())
        }
        _ if is_same(wire, native) => native.clone(),
        _ => wire.clone(),
    }
}

/// Return whether a value that came over the wire is this one: 1 and 1.0 are not the same, nor are null and nothing.
pub(crate) fn is_same(wire: &Value, native: &Value) -> bool {
    match (wire, native) {
        (Value::Number(one), Value::Number(other)) => normal(*one) == normal(*other),
        (_, Value::Number(Number::Float(number))) if !number.is_finite() => *wire == mark(*number),
        (Value::Array(values), Value::Array(own)) => {
            values.len() == own.len() && values.iter().zip(own).all(|(value, own)| is_same(value, own))
        }
        (Value::Object(members), Value::Object(own)) => {
            let is_there = |(key, value): (&String, &Value)| own.get(key).map_or(false, |own| is_same(value, own));
            members.len() == own.len() && members.iter().all(is_there)
        }
        _ => wire == native,
    }
}

fn mark(number: f64) -> Value {
    json!({"$native": "f64", "text": number.to_string()})
}

/// A whole number has two forms where it fits both.
fn normal(number: Number) -> Number {
    match number {
        Number::Unsigned(number) => i64::try_from(number).map_or(Number::Unsigned(number), Number::Signed),
        other => other,
    }
}
