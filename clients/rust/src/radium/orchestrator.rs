//! What Radium's orchestrator calls around models and tools, over the registry.  A gate that is stopped is an error here,
//! so that an orchestrator that goes on with `?` cannot go on.

use super::adapters::{ErrorHookContext, ModelHookContext, ToolHookContext};
use super::{HookContext, HookError, HookRegistry, HookResult, HookType, Result};
use crate::json::Value;
use std::sync::Arc;

pub struct OrchestratorHooks {
    registry: Arc<HookRegistry>,
}

impl OrchestratorHooks {
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

    pub async fn after_model_call(&self, input: &str, model_id: &str, response: &str) -> Result<String> {
        let context = ModelHookContext::after(input.to_string(), model_id.to_string(), response.to_string());
        let results = self.passed(HookType::AfterModel, &context.to_hook_context(HookType::AfterModel)).await?;
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

    pub async fn after_tool_execution(&self, tool_name: &str, arguments: &Value, result: &Value) -> Result<Value> {
        let context = ToolHookContext::after(tool_name.to_string(), arguments.clone(), result.clone());
        let results = self.passed(HookType::AfterTool, &context.to_hook_context(HookType::AfterTool)).await?;
        Ok(newest(&results, "modified_result").unwrap_or_else(|| result.clone()))
    }

    /// Return whether the tool may be chosen.
    pub async fn tool_selection(&self, tool_name: &str, arguments: &Value) -> Result<bool> {
        let context = ToolHookContext::selection(tool_name.to_string(), arguments.clone());
        let results = self.results(HookType::ToolSelection, &context.to_hook_context(HookType::ToolSelection)).await?;
        Ok(results.iter().all(|result| result.should_continue))
    }

    /// Return why the error is kept from going on, if a hook says so.
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
    pub async fn error_transformation(
        &self,
        error_message: &str,
        error_type: &str,
        error_source: Option<&str>,
    ) -> Result<Option<String>> {
        let results = self.failed(HookType::ErrorTransformation, error_message, error_type, error_source).await?;
        Ok(newest(&results, "transformed_error").and_then(|value| value.as_str().map(str::to_string)))
    }

    /// Return what a hook has made good, if any has.
    pub async fn error_recovery(
        &self,
        error_message: &str,
        error_type: &str,
        error_source: Option<&str>,
    ) -> Result<Option<String>> {
        let results = self.failed(HookType::ErrorRecovery, error_message, error_type, error_source).await?;
        Ok(newest(&results, "recovered_error").and_then(|value| value.as_str().map(str::to_string)))
    }

    pub async fn telemetry_collection(&self, event_type: &str, data: &Value) -> Result<()> {
        let told = crate::json!({"event_type": event_type, "data": data.clone()});
        let kind = HookType::TelemetryCollection;
        self.results(kind, &HookContext::new(kind.as_str(), told)).await.map(|_| ())
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

fn reason_of(result: &HookResult) -> &str {
    result.message.as_deref().unwrap_or("a hook stopped it")
}

/// Return what the last hook that said anything of a key made of it: each was shown what those before it had made.
fn newest(results: &[HookResult], key: &str) -> Option<Value> {
    let mut changes = results.iter().rev().filter_map(|result| result.modified_data.as_ref());
    changes.find_map(|data| data.get(key).filter(|value| !value.is_null()).cloned())
}
