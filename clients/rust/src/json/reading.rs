//! Reads JSON: the text is one value, or an error that says at which byte it is none.

use super::{Number, Value, DEEPEST};
use std::collections::BTreeMap;

pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut reader = Reader { bytes: text.as_bytes(), text, at: 0 };
    let value = reader.value(0)?;
    reader.blank();
    if reader.at == text.len() {
        Ok(value)
    } else {
        Err(format!("something follows its end, at byte {}", reader.at))
    }
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

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Both ends are next to ASCII, so that they are never inside a character.
    fn since(&self, start: usize) -> Result<&str, String> {
        self.text.get(start..self.at).ok_or_else(|| format!("a character is cut at byte {start}"))
    }

    fn word(&mut self) -> Result<Value, String> {
        for (word, value) in [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))] {
            if self.rest().starts_with(word.as_bytes()) {
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
        let text = self.since(start)?;
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
                    string.push_str(self.since(from)?);
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => {
                    string.push_str(self.since(from)?);
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
        if (0xd800..0xdc00).contains(&code) && self.rest().starts_with(b"\\u") {
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
        let digits = self.rest().get(..4).ok_or("a text has half an escape")?;
        let mut code = 0;
        for digit in digits {
            code = code * 16 + char::from(*digit).to_digit(16).ok_or("a text has an unknown escape")?;
        }
        self.at += 4;
        Ok(code)
    }
}
