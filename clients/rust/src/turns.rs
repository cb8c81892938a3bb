//! Which requests may be sent now: so many at a time, and so many bytes of long ones.

use crate::error::Error;
use crate::json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::Waker;

const SHORT: usize = 64 * 1024; // bytes of a line up to which the daemon has room for it at any time

#[derive(Default)]
pub struct Slot {
    pub answer: Option<Result<Value, Error>>,
    pub waker: Option<Waker>,
}

/// A request that was sent and not answered; no slot where nobody waits for the answer.
pub struct Sent {
    pub slot: Option<Arc<Mutex<Slot>>>,
    pub bytes: usize, // that count
}

/// A request that waits for its turn.
pub struct Queued {
    pub number: i64,
    pub line: String,
    pub slot: Arc<Mutex<Slot>>,
}

impl Queued {
    pub fn bytes(&self) -> usize {
        if self.line.len() > SHORT {
            self.line.len()
        } else {
            0
        }
    }
}

pub struct Requests {
    pub unanswered: HashMap<i64, Sent>,
    pub queue: VecDeque<Queued>,
    pub last_number: i64,
    pub in_flight: usize, // with pings left out
    pub bytes: usize,     // of those in flight
    pub most: usize,
    pub most_bytes: usize,
    pub missed: u32,
    pub failure: Option<Error>,
}

impl Requests {
    pub fn is_waited_for(&self) -> bool {
        self.in_flight > 0 || !self.queue.is_empty()
    }

    /// Take the first request that may be sent now. A short one overtakes a long one that has no room yet: it may be
    /// what the answer to another waits for.
    pub fn next(&mut self) -> Option<String> {
        if self.in_flight >= self.most {
            return None;
        }
        let has_room = |queued: &Queued| {
            let bytes = queued.bytes();
            bytes == 0 || self.bytes == 0 || self.bytes + bytes <= self.most_bytes
        };
        let place = self.queue.iter().position(has_room)?;
        let queued = self.queue.remove(place)?;
        let bytes = queued.bytes();
        self.in_flight += 1;
        self.bytes += bytes;
        self.unanswered.insert(queued.number, Sent { slot: Some(queued.slot), bytes });
        Some(queued.line)
    }
}
