//! JSON, strictly: what is not whole and valid is an error. The names are those of `serde_json`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

const DEEPEST: usize = 1000; // as in decisions.json

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

static NULL: Value = Value::Null;

impl Value {
    /// Read a text.
    pub fn parse(text: &str) -> Result<Value, String> {
        let mut reader = Reader { bytes: text.as_bytes(), text, at: 0 };
        let value = reader.value(0)?;
        reader.blank();
        if reader.at == text.len() {
            Ok(value)
        } else {
            Err(format!("something follows its end, at byte {}", reader.at))
        }
    }

    /// Write it as one line.
    pub fn write(&self) -> Result<String, String> {
        let mut text = String::new();
        write_value(self, &mut text)?;
        Ok(text)
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.get(key),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(Number::Signed(number)) => Some(*number),
            _ => None,
        }
    }

    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Number(Number::Signed(number)) => u64::try_from(*number).ok(),
            Value::Number(Number::Unsigned(number)) => Some(*number),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(Number::Signed(number)) => Some(*number as f64),
            Value::Number(Number::Unsigned(number)) => Some(*number as f64),
            Value::Number(Number::Float(number)) => Some(*number),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&Vec<Value>> {
        match self {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }

    pub fn as_object(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    pub fn as_object_mut(&mut self) -> Option<&mut BTreeMap<String, Value>> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }

    pub fn is_object(&self) -> bool {
        matches!(self, Value::Object(_))
    }

    pub fn is_string(&self) -> bool {
        matches!(self, Value::String(_))
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Value::Number(_))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write().map_err(|_| fmt::Error)?)
    }
}

/// What is not there is null, as in `serde_json`.
impl Index<&str> for Value {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }
}

impl Index<usize> for Value {
    type Output = Value;

    fn index(&self, at: usize) -> &Value {
        self.as_array().and_then(|values| values.get(at)).unwrap_or(&NULL)
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

/// Make a value as it is written: `json!({"tool_name": "Bash", "n": [1, null]})`.
#[macro_export]
macro_rules! json {
    (null) => { $crate::Value::Null };
    ([ $($inner:tt)* ]) => { $crate::json_list!([] $($inner)*) };
    ({ $($inner:tt)* }) => {{
        #[allow(unused_mut)]
        let mut members = ::std::collections::BTreeMap::new();
        $crate::json_members!(members $($inner)*);
        $crate::Value::Object(members)
    }};
    ($value:expr) => { $crate::Value::from($value) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! json_list {
    ([$($done:expr,)*]) => { $crate::Value::Array(::std::vec![$($done),*]) };
    ([$($done:expr,)*] null $(, $($rest:tt)*)?) => { $crate::json_list!([$($done,)* $crate::Value::Null,] $($($rest)*)?) };
    ([$($done:expr,)*] [ $($inner:tt)* ] $(, $($rest:tt)*)?) => { $crate::json_list!([$($done,)* $crate::json!([$($inner)*]),] $($($rest)*)?) };
    ([$($done:expr,)*] { $($inner:tt)* } $(, $($rest:tt)*)?) => { $crate::json_list!([$($done,)* $crate::json!({$($inner)*}),] $($($rest)*)?) };
    ([$($done:expr,)*] $next:expr $(, $($rest:tt)*)?) => { $crate::json_list!([$($done,)* $crate::json!($next),] $($($rest)*)?) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! json_members {
    ($members:ident) => {};
    ($members:ident $key:tt : null $(, $($rest:tt)*)?) => { $members.insert(($key).to_string(), $crate::Value::Null); $crate::json_members!($members $($($rest)*)?); };
    ($members:ident $key:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => { $members.insert(($key).to_string(), $crate::json!([$($inner)*])); $crate::json_members!($members $($($rest)*)?); };
    ($members:ident $key:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => { $members.insert(($key).to_string(), $crate::json!({$($inner)*})); $crate::json_members!($members $($($rest)*)?); };
    ($members:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => { $members.insert(($key).to_string(), $crate::json!($value)); $crate::json_members!($members $($($rest)*)?); };
}

fn write_value(value: &Value, text: &mut String) -> Result<(), String> {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(Number::Signed(number)) => text.push_str(&number.to_string()),
        Value::Number(Number::Unsigned(number)) => text.push_str(&number.to_string()),
        Value::Number(Number::Float(number)) if number.is_finite() => text.push_str(&format!("{number:?}")),
        Value::Number(Number::Float(number)) => return Err(format!("{number} is nothing that JSON can say")),
        Value::String(string) => write_string(string, text),
        Value::Array(values) => {
            text.push('[');
            for (at, one) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_value(one, text)?;
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (at, (key, one)) in members.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_string(key, text);
                text.push(':');
                write_value(one, text)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            low if (low as u32) < 0x20 => text.push_str(&format!("\\u{:04x}", low as u32)),
            other => text.push(other),
        }
    }
    text.push('"');
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err("it is nested too deep".to_string());
        }
        self.blank();
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
            None => Err("it ends where a value should begin".to_string()),
        }
    }

    fn word(&mut self) -> Result<Value, String> {
        for (word, value) in [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))] {
            if self.bytes[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(format!("no value begins at byte {}", self.at))
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        self.skip(b'-');
        if !self.skip(b'0') && self.digits() == 0 {
            return Err(format!("a number has no digits, at byte {start}"));
        }
        let mut is_whole = true;
        if self.skip(b'.') {
            is_whole = false;
            if self.digits() == 0 {
                return Err(format!("a number ends too early, at byte {start}"));
            }
        }
        if self.skip(b'e') || self.skip(b'E') {
            is_whole = false;
            let _ = self.skip(b'+') || self.skip(b'-');
            if self.digits() == 0 {
                return Err(format!("a number ends too early, at byte {start}"));
            }
        }
        let text = &self.text[start..self.at];
        if is_whole {
            if let Ok(number) = text.parse::<i64>() {
                return Ok(Value::Number(Number::Signed(number)));
            }
            if let Ok(number) = text.parse::<u64>() {
                return Ok(Value::Number(Number::Unsigned(number)));
            }
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Number(Number::Float(number))),
            _ => Err(format!("a number is too large, at byte {start}")),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn skip(&mut self, byte: u8) -> bool {
        let is_there = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn blank(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut values = Vec::new();
        self.blank();
        if self.skip(b']') {
            return Ok(Value::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.blank();
            if self.skip(b']') {
                return Ok(Value::Array(values));
            }
            if !self.skip(b',') {
                return Err(format!("a list does not go on, at byte {}", self.at));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut members = BTreeMap::new();
        self.blank();
        if self.skip(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.blank();
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(format!("a key is no text, at byte {}", self.at));
            }
            let key = self.string()?;
            self.blank();
            if !self.skip(b':') {
                return Err(format!("a key has no value, at byte {}", self.at));
            }
            let value = self.value(depth + 1)?;
            if members.contains_key(&key) {
                return Err(format!("the key {key:?} occurs twice in one object"));
            }
            members.insert(key, value);
            self.blank();
            if self.skip(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.skip(b',') {
                return Err(format!("an object does not go on, at byte {}", self.at));
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut string = String::new();
        let mut from = self.at;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    string.push_str(&self.text[from..self.at]);
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => {
                    string.push_str(&self.text[from..self.at]);
                    self.at += 1;
                    string.push(self.escape()?);
                    from = self.at;
                }
                Some(0x20..=0xff) => self.at += 1,
                _ => return Err("a text does not end, or holds a control character".to_string()),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let mark = self.bytes.get(self.at).copied();
        self.at += 1;
        match mark {
            Some(b'"') => Ok('"'),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => Ok('/'),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => self.unicode(),
            _ => Err(format!("a text has an unknown escape, at byte {}", self.at)),
        }
    }

    fn unicode(&mut self) -> Result<char, String> {
        let mut code = self.hex()?;
        if (0xd800..0xdc00).contains(&code) && self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.hex()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err("a text holds a lone surrogate".to_string());
            }
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        char::from_u32(code).ok_or_else(|| "a text holds a lone surrogate".to_string())
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.bytes.get(self.at..self.at + 4).ok_or("a text has half an escape")?;
        let mut code = 0;
        for digit in digits {
            code = code * 16 + char::from(*digit).to_digit(16).ok_or("a text has an unknown escape")?;
        }
        self.at += 4;
        Ok(code)
    }
}
