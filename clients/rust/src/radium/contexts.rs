//! Radium's typed contexts: what a hook of each kind is called with, and the untyped context that they become.

use super::types::{HookContext, HookError, HookType, Result};
use crate::json;
use crate::json::Value;

/// When a hook around a model is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelHookType {
    /// Before the call.
    Before,
    /// After the answer.
    After,
}

/// When a hook around a tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolHookType {
    /// Before it runs.
    Before,
    /// After it has run.
    After,
    /// When it is chosen.
    Selection,
}

/// When a hook on an error is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorHookType {
    /// To keep the error from going on.
    Interception,
    /// To show another message.
    Transformation,
    /// To make it good.
    Recovery,
    /// To log it.
    Logging,
}

impl From<ModelHookType> for HookType {
    fn from(hook_type: ModelHookType) -> HookType {
        match hook_type {
            ModelHookType::Before => HookType::BeforeModel,
            ModelHookType::After => HookType::AfterModel,
        }
    }
}

impl From<ToolHookType> for HookType {
    fn from(hook_type: ToolHookType) -> HookType {
        match hook_type {
            ToolHookType::Before => HookType::BeforeTool,
            ToolHookType::After => HookType::AfterTool,
            ToolHookType::Selection => HookType::ToolSelection,
        }
    }
}

impl From<ErrorHookType> for HookType {
    fn from(hook_type: ErrorHookType) -> HookType {
        match hook_type {
            ErrorHookType::Interception => HookType::ErrorInterception,
            ErrorHookType::Transformation => HookType::ErrorTransformation,
            ErrorHookType::Recovery => HookType::ErrorRecovery,
            ErrorHookType::Logging => HookType::ErrorLogging,
        }
    }
}

/// What is known around a call of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelHookContext {
    /// The prompt.
    pub input: String,
    /// The model.
    pub model_id: String,
    /// What is wanted changed of the request.
    pub request_modifications: Option<Value>,
    /// The answer, after the call.
    pub response: Option<String>,
    /// The prompt that is to be sent instead.
    pub modified_input: Option<String>,
}

impl ModelHookContext {
    /// A context for before the call.
    #[must_use]
    pub fn before(input: String, model_id: String) -> ModelHookContext {
        ModelHookContext { input, model_id, request_modifications: None, response: None, modified_input: None }
    }

    /// A context for after the answer.
    #[must_use]
    pub fn after(input: String, model_id: String, response: String) -> ModelHookContext {
        ModelHookContext { response: Some(response), ..ModelHookContext::before(input, model_id) }
    }

    /// The untyped context; what is `None` is not in its data.
    #[must_use]
    pub fn to_hook_context(&self, hook_type: impl Into<HookType>) -> HookContext {
        let data = json!({"input": self.input.clone(), "model_id": self.model_id.clone()});
        let more = [
            ("request_modifications", self.request_modifications.clone()),
            ("response", self.response.clone().map(Value::from)),
            ("modified_input", self.modified_input.clone().map(Value::from)),
        ];
        HookContext::new(hook_type.into().as_str(), with(data, more))
    }

    /// Read it. A fire of another program may not name the model, nor repeat the prompt after the answer.
    pub(super) fn read(hook_type: HookType, data: &Value) -> Result<ModelHookContext> {
        let data = Data::of(hook_type, data)?;
        let (input, response) = match hook_type {
            HookType::BeforeModel => (data.text("input")?, data.maybe_text("response")?),
            _ => (data.maybe_text("input")?.unwrap_or_default(), Some(data.text("response")?)),
        };
        Ok(ModelHookContext {
            input,
            model_id: data.maybe_text("model_id")?.unwrap_or_default(),
            request_modifications: data.maybe("request_modifications"),
            response,
            modified_input: data.maybe_text("modified_input")?,
        })
    }
}

/// What is known around a call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolHookContext {
    /// The tool.
    pub tool_name: String,
    /// What it is called with.
    pub arguments: Value,
    /// What came of it, after the call.
    pub result: Option<Value>,
    /// What it is to be called with instead.
    pub modified_arguments: Option<Value>,
    /// What is to be given to the model instead.
    pub modified_result: Option<Value>,
}

impl ToolHookContext {
    /// A context for before the call.
    #[must_use]
    pub fn before(tool_name: String, arguments: Value) -> ToolHookContext {
        ToolHookContext { tool_name, arguments, result: None, modified_arguments: None, modified_result: None }
    }

    /// A context for after the call.
    #[must_use]
    pub fn after(tool_name: String, arguments: Value, result: Value) -> ToolHookContext {
        ToolHookContext { result: Some(result), ..ToolHookContext::before(tool_name, arguments) }
    }

    /// A context for when the tool is chosen.
    #[must_use]
    pub fn selection(tool_name: String, arguments: Value) -> ToolHookContext {
        ToolHookContext::before(tool_name, arguments)
    }

    /// The untyped context; what is `None` is not in its data.
    #[must_use]
    pub fn to_hook_context(&self, hook_type: impl Into<HookType>) -> HookContext {
        let data = json!({"tool_name": self.tool_name.clone(), "arguments": self.arguments.clone()});
        let more = [
            ("result", self.result.clone()),
            ("modified_arguments", self.modified_arguments.clone()),
            ("modified_result", self.modified_result.clone()),
        ];
        HookContext::new(hook_type.into().as_str(), with(data, more))
    }

    /// Read it; a hook that is not told what the tool is called with cannot judge that.
    pub(super) fn read(hook_type: HookType, data: &Value) -> Result<ToolHookContext> {
        let data = Data::of(hook_type, data)?;
        let arguments = match data.maybe("arguments") {
            None if hook_type == HookType::BeforeTool => return Err(data.missing("arguments")),
            arguments => arguments.unwrap_or_default(),
        };
        Ok(ToolHookContext {
            tool_name: data.text("tool_name")?,
            arguments,
            result: data.maybe("result"),
            modified_arguments: data.maybe("modified_arguments"),
            modified_result: data.maybe("modified_result"),
        })
    }
}

/// What is known of an error.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorHookContext {
    /// What it says.
    pub error_message: String,
    /// Its kind, such as `rate_limit`.
    pub error_type: String,
    /// Where it comes from.
    pub error_source: Option<String>,
    /// Whether it is made good already.
    pub recovered: bool,
}

impl ErrorHookContext {
    /// A context of an error that is not made good.
    #[must_use]
    pub fn new(error_message: String, error_type: String, error_source: Option<String>) -> ErrorHookContext {
        ErrorHookContext { error_message, error_type, error_source, recovered: false }
    }

    /// The same, by Radium's name for an interception.
    #[must_use]
    pub fn interception(error_message: String, error_type: String, error_source: Option<String>) -> ErrorHookContext {
        ErrorHookContext::new(error_message, error_type, error_source)
    }

    /// The same, by Radium's name for a transformation.
    #[must_use]
    pub fn transformation(error_message: String, error_type: String, error_source: Option<String>) -> ErrorHookContext {
        ErrorHookContext::new(error_message, error_type, error_source)
    }

    /// The same, by Radium's name for a recovery.
    #[must_use]
    pub fn recovery(error_message: String, error_type: String, error_source: Option<String>) -> ErrorHookContext {
        ErrorHookContext::new(error_message, error_type, error_source)
    }

    /// The same, by Radium's name for logging.
    #[must_use]
    pub fn logging(error_message: String, error_type: String, error_source: Option<String>) -> ErrorHookContext {
        ErrorHookContext::new(error_message, error_type, error_source)
    }

    /// The untyped context; what is `None` is not in its data.
    #[must_use]
    pub fn to_hook_context(&self, hook_type: impl Into<HookType>) -> HookContext {
        let data = json!({"error_message": self.error_message.clone(), "error_type": self.error_type.clone(),
            "recovered": self.recovered});
        let more = [("error_source", self.error_source.clone().map(Value::from))];
        HookContext::new(hook_type.into().as_str(), with(data, more))
    }

    pub(super) fn read(hook_type: HookType, data: &Value) -> Result<ErrorHookContext> {
        let data = Data::of(hook_type, data)?;
        let recovered = match data.maybe("recovered") {
            None => false,
            Some(recovered) => recovered.as_bool().ok_or_else(|| data.missing("recovered"))?,
        };
        Ok(ErrorHookContext {
            error_message: data.text("error_message")?,
            error_type: data.maybe_text("error_type")?.unwrap_or_default(),
            error_source: data.maybe_text("error_source")?,
            recovered,
        })
    }
}

/// What is told as telemetry.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryHookContext {
    /// What happened.
    pub event_type: String,
    /// The figures, such as `input_tokens` and `estimated_cost`.
    pub data: Value,
    /// What else is to be said of it.
    pub metadata: Option<Value>,
}

impl TelemetryHookContext {
    /// A context without metadata.
    pub fn new(event_type: impl Into<String>, data: Value) -> TelemetryHookContext {
        TelemetryHookContext { event_type: event_type.into(), data, metadata: None }
    }

    /// A context with metadata, as a key of its data.
    pub fn with_metadata(event_type: impl Into<String>, data: Value, metadata: Value) -> TelemetryHookContext {
        TelemetryHookContext { metadata: Some(metadata), ..TelemetryHookContext::new(event_type, data) }
    }

    /// The untyped context, for a type by its name or as a [`HookType`]; what is `None` is not in its data.
    #[must_use]
    pub fn to_hook_context(&self, hook_type: impl AsRef<str>) -> HookContext {
        let data = json!({"event_type": self.event_type.clone(), "data": self.data.clone()});
        HookContext::new(hook_type.as_ref(), with(data, [("metadata", self.metadata.clone())]))
    }
}

/// Add what is given: a key that is not there and one that is null are not the same to a guard.
fn with<const N: usize>(mut data: Value, more: [(&str, Option<Value>); N]) -> Value {
    if let Some(members) = data.as_object_mut() {
        members.extend(more.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))));
    }
    data
}

/// The data of a type, read by key: what is not what it has to be is an error, and not as if it were not there.
struct Data<'a> {
    hook_type: HookType,
    data: &'a Value,
}

impl<'a> Data<'a> {
    fn of(hook_type: HookType, data: &'a Value) -> Result<Data<'a>> {
        if data.is_object() {
            Ok(Data { hook_type, data })
        } else {
            Err(HookError::ExecutionFailed(format!("the data of {hook_type} is no object")))
        }
    }

    fn missing(&self, key: &str) -> HookError {
        HookError::ExecutionFailed(format!("the data of {} has no {key} that can be used", self.hook_type))
    }

    fn maybe(&self, key: &str) -> Option<Value> {
        self.data.get(key).cloned()
    }

    fn maybe_text(&self, key: &str) -> Result<Option<String>> {
        match self.data.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.missing(key)),
        }
    }

    fn text(&self, key: &str) -> Result<String> {
        self.maybe_text(key)?.ok_or_else(|| self.missing(key))
    }
}
