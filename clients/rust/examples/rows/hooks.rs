//! Hooks that do what a command says, and keep what they were called with.

use super::values::written;
use hooklatch::radium::{
    ErrorHook, ErrorHookContext, Hook, HookContext, HookError, HookFuture, HookPriority, HookResult, HookType,
    ModelHook, ModelHookContext, ToolHook, ToolHookContext,
};
use hooklatch::{json, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What hooks were called with.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<Value>>>);

impl Calls {
    pub fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, call: Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

pub struct Doing {
    pub name: String,
    pub priority: HookPriority,
    pub hook_type: HookType,
    pub does: Value,
    pub calls: Calls,
}

impl Doing {
    fn judged(&self, data: &Value) -> Result<HookResult, HookError> {
        let does = &self.does;
        if let Some(text) = does["raise"].as_str() {
            return Err(HookError::ExecutionFailed(text.to_string()));
        }
        if let Some(text) = does["panic"].as_str() {
            panic!("{text}");
        }
        if let Some(text) = does["stop"].as_str() {
            return Ok(HookResult::stop(text));
        }
        if let Some(text) = does["error"].as_str() {
            return Ok(HookResult::error(text));
        }
        if let Some(data) = does.get("data") {
            return Ok(HookResult::with_data(data.clone()));
        }
        if let Some(key) = does["echo"].as_str() {
            let members = [(format!("modified_{key}"), data[key].clone())];
            return Ok(HookResult::with_data(Value::Object(members.into_iter().collect())));
        }
        if let Some(length) = does["park"].as_u64() {
            thread::park_timeout(Duration::from_millis(length));
        }
        let result = &does["result"];
        Ok(HookResult {
            success: result["success"].as_bool().unwrap_or(true),
            message: result["message"].as_str().map(str::to_string),
            modified_data: result.get("modified_data").filter(|data| !data.is_null()).cloned(),
            should_continue: result["should_continue"].as_bool().unwrap_or(true),
        })
    }

    fn typed(&self, method: &str, data: Value) -> Result<HookResult, HookError> {
        self.calls.keep(json!({"hook": self.name.clone(), "method": method, "data": written(&data)}));
        self.judged(&data)
    }
}

impl Hook for Doing {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> HookPriority {
        self.priority
    }

    fn hook_type(&self) -> HookType {
        self.hook_type
    }

    fn execute<'life0, 'life1, 'async_trait>(&'life0 self, context: &'life1 HookContext) -> HookFuture<'async_trait>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            self.calls.keep(json!({"hook": self.name.clone(), "type": context.hook_type.clone(),
                "data": written(&context.data), "metadata": written(&context.metadata)}));
            self.judged(&context.data)
        })
    }
}

macro_rules! typed {
    ($hook:ident, $context:ident, |$given:ident| $data:expr, $($method:ident),+) => {
        impl $hook for Doing {
            fn name(&self) -> &str {
                &self.name
            }

            fn priority(&self) -> HookPriority {
                self.priority
            }

            $(
                fn $method<'life0, 'life1, 'async_trait>(
                    &'life0 self,
                    $given: &'life1 $context,
                ) -> HookFuture<'async_trait>
                where
                    'life0: 'async_trait,
                    'life1: 'async_trait,
                    Self: 'async_trait,
                {
                    let data = $data;
                    Box::pin(async move { self.typed(stringify!($method), data) })
                }
            )+
        }
    };
}

typed!(
    ModelHook,
    ModelHookContext,
    |context| json!({"input": context.input.clone(), "model_id": context.model_id.clone(),
        "response": context.response.clone()}),
    before_model_call,
    after_model_call
);
typed!(
    ToolHook,
    ToolHookContext,
    |context| json!({"tool_name": context.tool_name.clone(), "arguments": context.arguments.clone(),
        "result": context.result.clone()}),
    before_tool_execution,
    after_tool_execution,
    tool_selection
);
typed!(
    ErrorHook,
    ErrorHookContext,
    |context| json!({"error_message": context.error_message.clone(), "error_type": context.error_type.clone(),
        "error_source": context.error_source.clone(), "recovered": context.recovered}),
    error_interception,
    error_transformation,
    error_recovery,
    error_logging
);
