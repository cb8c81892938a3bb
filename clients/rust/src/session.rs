//! A session: one live agent run, across the connections that it takes.
//!
//! no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off
//!
//! A request that finds the link just lost waits for the first attempt to get another; after that attempt, and until a
//! later one succeeds, every request fails at once.

use crate::decision::Decision;
use crate::error::Error;
use crate::executor::{block_on, block_on_for};
use crate::json;
use crate::json::Value;
use crate::link::{error_body, lock, Link, Owner};
use crate::paths::candidates;
use crate::peer::connected;
use crate::table;
use std::collections::BTreeSet;
use std::future::Future;
use std::os::unix::net::UnixStream;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

const PROTOCOL: i64 = 1;
const FAREWELL: Duration = Duration::from_secs(1);
const FIRST_RETRY: f64 = 0.05;
const LAST_RETRY: f64 = 5.0;
const RESERVED: usize = 4; // of the requests that may be in flight: a ping must never wait behind fires
const MAX_PAYLOAD: usize = 8 * 1024 * 1024;

/// A hook that this process serves: payload and call in, a verdict or null out. What it panics with denies on a gate.
pub type Served = Arc<dyn Fn(&Value, &Value) -> Result<Value, String> + Send + Sync>;

/// How a session is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The daemon's socket; no other is tried.
    pub path: Option<PathBuf>,
    /// The daemon's folder; by default HOOKLATCH_RUNTIME_DIR, or the known places in turn.
    pub runtime_dir: Option<PathBuf>,
    /// The number of the user whose daemon is taken beside one's own and root's, who would be refused else.
    pub daemon_uid: Option<u32>,
    pub session_id: Option<String>,
    pub resume_token: Option<String>,
    pub name: Option<String>,
    pub host: Option<String>,
    pub cwd: Option<PathBuf>,
    pub dialect: Option<String>,
    pub personality: Option<String>,
    pub plugins: Option<Vec<String>>,
    pub require_handlers: Vec<String>,
    pub emits: Vec<String>,
    /// The session that started this one, as its id and child_token; by default HOOKLATCH_PARENT names it.
    pub parent: Option<(String, String)>,
    /// Fail if no daemon is reachable, instead of opening a session whose gates deny.
    pub require: bool,
    /// Time between pings to a silent daemon, and how many may stay unanswered.
    pub interval: Duration,
    pub misses: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            path: None,
            runtime_dir: None,
            daemon_uid: None,
            session_id: None,
            resume_token: None,
            name: None,
            host: None,
            cwd: None,
            dialect: None,
            personality: None,
            plugins: None,
            require_handlers: Vec::new(),
            emits: Vec::new(),
            parent: None,
            require: false,
            interval: Duration::from_secs(1),
            misses: 5,
        }
    }
}

/// What a fire may say besides its payload; the timeout is in seconds, and enforced by the daemon.
#[derive(Debug, Clone, Default)]
pub struct FireOptions {
    pub call_id: Option<String>,
    pub timeout: Option<f64>,
    pub context: Option<Value>,
    pub envelope: Option<Value>,
    pub plugins: Option<Vec<String>>,
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
    hooks: Vec<(String, Value, Option<Served>)>,
    topics: BTreeSet<String>,
    listeners: Vec<Sender<Value>>,
    session_id: Option<String>,
    resume_token: Option<String>,
    child_token: Option<String>,
    revision: Option<i64>,
    limit: usize,
    last_served: u64,
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

impl Session {
    /// Open a session. Without a daemon it opens too: its gates deny, and it connects when there is one.
    pub fn open(options: Options) -> Result<Session, Error> {
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
        started.map_err(|error| Error::Unreachable(error.to_string()))?;
        block_on(Settled(inner.clone()));
        let refusal = lock(&inner.state).refusal.take();
        match refusal {
            Some(error) => Err(error),
            None => Ok(Session { inner }),
        }
    }

    pub fn is_connected(&self) -> bool {
        // A request may learn of the end before the thread that opens the next connection.
        lock(&self.inner.state).link.as_ref().map_or(false, |link| link.failure().is_none())
    }

    pub fn session_id(&self) -> Option<String> {
        lock(&self.inner.state).session_id.clone()
    }

    /// What a child session needs besides its parent's id, to have its gates.
    pub fn child_token(&self) -> Option<String> {
        lock(&self.inner.state).child_token.clone()
    }

    /// Fire an event and return the decision; the calling thread waits.
    pub fn fire(&self, event: &str, payload: Value) -> Decision {
        self.fire_with(event, payload, FireOptions::default())
    }

    pub fn fire_with(&self, event: &str, payload: Value, options: FireOptions) -> Decision {
        block_on(self.fire_async(event, payload, options))
    }

    /// The same for a task of any runtime. Without a usable answer a gate denies, all else passes.
    pub async fn fire_async(&self, event: &str, payload: Value, options: FireOptions) -> Decision {
        let is_native = self.inner.options.dialect.is_some();
        let answer = match self.fire_params(event, &payload, options) {
            Ok(params) => self.send("fire", &params).await,
            Err(error) => Err(error),
        };
        match answer.and_then(|wire| Decision::read(wire, event, is_native)) {
            Ok(decision) => decision,
            Err(error) => Decision::local(event, &error),
        }
    }

    /// Serve a hook; return its id.
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
    pub async fn register(&self, id: &str, wire: Value, served: Option<Served>) -> Result<(), Error> {
        let params = encoded(&[("hooks", Value::Array(vec![wire.clone()]))])?;
        // First: the daemon may call the hook before we read that it is active.
        let before = self.inner.keep(id, wire, served);
        let answer = self.send("register", &params).await;
        let problem = match answer {
            Ok(answer) if answer["ids"][0].is_string() => return Ok(()),
            Ok(_) => Error::Unreadable("the answer is not a list of hook ids".to_string()),
            Err(error) => error,
        };
        let mut state = lock(&self.inner.state);
        state.hooks.retain(|(own, _, _)| own != id);
        state.hooks.extend(before);
        Err(problem)
    }

    pub async fn unregister_async(&self, id: &str) -> Result<(), Error> {
        self.request_async("unregister", &[("id", Value::from(id))]).await?;
        lock(&self.inner.state).hooks.retain(|(own, _, _)| own != id);
        Ok(())
    }

    pub fn unregister(&self, id: &str) -> Result<(), Error> {
        block_on(self.unregister_async(id))
    }

    /// Enable or disable a hook of this session, which stays registered.
    pub async fn switch(&self, id: &str, is_enabled: bool) -> Result<(), Error> {
        let method = if is_enabled { "enable" } else { "disable" };
        self.request_async(method, &[("id", Value::from(id))]).await?;
        for (own, wire, _) in &mut lock(&self.inner.state).hooks {
            if let (true, Some(members)) = (own == id, wire.as_object_mut()) {
                members.insert("enabled".to_string(), Value::Bool(is_enabled));
            }
        }
        Ok(())
    }

    /// Make any request of the protocol.
    pub fn request(&self, method: &str, params: &[(&str, Value)]) -> Result<Value, Error> {
        block_on(self.request_async(method, params))
    }

    pub async fn request_async(&self, method: &str, params: &[(&str, Value)]) -> Result<Value, Error> {
        self.send(method, &encoded(params)?).await
    }

    /// Subscribe to announcements; once this returns, none is missed. The revision from which on.
    pub fn subscribe(&self, topics: &[&str]) -> Result<i64, Error> {
        let all: Vec<String> = {
            let mut state = lock(&self.inner.state);
            state.topics.extend(topics.iter().map(|topic| (*topic).to_string()));
            state.topics.iter().cloned().collect()
        };
        let answer = self.request("subscribe", &[("topics", Value::from(all))])?;
        answer["revision"].as_i64().ok_or_else(|| Error::Unreadable("the answer has no revision".to_string()))
    }

    /// The announcements from now on; they end with the session.
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
                return Err(Error::Unreachable("the session is closed; open another one".to_string()));
            }
            state.link.clone().ok_or_else(|| Error::Unreachable(state.problem.clone()))?
        };
        link.request(method, params).await
    }

    fn fire_params(&self, event: &str, payload: &Value, options: FireOptions) -> Result<Vec<(String, String)>, Error> {
        let mut params = encoded(&[("event", Value::from(event)), ("payload", payload.clone())])?;
        if params[1].1.len() > lock(&self.inner.state).limit {
            params[1].1 = "{}".to_string(); // the daemon is told that it was too long, and refuses
            params.push(("truncated".to_string(), "true".to_string()));
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

    pub(crate) fn next_id(&self) -> String {
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

fn encoded(params: &[(&str, Value)]) -> Result<Vec<(String, String)>, Error> {
    let write = |(key, value): &(&str, Value)| {
        let text = value.write().map_err(|error| Error::InvalidPayload(format!("{key}: {error}")))?;
        Ok(((*key).to_string(), text))
    };
    params.iter().map(write).collect()
}

/// Ready when it is known whether there is a daemon: from a loss on, that is after the next attempt.
struct Settled(Arc<Inner>);

impl Future for Settled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0.state);
        if state.is_settled || state.is_closed {
            return Poll::Ready(());
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    }
}

fn stay_connected(inner: &Arc<Inner>) {
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

    fn settle(&self) {
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
        let reader = thread::spawn(move || own.run(&owner));
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
        let welcome = block_on(link.request("hello", &self.hello()?))?;
        if welcome["protocol"].as_i64() != Some(PROTOCOL) {
            let text = format!("the daemon speaks protocol {}, this client {PROTOCOL}", welcome["protocol"]);
            return Err(Error::Unreadable(text));
        }
        let text = |key: &str| welcome[key].as_str().map(str::to_string);
        let topics: Vec<String> = {
            let mut state = lock(&self.state);
            state.session_id = text("session_id").or_else(|| state.session_id.take());
            state.resume_token = text("resume_token").or_else(|| state.resume_token.take());
            state.child_token = text("child_token");
            state.limit = welcome["limits"]["payload_bytes"].as_u64().map_or(MAX_PAYLOAD, |limit| limit as usize);
            state.topics.iter().cloned().collect()
        };
        let in_flight = welcome["limits"]["in_flight"].as_u64().unwrap_or(64) as usize;
        link.allow(in_flight.saturating_sub(RESERVED).max(1));
        let mut revision = welcome["revision"].as_i64();
        if !topics.is_empty() {
            let params = encoded(&[("topics", Value::from(topics))])?;
            revision = block_on(link.request("subscribe", &params))?["revision"].as_i64();
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

    fn hello(&self) -> Result<Vec<(String, String)>, Error> {
        let options = &self.options;
        let inherited = std::env::var("HOOKLATCH_PARENT").ok();
        let inherited = inherited.as_deref().and_then(|text| text.split_once(' '));
        let inherited = inherited.map(|(token, id)| (id.to_string(), token.to_string()));
        let (parent, token) = options.parent.clone().or(inherited).unzip_pair();
        let cwd = options.cwd.clone().or_else(|| std::env::current_dir().ok());
        let list = |values: &Vec<String>| if values.is_empty() { Value::Null } else { Value::from(values.clone()) };
        let state = lock(&self.state);
        let hooks: Vec<Value> = state.hooks.iter().map(|(_, wire, _)| wire.clone()).collect();
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
        encoded(&given)
    }

    fn keep(&self, id: &str, wire: Value, served: Option<Served>) -> Option<(String, Value, Option<Served>)> {
        let mut state = lock(&self.state);
        let new = (id.to_string(), wire, served);
        let place = state.hooks.iter().position(|(own, _, _)| own == id);
        match place {
            Some(at) => Some(std::mem::replace(&mut state.hooks[at], new)),
            None => {
                state.hooks.push(new);
                None
            }
        }
    }

    fn tell(&self, announcement: &Value) {
        lock(&self.state).listeners.retain(|listener| listener.send(announcement.clone()).is_ok());
    }
}

impl Owner for Arc<Inner> {
    fn announce(&self, params: Value) -> Result<(), String> {
        if !params["topic"].is_string() {
            return Err("an announcement names no topic".to_string());
        }
        if let Some(problem) = params.get("decision").and_then(table::fault) {
            return Err(format!("the announced decision is not valid: {problem}"));
        }
        if let Some(current) = params["resync"].as_i64().or_else(|| params["revision"].as_i64()) {
            lock(&self.state).revision = Some(current);
        }
        self.tell(&params);
        Ok(())
    }

    /// Run a served hook in a thread of its own, where a panic ends nothing else.
    fn call(&self, link: &Arc<Link>, id: Value, params: Value) {
        let (hook, payload) = match (params["hook"].as_str(), params["event"].as_str(), params.get("payload")) {
            (Some(hook), Some(_), Some(payload)) if payload.is_object() => (hook.to_string(), payload.clone()),
            _ => return link.reply(&id, error_body(-32602, "invalid_params", "it is no call of a hook")),
        };
        let served = lock(&self.state).hooks.iter().find(|(own, _, _)| *own == hook).and_then(|one| one.2.clone());
        let link = link.clone();
        let answering = thread::Builder::new().name(format!("hook {hook}").replace('\0', "")).spawn({
            let (link, id) = (link.clone(), id.clone());
            move || {
                let body = match served {
                    None => Err(format!("this client serves no hook {hook}")),
                    Some(function) => catch_unwind(AssertUnwindSafe(|| function(&payload, &params)))
                        .unwrap_or_else(|panic| Err(text_of(&*panic))),
                };
                link.reply(&id, body.map_or_else(|text| error_body(-32603, "internal_error", &text), result_body));
            }
        });
        if let Err(error) = answering {
            link.reply(&id, error_body(-32603, "internal_error", &error.to_string()));
        }
    }
}

fn result_body(result: Value) -> Value {
    json!({ "result": result })
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_string())
}

trait UnzipPair {
    fn unzip_pair(self) -> (Option<String>, Option<String>);
}

impl UnzipPair for Option<(String, String)> {
    fn unzip_pair(self) -> (Option<String>, Option<String>) {
        match self {
            Some((first, second)) => (Some(first), Some(second)),
            None => (None, None),
        }
    }
}
