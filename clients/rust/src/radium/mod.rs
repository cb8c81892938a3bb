//! Radium's hook registry over a hooklatch session: the same types and methods, so that code written for it moves
//! with its `use` lines alone.
//!
//! A hook is served by this process and called by the daemon, beside the guards that the operator put there. On the
//! gates (before_model, before_tool, tool_selection) whatever is not a whole answer is a stop.
//!
//! - What gave an `Err` when it was registered is not registered. A hook that the daemon refuses later, when it is
//!   connected to again, answers for itself: a stop on its gate, a failed result elsewhere. The others run.
//! - Hooks of one process give and get that process's values: numbers, messages, metadata and keys that hooklatch does not
//!   know. The daemon has a plain copy for the operator's guards and for its record.
//! - A context that JSON cannot say stops a gate, with the path of the key. On other types the hooks of this process are
//!   called with it, and one more, failed result says who was not shown it.
//!
//! ```no_run
//! use hooklatch::json;
//! use hooklatch::radium::{HookContext, HookError, HookRegistry, HookType};
//!
//! # fn main() -> Result<(), HookError> {
//! let registry = HookRegistry::new();
//! let context = HookContext::new("before_tool", json!({"tool_name": "Bash", "arguments": {"command": "ls"}}));
//! let results = hooklatch::block_on(registry.execute_hooks(HookType::BeforeTool, &context))?;
//! let is_refused = results.iter().any(|result| !result.should_continue);
//! # Ok(())
//! # }
//! ```

mod adapters;
mod contexts;
mod executor;
mod fires;
mod orchestrator;
mod registry;
mod results;
mod running;
mod types;

pub use adapters::{ErrorHook, ErrorHookAdapter, ModelHook, ModelHookAdapter, ToolHook, ToolHookAdapter};
pub use contexts::{
    ErrorHookContext, ErrorHookType, ModelHookContext, ModelHookType, TelemetryHookContext, ToolHookContext,
    ToolHookType,
};
pub use executor::{AgentOutput, ExecutorFuture, HookExecutor, HookRegistryAdapter};
pub use orchestrator::OrchestratorHooks;
pub use registry::HookRegistry;
pub use types::{Hook, HookContext, HookError, HookFuture, HookPriority, HookResult, HookType, Result, Runner};
pub use HookResult as HookExecutionResult;
