//! Radium's own types: errors, priorities, contexts, results and the thirteen types of hooks.

use crate::error::Error;
use crate::json;
use crate::json::Value;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

/// What Radium's hooks and its registry return.
pub type Result<T> = std::result::Result<T, HookError>;

/// What `#[async_trait]` makes of an async method's result.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<HookResult>> + Send + 'a>>;

/// Runs a future to its end, for hooks that need a runtime: `Arc::new(move |future| handle.block_on(future))`.
pub type Runner = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send + '_>>) + Send + Sync>;

/// What can go wrong with a hook.
#[derive(Debug, Clone, PartialEq)]
pub enum HookError {
    /// No hook has this name.
    NotFound(String),
    /// The hook could not do its work; on a gate that is a stop.
    ExecutionFailed(String),
    /// The daemon refused it, or there is none: it is not registered.
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

/// Hooks with a higher priority are called first; 100 by default.
///
/// The daemon's own range ends at 1000. What is above is sent as 1000, or as less where that keeps the order of this
/// registry's hooks: those of one type are always called in the order of their priorities, and of their registration
/// where these are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookPriority(
    /// The number, of any size.
    pub u32,
);

impl Default for HookPriority {
    fn default() -> HookPriority {
        HookPriority(100)
    }
}

impl HookPriority {
    /// The priority of that number.
    #[must_use]
    pub fn new(priority: u32) -> HookPriority {
        HookPriority(priority)
    }

    /// Its number.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0
    }
}

/// What a hook is called with.
#[derive(Debug, Clone)]
pub struct HookContext {
    /// The type, as [`HookType::as_str`] writes it.
    pub hook_type: String,
    /// What is about to happen, or has happened: an object with the type's keys.
    pub data: Value,
    /// What the host says besides, exactly as it was given.
    pub metadata: Value,
}

impl HookContext {
    /// A context without metadata.
    pub fn new(hook_type: impl Into<String>, data: Value) -> HookContext {
        HookContext::with_metadata(hook_type, data, json!({}))
    }

    /// A context with metadata, which hooks of this process get as it is, and other hooks as `metadata` of the envelope.
    pub fn with_metadata(hook_type: impl Into<String>, data: Value, metadata: Value) -> HookContext {
        HookContext { hook_type: hook_type.into(), data, metadata }
    }
}

/// What one hook answered.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a result may be a stop"]
pub struct HookResult {
    /// Whether the hook could do its work.
    pub success: bool,
    /// What it has to tell.
    pub message: Option<String>,
    /// What it changed, by the type's keys.
    pub modified_data: Option<Value>,
    /// False for a stop: on a gate the action must not happen; elsewhere no further hook is called.
    pub should_continue: bool,
}

impl Default for HookResult {
    fn default() -> HookResult {
        HookResult { success: true, message: None, modified_data: None, should_continue: true }
    }
}

impl HookResult {
    /// Go on, and change nothing.
    pub fn success() -> HookResult {
        HookResult::default()
    }

    /// Go on with these changes.
    pub fn with_data(data: Value) -> HookResult {
        HookResult { modified_data: Some(data), ..HookResult::default() }
    }

    /// Stop, and say why.
    pub fn stop(message: impl Into<String>) -> HookResult {
        HookResult { should_continue: false, ..HookResult::error(message) }
    }

    /// Report an error and go on; on a gate that is a stop.
    pub fn error(message: impl Into<String>) -> HookResult {
        HookResult { success: false, message: Some(message.into()), ..HookResult::default() }
    }

    pub(super) fn read(wire: &Value) -> Option<HookResult> {
        let message = wire.at("message");
        let data = wire.at("modified_data");
        if !(message.is_null() || message.is_string()) || !(data.is_null() || data.is_object()) {
            return None;
        }
        Some(HookResult {
            success: wire.at("success").as_bool()?,
            message: message.as_str().map(str::to_string),
            modified_data: Some(data.clone()).filter(|data| !data.is_null()),
            should_continue: wire.at("should_continue").as_bool()?,
        })
    }
}

/// When a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookType {
    /// Before a model is called: a gate. Data: `input`, `model_id`; a hook changes `modified_input`, `request_modifications`.
    BeforeModel,
    /// After a model has answered. Data: `response` too; a hook changes `response`.
    AfterModel,
    /// Before a tool runs: a gate. Data: `tool_name`, `arguments`; a hook changes `modified_arguments`.
    BeforeTool,
    /// After a tool has run. Data: `result` too; a hook changes `modified_result`.
    AfterTool,
    /// When the model has chosen a tool: a gate.
    ToolSelection,
    /// When something has failed: a stop keeps the error from going on. Data: `error_message`, `error_type`,
    /// `error_source`, `error_data`.
    ErrorInterception,
    /// The same, to show another message: `transformed_error`.
    ErrorTransformation,
    /// The same, to make it good: `recovered_error`.
    ErrorRecovery,
    /// The same, to log it.
    ErrorLogging,
    /// When there is telemetry. Data of this and the following: `event_type`, `data`, `metadata`.
    TelemetryCollection,
    /// When there is something to log.
    CustomLogging,
    /// When there are metrics.
    MetricsAggregation,
    /// When there are timings.
    PerformanceMonitoring,
}

impl HookType {
    /// All types, in Radium's order.
    pub const ALL: [HookType; 13] = [
        HookType::BeforeModel,
        HookType::AfterModel,
        HookType::BeforeTool,
        HookType::AfterTool,
        HookType::ToolSelection,
        HookType::ErrorInterception,
        HookType::ErrorTransformation,
        HookType::ErrorRecovery,
        HookType::ErrorLogging,
        HookType::TelemetryCollection,
        HookType::CustomLogging,
        HookType::MetricsAggregation,
        HookType::PerformanceMonitoring,
    ];

    /// The type's name in configurations and contexts.
    #[must_use]
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

    pub(super) fn is_gate(self) -> bool {
        matches!(self, HookType::BeforeModel | HookType::BeforeTool | HookType::ToolSelection)
    }

    pub(super) fn is_of_telemetry(self) -> bool {
        use HookType::{CustomLogging, MetricsAggregation, PerformanceMonitoring, TelemetryCollection};
        matches!(self, TelemetryCollection | CustomLogging | MetricsAggregation | PerformanceMonitoring)
    }

    /// What a hook of this type can change, as the keys of its result, each with the key of the data that it changes.
    pub(super) fn changes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            HookType::BeforeModel => &[("modified_input", "input"), ("request_modifications", "request_modifications")],
            HookType::AfterModel => &[("response", "response")],
            HookType::BeforeTool => &[("modified_arguments", "arguments")],
            HookType::AfterTool => &[("modified_result", "result")],
            HookType::ErrorTransformation => &[("transformed_error", "error_message")],
            HookType::ErrorRecovery => &[("recovered_error", "error_message")],
            _ => &[],
        }
    }
}

impl AsRef<str> for HookType {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for HookType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for HookType {
    type Err = HookError;

    fn from_str(name: &str) -> Result<HookType> {
        let found = HookType::ALL.into_iter().find(|known| known.as_str() == name);
        found.ok_or_else(|| HookError::NotFound(name.to_string()))
    }
}

/// A hook; `#[async_trait]` on an implementation gives `execute` this form.
pub trait Hook: Send + Sync {
    /// Its name, one line of at most 200 characters. Several hooks may share one, and are switched and taken off together.
    fn name(&self) -> &str;

    /// Its priority; asked once, when it is registered.
    fn priority(&self) -> HookPriority;

    /// When it is called; asked once, when it is registered.
    fn hook_type(&self) -> HookType;

    /// Look at what is about to happen, or has happened.
    ///
    /// # Errors
    ///
    /// It could not do its work: a stop on a gate, a failed result elsewhere. A panic is the same.
    fn execute<'life0, 'life1, 'async_trait>(&'life0 self, context: &'life1 HookContext) -> HookFuture<'async_trait>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait;
}
