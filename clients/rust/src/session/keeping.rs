//! What a session keeps of its hooks, and for how long: while they are registered, or while a fire takes.

use super::{Inner, Kept};
use crate::json::Value;
use crate::link::lock;
use std::sync::Arc;

/// A registration that is under way. If it comes to nothing, or its future is dropped, what was there before is back,
/// and what the daemon may have got anyway has no opinion until it is taken off there.
pub(super) struct Registering<'a> {
    pub(super) inner: &'a Inner,
    pub(super) before: Vec<(String, Option<Kept>)>,
    pub(super) is_refused: bool,
    pub(super) is_over: bool,
}

impl Drop for Registering<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = lock(&self.inner.state);
        for (id, before) in self.before.drain(..) {
            let place = state.hooks.iter().position(|kept| kept.id == id);
            match (place.and_then(|at| state.hooks.get_mut(at)), before) {
                (Some(kept), Some(before)) => *kept = before,
                _ => {
                    state.hooks.retain(|kept| kept.id != id);
                    if !self.is_refused {
                        state.retired.insert(id);
                    }
                }
            }
        }
    }
}

/// A payload that is kept for the hooks of this process for as long as its fire takes.
pub(super) struct NativeKept<'a> {
    inner: &'a Inner,
    call_id: String,
}

impl Drop for NativeKept<'_> {
    fn drop(&mut self) {
        lock(&self.inner.state).natives.remove(&self.call_id);
    }
}

impl Inner {
    /// Keep a hook; return the one of that id that it replaces.
    pub(super) fn keep(&self, new: Kept) -> Option<Kept> {
        let mut state = lock(&self.state);
        state.retired.remove(&new.id);
        state.refused.remove(&new.id);
        match state.hooks.iter_mut().find(|kept| kept.id == new.id) {
            Some(kept) => Some(std::mem::replace(kept, new)),
            None => {
                state.hooks.push(new);
                None
            }
        }
    }

    /// Keep the payload of a call, unless another one has its id: then nobody could tell which of them it is.
    pub(super) fn keep_native(&self, call_id: &str, payload: Value) -> Option<NativeKept<'_>> {
        let mut state = lock(&self.state);
        if state.natives.contains_key(call_id) {
            return None;
        }
        state.natives.insert(call_id.to_string(), Arc::new(payload));
        Some(NativeKept { inner: self, call_id: call_id.to_string() })
    }
}
