//! A session: one live agent run, across the connections that it takes.
//!
//! no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off
//!
//! A request that finds the link just lost waits for the first attempt to get another; after that attempt, and until a
//! later one succeeds, every request fails at once.

mod connecting;
mod keeping;
mod options;
mod serving;

use crate::decision::Decision;
use crate::error::Error;
use crate::executor::{block_on, block_on_for};
use crate::json;
use crate::json::{plain, write, Value};
use crate::link::{lock, Link};
use crate::table;
use connecting::{encoded, stay_connected, Settled};
use keeping::Registering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Waker;
use std::thread;
use std::time::Duration;

pub use options::{FireOptions, Options, Served};
pub(crate) use serving::text_of;

const FAREWELL: Duration = Duration::from_secs(1);
const MAX_PAYLOAD: usize = 8 * 1024 * 1024;

/// A hook of this process, as it was registered.
struct Kept {
    id: String,
    wire: Value,
    served: Option<Served>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    newest: Option<Arc<Link>>,
    is_settled: bool, // except until the first attempt, and from a loss to the end of the next one, is over
    is_closed: bool,
    problem: String,
    refusal: Option<Error>,
    waiting: Vec<Waker>,
    hooks: Vec<Kept>,
    refused: BTreeMap<String, String>, // by hook: why the daemon did not take it again
    retired: BTreeSet<String>,         // hooks that the daemon may have, and this process has not
    natives: HashMap<String, Arc<Value>>, // by call: the payload whose plain form the daemon was sent
    topics: BTreeSet<String>,
    listeners: Vec<Sender<Value>>,
    session_id: Option<String>,
    resume_token: Option<String>,
    child_token: Option<String>,
    revision: Option<i64>,
    limit: usize,
    last_served: u64,
    last_call: u64,
}

struct Inner {
    options: Options,
    state: Mutex<State>,
    closing: Condvar,
}

/// One live agent run; any number of threads and tasks may share it. It ends in the daemon when it is dropped.
pub struct Session {
    inner: Arc<Inner>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, is_connected) = (self.session_id(), self.is_connected());
        f.debug_struct("Session").field("id", &id).field("is_connected", &is_connected).finish_non_exhaustive()
    }
}

impl Session {
    /// Open a session. Without a daemon it opens too: its gates deny, and it connects when there is one.
    ///
    /// # Errors
    ///
    /// The daemon refused the session, or there is none and `require` is set, or no thread can be started.
    pub fn open(options: Options) -> Result<Session, Error> {
        match Session::open_anyway(options) {
            (session, None) => Ok(session),
            (_, Some(error)) => Err(error),
        }
    }

    /// Open a session, or return one that is closed and why: everything that is asked of it fails with that.
    pub(crate) fn open_anyway(options: Options) -> (Session, Option<Error>) {
        let state = State {
            session_id: options.session_id.clone(),
            resume_token: options.resume_token.clone(),
            limit: MAX_PAYLOAD,
            problem: "no attempt to connect was made yet".to_string(),
            ..State::default()
        };
        let inner = Arc::new(Inner { options, state: Mutex::new(state), closing: Condvar::new() });
        let own = inner.clone();
        let started = thread::Builder::new().name("hooklatch".to_string()).spawn(move || stay_connected(&own));
        match started {
            Ok(_) => block_on(Settled(inner.clone())),
            Err(error) => {
                let mut state = lock(&inner.state);
                state.refusal = Some(Error::Unreachable(error.to_string()));
                state.is_closed = true;
            }
        }
        let refusal = lock(&inner.state).refusal.clone();
        (Session { inner }, refusal)
    }

    /// Whether a daemon is there now. It may be gone when this returns; a fire says by itself that it was.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        // A request may learn of the end before the thread that opens the next connection.
        lock(&self.inner.state).link.as_ref().map_or(false, |link| link.failure().is_none())
    }

    /// The session's id; none before there was a daemon to give it one.
    #[must_use]
    pub fn session_id(&self) -> Option<String> {
        lock(&self.inner.state).session_id.clone()
    }

    /// What a child session needs besides its parent's id, to have its gates.
    #[must_use]
    pub fn child_token(&self) -> Option<String> {
        lock(&self.inner.state).child_token.clone()
    }

    /// The hooks of this session that a daemon refused when it was connected to again, by id, with the reason. Such a
    /// hook denies its gate; elsewhere it is not called.
    #[must_use]
    pub fn refused_hooks(&self) -> BTreeMap<String, String> {
        lock(&self.inner.state).refused.clone()
    }

    /// Fire an event and return the decision; the calling thread waits.
    pub fn fire(&self, event: &str, payload: Value) -> Decision {
        self.fire_with(event, payload, FireOptions::default())
    }

    /// Fire an event with more than a payload and return the decision; the calling thread waits.
    pub fn fire_with(&self, event: &str, payload: Value, options: FireOptions) -> Decision {
        block_on(self.fire_async(event, payload, options))
    }

    /// The same for a task of any runtime. Without a usable answer a gate denies, all else passes.
    ///
    /// A number that JSON cannot say refuses a gate. Elsewhere the daemon is told with a mark in its place,
    /// `{"$native": "f64", "text": "NaN"}`, and the hooks that this process serves see the number itself.
    pub async fn fire_async(&self, event: &str, payload: Value, options: FireOptions) -> Decision {
        let fault = match write(&payload) {
            Err(fault) if fault.is_replaceable && !table::is_gate(event) => fault,
            _ => return self.fire_as(event, &payload, options).await,
        };
        let call_id = options.call_id.clone().unwrap_or_else(|| self.next_call());
        let replaced = plain(&payload);
        let _kept = self.inner.keep_native(&call_id, payload);
        let mut decision = self.fire_as(event, &replaced, FireOptions { call_id: Some(call_id), ..options }).await;
        decision.warn(format!("payload: {}; hooks of other processes see a mark in its place", fault.below("payload")));
        decision
    }

    async fn fire_as(&self, event: &str, payload: &Value, options: FireOptions) -> Decision {
        let is_native = self.inner.options.dialect.is_some();
        let answer = match self.fire_params(event, payload, options) {
            Ok(params) => self.send("fire", &params).await,
            Err(error) => Err(error),
        };
        match answer.and_then(|wire| Decision::read(wire, event, is_native)) {
            Ok(decision) => decision,
            Err(error) => Decision::local(event, &error),
        }
    }

    /// Serve a hook; return its id.
    ///
    /// # Errors
    ///
    /// The daemon refused it, or there is none; then it is not registered.
    pub fn serve<F>(&self, event: &str, id: Option<&str>, hook: F) -> Result<String, Error>
    where
        F: Fn(&Value) -> Result<Value, String> + Send + Sync + 'static,
    {
        let id = id.map_or_else(|| self.next_id(), str::to_string);
        let wire = json!({"id": id.clone(), "event": event, "served": true});
        block_on(self.register(&id, wire, Some(Arc::new(move |payload: &Value, _: &Value| hook(payload)))))?;
        Ok(id)
    }

    /// Register one hook under an id of this session, as the protocol's `register` takes it.
    ///
    /// # Errors
    ///
    /// The daemon refused it, or there is none; then it is not registered.
    pub async fn register(&self, id: &str, wire: Value, served: Option<Served>) -> Result<(), Error> {
        self.register_all(vec![(id.to_string(), wire, served)]).await
    }

    /// Register hooks, all or none.
    pub(crate) async fn register_all(&self, hooks: Vec<(String, Value, Option<Served>)>) -> Result<(), Error> {
        let wires: Vec<Value> = hooks.iter().map(|(_, wire, _)| wire.clone()).collect();
        let count = wires.len();
        let params = encoded(&[("hooks", Value::Array(wires))])?;
        let mut begun = Registering { inner: &self.inner, before: Vec::new(), is_refused: false, is_over: false };
        // First: the daemon may call a hook before we read that it is active.
        for (id, wire, served) in hooks {
            let before = self.inner.keep(Kept { id: id.clone(), wire, served });
            begun.before.push((id, before));
        }
        match self.send("register", &params).await {
            Ok(answer) if (0..count).all(|at| answer.at("ids").item(at).is_string()) => {
                begun.is_over = true;
                Ok(())
            }
            Ok(_) => Err(Error::Unreadable("the answer is not a list of hook ids".to_string())),
            Err(error) => {
                begun.is_refused = matches!(error, Error::Refused { .. });
                Err(error)
            }
        }
    }

    /// Take off a hook of this session, for a task of any runtime.
    ///
    /// # Errors
    ///
    /// The daemon could not be asked; the hook stays.
    pub async fn unregister_async(&self, id: &str) -> Result<(), Error> {
        self.request_async("unregister", &[("id", Value::from(id))]).await?;
        let mut state = lock(&self.inner.state);
        state.hooks.retain(|kept| kept.id != id);
        state.refused.remove(id);
        Ok(())
    }

    /// Take off a hook of this session; the calling thread waits.
    ///
    /// # Errors
    ///
    /// The daemon could not be asked; the hook stays.
    pub fn unregister(&self, id: &str) -> Result<(), Error> {
        block_on(self.unregister_async(id))
    }

    /// Enable or disable a hook of this session, which stays registered.
    ///
    /// # Errors
    ///
    /// The session has no such hook, or the daemon could not be asked; nothing has changed.
    pub async fn switch(&self, id: &str, is_enabled: bool) -> Result<(), Error> {
        let method = if is_enabled { "enable" } else { "disable" };
        self.request_async(method, &[("id", Value::from(id))]).await?;
        for kept in &mut lock(&self.inner.state).hooks {
            if let (true, Some(members)) = (kept.id == id, kept.wire.as_object_mut()) {
                members.insert("enabled".to_string(), Value::Bool(is_enabled));
            }
        }
        Ok(())
    }

    /// Make any request of the protocol; the calling thread waits.
    ///
    /// # Errors
    ///
    /// The daemon refused it, or cannot be asked, or a param cannot be said in JSON.
    pub fn request(&self, method: &str, params: &[(&str, Value)]) -> Result<Value, Error> {
        block_on(self.request_async(method, params))
    }

    /// Make any request of the protocol, for a task of any runtime.
    ///
    /// # Errors
    ///
    /// The daemon refused it, or cannot be asked, or a param cannot be said in JSON.
    pub async fn request_async(&self, method: &str, params: &[(&str, Value)]) -> Result<Value, Error> {
        self.send(method, &encoded(params)?).await
    }

    /// Subscribe to announcements; once this returns, none is missed. The revision from which on.
    ///
    /// # Errors
    ///
    /// The daemon knows no such topic, or cannot be asked.
    pub fn subscribe(&self, topics: &[&str]) -> Result<i64, Error> {
        let all: Vec<String> = {
            let mut state = lock(&self.inner.state);
            state.topics.extend(topics.iter().map(|topic| (*topic).to_string()));
            state.topics.iter().cloned().collect()
        };
        let answer = self.request("subscribe", &[("topics", Value::from(all))])?;
        answer.at("revision").as_i64().ok_or_else(|| Error::Unreadable("the answer has no revision".to_string()))
    }

    /// The announcements from now on; they end with the session.
    #[must_use]
    pub fn announcements(&self) -> Receiver<Value> {
        let (sender, receiver) = channel();
        lock(&self.inner.state).listeners.push(sender);
        receiver
    }

    /// End the session in the daemon, and stop for good.
    pub fn close(&self) {
        let link = {
            let mut state = lock(&self.inner.state);
            if state.is_closed {
                return;
            }
            state.is_closed = true;
            state.listeners.clear();
            state.link.clone()
        };
        self.inner.closing.notify_all();
        self.inner.settle();
        if let Some(link) = link {
            let _ = block_on_for(link.request("session.close", &[]), FAREWELL);
        }
        let newest = lock(&self.inner.state).newest.clone();
        if let Some(link) = newest {
            link.end(Error::Unreachable("the session was closed".to_string()));
        }
    }

    async fn send(&self, method: &str, params: &[(String, String)]) -> Result<Value, Error> {
        Settled(self.inner.clone()).await;
        let link = {
            let state = lock(&self.inner.state);
            if state.is_closed {
                let closed = || Error::Unreachable("the session is closed; open another one".to_string());
                return Err(state.refusal.clone().unwrap_or_else(closed));
            }
            state.link.clone().ok_or_else(|| Error::Unreachable(state.problem.clone()))?
        };
        link.request(method, params).await
    }

    fn fire_params(&self, event: &str, payload: &Value, options: FireOptions) -> Result<Vec<(String, String)>, Error> {
        let mut params = encoded(&[("event", Value::from(event))])?;
        let text = write(payload).map_err(|fault| Error::InvalidPayload(fault.below("payload")))?;
        if text.len() > lock(&self.inner.state).limit {
            params.push(("payload".to_string(), "{}".to_string())); // the daemon is told so, and refuses
            params.push(("truncated".to_string(), "true".to_string()));
        } else {
            params.push(("payload".to_string(), text));
        }
        let others = [
            ("call_id", Value::from(options.call_id)),
            ("timeout", Value::from(options.timeout)),
            ("context", Value::from(options.context)),
            ("envelope", Value::from(options.envelope)),
            ("plugins", Value::from(options.plugins)),
        ];
        let given: Vec<_> = others.into_iter().filter(|(_, value)| !value.is_null()).collect();
        params.extend(encoded(&given)?);
        Ok(params)
    }

    /// Return that a payload of so many bytes is over the daemon's limit, if it is.
    pub(crate) fn excess(&self, bytes: usize) -> Option<String> {
        let limit = lock(&self.inner.state).limit;
        (bytes > limit).then(|| format!("the payload has {bytes} bytes, and the daemon takes {limit}"))
    }

    /// Return an id for a call that no other one of this process has.
    pub(crate) fn next_call(&self) -> String {
        let mut state = lock(&self.inner.state);
        state.last_call += 1;
        format!("rust-{}-{:p}-{}", std::process::id(), Arc::as_ptr(&self.inner), state.last_call)
    }

    fn next_id(&self) -> String {
        let mut state = lock(&self.inner.state);
        state.last_served += 1;
        format!("served-{}", state.last_served)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
