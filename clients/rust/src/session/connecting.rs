//! How a session gets its connections: where it looks for a daemon, what it introduces itself with, when it tries again.

use super::{Inner, MAX_PAYLOAD};
use crate::error::Error;
use crate::executor::block_on;
use crate::json;
use crate::json::{write, Value};
use crate::link::{lock, Link, MAX_BYTES};
use crate::paths::candidates;
use crate::peer::connected;
use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

/// The params of a request, as JSON texts by key.
type Params = Vec<(String, String)>;

const PROTOCOL: i64 = 1;
const FIRST_RETRY: f64 = 0.05;
const LAST_RETRY: f64 = 5.0;
const RESERVED: usize = 4; // of the requests that may be in flight: a ping must never wait behind fires

pub(super) fn stay_connected(inner: &Arc<Inner>) {
    let mut attempts = 0;
    let mut is_first = true;
    loop {
        match inner.open() {
            Ok((link, reader)) => {
                attempts = 0;
                inner.settle();
                let _ = reader.join();
                let mut state = lock(&inner.state);
                state.link = None;
                state.is_settled = false;
                state.problem = link.failure().map_or_else(String::new, |failure| failure.to_string());
            }
            Err(error) => {
                let mut state = lock(&inner.state);
                state.problem = error.to_string();
                if is_first && (inner.options.require || is_refusal(&error)) {
                    state.refusal = Some(error);
                    state.is_closed = true;
                }
                drop(state);
                inner.settle();
            }
        }
        is_first = false;
        if inner.wait_before(attempts) {
            return inner.settle();
        }
        attempts += 1;
    }
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Refused { name, .. } if name != "draining" && name != "overload")
}

impl Inner {
    /// Wait before the next attempt; return whether the session was closed instead.
    fn wait_before(&self, attempts: i32) -> bool {
        let longest = LAST_RETRY.min(FIRST_RETRY * 2f64.powi(attempts.min(16)));
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let delay = Duration::from_secs_f64(longest * (1.0 - f64::from(nanos % 1000) / 2000.0));
        let state = lock(&self.state);
        match self.closing.wait_timeout_while(state, delay, |state| !state.is_closed) {
            Ok((state, _)) => state.is_closed,
            Err(_) => true,
        }
    }

    pub(super) fn settle(&self) {
        let waiting = {
            let mut state = lock(&self.state);
            state.is_settled = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn open(self: &Arc<Self>) -> Result<(Arc<Link>, thread::JoinHandle<()>), Error> {
        let stream = self.connect()?;
        let link = Link::new(stream, self.options.interval, self.options.misses)?;
        {
            let mut state = lock(&self.state);
            if state.is_closed {
                return Err(Error::Unreachable("the session was closed".to_string()));
            }
            state.newest = Some(link.clone());
        }
        let (own, owner) = (link.clone(), self.clone());
        let reader = thread::Builder::new().name("hooklatch-read".to_string()).spawn(move || own.run(&owner));
        let reader = reader.map_err(|error| Error::Unreachable(error.to_string()))?;
        match self.introduce(&link) {
            Ok(()) => Ok((link, reader)),
            Err(error) => {
                link.end(Error::Unreachable(error.to_string()));
                let _ = reader.join();
                Err(error)
            }
        }
    }

    fn connect(&self) -> Result<UnixStream, Error> {
        let mut failures = Vec::new();
        for path in candidates(self.options.path.as_deref(), self.options.runtime_dir.as_deref()) {
            match connected(&path, self.options.daemon_uid) {
                Ok(stream) => return Ok(stream),
                Err(error) => failures.push(format!("{} ({error})", path.display())),
            }
        }
        Err(Error::Unreachable(format!("no daemon is reachable at {}", failures.join(", "))))
    }

    fn introduce(&self, link: &Arc<Link>) -> Result<(), Error> {
        let (hello, ids) = self.hello()?;
        let welcome = block_on(link.request("hello", &hello))?;
        if welcome.at("protocol").as_i64() != Some(PROTOCOL) {
            let text = format!("the daemon speaks protocol {}, this client {PROTOCOL}", welcome.at("protocol"));
            return Err(Error::Unreadable(text));
        }
        let text = |key: &str| welcome.at(key).as_str().map(str::to_string);
        let limit = |key: &str, other: usize| {
            welcome.at("limits").at(key).as_u64().map_or(other, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
        };
        let topics: Vec<String> = {
            let mut state = lock(&self.state);
            state.session_id = text("session_id").or_else(|| state.session_id.take());
            state.resume_token = text("resume_token").or_else(|| state.resume_token.take());
            state.child_token = text("child_token");
            state.limit = limit("payload_bytes", MAX_PAYLOAD);
            state.refused = refused(welcome.at("refused"), &ids);
            state.topics.iter().cloned().collect()
        };
        link.allow(limit("in_flight", 64).saturating_sub(RESERVED).max(1), limit("in_flight_bytes", MAX_BYTES));
        self.take_off_retired(link);
        let mut revision = welcome.at("revision").as_i64();
        if !topics.is_empty() {
            let params = encoded(&[("topics", Value::from(topics))])?;
            revision = block_on(link.request("subscribe", &params))?.at("revision").as_i64();
        }
        let missed = {
            let mut state = lock(&self.state);
            if let Some(failure) = link.failure() {
                return Err(failure);
            }
            state.link = Some(link.clone());
            let before = state.revision;
            state.revision = before.max(revision); // an announcement may have overtaken the answer
            before.is_some() && before != revision
        };
        if missed {
            let current = lock(&self.state).revision;
            self.tell(&json!({"topic": "registry", "resync": current}));
        }
        Ok(())
    }

    /// Have the daemon forget the hooks that it may still have, and that are not registered for this process.
    fn take_off_retired(&self, link: &Arc<Link>) {
        let ids: Vec<String> = lock(&self.state).retired.iter().cloned().collect();
        for id in ids {
            let answer =
                encoded(&[("id", Value::from(id.clone()))]).map(|params| block_on(link.request("unregister", &params)));
            if matches!(answer, Ok(Ok(_) | Err(Error::Refused { .. }))) {
                lock(&self.state).retired.remove(&id);
            }
        }
    }

    /// Return the params of a hello, and the ids of the hooks in it, in their order.
    fn hello(&self) -> Result<(Params, Vec<String>), Error> {
        let options = &self.options;
        let inherited = std::env::var_os("HOOKLATCH_PARENT").filter(|text| !text.is_empty());
        let inherited = inherited.map(|text| {
            let text = text.to_string_lossy();
            // One that names nobody is refused by the daemon: without its parent, gates would be missing.
            let (token, id) = text.split_once(' ').unwrap_or((&text, ""));
            (id.to_string(), token.to_string())
        });
        let (parent, token) = match options.parent.clone().or(inherited) {
            Some((parent, token)) => (Some(parent), Some(token)),
            None => (None, None),
        };
        let cwd = options.cwd.clone().or_else(|| std::env::current_dir().ok());
        let list = |values: &Vec<String>| if values.is_empty() { Value::Null } else { Value::from(values.clone()) };
        let state = lock(&self.state);
        let ids = state.hooks.iter().map(|kept| kept.id.clone()).collect();
        let hooks: Vec<Value> = state.hooks.iter().map(|kept| kept.wire.clone()).collect();
        let mut session = json!({
            "id": state.session_id.clone(),
            "resume_token": state.resume_token.clone(),
            "parent_session_id": parent,
            "parent_token": token,
            "cwd": cwd.map(|path| path.to_string_lossy().into_owned()),
            "host": options.host.clone(),
            "personality": options.personality.clone(),
            "plugins": options.plugins.clone(),
            "require_handlers": list(&options.require_handlers),
            // One that cannot be used any more must not keep the session and its other guards away.
            "each": if hooks.is_empty() { Value::Null } else { Value::Bool(true) },
            "hooks": if hooks.is_empty() { Value::Null } else { Value::Array(hooks) },
        });
        drop(state);
        if let Some(members) = session.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        let name = options.name.clone().unwrap_or_else(|| "hooklatch-rust".to_string());
        let params = [
            ("protocol", Value::from(PROTOCOL)),
            ("client", json!({"name": name, "version": env!("CARGO_PKG_VERSION")})),
            ("session", session),
            ("dialect", Value::from(options.dialect.clone())),
            ("emits", list(&options.emits)),
        ];
        let given: Vec<_> = params.into_iter().filter(|(_, value)| !value.is_null()).collect();
        Ok((encoded(&given)?, ids))
    }

    pub(super) fn tell(&self, announcement: &Value) {
        lock(&self.state).listeners.retain(|listener| listener.send(announcement.clone()).is_ok());
    }
}

/// Return why hooks were refused, by their ids: of one that is not there at all, the place in the list tells it.
fn refused(list: &Value, ids: &[String]) -> BTreeMap<String, String> {
    let refusal = |refusal: &Value| {
        let place = refusal.at("at").as_u64().and_then(|at| ids.get(usize::try_from(at).ok()?));
        let reason = refusal.at("reason").as_str().unwrap_or("the daemon gave no reason");
        Some((place.cloned().or_else(|| refusal.at("id").as_str().map(str::to_string))?, reason.to_string()))
    };
    list.as_array().into_iter().flatten().filter_map(refusal).collect()
}

/// Return params as JSON texts.
pub(super) fn encoded(params: &[(&str, Value)]) -> Result<Vec<(String, String)>, Error> {
    let write = |(key, value): &(&str, Value)| {
        let text = write(value).map_err(|fault| Error::InvalidPayload(fault.below(key)))?;
        Ok(((*key).to_string(), text))
    };
    params.iter().map(write).collect()
}

/// Ready when it is known whether there is a daemon: from a loss on, that is after the next attempt.
pub(super) struct Settled(pub(super) Arc<Inner>);

impl Future for Settled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0.state);
        if state.is_settled || state.is_closed {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}
