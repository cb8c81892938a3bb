//! What Radium's `AgentExecutor` calls, for an orchestrator that moves here with its own: the trait and its adapter.

use super::contexts::ErrorHookContext;
use super::orchestrator::{given, reason_of};
use super::registry::HookRegistry;
use super::types::{HookContext, HookResult, HookType};
use crate::json;
use crate::json::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What the methods of [`HookExecutor`] return: what `#[async_trait]` makes of an async method.
pub type ExecutorFuture<'a, T> = Pin<Box<dyn Future<Output = std::result::Result<T, String>> + Send + 'a>>;

/// What an agent has put out.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentOutput {
    /// A text.
    Text(String),
    /// Data.
    StructuredData(Value),
    /// A call of a tool.
    ToolCall {
        /// The tool.
        name: String,
        /// What it is to be called with.
        args: Value,
    },
    /// The end.
    Terminate,
}

impl AgentOutput {
    fn to_value(&self) -> Value {
        match self {
            AgentOutput::Text(text) => json!({ "text": text }),
            AgentOutput::StructuredData(data) => data.clone(),
            AgentOutput::ToolCall { name, args } => json!({"tool_call": {"name": name, "args": args.clone()}}),
            AgentOutput::Terminate => json!({"terminate": true}),
        }
    }
}

/// The hooks around an agent's model, as its executor calls them.
///
/// Radium's own trait of this name is in `radium_orchestrator`, which this crate does not depend on. An executor that takes
/// that one needs an `impl` of it that calls this one's methods.
pub trait HookExecutor: Send + Sync {
    /// Fire [`HookType::BeforeModel`]: the call must not happen if a result does not continue.
    ///
    /// # Errors
    ///
    /// None of the adapter's.
    fn execute_before_model<'a>(&'a self, agent_id: &'a str, input: &'a str) -> ExecutorFuture<'a, Vec<HookResult>>;

    /// Fire [`HookType::AfterModel`].
    ///
    /// # Errors
    ///
    /// None of the adapter's.
    fn execute_after_model<'a>(
        &'a self,
        agent_id: &'a str,
        output: &'a AgentOutput,
        success: bool,
    ) -> ExecutorFuture<'a, Vec<HookResult>>;

    /// Fire [`HookType::ErrorInterception`]; return why the error is kept from going on.
    ///
    /// # Errors
    ///
    /// None of the adapter's.
    fn execute_error_interception<'a>(
        &'a self,
        agent_id: &'a str,
        error_message: &'a str,
        error_type: &'a str,
        error_source: Option<&'a str>,
    ) -> ExecutorFuture<'a, Option<String>>;

    /// Fire [`HookType::ErrorTransformation`]; return the message to show instead.
    ///
    /// # Errors
    ///
    /// None of the adapter's.
    fn execute_error_transformation<'a>(
        &'a self,
        agent_id: &'a str,
        error_message: &'a str,
        error_type: &'a str,
        error_source: Option<&'a str>,
    ) -> ExecutorFuture<'a, Option<String>>;

    /// Fire [`HookType::ErrorRecovery`]; return what has been made good.
    ///
    /// # Errors
    ///
    /// None of the adapter's.
    fn execute_error_recovery<'a>(
        &'a self,
        agent_id: &'a str,
        error_message: &'a str,
        error_type: &'a str,
        error_source: Option<&'a str>,
    ) -> ExecutorFuture<'a, Option<String>>;
}

/// A registry as a [`HookExecutor`].
#[derive(Debug, Clone)]
pub struct HookRegistryAdapter {
    registry: Arc<HookRegistry>,
}

impl HookRegistryAdapter {
    /// Call the hooks of this registry.
    #[must_use]
    pub fn new(registry: Arc<HookRegistry>) -> HookRegistryAdapter {
        HookRegistryAdapter { registry }
    }

    async fn fire(&self, hook_type: HookType, data: Value) -> std::result::Result<Vec<HookResult>, String> {
        let context = HookContext::new(hook_type.as_str(), data);
        self.registry.execute_hooks(hook_type, &context).await.map_err(|error| error.to_string())
    }

    async fn fire_error(
        &self,
        hook_type: HookType,
        agent_id: &str,
        error_message: &str,
        error_type: &str,
        error_source: Option<&str>,
    ) -> std::result::Result<Vec<HookResult>, String> {
        let source = error_source.map(str::to_string);
        let context = ErrorHookContext::new(error_message.to_string(), error_type.to_string(), source);
        let mut data = context.to_hook_context(hook_type).data;
        if let Some(members) = data.as_object_mut() {
            members.insert("agent_id".to_string(), Value::from(agent_id));
        }
        self.fire(hook_type, data).await
    }
}

impl HookExecutor for HookRegistryAdapter {
    fn execute_before_model<'a>(&'a self, agent_id: &'a str, input: &'a str) -> ExecutorFuture<'a, Vec<HookResult>> {
        Box::pin(self.fire(HookType::BeforeModel, json!({"agent_id": agent_id, "input": input})))
    }

    fn execute_after_model<'a>(
        &'a self,
        agent_id: &'a str,
        output: &'a AgentOutput,
        success: bool,
    ) -> ExecutorFuture<'a, Vec<HookResult>> {
        let mut data = json!({"agent_id": agent_id, "output": output.to_value(), "success": success});
        if let (AgentOutput::Text(text), Some(members)) = (output, data.as_object_mut()) {
            members.insert("response".to_string(), Value::from(text)); // what typed hooks and guards look at
        }
        Box::pin(self.fire(HookType::AfterModel, data))
    }

    fn execute_error_interception<'a>(
        &'a self,
        agent_id: &'a str,
        error_message: &'a str,
        error_type: &'a str,
        error_source: Option<&'a str>,
    ) -> ExecutorFuture<'a, Option<String>> {
        Box::pin(async move {
            let hook_type = HookType::ErrorInterception;
            let results = self.fire_error(hook_type, agent_id, error_message, error_type, error_source).await?;
            Ok(results.iter().find(|result| !result.should_continue).map(|stop| reason_of(stop).to_string()))
        })
    }

    fn execute_error_transformation<'a>(
        &'a self,
        agent_id: &'a str,
        error_message: &'a str,
        error_type: &'a str,
        error_source: Option<&'a str>,
    ) -> ExecutorFuture<'a, Option<String>> {
        Box::pin(async move {
            let hook_type = HookType::ErrorTransformation;
            let results = self.fire_error(hook_type, agent_id, error_message, error_type, error_source).await?;
            Ok(given(&results, "transformed_error"))
        })
    }

    fn execute_error_recovery<'a>(
        &'a self,
        agent_id: &'a str,
        error_message: &'a str,
        error_type: &'a str,
        error_source: Option<&'a str>,
    ) -> ExecutorFuture<'a, Option<String>> {
        Box::pin(async move {
            let hook_type = HookType::ErrorRecovery;
            let results = self.fire_error(hook_type, agent_id, error_message, error_type, error_source).await?;
            Ok(given(&results, "recovered_error"))
        })
    }
}
