//! No text and no value panics; what is not JSON is an error, and what cannot be sent has a path.

use hooklatch::radium::{HookPriority, HookResult, HookType};
use hooklatch::{json, Number, Options, Value};
use std::time::Duration;

const TEXTS: [&str; 24] = [
    "",
    " ",
    "{",
    "[",
    "\"",
    "\"\\",
    "\"\\u",
    "\"\\u12",
    "\"\\ud83d",
    "\"\\ud83d\\u0041\"",
    "\"\\ude00\"",
    "-",
    "1.",
    "1e",
    "00",
    "1e400",
    "nul",
    "{\"a\"",
    "{\"a\":1,\"a\":2}",
    "[1,]",
    "[1 2]",
    "\u{feff}1",
    "\"\u{1}\"",
    "{1:2}",
];

#[test]
fn what_is_no_json_is_an_error() {
    for text in TEXTS {
        assert!(Value::parse(text).is_err(), "{text:?}");
    }
    for character in ["é", "☃", "😀", "\u{0}", "\u{7f}"] {
        for text in TEXTS {
            let _ = Value::parse(&format!("{character}{text}"));
            let _ = Value::parse(&format!("{text}{character}"));
            for (at, _) in text.char_indices() {
                let (before, after) = text.split_at(at);
                let _ = Value::parse(&format!("{before}{character}{after}"));
            }
        }
    }
    assert!(Value::parse(&"[".repeat(100_000)).is_err());
    assert!(Value::parse(&"{\"a\":".repeat(100_000)).is_err());
}

#[test]
fn what_was_written_is_read_as_it_was() {
    let value = json!({"one": 1, "float": 1.0, "most": u64::MAX, "least": i64::MIN, "null": null, "none": [], "text": "a\"\\\n☃\u{0}",
        "": {"": 1e300}, "zero": -0.0, "small": f64::MIN_POSITIVE});
    let text = value.write().unwrap();
    assert_eq!(Value::parse(&text), Ok(value.clone()));
    assert_eq!(value.to_string(), text);
    assert_ne!(Value::from(1), Value::from(1.0));
    assert!(value.get("nothing").is_none());
    assert!(value["nothing"]["at all"][7].is_null());
}

#[test]
fn what_cannot_be_written_has_a_path_and_can_still_be_shown() {
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let value = json!({"a": [1, {"b c": number}]});
        assert!(value.write().unwrap_err().starts_with("value.a[1][\"b c\"] is "));
        assert!(value.to_string().contains("\"b c\":"));
    }
    let mut deep = Value::Number(Number::Float(f64::NAN));
    for _ in 0..100_000 {
        deep = Value::Array(vec![deep]);
    }
    assert!(deep.write().unwrap_err().contains("nested more than 1000 deep"));
    assert!(deep.to_string().starts_with("[[["));
    std::mem::forget(deep); // as with serde_json, it is too deep to be dropped
}

#[test]
fn public_structs_are_made_with_the_rest_by_default() {
    let options = Options { interval: Duration::from_millis(5), require: true, ..Options::default() };
    let result = HookResult { message: Some("seen".to_string()), ..Default::default() };
    assert!(options.require && result.success && result.should_continue);
    assert_eq!(HookPriority::default(), HookPriority(100));
    for known in HookType::ALL {
        assert_eq!(known.as_str().parse::<HookType>(), Ok(known));
    }
    assert!("before_lunch".parse::<HookType>().is_err());
}
