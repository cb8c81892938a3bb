//! Radium's typed hooks: each with a context of its own, and an adapter that makes a `Hook` of it for the registry.

use super::{Hook, HookContext, HookFuture, HookPriority, HookType};
use crate::json;
use crate::json::Value;
use std::sync::Arc;

fn text(data: &Value, key: &str) -> String {
    data[key].as_str().unwrap_or_default().to_string()
}

fn given(data: &Value, key: &str) -> Option<Value> {
    data.get(key).cloned()
}

fn given_text(data: &Value, key: &str) -> Option<String> {
    data[key].as_str().map(str::to_string)
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelHookContext {
    pub input: String,
    pub model_id: String,
    pub request_modifications: Option<Value>,
    pub response: Option<String>,
    pub modified_input: Option<String>,
}

impl ModelHookContext {
    pub fn before(input: String, model_id: String) -> ModelHookContext {
        ModelHookContext { input, model_id, request_modifications: None, response: None, modified_input: None }
    }

    pub fn after(input: String, model_id: String, response: String) -> ModelHookContext {
        ModelHookContext { response: Some(response), ..ModelHookContext::before(input, model_id) }
    }

    pub fn to_hook_context(&self, hook_type: HookType) -> HookContext {
        let data = json!({"input": self.input.clone(), "model_id": self.model_id.clone()});
        let response = self.response.clone().map(Value::from);
        let modified_input = self.modified_input.clone().map(Value::from);
        let more = [
            ("request_modifications", self.request_modifications.clone()),
            ("response", response),
            ("modified_input", modified_input),
        ];
        HookContext::new(hook_type.as_str(), with(data, more))
    }

    fn read(data: &Value) -> ModelHookContext {
        ModelHookContext {
            input: text(data, "input"),
            model_id: text(data, "model_id"),
            request_modifications: given(data, "request_modifications"),
            response: given_text(data, "response"),
            modified_input: given_text(data, "modified_input"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolHookContext {
    pub tool_name: String,
    pub arguments: Value,
    pub result: Option<Value>,
    pub modified_arguments: Option<Value>,
    pub modified_result: Option<Value>,
}

impl ToolHookContext {
    pub fn before(tool_name: String, arguments: Value) -> ToolHookContext {
        ToolHookContext { tool_name, arguments, result: None, modified_arguments: None, modified_result: None }
    }

    pub fn after(tool_name: String, arguments: Value, result: Value) -> ToolHookContext {
        ToolHookContext { result: Some(result), ..ToolHookContext::before(tool_name, arguments) }
    }

    pub fn selection(tool_name: String, arguments: Value) -> ToolHookContext {
        ToolHookContext::before(tool_name, arguments)
    }

    pub fn to_hook_context(&self, hook_type: HookType) -> HookContext {
        let data = json!({"tool_name": self.tool_name.clone(), "arguments": self.arguments.clone()});
        let more = [
            ("result", self.result.clone()),
            ("modified_arguments", self.modified_arguments.clone()),
            ("modified_result", self.modified_result.clone()),
        ];
        HookContext::new(hook_type.as_str(), with(data, more))
    }

    fn read(data: &Value) -> ToolHookContext {
        ToolHookContext {
            tool_name: text(data, "tool_name"),
            arguments: data["arguments"].clone(),
            result: given(data, "result"),
            modified_arguments: given(data, "modified_arguments"),
            modified_result: given(data, "modified_result"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ErrorHookContext {
    pub error_message: String,
    pub error_type: String,
    pub error_source: Option<String>,
    pub recovered: bool,
}

impl ErrorHookContext {
    pub fn new(error_message: String, error_type: String, error_source: Option<String>) -> ErrorHookContext {
        ErrorHookContext { error_message, error_type, error_source, recovered: false }
    }

    pub fn to_hook_context(&self, hook_type: HookType) -> HookContext {
        let data = json!({"error_message": self.error_message.clone(), "error_type": self.error_type.clone()});
        let more = [("error_source", self.error_source.clone().map(Value::from))];
        HookContext::new(hook_type.as_str(), with(data, more))
    }

    fn read(data: &Value) -> ErrorHookContext {
        let source = given_text(data, "error_source");
        ErrorHookContext::new(text(data, "error_message"), text(data, "error_type"), source)
    }
}

/// Add what is given: a key that is not there and one that is null are not the same to a guard.
fn with<const N: usize>(mut data: Value, more: [(&str, Option<Value>); N]) -> Value {
    if let Some(members) = data.as_object_mut() {
        members.extend(more.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))));
    }
    data
}

/// Declares a typed hook with one asynchronous method for each hook type, as `#[async_trait]` writes them, and its
/// adapter with one constructor for each.
macro_rules! typed_hook {
    ($(#[$about:meta])* $hook:ident, $adapter:ident, $context:ident:
        $($make:ident => $method:ident as $type:ident),+ $(,)?) => {
        $(#[$about])*
        pub trait $hook: Send + Sync {
            fn name(&self) -> &str;
            fn priority(&self) -> HookPriority;
            $(
                fn $method<'life0, 'life1, 'async_trait>(
                    &'life0 self,
                    context: &'life1 $context,
                ) -> HookFuture<'async_trait>
                where
                    'life0: 'async_trait,
                    'life1: 'async_trait,
                    Self: 'async_trait;
            )+
        }

        /// Makes a `Hook` of it, one for each type that it is to be called for.
        pub struct $adapter {
            hook: Arc<dyn $hook>,
            hook_type: HookType,
        }

        impl $adapter {
            $(
                pub fn $make(hook: Arc<dyn $hook>) -> Arc<dyn Hook> {
                    Arc::new($adapter { hook, hook_type: HookType::$type })
                }
            )+
        }

        impl Hook for $adapter {
            fn name(&self) -> &str {
                self.hook.name()
            }

            fn priority(&self) -> HookPriority {
                self.hook.priority()
            }

            fn hook_type(&self) -> HookType {
                self.hook_type
            }

            fn execute<'life0, 'life1, 'async_trait>(
                &'life0 self,
                context: &'life1 HookContext,
            ) -> HookFuture<'async_trait>
            where
                'life0: 'async_trait,
                'life1: 'async_trait,
                Self: 'async_trait,
            {
                Box::pin(async move {
                    let context = $context::read(&context.data);
                    match self.hook_type {
                        $(HookType::$type => self.hook.$method(&context).await,)+
                        other => unreachable!("no constructor makes an adapter for {}", other.as_str()),
                    }
                })
            }
        }
    };
}

typed_hook!(
    /// Is called around a call of a model.
    ModelHook, ModelHookAdapter, ModelHookContext:
    before => before_model_call as BeforeModel,
    after => after_model_call as AfterModel,
);

typed_hook!(
    /// Is called around a call of a tool, and when tools are chosen.
    ToolHook, ToolHookAdapter, ToolHookContext:
    before => before_tool_execution as BeforeTool,
    after => after_tool_execution as AfterTool,
    selection => tool_selection as ToolSelection,
);

typed_hook!(
    /// Is called when something has failed.
    ErrorHook, ErrorHookAdapter, ErrorHookContext:
    interception => error_interception as ErrorInterception,
    transformation => error_transformation as ErrorTransformation,
    recovery => error_recovery as ErrorRecovery,
    logging => error_logging as ErrorLogging,
);
