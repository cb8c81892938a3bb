//! JSON, strictly: what is not whole and valid is an error. The names are those of `serde_json`.

mod macros;
mod native;
mod reading;
mod writing;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

pub(crate) use native::{is_same, plain, restored};
pub(crate) use writing::{write, Fault};

const DEEPEST: usize = 1000; // as in decisions.json

/// A number, in the form in which it was given or read: `1` and `1.0` stay two numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number that an `i64` holds.
    Signed(i64),
    /// A whole number over `i64::MAX`.
    Unsigned(u64),
    /// Any other. JSON has no NaN and no infinity: a value that has one cannot be sent, and is refused with its path.
    Float(f64),
}

/// A JSON value.
///
/// What is nested more than 1000 deep can be neither read nor sent. As with `serde_json`, a value that is nested many
/// thousand deep overflows the stack where it is cloned, compared or dropped; nothing in this crate does that to one.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// `null`, which is not the same as a key that is not there.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// An object; its members are in the order of their keys.
    Object(BTreeMap<String, Value>),
}

static NULL: Value = Value::Null;

impl Value {
    /// Read a text.
    ///
    /// # Errors
    ///
    /// It is not exactly one JSON value, a key occurs twice in an object, or it is nested more than 1000 deep.
    pub fn parse(text: &str) -> Result<Value, String> {
        reading::read(text)
    }

    /// Write it as one line.
    ///
    /// # Errors
    ///
    /// A number in it is not finite, or it is nested more than 1000 deep; the error has the path.
    pub fn write(&self) -> Result<String, String> {
        write(self).map_err(|fault| fault.below("value"))
    }

    /// The member of an object; none if this is no object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.get(key),
            _ => None,
        }
    }

    /// The member of an object, or null.
    pub(crate) fn at(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }

    /// The element of a list, or null.
    pub(crate) fn item(&self, place: usize) -> &Value {
        self.as_array().and_then(|values| values.get(place)).unwrap_or(&NULL)
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The flag, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The whole number, if an `i64` holds it.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(Number::Signed(number)) => Some(*number),
            _ => None,
        }
    }

    /// The whole number, if it is not negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Number(Number::Signed(number)) => u64::try_from(*number).ok(),
            Value::Number(Number::Unsigned(number)) => Some(*number),
            _ => None,
        }
    }

    /// The number as a float, which may round a large whole one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(Number::Signed(number)) => Some(*number as f64),
            Value::Number(Number::Unsigned(number)) => Some(*number as f64),
            Value::Number(Number::Float(number)) => Some(*number),
            _ => None,
        }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&Vec<Value>> {
        match self {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }

    /// The members, if it is an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The members, to change them, if it is an object.
    #[must_use]
    pub fn as_object_mut(&mut self) -> Option<&mut BTreeMap<String, Value>> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Value::Object(_))
    }

    /// Whether it is a text.
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(self, Value::String(_))
    }

    /// Whether it is a number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Value::Number(_))
    }
}

/// JSON, but for a number that is not finite, which is written as Rust does.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writing::show(self, f)
    }
}

/// What is not there is null, as in `serde_json`.
impl Index<&str> for Value {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.at(key)
    }
}

impl Index<usize> for Value {
    type Output = Value;

    fn index(&self, place: usize) -> &Value {
        self.item(place)
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(*other)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Bool(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_string())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::String(text.clone())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(Number::Float(number))
    }
}

impl From<f32> for Value {
    fn from(number: f32) -> Value {
        Value::from(f64::from(number))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(i64::try_from(number).map_or(Number::Unsigned(number), Number::Signed))
    }
}

macro_rules! from_integer {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Value {
            fn from(number: $kind) -> Value {
                Value::Number(Number::Signed(i64::from(number)))
            }
        }
    )*};
}

from_integer!(i8, i16, i32, i64, u8, u16, u32);

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::from(number as u64)
    }
}

impl From<isize> for Value {
    fn from(number: isize) -> Value {
        Value::from(number as i64)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Value {
        Value::Array(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl From<BTreeMap<String, Value>> for Value {
    fn from(members: BTreeMap<String, Value>) -> Value {
        Value::Object(members)
    }
}
