//! Radium's typed hooks, and adapters that make a `Hook` of each for the registry.

use super::contexts::{ErrorHookContext, ModelHookContext, ToolHookContext};
use super::types::{Hook, HookContext, HookError, HookFuture, HookPriority, HookType};
use std::fmt;
use std::sync::Arc;

/// Declares a typed hook with one asynchronous method for each hook type, as `#[async_trait]` writes them, and its
/// adapter with one constructor for each.
macro_rules! typed_hook {
    ($(#[$about:meta])* $hook:ident, $adapter:ident, $context:ident:
        $($make:ident => $method:ident as $type:ident),+ $(,)?) => {
        $(#[$about])*
        pub trait $hook: Send + Sync {
            /// Its name, as of any hook.
            fn name(&self) -> &str;

            /// Its priority, as of any hook.
            fn priority(&self) -> HookPriority;

            $(
                #[doc = concat!("Is called on [`HookType::", stringify!($type), "`].")]
                ///
                /// # Errors
                ///
                /// It could not do its work: a stop on a gate, a failed result elsewhere.
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

        #[doc = concat!("Makes a [`Hook`] of a [`", stringify!($hook), "`], one for each type that it is to be called for.")]
        ///
        /// Data that has not the type's keys is an error, and not an empty context: a stop on a gate.
        pub struct $adapter {
            hook: Arc<dyn $hook>,
            hook_type: HookType,
        }

        impl fmt::Debug for $adapter {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($adapter)).field("hook_type", &self.hook_type).finish_non_exhaustive()
            }
        }

        impl $adapter {
            $(
                #[doc = concat!("The hook for [`HookType::", stringify!($type), "`].")]
                #[must_use]
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
                    let context = $context::read(self.hook_type, &context.data)?;
                    match self.hook_type {
                        $(HookType::$type => self.hook.$method(&context).await,)+
                        other => Err(HookError::ExecutionFailed(format!("it is not called on {other}"))),
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
