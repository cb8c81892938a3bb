//! The futures belong to no runtime: any executor drives them, from any thread, and may drop them.

use hooklatch::radium::{HookContext, HookRegistry, HookType};
use hooklatch::{block_on, json, Decision, FireOptions, Options, Session, Value};
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// Counts how often it is woken, and tells of it.
struct Counting(AtomicUsize, Mutex<Sender<()>>);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        let _ = self.1.lock().unwrap().send(());
    }
}

fn waker() -> (Waker, Receiver<()>) {
    let (sender, receiver) = channel();
    (Waker::from(Arc::new(Counting(AtomicUsize::new(0), Mutex::new(sender)))), receiver)
}

fn answer(stream: &mut UnixStream, request: &Value, result: Value) {
    let line = json!({"jsonrpc": "2.0", "id": request["id"].clone(), "result": result});
    writeln!(stream, "{line}").unwrap();
}

fn passed() -> Value {
    json!({"decision_id": "d", "event": "pre_tool_use", "verdict": "pass", "cause": null, "reason": null, "layer": null,
        "hook": null, "retryable": false, "patch": null, "payload_digest": null, "append": null, "resume": null,
        "value": null, "revision": 1, "duration_ms": 0.5})
}

/// Run a daemon that answers as many fires as it is let, and the session for it.
fn opened(name: &str) -> (Session, Receiver<Value>, Sender<()>) {
    let folder = std::env::temp_dir().join(format!("hooklatch-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path: PathBuf = folder.join("agent.sock");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let (heard, fires) = channel();
    let (go_on, may) = channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        for line in reader.lines() {
            let request = Value::parse(&line.unwrap()).unwrap();
            match request["method"].as_str() {
                Some("fire") => {
                    heard.send(request.clone()).unwrap();
                    if may.recv().is_ok() {
                        answer(&mut stream, &request, passed());
                    }
                }
                Some("hello") => {
                    answer(&mut stream, &request, json!({"protocol": 1, "session_id": "s", "revision": 1}))
                }
                _ => answer(&mut stream, &request, json!({})),
            }
        }
        let _ = std::fs::remove_dir_all(folder);
    });
    let session = Session::open(Options { path: Some(path), ..Options::default() }).unwrap();
    (session, fires, go_on)
}

type Fire<'a> = Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

fn fire(session: &Session) -> Fire<'_> {
    Box::pin(session.fire_async("pre_tool_use", json!({"tool_name": "t", "tool_input": {}}), FireOptions::default()))
}

fn polled(future: &mut Fire<'_>, waker: &Waker) -> Poll<Decision> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

#[test]
fn a_future_wakes_whoever_polled_it_last() {
    let (session, fires, go_on) = opened("woken");
    let ((first, never), (second, woken)) = (waker(), waker());
    let mut future = fire(&session);
    assert!(polled(&mut future, &first).is_pending());
    fires.recv().unwrap();
    // Another thread polls it on.
    thread::scope(|scope| {
        scope.spawn(|| assert!(polled(&mut future, &second).is_pending())).join().unwrap();
        go_on.send(()).unwrap();
        woken.recv().unwrap();
    });
    assert!(never.try_recv().is_err());
    match polled(&mut future, &first) {
        Poll::Ready(decision) => {
            assert!(decision.is_allowed());
            assert_eq!(decision.explanation(), "no hook objects to pre_tool_use");
        }
        Poll::Pending => panic!("it was woken, and is not ready"),
    }
}

#[test]
fn a_future_that_is_dropped_midway_holds_up_nothing() {
    let (session, fires, go_on) = opened("dropped");
    let (waker, _woken) = waker();
    let mut future = fire(&session);
    assert!(polled(&mut future, &waker).is_pending());
    fires.recv().unwrap();
    drop(future);
    go_on.send(()).unwrap();
    go_on.send(()).unwrap();
    assert!(block_on(fire(&session)).is_allowed());
    assert!(session.is_connected());
}

#[test]
fn a_future_that_is_never_polled_sends_nothing() {
    let (session, fires, go_on) = opened("unpolled");
    drop(fire(&session));
    go_on.send(()).unwrap();
    assert!(session.fire("pre_tool_use", json!({"tool_name": "mine", "tool_input": {}})).is_allowed());
    assert_eq!(fires.recv().unwrap()["params"]["payload"]["tool_name"], "mine");
}

#[test]
fn the_registrys_futures_may_move_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let path = std::env::temp_dir().join("hooklatch-nobody.sock");
    let registry = HookRegistry::open(Options { path: Some(path), ..Options::default() }).unwrap();
    let context = HookContext::new("before_tool", json!({"tool_name": "t", "arguments": {}}));
    let results = block_on(is_send(registry.execute_hooks(HookType::BeforeTool, &context))).unwrap();
    assert!(!results[0].should_continue);
    let explanation = registry.session().fire("before_tool", json!({})).explanation();
    assert!(explanation.contains("no daemon is reachable"), "{explanation}");
}
