//! Radium's own functions, by commands of plain JSON: what the rows of Radium are driven by, and the tests of its values.
//!
//! A command is `{"do": "native", "call": CALL, …}`; the answer is `{"result": …}`, or `{"error": TEXT}` for an `Err`.
//!
//! | call | | result |
//! |---|---|---|
//! | `new` | `HookRegistry::new()` in place of the open one | `{}` |
//! | `add` | `name`, `type`, `priority`?, `does`? | `{}` |
//! | `add_typed` | `kind` (model, tool, error), `moment`, and as above | `{}` |
//! | `execute` | `type`, `data`, `metadata`? | the results |
//! | `calls` | | what hooks were called with since, `[{hook, type, data, metadata}]` |
//! | `switch`, `is_enabled`, `remove`, `clear`, `count` | `name`, `enabled` | |
//! | `names` | `type` | the names of its hooks, in their order |
//! | `clone` | | `{}`; from now on a clone of the registry is asked |
//! | `orchestrate` | `method`, `arguments` | what `OrchestratorHooks` returns |
//! | `executor` | `method`, `arguments` | what `HookRegistryAdapter` returns |
//! | `context` | `kind`, `moment`, `arguments` | the `HookContext` of a typed one |
//! | `at_once` | `commands` | their answers; each runs in a thread of its own |
//! | `types`, `defaults` | | the names of all types; a priority and a result by default |
//! | `refused` | | the hooks that a daemon refused later |
//! | `session_id` | | the session's |
//!
//! `does` is what a hook answers: `{"success": true}`, `{"stop": TEXT}`, `{"error": TEXT}`, `{"data": VALUE}`,
//! `{"result": {…}}` with Radium's four fields, `{"raise": TEXT}`, `{"panic": TEXT}`, `{"echo": KEY}` for its data's value below
//! KEY as changed data of the same key, or `{"park": MS}`.
//!
//! A value is itself, but for `{"$f64": "NaN"}`, a number that JSON cannot say, `{"$u64": 5}`, a small number in the form of
//! large ones, and `{"$deep": N}`, lists in lists.

mod hooks;
mod values;

use hooklatch::radium::{
    AgentOutput, ErrorHookAdapter, ErrorHookContext, ErrorHookType, HookContext, HookExecutor, HookPriority,
    HookRegistry, HookRegistryAdapter, HookResult, HookType, ModelHookAdapter, ModelHookContext, ModelHookType,
    OrchestratorHooks, TelemetryHookContext, ToolHookAdapter, ToolHookContext, ToolHookType,
};
use hooklatch::{block_on, json, Value};
use hooks::{Calls, Doing};
use std::sync::Arc;
use std::thread;
use values::{given, shown};

pub struct Rows {
    pub registry: HookRegistry,
    calls: Calls,
}

type Answer = Result<Value, String>;

impl Rows {
    pub fn new(registry: HookRegistry) -> Rows {
        Rows { registry, calls: Calls::default() }
    }

    /// Return the answer to a command, if it is one of these.
    pub fn answer(&mut self, command: &Value) -> Option<Value> {
        let answer = self.run(command)?;
        Some(answer.map_or_else(|text| json!({ "error": text }), |result| json!({ "result": result })))
    }

    fn run(&mut self, command: &Value) -> Option<Answer> {
        let name = command["name"].as_str().unwrap_or_default();
        let registry = &self.registry;
        Some(match command["call"].as_str().unwrap_or_default() {
            "new" => {
                self.registry = HookRegistry::new();
                Ok(json!({}))
            }
            "add" => self.add(command),
            "add_typed" => self.add_typed(command),
            "execute" => self.execute(command),
            "calls" => Ok(Value::from(self.calls.take())),
            "switch" => {
                let enabled = command["enabled"].as_bool().unwrap_or(false);
                empty(block_on(registry.set_enabled(name, enabled)))
            }
            "is_enabled" => Ok(Value::from(block_on(registry.is_enabled(name)))),
            "remove" => empty(block_on(registry.unregister(name))),
            "clear" => {
                block_on(registry.clear());
                Ok(json!({}))
            }
            "count" => Ok(Value::from(block_on(registry.count()))),
            "names" => kind_of(command).map(|hook_type| {
                let hooks = block_on(registry.get_hooks(hook_type));
                Value::from(hooks.iter().map(|hook| hook.name().to_string()).collect::<Vec<_>>())
            }),
            "clone" => {
                self.registry = registry.clone();
                Ok(json!({}))
            }
            "orchestrate" => orchestrated(registry, command),
            "executor" => executed(registry, command),
            "context" => context_of(command),
            "at_once" => self.at_once(command),
            "types" => Ok(Value::from(HookType::ALL.iter().map(|known| known.as_str()).collect::<Vec<_>>())),
            "defaults" => {
                Ok(json!({"priority": HookPriority::default().value(), "result": described(HookResult::default())}))
            }
            "refused" => {
                let refused = registry.session().refused_hooks();
                Ok(Value::Object(refused.into_iter().map(|(id, reason)| (id, Value::from(reason))).collect()))
            }
            "session_id" => Ok(Value::from(registry.session().session_id())),
            _ => return None,
        })
    }

    fn doing(&self, command: &Value) -> Result<Doing, String> {
        Ok(Doing {
            name: command["name"].as_str().unwrap_or("scripted").to_string(),
            priority: HookPriority::new(command["priority"].as_u64().map_or(100, |priority| priority as u32)),
            hook_type: command.get("type").map_or(Ok(HookType::BeforeTool), |_| kind_of(command))?,
            does: given(&command["does"]),
            calls: self.calls.clone(),
        })
    }

    fn add(&self, command: &Value) -> Answer {
        empty(block_on(self.registry.register(Arc::new(self.doing(command)?))))
    }

    fn add_typed(&self, command: &Value) -> Answer {
        let hook = Arc::new(self.doing(command)?);
        let adapter = match (command["kind"].as_str().unwrap_or_default(), moment(command)) {
            ("model", "before") => ModelHookAdapter::before(hook),
            ("model", "after") => ModelHookAdapter::after(hook),
            ("tool", "before") => ToolHookAdapter::before(hook),
            ("tool", "after") => ToolHookAdapter::after(hook),
            ("tool", "selection") => ToolHookAdapter::selection(hook),
            ("error", "interception") => ErrorHookAdapter::interception(hook),
            ("error", "transformation") => ErrorHookAdapter::transformation(hook),
            ("error", "recovery") => ErrorHookAdapter::recovery(hook),
            ("error", "logging") => ErrorHookAdapter::logging(hook),
            (kind, moment) => return Err(format!("no adapter for {kind} {moment}")),
        };
        let seen = json!({"name": adapter.name(), "priority": adapter.priority().value(),
            "type": adapter.hook_type().as_str()});
        empty(block_on(self.registry.register(adapter))).map(|_| seen)
    }

    fn execute(&self, command: &Value) -> Answer {
        let hook_type = kind_of(command)?;
        let data = given(&command["data"]);
        let context = match command.get("metadata") {
            None => HookContext::new(hook_type.as_str(), data),
            Some(metadata) => HookContext::with_metadata(hook_type.as_str(), data, given(metadata)),
        };
        let results = block_on(self.registry.execute_hooks(hook_type, &context));
        values::forget(context); // it may be too deep to be dropped
        let results = results.map_err(|error| error.to_string())?;
        Ok(Value::Array(results.into_iter().map(described).collect()))
    }

    fn at_once(&self, command: &Value) -> Answer {
        let commands = command["commands"].as_array().cloned().unwrap_or_default();
        let started: Vec<_> = commands
            .into_iter()
            .map(|command| {
                let mut rows = Rows { registry: self.registry.clone(), calls: self.calls.clone() };
                thread::spawn(move || rows.answer(&command).unwrap_or_default())
            })
            .collect();
        let answers = started.into_iter().map(|thread| thread.join().unwrap_or_default());
        Ok(Value::Array(answers.collect()))
    }
}

fn empty<E: std::fmt::Display>(answer: Result<(), E>) -> Answer {
    answer.map(|()| json!({})).map_err(|error| error.to_string())
}

fn kind_of(command: &Value) -> Result<HookType, String> {
    let name = command["type"].as_str().unwrap_or_default();
    name.parse().map_err(|_| format!("there is no type {name:?}"))
}

fn moment(command: &Value) -> &str {
    command["moment"].as_str().unwrap_or_default()
}

fn described(result: HookResult) -> Value {
    json!({"success": result.success, "message": result.message, "modified_data": result.modified_data.map(shown),
        "should_continue": result.should_continue})
}

fn texts(arguments: &Value, place: usize) -> &str {
    arguments[place].as_str().unwrap_or_default()
}

fn orchestrated(registry: &HookRegistry, command: &Value) -> Answer {
    let hooks = OrchestratorHooks::new(Arc::new(registry.clone()));
    let (all, text) = (&command["arguments"], |place| texts(&command["arguments"], place));
    let value = |place: usize| given(&all[place]);
    let source = all[2].as_str();
    let answer = block_on(async {
        Ok(match command["method"].as_str().unwrap_or_default() {
            "before_model_call" => {
                let (input, modifications) = hooks.before_model_call(text(0), text(1)).await?;
                json!([input, modifications])
            }
            "after_model_call" => Value::from(hooks.after_model_call(text(0), text(1), text(2)).await?),
            "before_tool_execution" => hooks.before_tool_execution(text(0), &value(1)).await?,
            "after_tool_execution" => hooks.after_tool_execution(text(0), &value(1), &value(2)).await?,
            "tool_selection" => Value::from(hooks.tool_selection(text(0), &value(1)).await?),
            "error_interception" => Value::from(hooks.error_interception(text(0), text(1), source).await?),
            "error_transformation" => Value::from(hooks.error_transformation(text(0), text(1), source).await?),
            "error_recovery" => Value::from(hooks.error_recovery(text(0), text(1), source).await?),
            _ => {
                hooks.telemetry_collection(text(0), &value(1)).await?;
                Value::Null
            }
        })
    });
    answer.map(shown).map_err(|error: hooklatch::radium::HookError| error.to_string())
}

fn executed(registry: &HookRegistry, command: &Value) -> Answer {
    let hooks = HookRegistryAdapter::new(Arc::new(registry.clone()));
    let text = |place| texts(&command["arguments"], place);
    let source = command["arguments"][3].as_str();
    let list = |results: Vec<HookResult>| Value::Array(results.into_iter().map(described).collect());
    block_on(async {
        Ok(match command["method"].as_str().unwrap_or_default() {
            "execute_before_model" => list(hooks.execute_before_model(text(0), text(1)).await?),
            "execute_after_model" => {
                let output = AgentOutput::Text(text(1).to_string());
                list(hooks.execute_after_model(text(0), &output, true).await?)
            }
            "execute_error_interception" => {
                Value::from(hooks.execute_error_interception(text(0), text(1), text(2), source).await?)
            }
            "execute_error_transformation" => {
                Value::from(hooks.execute_error_transformation(text(0), text(1), text(2), source).await?)
            }
            _ => Value::from(hooks.execute_error_recovery(text(0), text(1), text(2), source).await?),
        })
    })
}

fn context_of(command: &Value) -> Answer {
    let text = |place| texts(&command["arguments"], place).to_string();
    let value = |place: usize| given(&command["arguments"][place]);
    let source = command["arguments"][2].as_str().map(str::to_string);
    let context = match (command["kind"].as_str().unwrap_or_default(), moment(command)) {
        ("model", "before") => ModelHookContext::before(text(0), text(1)).to_hook_context(ModelHookType::Before),
        ("model", _) => ModelHookContext::after(text(0), text(1), text(2)).to_hook_context(ModelHookType::After),
        ("tool", "before") => ToolHookContext::before(text(0), value(1)).to_hook_context(ToolHookType::Before),
        ("tool", "after") => ToolHookContext::after(text(0), value(1), value(2)).to_hook_context(ToolHookType::After),
        ("tool", _) => ToolHookContext::selection(text(0), value(1)).to_hook_context(ToolHookType::Selection),
        ("error", _) => {
            ErrorHookContext::interception(text(0), text(1), source).to_hook_context(ErrorHookType::Interception)
        }
        (_, moment) if command["arguments"][2].is_null() => {
            TelemetryHookContext::new(text(0), value(1)).to_hook_context(moment)
        }
        (_, moment) => TelemetryHookContext::with_metadata(text(0), value(1), value(2)).to_hook_context(moment),
    };
    Ok(json!({"hook_type": context.hook_type, "data": context.data, "metadata": context.metadata}))
}
