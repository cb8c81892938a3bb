//! Drives the client for the tests of all clients: commands as lines of JSON in, one answer for each out.

mod rows;

use hooklatch::radium::{
    Hook, HookContext, HookError, HookFuture, HookPriority, HookRegistry, HookResult, HookType, OrchestratorHooks,
    ToolHook, ToolHookAdapter, ToolHookContext,
};
use hooklatch::{block_on, json, Decision, Error, FireOptions, Options, Session, Value};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Default)]
struct Driver {
    session: Option<Arc<Session>>,
    rows: Option<rows::Rows>,
    news: Option<Receiver<Value>>,
    calls: Arc<Mutex<Vec<Value>>>,
    pending: HashMap<String, JoinHandle<Value>>,
}

struct Scripted {
    answer: Value,
}

impl Hook for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn priority(&self) -> HookPriority {
        HookPriority::default()
    }

    fn hook_type(&self) -> HookType {
        HookType::BeforeTool
    }

    fn execute<'life0, 'life1, 'async_trait>(&'life0 self, _: &'life1 HookContext) -> HookFuture<'async_trait>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move { self.judged() })
    }
}

impl Scripted {
    fn judged(&self) -> Result<HookResult, HookError> {
        if let Some(text) = self.answer["raise"].as_str() {
            return Err(HookError::ExecutionFailed(text.to_string()));
        }
        if let Some(text) = self.answer["stop"].as_str() {
            return Ok(HookResult::stop(text));
        }
        Ok(self.answer.get("data").map_or_else(HookResult::success, |data| HookResult::with_data(data.clone())))
    }
}

macro_rules! judged {
    ($($method:ident),+) => {
        $(
            fn $method<'life0, 'life1, 'async_trait>(&'life0 self, context: &'life1 ToolHookContext) -> HookFuture<'async_trait>
            where
                'life0: 'async_trait,
                'life1: 'async_trait,
                Self: 'async_trait,
            {
                Box::pin(async move {
                    // It sees what was called, or it has nothing to judge.
                    if context.tool_name.is_empty() || !context.arguments.is_object() {
                        return Err(HookError::ExecutionFailed("no tool".to_string()));
                    }
                    self.judged()
                })
            }
        )+
    };
}

impl ToolHook for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn priority(&self) -> HookPriority {
        HookPriority::default()
    }

    judged!(before_tool_execution, after_tool_execution, tool_selection);
}

fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    let mut driver = Driver::default();
    for line in std::io::stdin().lock().lines() {
        let command = Value::parse(&line.expect("a line")).expect("a command");
        let answer = driver.run(&command).unwrap_or_else(failure);
        writeln!(std::io::stdout(), "{answer}").expect("somebody reads");
    }
}

fn failure(error: Error) -> Value {
    let name = match &error {
        Error::Refused { name, .. } => name.clone(),
        _ => String::new(),
    };
    json!({"error": error.to_string(), "name": name, "allowed": false})
}

fn until(is_so: impl Fn() -> bool) {
    for _ in 0..(PATIENCE.as_millis() / 5) {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("it did not come to that");
}

fn text(command: &Value, key: &str) -> Option<String> {
    command[key].as_str().map(str::to_string)
}

fn fire(session: &Session, command: &Value) -> Value {
    let given = |key: &str| command.get(key).cloned();
    let options = FireOptions {
        call_id: text(command, "call_id"),
        timeout: command["timeout"].as_f64(),
        context: given("context"),
        envelope: given("envelope"),
        plugins: None,
    };
    let event = command["event"].as_str().expect("an event");
    described(&session.fire_with(event, command["payload"].clone(), options))
}

fn described(decision: &Decision) -> Value {
    let mut wire = decision.wire.clone();
    let members = wire.as_object_mut().expect("a decision");
    members.insert("allowed".to_string(), Value::Bool(decision.is_allowed()));
    members.insert("is_local".to_string(), Value::Bool(decision.is_local()));
    wire
}

impl Driver {
    fn session(&self) -> &Arc<Session> {
        self.session.as_ref().expect("an open session")
    }

    fn run(&mut self, command: &Value) -> Result<Value, Error> {
        match command["do"].as_str().expect("what to do") {
            "open" => self.open(command),
            "fire" => Ok(fire(self.session(), command)),
            "begin" => {
                let (session, own) = (self.session().clone(), command.clone());
                let name = text(command, "as").expect("a name");
                self.pending.insert(name, thread::spawn(move || fire(&session, &own)));
                Ok(json!({}))
            }
            "end" => {
                let name = text(command, "as").expect("a name");
                Ok(self.pending.remove(&name).expect("a fire").join().expect("a decision"))
            }
            "serve" => {
                let (calls, does) = (self.calls.clone(), command["does"].clone());
                let hook = move |payload: &Value| {
                    calls.lock().expect("no panic").push(payload.clone());
                    match does["raise"].as_str() {
                        Some(text) => panic!("{text}"),
                        None => Ok(does["answer"].clone()),
                    }
                };
                let event = command["event"].as_str().expect("an event");
                Ok(json!({"id": self.session().serve(event, command["id"].as_str(), hook)?}))
            }
            "unregister" => {
                self.session().unregister(command["id"].as_str().expect("an id"))?;
                Ok(json!({}))
            }
            "called" => {
                let count = command["count"].as_u64().expect("a count") as usize;
                until(|| self.calls.lock().expect("no panic").len() >= count);
                let calls = self.calls.lock().expect("no panic").clone();
                Ok(Value::Array(calls))
            }
            "subscribe" => Ok(json!({"revision": self.session().subscribe(&["registry"])?})),
            "announcement" => {
                let news = self.news.as_ref().expect("an open session");
                Ok(news.recv_timeout(PATIENCE).expect("an announcement"))
            }
            "request" => {
                let params = command["params"].as_object().expect("params");
                let params: Vec<(&str, Value)> = params.iter().map(|(key, one)| (key.as_str(), one.clone())).collect();
                let method = command["method"].as_str().expect("a method");
                Ok(json!({"result": self.session().request(method, &params)?}))
            }
            "wait" => {
                let wanted = command["for"] == "connected";
                until(|| match &self.rows {
                    Some(rows) => rows.registry.session().is_connected() == wanted,
                    None => self.session().is_connected() == wanted,
                });
                Ok(json!({}))
            }
            "close" => {
                if let Some(session) = &self.session {
                    session.close();
                }
                self.rows = None;
                Ok(json!({}))
            }
            "native" => self.native(command),
            other => panic!("{other} is unknown"),
        }
    }

    fn open(&mut self, command: &Value) -> Result<Value, Error> {
        self.session = None;
        self.rows = None;
        self.calls.lock().expect("no panic").clear();
        let liveness = &command["liveness"];
        let options = Options {
            path: text(command, "path").map(PathBuf::from),
            host: Some("conformance".to_string()),
            cwd: text(command, "cwd").map(PathBuf::from),
            session_id: text(command, "session_id"),
            daemon_uid: command["daemon_uid"].as_u64().map(|uid| uid as u32),
            dialect: text(command, "dialect"),
            require: command["require"].as_bool().unwrap_or(false),
            interval: Duration::from_secs_f64(liveness["interval"].as_f64().unwrap_or(1.0)),
            misses: liveness["misses"].as_u64().unwrap_or(5) as u32,
            ..Options::default()
        };
        if options.dialect.as_deref() == Some("radium") {
            let registry = HookRegistry::open(options)?;
            let (connected, id) = (registry.session().is_connected(), registry.session().session_id());
            self.rows = Some(rows::Rows::new(registry));
            return Ok(json!({"connected": connected, "session_id": id}));
        }
        let session = Session::open(options)?;
        self.news = Some(session.announcements());
        self.session = Some(Arc::new(session));
        Ok(json!({"connected": self.session().is_connected(), "session_id": self.session().session_id(),
            "child_token": self.session().child_token()}))
    }

    fn native(&mut self, command: &Value) -> Result<Value, Error> {
        let rows = self.rows.as_mut().expect("a registry");
        if let Some(answer) = rows.answer(command) {
            return Ok(answer);
        }
        let registry = &rows.registry;
        let result = match command["call"].as_str().expect("a call") {
            "register" => block_on(registry.register(Arc::new(Scripted { answer: command["handler"].clone() })))
                .map_or_else(|error| json!({"error": error.to_string()}), |()| json!({})),
            "register_tool" => {
                let hook: Arc<dyn ToolHook> = Arc::new(Scripted { answer: command["handler"].clone() });
                for one in [ToolHookAdapter::before(hook.clone()), ToolHookAdapter::after(hook)] {
                    block_on(registry.register(one)).expect("a daemon");
                }
                json!({})
            }
            "around_tool" => {
                let hooks = OrchestratorHooks::new(Arc::new(registry.clone()));
                let name = command["tool_name"].as_str().expect("a tool");
                let arguments = &command["arguments"];
                block_on(async {
                    let changed = hooks.before_tool_execution(name, arguments).await?;
                    let result = hooks.after_tool_execution(name, &changed, &json!("done")).await?;
                    Ok::<Value, HookError>(json!({"arguments": changed, "result": result}))
                })
                .unwrap_or_else(|error| json!({"error": error.to_string()}))
            }
            "set_enabled" => block_on(registry.set_enabled("scripted", command["enabled"].as_bool().expect("a flag")))
                .map_or_else(|error| json!({"error": error.to_string()}), |()| json!({})),
            "execute_hooks" => {
                let kind =
                    if command["type"] == "before_tool" { HookType::BeforeTool } else { HookType::MetricsAggregation };
                let context = HookContext::new(kind.as_str(), command["data"].clone());
                let results = block_on(registry.execute_hooks(kind, &context)).expect("results");
                let one = |result: HookResult| {
                    json!({"success": result.success, "message": result.message,
                    "modified_data": result.modified_data, "should_continue": result.should_continue})
                };
                Value::Array(results.into_iter().map(one).collect())
            }
            other => panic!("{other} is unknown"),
        };
        Ok(json!({ "result": result }))
    }
}
