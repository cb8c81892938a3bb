//! Which decisions the daemon writes: `decisions.json`, which is made from the daemon's own code (clients/README.md).

use crate::json::{Number, Value};
use crate::link::lock;
use std::sync::{Arc, Mutex};

const MAX_INTEGER: u64 = (1 << 53) - 1; // a larger one is another number in JavaScript

static TABLE: Mutex<Option<Arc<Value>>> = Mutex::new(None);

/// Return the table; one that could not be read would have no rows, by which every answer is at fault.
fn table() -> Arc<Value> {
    let read = || Arc::new(Value::parse(include_str!("decisions.json")).unwrap_or_default());
    lock(&TABLE).get_or_insert_with(read).clone()
}

/// Whether an event can refuse; so can one that nobody here knows.
pub fn is_gate(event: &str) -> bool {
    matches!(table().at("events").at(event).as_str(), None | Some("gate"))
}

/// Return why an answer is no decision of the daemon.
pub fn fault(answer: &Value) -> Option<String> {
    decision_fault(&table(), answer)
}

fn decision_fault(table: &Value, answer: &Value) -> Option<String> {
    unshaped(table, answer, "decision").or_else(|| misfit(table, answer))
}

fn misfit(table: &Value, answer: &Value) -> Option<String> {
    let (event, rows) = match (answer.at("event").as_str(), table.at("combinations").as_array()) {
        (Some(event), Some(rows)) => (event, rows.iter()),
        _ => return Some("it names no event, or there is no table to hold it to".to_string()),
    };
    let model = table.at("events").at(event);
    let said = format!("{} with cause {}", answer.at("verdict"), answer.at("cause"));
    // Of an event that this client does not know, any model's combination may be right.
    let of_model = rows.filter(|row| model.is_null() || row.at("model") == model);
    let mut problem = format!("{said} is no decision on {}", answer.at("event"));
    for row in of_model.filter(|row| row.at("verdict") == answer.at("verdict") && row.at("cause") == answer.at("cause"))
    {
        let named = |key: &str| row.at(key).as_array().into_iter().flatten().filter_map(Value::as_str);
        if answer.at("retryable") != row.at("retryable") {
            problem = format!("{said} is retryable: {}", row.at("retryable"));
        } else if let Some(key) = named("set").find(|key| answer.at(key).is_null()) {
            problem = format!("its {key} is null");
        } else if let Some(key) = named("null").find(|key| !answer.at(key).is_null()) {
            problem = format!("{said} has no {key}");
        } else {
            return None;
        }
    }
    Some(problem)
}

fn unshaped(table: &Value, value: &Value, kind: &str) -> Option<String> {
    if !value.is_object() {
        return Some(format!("the {kind} is no object"));
    }
    for when in ["always", "sometimes"] {
        for (key, word) in table.at(kind).at(when).as_object().into_iter().flatten() {
            match value.get(key) {
                None if when == "always" => return Some(format!("its {key} is missing")),
                Some(one) if !fits(table, one, word.as_str().unwrap_or_default()) => {
                    return Some(format!("its {key} is no {word}"))
                }
                _ => (),
            }
        }
    }
    None
}

fn fits(table: &Value, value: &Value, word: &str) -> bool {
    let all = |check: &dyn Fn(&Value) -> bool| value.as_array().map_or(false, |values| values.iter().all(check));
    match word {
        "any" => true,
        "text" => value.is_string(),
        "flag" => value.as_bool().is_some(),
        "integer" => matches!(value, Value::Number(Number::Signed(number)) if number.unsigned_abs() <= MAX_INTEGER),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "head" => unshaped(table, value, word).is_none(),
        "texts" => all(&Value::is_string),
        "objects" => all(&Value::is_object),
        "outcomes" => all(&|one| unshaped(table, one, "outcome").is_none()),
        "decisions" => all(&|one| decision_fault(table, one).is_none()),
        _ => word.strip_suffix('?').map_or(false, |word| value.is_null() || fits(table, value, word)),
    }
}
