//! Writes JSON without recursion: no value is too deep for it, and what JSON cannot say is found with its path.

use super::{Number, Value, DEEPEST};
use std::collections::btree_map;
use std::fmt::{self, Write};
use std::slice;

const LONGEST_PATH: usize = 200; // characters; of a value that is nested without end nobody reads more

/// Why a value cannot be sent, and where it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    path: String,
    problem: String,
    /// Another value can stand in the place of this one; not for one that is nested too deep.
    pub(crate) is_replaceable: bool,
}

impl Fault {
    /// Return the problem with its path below `name`: `payload.tool_input.rate is NaN, which JSON cannot say`.
    pub(crate) fn below(&self, name: &str) -> String {
        format!("{name}{} is {}", self.path, self.problem)
    }
}

enum Rest<'a> {
    List(slice::Iter<'a, Value>),
    Members(btree_map::Iter<'a, String, Value>),
}

struct Frame<'a> {
    rest: Rest<'a>,
    count: usize,
    key: Option<&'a str>,
}

impl<'a> Frame<'a> {
    fn new(rest: Rest<'a>) -> Frame<'a> {
        Frame { rest, count: 0, key: None }
    }

    fn advance(&mut self) -> Option<&'a Value> {
        let next = match &mut self.rest {
            Rest::List(values) => values.next()?,
            Rest::Members(members) => {
                let (key, value) = members.next()?;
                self.key = Some(key);
                value
            }
        };
        self.count += 1;
        Some(next)
    }
}

/// Return a value as one line.
pub(crate) fn write(value: &Value) -> Result<String, Fault> {
    let mut text = String::new();
    write_to(value, &mut text, true)?;
    Ok(text)
}

/// Write any value; what JSON cannot say is written as Rust does, so that people can read it.
pub(super) fn show(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = String::new();
    match write_to(value, &mut text, false) {
        Ok(()) => f.write_str(&text),
        Err(_) => Err(fmt::Error),
    }
}

fn write_to<'a>(value: &'a Value, text: &mut String, is_strict: bool) -> Result<(), Fault> {
    let mut open: Vec<Frame<'a>> = Vec::new();
    let mut next = Some(value);
    loop {
        if let Some(value) = next.take() {
            if is_strict && open.len() > DEEPEST {
                return Err(fault(&open, format!("nested more than {DEEPEST} deep"), false));
            }
            match value {
                Value::Array(values) => {
                    text.push('[');
                    open.push(Frame::new(Rest::List(values.iter())));
                }
                Value::Object(members) => {
                    text.push('{');
                    open.push(Frame::new(Rest::Members(members.iter())));
                }
                Value::Number(Number::Float(number)) if is_strict && !number.is_finite() => {
                    return Err(fault(&open, format!("{number}, which JSON cannot say"), true));
                }
                scalar => write_scalar(scalar, text),
            }
        }
        let frame = match open.last_mut() {
            Some(frame) => frame,
            None => return Ok(()),
        };
        next = frame.advance();
        match (next, &frame.rest) {
            (None, rest) => {
                text.push(if matches!(rest, Rest::List(_)) { ']' } else { '}' });
                open.pop();
            }
            (Some(_), _) => {
                if frame.count > 1 {
                    text.push(',');
                }
                if let Some(key) = frame.key {
                    write_string(key, text);
                    text.push(':');
                }
            }
        }
    }
}

fn write_scalar(value: &Value, text: &mut String) {
    // Writing to a String does not fail.
    let _ = match value {
        Value::Null => text.write_str("null"),
        Value::Bool(flag) => write!(text, "{flag}"),
        Value::Number(Number::Signed(number)) => write!(text, "{number}"),
        Value::Number(Number::Unsigned(number)) => write!(text, "{number}"),
        Value::Number(Number::Float(number)) => write!(text, "{number:?}"),
        Value::String(string) => {
            write_string(string, text);
            Ok(())
        }
        Value::Array(_) | Value::Object(_) => Ok(()),
    };
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            low if (low as u32) < 0x20 => {
                let _ = write!(text, "\\u{:04x}", low as u32);
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

fn fault(open: &[Frame<'_>], problem: String, is_replaceable: bool) -> Fault {
    let mut path = String::new();
    for frame in open {
        if path.len() > LONGEST_PATH {
            path.push('…');
            break;
        }
        match frame.key {
            Some(key) if is_plain(key) => {
                path.push('.');
                path.push_str(key);
            }
            Some(key) => {
                let short: String = key.chars().take(LONGEST_PATH).collect();
                let _ = write!(path, "[{short:?}]");
            }
            None => {
                let _ = write!(path, "[{}]", frame.count.saturating_sub(1));
            }
        }
    }
    Fault { path, problem, is_replaceable }
}

fn is_plain(key: &str) -> bool {
    let is_of_word = |character: char| character.is_alphanumeric() || character == '_' || character == '-';
    !key.is_empty() && key.len() <= LONGEST_PATH && key.chars().all(is_of_word)
}
