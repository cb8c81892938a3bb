//! What Radium's orchestrator calls around models and tools, over the registry.  A gate that is stopped is an error here,
//! so that an orchestrator that goes on with `?` cannot go on.

use super::contexts::{ErrorHookContext, ModelHookContext, TelemetryHookContext, ToolHookContext};
use super::registry::HookRegistry;
use super::types::{HookContext, HookError, HookResult, HookType, Result};
use crate::json::Value;
use std::sync::Arc;

/// Fires the types of a registry as an orchestrator needs them: what was made of an input, of arguments, of an error.
///
/// A stop on a gate is an `Err`, or `false` for the selection of a tool. Elsewhere it ends the chain of hooks, and what
/// they have changed so far counts, as in Radium.
#[derive(Debug, Clone)]
pub struct OrchestratorHooks {
    /// The registry whose hooks are called.
    pub registry: Arc<HookRegistry>,
}

impl OrchestratorHooks {
    /// Fire the types of this registry.
    #[must_use]
    pub fn new(registry: Arc<HookRegistry>) -> OrchestratorHooks {
        OrchestratorHooks { registry }
    }

    /// Return the input to send, and what hooks want changed of the request.
    ///
    /// # Errors
    ///
    /// A guard has stopped the call, or could not be asked.
    pub async fn before_model_call(&self, input: &str, model_id: &str) -> Result<(String, Option<Value>)> {
        let context = ModelHookContext::before(input.to_string(), model_id.to_string());
        let results = self.passed(HookType::BeforeModel, &context.to_hook_context(HookType::BeforeModel)).await?;
        let changed = newest(&results, "modified_input").and_then(|value| value.as_str().map(str::to_string));
        Ok((changed.unwrap_or_else(|| input.to_string()), newest(&results, "request_modifications")))
    }

    /// Return the answer to go on with.
    ///
    /// # Errors
    ///
    /// None; Radium's signature has one.
    pub async fn after_model_call(&self, input: &str, model_id: &str, response: &str) -> Result<String> {
        let context = ModelHookContext::after(input.to_string(), model_id.to_string(), response.to_string());
        let results = self.results(HookType::AfterModel, &context.to_hook_context(HookType::AfterModel)).await?;
        let changed = newest(&results, "response").and_then(|value| value.as_str().map(str::to_string));
        Ok(changed.unwrap_or_else(|| response.to_string()))
    }

    /// Return the arguments to call the tool with.
    ///
    /// # Errors
    ///
    /// A guard has stopped the call, or could not be asked: the tool must not run.
    pub async fn before_tool_execution(&self, tool_name: &str, arguments: &Value) -> Result<Value> {
        let context = ToolHookContext::before(tool_name.to_string(), arguments.clone());
        let results = self.passed(HookType::BeforeTool, &context.to_hook_context(HookType::BeforeTool)).await?;
        Ok(newest(&results, "modified_arguments").unwrap_or_else(|| arguments.clone()))
    }

    /// Return the result to give to the model.
    ///
    /// # Errors
    ///
    /// None; Radium's signature has one.
    pub async fn after_tool_execution(&self, tool_name: &str, arguments: &Value, result: &Value) -> Result<Value> {
        let context = ToolHookContext::after(tool_name.to_string(), arguments.clone(), result.clone());
        let results = self.results(HookType::AfterTool, &context.to_hook_context(HookType::AfterTool)).await?;
        Ok(newest(&results, "modified_result").unwrap_or_else(|| result.clone()))
    }

    /// Return whether the tool may be chosen.
    ///
    /// # Errors
    ///
    /// None; Radium's signature has one.
    pub async fn tool_selection(&self, tool_name: &str, arguments: &Value) -> Result<bool> {
        let context = ToolHookContext::selection(tool_name.to_string(), arguments.clone());
        let results = self.results(HookType::ToolSelection, &context.to_hook_context(HookType::ToolSelection)).await?;
        Ok(results.iter().all(|result| result.should_continue))
    }

    /// Return why the error is kept from going on, if a hook says so.
    ///
    /// # Errors
    ///
    /// None; Radium's signature has one.
    pub async fn error_interception(
        &self,
        error_message: &str,
        error_type: &str,
        error_source: Option<&str>,
    ) -> Result<Option<String>> {
        let results = self.failed(HookType::ErrorInterception, error_message, error_type, error_source).await?;
        Ok(results.iter().find(|result| !result.should_continue).map(|result| reason_of(result).to_string()))
    }

    /// Return the message to show instead, if a hook gives one.
    ///
    /// # Errors
    ///
    /// None; Radium's signature has one.
    pub async fn error_transformation(
        &self,
        error_message: &str,
        error_type: &str,
        error_source: Option<&str>,
    ) -> Result<Option<String>> {
        let results = self.failed(HookType::ErrorTransformation, error_message, error_type, error_source).await?;
        Ok(given(&results, "transformed_error"))
    }

    /// Return what a hook has made good, if any has.
    ///
    /// # Errors
    ///
    /// None; Radium's signature has one.
    pub async fn error_recovery(
        &self,
        error_message: &str,
        error_type: &str,
        error_source: Option<&str>,
    ) -> Result<Option<String>> {
        let results = self.failed(HookType::ErrorRecovery, error_message, error_type, error_source).await?;
        Ok(given(&results, "recovered_error"))
    }

    /// Tell the hooks of telemetry. What they answer is ignored, as in Radium.
    ///
    /// # Errors
    ///
    /// None; Radium's signature has one.
    pub async fn telemetry_collection(&self, event_type: &str, data: &Value) -> Result<()> {
        let hook_type = HookType::TelemetryCollection;
        let context = TelemetryHookContext::new(event_type, data.clone()).to_hook_context(hook_type);
        self.results(hook_type, &context).await.map(|_| ())
    }

    async fn failed(
        &self,
        hook_type: HookType,
        error_message: &str,
        error_type: &str,
        error_source: Option<&str>,
    ) -> Result<Vec<HookResult>> {
        let source = error_source.map(str::to_string);
        let context = ErrorHookContext::new(error_message.to_string(), error_type.to_string(), source);
        self.results(hook_type, &context.to_hook_context(hook_type)).await
    }

    async fn results(&self, hook_type: HookType, context: &HookContext) -> Result<Vec<HookResult>> {
        self.registry.execute_hooks(hook_type, context).await
    }

    async fn passed(&self, hook_type: HookType, context: &HookContext) -> Result<Vec<HookResult>> {
        let results = self.results(hook_type, context).await?;
        match results.iter().find(|result| !result.should_continue) {
            Some(stop) => Err(HookError::ExecutionFailed(reason_of(stop).to_string())),
            None => Ok(results),
        }
    }
}

pub(super) fn reason_of(result: &HookResult) -> &str {
    result.message.as_deref().unwrap_or("a hook stopped it")
}

/// Return what the last hook that changed a key made of it.
fn newest(results: &[HookResult], key: &str) -> Option<Value> {
    let mut changes = results.iter().rev().filter_map(|result| result.modified_data.as_ref());
    changes.find_map(|data| data.get(key).filter(|value| !value.is_null()).cloned())
}

/// Return the text of the first hook that gives one under a key, or as the message beside its data.
pub(super) fn given(results: &[HookResult], key: &str) -> Option<String> {
    results.iter().find_map(|result| {
        let text = result.modified_data.as_ref()?.get(key).and_then(Value::as_str).map(str::to_string);
        text.or_else(|| result.message.clone())
    })
}
