//! Runs a hook of this process: by the registry's runner, or in the calling thread.

use super::types::{Hook, HookContext, HookError, HookFuture, HookResult, Result, Runner};
use crate::executor::block_on;
use crate::link::lock;
use crate::session::text_of;
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

/// A future of a hook, whose panic is an error.
pub(super) struct Caught<'a>(pub(super) HookFuture<'a>);

impl Future for Caught<'_> {
    type Output = Result<HookResult>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(HookError::ExecutionFailed(text_of(&*panic)))))
    }
}

/// Run a hook to its end; a panic of it is the caller's to catch.
pub(super) fn run(runner: Option<&Runner>, hook: &dyn Hook, context: &HookContext) -> Result<HookResult> {
    let runner = match runner {
        None => return block_on(hook.execute(context)),
        Some(runner) => runner,
    };
    let found = Mutex::new(Err(HookError::ExecutionFailed("the runner did not run it".to_string())));
    runner(Box::pin(async {
        let result = hook.execute(context).await;
        *lock(&found) = result;
    }));
    found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}
