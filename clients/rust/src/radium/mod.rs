//! Radium's hook registry over a hooklatch session: the same types and methods, so that code written for it moves
//! with its `use` lines alone.
//!
//! A hook is served by this process and called by the daemon, beside the guards that the operator put there. On the
//! gates (before_model, before_tool, tool_selection) whatever is not a whole answer is a stop; so is a hook that could
//! not be registered: nobody may believe in a guard that is not there.

mod adapters;
mod orchestrator;

use crate::error::Error;
use crate::executor::block_on;
use crate::json;
use crate::json::Value;
use crate::link::lock;
use crate::session::{FireOptions, Options, Served, Session};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

pub use adapters::{
    ErrorHook, ErrorHookAdapter, ErrorHookContext, ModelHook, ModelHookAdapter, ModelHookContext, ToolHook,
    ToolHookAdapter, ToolHookContext,
};
pub use orchestrator::OrchestratorHooks;
pub use HookResult as HookExecutionResult;

pub type Result<T> = std::result::Result<T, HookError>;

/// What `#[async_trait]` makes of an async method's result.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<HookResult>> + Send + 'a>>;

/// Runs a future to its end, for hooks that need a runtime: `Arc::new(move |future| handle.block_on(future))`.
pub type Runner = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send + '_>>) + Send + Sync>;

#[derive(Debug, Clone, PartialEq)]
pub enum HookError {
    NotFound(String),
    ExecutionFailed(String),
    RegistrationFailed(String),
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookError::NotFound(name) => write!(f, "there is no hook {name}"),
            HookError::ExecutionFailed(text) => write!(f, "the hook failed: {text}"),
            HookError::RegistrationFailed(text) => write!(f, "the hook could not be registered: {text}"),
        }
    }
}

impl std::error::Error for HookError {}

impl From<Error> for HookError {
    fn from(error: Error) -> HookError {
        HookError::RegistrationFailed(error.to_string())
    }
}

/// Hooks with a higher priority are called first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookPriority(pub u32);

impl Default for HookPriority {
    fn default() -> HookPriority {
        HookPriority(100)
    }
}

impl HookPriority {
    pub fn new(priority: u32) -> HookPriority {
        HookPriority(priority)
    }

    pub fn value(&self) -> u32 {
        self.0
    }
}

#[derive(Debug, Clone)]
pub struct HookContext {
    pub hook_type: String,
    pub data: Value,
    pub metadata: Value,
}

impl HookContext {
    pub fn new(hook_type: impl Into<String>, data: Value) -> HookContext {
        HookContext::with_metadata(hook_type, data, json!({}))
    }

    pub fn with_metadata(hook_type: impl Into<String>, data: Value, metadata: Value) -> HookContext {
        HookContext { hook_type: hook_type.into(), data, metadata }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct HookResult {
    pub success: bool,
    pub message: Option<String>,
    pub modified_data: Option<Value>,
    pub should_continue: bool,
}

impl Default for HookResult {
    fn default() -> HookResult {
        HookResult { success: true, message: None, modified_data: None, should_continue: true }
    }
}

impl HookResult {
    pub fn success() -> HookResult {
        HookResult::default()
    }

    pub fn with_data(data: Value) -> HookResult {
        HookResult { modified_data: Some(data), ..HookResult::default() }
    }

    pub fn stop(message: impl Into<String>) -> HookResult {
        HookResult { should_continue: false, ..HookResult::error(message) }
    }

    pub fn error(message: impl Into<String>) -> HookResult {
        HookResult { success: false, message: Some(message.into()), ..HookResult::default() }
    }

    fn read(wire: &Value) -> Option<HookResult> {
        let message = &wire["message"];
        let data = &wire["modified_data"];
        if !(message.is_null() || message.is_string()) || !(data.is_null() || data.is_object()) {
            return None;
        }
        Some(HookResult {
            success: wire["success"].as_bool()?,
            message: message.as_str().map(str::to_string),
            modified_data: Some(data.clone()).filter(|data| !data.is_null()),
            should_continue: wire["should_continue"].as_bool()?,
        })
    }

    fn write(self) -> Value {
        json!({"success": self.success, "message": self.message, "modified_data": self.modified_data,
            "should_continue": self.should_continue})
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookType {
    BeforeModel,
    AfterModel,
    BeforeTool,
    AfterTool,
    ToolSelection,
    ErrorInterception,
    ErrorTransformation,
    ErrorRecovery,
    ErrorLogging,
    TelemetryCollection,
    CustomLogging,
    MetricsAggregation,
    PerformanceMonitoring,
}

impl HookType {
    pub fn as_str(&self) -> &'static str {
        match self {
            HookType::BeforeModel => "before_model",
            HookType::AfterModel => "after_model",
            HookType::BeforeTool => "before_tool",
            HookType::AfterTool => "after_tool",
            HookType::ToolSelection => "tool_selection",
            HookType::ErrorInterception => "error_interception",
            HookType::ErrorTransformation => "error_transformation",
            HookType::ErrorRecovery => "error_recovery",
            HookType::ErrorLogging => "error_logging",
            HookType::TelemetryCollection => "telemetry_collection",
            HookType::CustomLogging => "custom_logging",
            HookType::MetricsAggregation => "metrics_aggregation",
            HookType::PerformanceMonitoring => "performance_monitoring",
        }
    }

    fn is_gate(self) -> bool {
        matches!(self, HookType::BeforeModel | HookType::BeforeTool | HookType::ToolSelection)
    }
}

/// A hook; `#[async_trait]` on an implementation gives `execute` this form.
pub trait Hook: Send + Sync {
    fn name(&self) -> &str;
    fn priority(&self) -> HookPriority;
    fn hook_type(&self) -> HookType;
    fn execute<'life0, 'life1, 'async_trait>(&'life0 self, context: &'life1 HookContext) -> HookFuture<'async_trait>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait;
}

struct Registered {
    id: String,
    hook: Arc<dyn Hook>,
    is_enabled: bool,
    is_active: bool, // the daemon has it
}

/// Radium's registry. `clone` shares hooks and session.
#[derive(Clone)]
pub struct HookRegistry {
    session: Arc<Session>,
    hooks: Arc<Mutex<Vec<Registered>>>,
    runner: Option<Runner>,
}

impl Default for HookRegistry {
    fn default() -> HookRegistry {
        HookRegistry::new()
    }
}

impl fmt::Debug for HookRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookRegistry").finish_non_exhaustive()
    }
}

impl HookRegistry {
    /// Open a session with the daemon of this user; without one the gates stop.
    ///
    /// # Panics
    ///
    /// The daemon refused the session. `open` returns that instead.
    pub fn new() -> HookRegistry {
        match HookRegistry::open(Options::default()) {
            Ok(registry) => registry,
            Err(error) => panic!("the hook daemon refused the session: {error}"),
        }
    }

    pub fn open(options: Options) -> std::result::Result<HookRegistry, Error> {
        let session = Session::open(Options { dialect: Some("radium".to_string()), ..options })?;
        Ok(HookRegistry { session: Arc::new(session), hooks: Arc::default(), runner: None })
    }

    /// Run hooks by `runner`, for those that need a runtime of their own.
    pub fn set_runner(&mut self, runner: Runner) {
        self.runner = Some(runner);
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    pub async fn register(&self, hook: Arc<dyn Hook>) -> Result<()> {
        let id = {
            let mut hooks = lock(&self.hooks);
            let same = hooks.iter().filter(|one| one.hook.name() == hook.name()).count();
            let is_taken = |id: &str| hooks.iter().any(|one| one.id == id);
            let names =
                (same..).map(|n| if n == 0 { hook.name().to_string() } else { format!("{}#{}", hook.name(), n + 1) });
            let id = names.into_iter().find(|id| !is_taken(id)).unwrap_or_default();
            hooks.push(Registered { id: id.clone(), hook, is_enabled: true, is_active: false });
            hooks.sort_by_key(|one| std::cmp::Reverse(one.hook.priority()));
            id
        };
        self.activate(&id).await
    }

    pub async fn set_enabled(&self, name: &str, enabled: bool) -> Result<()> {
        let ids = self.ids_of(name);
        if ids.is_empty() {
            return Err(HookError::NotFound(name.to_string()));
        }
        for id in ids {
            self.session.switch(&id, enabled).await?;
            if let Some(one) = lock(&self.hooks).iter_mut().find(|one| one.id == id) {
                one.is_enabled = enabled;
            }
        }
        Ok(())
    }

    pub async fn is_enabled(&self, name: &str) -> bool {
        lock(&self.hooks).iter().any(|one| one.hook.name() == name && one.is_enabled)
    }

    pub async fn unregister(&self, name: &str) -> Result<()> {
        for id in self.ids_of(name) {
            self.session.unregister_async(&id).await?;
            lock(&self.hooks).retain(|one| one.id != id);
        }
        Ok(())
    }

    pub async fn get_hooks(&self, hook_type: HookType) -> Vec<Arc<dyn Hook>> {
        lock(&self.hooks).iter().filter(|one| one.hook.hook_type() == hook_type).map(|one| one.hook.clone()).collect()
    }

    /// Fire one hook type: one result for each hook, in the order in which they were called.
    pub async fn execute_hooks(&self, hook_type: HookType, context: &HookContext) -> Result<Vec<HookResult>> {
        if let Err(error) = self.activate_all(hook_type).await {
            let refused = if hook_type.is_gate() { HookResult::stop } else { HookResult::error };
            return Ok(vec![refused(error.to_string())]);
        }
        let options = FireOptions { envelope: envelope_of(&context.metadata), ..FireOptions::default() };
        let decision = self.session.fire_async(hook_type.as_str(), context.data.clone(), options).await;
        let rendered = decision.rendered().as_array();
        let whole = rendered.and_then(|list| list.iter().map(HookResult::read).collect::<Option<Vec<HookResult>>>());
        if !hook_type.is_gate() {
            return Ok(whole.unwrap_or_else(|| vec![HookResult::error(decision.explanation())]));
        }
        let mut results = match whole {
            Some(results) => results,
            None => return Ok(vec![HookResult::stop(decision.explanation())]),
        };
        // The decision and its rendering are one answer; if they differ, the stricter one counts.
        if !decision.is_allowed() && results.iter().all(|result| result.should_continue) {
            results.push(HookResult::stop(decision.explanation()));
        }
        Ok(results)
    }

    pub async fn clear(&self) {
        let ids: Vec<String> = lock(&self.hooks).iter().map(|one| one.id.clone()).collect();
        for id in ids {
            // One that the daemon still has is still called, so it stays in the list.
            if self.session.unregister_async(&id).await.is_ok() {
                lock(&self.hooks).retain(|one| one.id != id);
            }
        }
    }

    pub async fn count(&self) -> usize {
        lock(&self.hooks).len()
    }

    fn ids_of(&self, name: &str) -> Vec<String> {
        lock(&self.hooks).iter().filter(|one| one.hook.name() == name).map(|one| one.id.clone()).collect()
    }

    async fn activate_all(&self, hook_type: HookType) -> Result<()> {
        let missing: Vec<String> = {
            let hooks = lock(&self.hooks);
            let wanted = hooks.iter().filter(|one| one.hook.hook_type() == hook_type && !one.is_active);
            wanted.map(|one| one.id.clone()).collect()
        };
        for id in missing {
            self.activate(&id).await?;
        }
        Ok(())
    }

    async fn activate(&self, id: &str) -> Result<()> {
        let hook = lock(&self.hooks).iter().find(|one| one.id == id).map(|one| one.hook.clone());
        let hook = hook.ok_or_else(|| HookError::NotFound(id.to_string()))?;
        let wire = json!({"name": id, "type": hook.hook_type().as_str(), "priority": hook.priority().value(),
            "served": true});
        self.session.register(id, wire, Some(self.served(hook))).await?;
        if let Some(one) = lock(&self.hooks).iter_mut().find(|one| one.id == id) {
            one.is_active = true;
        }
        Ok(())
    }

    fn served(&self, hook: Arc<dyn Hook>) -> Served {
        let runner = self.runner.clone();
        Arc::new(move |payload: &Value, call: &Value| {
            let kind = hook.hook_type().as_str();
            let context = HookContext::with_metadata(kind, payload.clone(), call["envelope"].clone());
            let result = match &runner {
                None => block_on(hook.execute(&context)),
                Some(run) => {
                    let found = Mutex::new(Err(HookError::ExecutionFailed("the runner did not run it".to_string())));
                    run(Box::pin(async {
                        let result = hook.execute(&context).await;
                        *lock(&found) = result;
                    }));
                    let result = lock(&found).clone();
                    result
                }
            };
            result.map(HookResult::write).map_err(|error| error.to_string())
        })
    }
}

fn envelope_of(metadata: &Value) -> Option<Value> {
    let is_empty = metadata.as_object().map_or(true, |members| members.is_empty());
    if is_empty {
        None
    } else {
        Some(json!({"metadata": metadata.clone()}))
    }
}
