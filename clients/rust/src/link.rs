//! One connection: its unanswered requests, and whether the daemon at its other end is alive.
//!
//! When it ends, for whatever reason, every waiting request fails at once. A message that makes no sense ends it too:
//! nobody knows which request that would have answered.

use crate::error::Error;
use crate::json;
use crate::json::Value;
use crate::peer::send_now;
use crate::turns::{Queued, Requests, Sent, Slot};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

pub const MAX_FRAME: usize = 9 * 1024 * 1024;
pub const MAX_BYTES: usize = 24 * 1024 * 1024; // of long lines in flight, where the daemon names no other limit

/// What a session does with what the daemon asks and says.
pub trait Owner: Send + Sync {
    fn call(&self, link: &Arc<Link>, id: Value, params: Value);
    fn announce(&self, params: Value) -> Result<(), String>;
}

/// The answer to a request, to wait for.
pub struct Answer(Arc<Mutex<Slot>>);

impl Future for Answer {
    type Output = Result<Value, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = lock(&self.0);
        match slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// What the daemon has not taken yet, and whether a thread is sending it.
#[derive(Default)]
struct Unsent {
    data: Vec<u8>,
    is_sending: bool,
}

pub struct Link {
    me: Weak<Link>,
    stream: UnixStream,
    unsent: Mutex<Unsent>,
    requests: Mutex<Requests>,
    misses: u32,
}

/// Lock what no panic of ours can have left half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Link {
    pub fn new(stream: UnixStream, interval: Duration, misses: u32) -> Result<Arc<Link>, Error> {
        let unusable = |error: std::io::Error| Error::Unreachable(error.to_string());
        stream.set_read_timeout(Some(interval)).map_err(unusable)?;
        let requests = Mutex::new(Requests {
            unanswered: HashMap::new(),
            queue: VecDeque::new(),
            last_number: 0,
            in_flight: 0,
            bytes: 0,
            most: 1,
            most_bytes: MAX_BYTES,
            missed: 0,
            failure: None,
        });
        let unsent = Mutex::default();
        Ok(Arc::new_cyclic(|me| Link { me: me.clone(), stream, unsent, requests, misses }))
    }

    pub fn failure(&self) -> Option<Error> {
        lock(&self.requests).failure.clone()
    }

    /// Allow this many unanswered requests at a time, and this many bytes of long ones; others wait for their turn.
    pub fn allow(&self, count: usize, bytes: usize) {
        {
            let mut requests = lock(&self.requests);
            requests.most = count;
            requests.most_bytes = bytes;
        }
        self.send_queued();
    }

    /// Send a request: its params are JSON texts by key.
    pub fn request(&self, method: &str, params: &[(String, String)]) -> Answer {
        let slot = Arc::new(Mutex::new(Slot::default()));
        let answer = Answer(slot.clone());
        let mut requests = lock(&self.requests);
        if let Some(failure) = &requests.failure {
            lock(&slot).answer = Some(Err(failure.clone()));
            return answer;
        }
        let line = next_line(&mut requests, method, params);
        if line.len() > MAX_FRAME {
            let text = format!("{method} would be a message over {MAX_FRAME} bytes");
            lock(&slot).answer = Some(Err(Error::InvalidPayload(text)));
            return answer;
        }
        let number = requests.last_number;
        if !requests.is_waited_for() {
            requests.missed = 0;
        }
        requests.queue.push_back(Queued { number, line, slot });
        drop(requests);
        self.send_queued();
        answer
    }

    /// Give up the connection: every waiting request fails now. Only the first failure counts.
    pub fn end(&self, failure: Error) {
        let mut requests = lock(&self.requests);
        if requests.failure.is_some() {
            return;
        }
        requests.failure = Some(failure.clone());
        let mut waiters: Vec<_> = requests.unanswered.drain().filter_map(|(_, sent)| sent.slot).collect();
        waiters.extend(requests.queue.drain(..).map(|queued| queued.slot));
        drop(requests);
        let _ = self.stream.shutdown(Shutdown::Both); // the reader finds its end, and so does who sends
        for slot in waiters {
            settle(&slot, Err(failure.clone()));
        }
    }

    /// Send a line that answers the daemon.
    pub fn reply(&self, id: &Value, body: Value) {
        let mut message = json!({"jsonrpc": "2.0"});
        if let (Some(members), Value::Object(body)) = (message.as_object_mut(), body) {
            members.insert("id".to_string(), id.clone());
            members.extend(body);
        }
        match message.write() {
            Ok(line) => self.write(&format!("{line}\n")),
            Err(text) => self.reply(id, error_body(-32603, "internal_error", &text)),
        }
    }

    /// Read until the connection ends.
    pub fn run(self: &Arc<Self>, owner: &dyn Owner) {
        let mut begun: Vec<u8> = Vec::new();
        let mut chunk = vec![0; 65536];
        while self.failure().is_none() {
            match (&self.stream).read(&mut chunk) {
                Ok(0) => self.end(Error::Unreachable("the daemon hung up".to_string())),
                Ok(count) => {
                    lock(&self.requests).missed = 0;
                    if let Err(text) = self.feed(chunk.get(..count).unwrap_or_default(), &mut begun, owner) {
                        self.end(Error::Unreadable(format!("the daemon sent what cannot be understood: {text}")));
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => self.check(),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => self.end(Error::Unreachable(error.to_string())),
            }
        }
    }

    fn feed(self: &Arc<Self>, mut data: &[u8], begun: &mut Vec<u8>, owner: &dyn Owner) -> Result<(), String> {
        while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
            let (ending, rest) = data.split_at(end);
            begun.extend_from_slice(ending);
            check_size(begun)?;
            let line = std::mem::take(begun);
            self.take(std::str::from_utf8(&line).map_err(|error| error.to_string())?, owner)?;
            if self.failure().is_some() {
                return Ok(());
            }
            data = rest.get(1..).unwrap_or_default();
        }
        begun.extend_from_slice(data);
        check_size(begun)
    }

    fn take(self: &Arc<Self>, line: &str, owner: &dyn Owner) -> Result<(), String> {
        let mut message = Value::parse(line)?;
        if message.at("jsonrpc") != "2.0" {
            return Err("it is no JSON-RPC 2.0 object".to_string());
        }
        let parts = ["method", "result", "error"]
            .map(|key| message.get(key).map_or(false, |one| key != "error" || !one.is_null()));
        if parts.iter().filter(|is_there| **is_there).count() != 1 {
            return Err("a message is a request, a result or an error".to_string());
        }
        let id = message.get("id").cloned();
        if let Some(method) = message.at("method").as_str().map(str::to_string) {
            let params = message.as_object_mut().and_then(|members| members.remove("params")).unwrap_or_default();
            return match id {
                Some(Value::Null) => Err("a request whose id is null can have no answer".to_string()),
                Some(id) if method == "call" => {
                    owner.call(self, id, params);
                    Ok(())
                }
                Some(id) => {
                    self.reply(&id, error_body(-32601, "method_not_found", &format!("no client serves {method}")));
                    Ok(())
                }
                None if method == "announce" => owner.announce(params),
                None => Ok(()), // a newer daemon may announce more than we know
            };
        }
        let answer = match (message.get("error"), message.get("result")) {
            (Some(error), _) if error.is_object() => Err(read_error(error)),
            (None | Some(Value::Null), Some(result)) => Ok(result.clone()),
            _ => return Err("an answer needs a result or an error".to_string()),
        };
        self.answered(id.as_ref().and_then(Value::as_i64), answer)
    }

    fn answered(&self, id: Option<i64>, answer: Result<Value, Error>) -> Result<(), String> {
        let mut requests = lock(&self.requests);
        let known = id.and_then(|number| requests.unanswered.remove(&number));
        let sent = known.ok_or_else(|| format!("it answers request {id:?}, which was never sent"))?;
        if let Some(slot) = sent.slot {
            requests.in_flight = requests.in_flight.saturating_sub(1);
            requests.bytes = requests.bytes.saturating_sub(sent.bytes);
            drop(requests);
            settle(&slot, answer);
            self.send_queued();
        }
        Ok(())
    }

    /// Called after each interval without a byte. Intervals are counted, not measured: a suspended process missed one.
    fn check(&self) {
        let mut requests = lock(&self.requests);
        if !requests.is_waited_for() {
            requests.missed = 0;
        } else if requests.missed >= self.misses {
            drop(requests);
            self.end(Error::Unreachable("the daemon is connected but silent, even to pings".to_string()));
        } else {
            requests.missed += 1;
            if requests.missed > 1 {
                let line = next_line(&mut requests, "ping", &[]);
                let number = requests.last_number;
                requests.unanswered.insert(number, Sent { slot: None, bytes: 0 });
                drop(requests);
                self.write(&line);
            }
        }
    }

    fn send_queued(&self) {
        loop {
            let next = lock(&self.requests).next();
            match next {
                Some(line) => self.write(&line),
                None => return,
            }
        }
    }

    /// Send a line. What the daemon does not take at once is sent by a thread of its own: nobody who calls this waits,
    /// above all not the reader, which notices that a daemon is silent, and then ends the sending too.
    fn write(&self, line: &str) {
        let mut unsent = lock(&self.unsent);
        let taken = if unsent.is_sending { Ok(0) } else { send_now(&self.stream, line.as_bytes()) };
        let written = taken.and_then(|count| {
            unsent.data.extend_from_slice(line.as_bytes().get(count..).unwrap_or_default());
            if unsent.is_sending || unsent.data.is_empty() {
                return Ok(());
            }
            unsent.is_sending = true;
            let me = self.me.clone();
            let send = move || me.upgrade().map_or((), |link| link.send_rest());
            thread::Builder::new().name("hooklatch-send".to_string()).spawn(send).map(drop)
        });
        drop(unsent);
        if let Err(error) = written {
            self.end(Error::Unreachable(error.to_string()));
        }
    }

    fn send_rest(&self) {
        loop {
            let data = {
                let mut unsent = lock(&self.unsent);
                unsent.is_sending = !unsent.data.is_empty();
                std::mem::take(&mut unsent.data)
            };
            if data.is_empty() {
                return;
            }
            if let Err(error) = (&self.stream).write_all(&data) {
                return self.end(Error::Unreachable(error.to_string()));
            }
        }
    }
}

pub fn error_body(code: i64, name: &str, text: &str) -> Value {
    json!({"error": {"code": code, "message": text, "data": {"name": name}}})
}

fn check_size(begun: &[u8]) -> Result<(), String> {
    if begun.len() > MAX_FRAME {
        return Err(format!("a line is over the limit of {MAX_FRAME} bytes"));
    }
    Ok(())
}

fn next_line(requests: &mut Requests, method: &str, params: &[(String, String)]) -> String {
    requests.last_number += 1;
    let members: Vec<String> = params.iter().map(|(key, text)| format!("\"{key}\":{text}")).collect();
    let (number, members) = (requests.last_number, members.join(","));
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"{method}\",\"params\":{{{members}}}}}\n")
}

fn settle(slot: &Mutex<Slot>, answer: Result<Value, Error>) {
    let mut slot = lock(slot);
    slot.answer = Some(answer);
    if let Some(waker) = slot.waker.take() {
        waker.wake();
    }
}

fn read_error(error: &Value) -> Error {
    let text = |value: &Value, other: &str| value.as_str().unwrap_or(other).to_string();
    Error::Refused {
        name: text(error.at("data").at("name"), ""),
        message: text(error.at("message"), "it gave no reason"),
    }
}
