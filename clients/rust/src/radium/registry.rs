//! The registry: which hooks this process has, and how a type is fired.

use super::fires::{envelope_of, measured, metadata_of, wire_result, Begun, Fires};
use super::results::{joined, stopped_unless_allowed, was_not_taken};
use super::running::{run, Caught};
use super::types::{Hook, HookContext, HookError, HookResult, HookType, Result, Runner};
use crate::error::Error;
use crate::json;
use crate::json::Value;
use crate::link::lock;
use crate::session::{text_of, FireOptions, Options, Served, Session};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

const HIGHEST: u32 = 1000; // of the daemon's priorities

struct Registered {
    id: String,
    name: String,
    hook_type: HookType,
    priority: u32,
    sent_priority: Option<u32>, // none where it is not known what the daemon has
    order: u64,                 // of registration
    hook: Arc<dyn Hook>,
    is_enabled: bool,
    is_active: bool, // the daemon has it
}

#[derive(Default)]
struct Hooks {
    list: Vec<Registered>, // in the order in which they are called
    last_order: u64,
}

/// Radium's registry. `clone` shares hooks and session.
#[derive(Clone)]
pub struct HookRegistry {
    session: Arc<Session>,
    hooks: Arc<Mutex<Hooks>>,
    fires: Arc<Fires>,
    runner: Option<Runner>,
}

impl Default for HookRegistry {
    fn default() -> HookRegistry {
        HookRegistry::new()
    }
}

impl fmt::Debug for HookRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks: Vec<String> = lock(&self.hooks).list.iter().map(|own| own.id.clone()).collect();
        f.debug_struct("HookRegistry").field("session", &self.session).field("hooks", &hooks).finish_non_exhaustive()
    }
}

impl HookRegistry {
    /// Open a session with the daemon of this user; without one the gates stop, until there is one.
    ///
    /// Where the daemon refuses the session, this is a registry whose gates stop and say why, and that registers
    /// nothing; `open` returns the error instead.
    #[must_use]
    pub fn new() -> HookRegistry {
        HookRegistry::over(Session::open_anyway(in_radium(Options::default())).0)
    }

    /// Open a session with these options.
    ///
    /// # Errors
    ///
    /// The daemon refused the session, or there is none and `require` is set.
    pub fn open(options: Options) -> std::result::Result<HookRegistry, Error> {
        Session::open(in_radium(options)).map(HookRegistry::over)
    }

    fn over(session: Session) -> HookRegistry {
        HookRegistry { session: Arc::new(session), hooks: Arc::default(), fires: Arc::default(), runner: None }
    }

    /// Run hooks by `runner`, for those that need a runtime of their own.
    pub fn set_runner(&mut self, runner: Runner) {
        self.runner = Some(runner);
    }

    /// The session that it is over: its id, its announcements, any request.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Register a hook, behind those of the same type that have its priority or a higher one.
    ///
    /// # Errors
    ///
    /// The daemon refused it, or there is none: the registry is as it was before.
    pub async fn register(&self, hook: Arc<dyn Hook>) -> Result<()> {
        let (name, priority, hook_type) = (hook.name().to_string(), hook.priority().value(), hook.hook_type());
        let (id, wires) = {
            let mut hooks = lock(&self.hooks);
            let id = free_id(&hooks.list, &name);
            hooks.last_order += 1;
            let order = hooks.last_order;
            let new = Registered {
                id: id.clone(),
                name,
                hook_type,
                priority,
                sent_priority: None,
                order,
                hook,
                is_enabled: true,
                is_active: false,
            };
            hooks.list.push(new);
            hooks.list.sort_by_key(|own| (Reverse(own.priority), own.order));
            (id, self.rearranged(&mut hooks.list, hook_type))
        };
        let changed = wires.iter().map(|(id, _, _)| id.clone()).collect();
        let mut begun = Registering { hooks: &self.hooks, id, changed, is_over: false };
        self.session.register_all(wires).await?;
        begun.is_over = true;
        Ok(())
    }

    /// Enable or disable all hooks of a name.
    ///
    /// # Errors
    ///
    /// There is none of that name, or the daemon could not be asked.
    pub async fn set_enabled(&self, name: &str, enabled: bool) -> Result<()> {
        let ids = self.ids_of(name);
        if ids.is_empty() {
            return Err(HookError::NotFound(name.to_string()));
        }
        for id in ids {
            self.session.switch(&id, enabled).await?;
            if let Some(own) = lock(&self.hooks).list.iter_mut().find(|own| own.id == id) {
                own.is_enabled = enabled;
            }
        }
        Ok(())
    }

    /// Whether there is a hook of that name that this process has not disabled.
    pub async fn is_enabled(&self, name: &str) -> bool {
        lock(&self.hooks).list.iter().any(|own| own.is_active && own.name == name && own.is_enabled)
    }

    /// Take off all hooks of a name; it is no error if there is none.
    ///
    /// # Errors
    ///
    /// The daemon could not be asked; what is not off yet stays.
    pub async fn unregister(&self, name: &str) -> Result<()> {
        for id in self.ids_of(name) {
            self.session.unregister_async(&id).await?;
            lock(&self.hooks).list.retain(|own| own.id != id);
        }
        Ok(())
    }

    /// The hooks of a type, in the order in which they are called.
    pub async fn get_hooks(&self, hook_type: HookType) -> Vec<Arc<dyn Hook>> {
        let hooks = lock(&self.hooks);
        let of_type = hooks.list.iter().filter(|own| own.is_active && own.hook_type == hook_type);
        of_type.map(|own| own.hook.clone()).collect()
    }

    /// Fire one hook type: one result for each hook, in the order in which they were called.
    ///
    /// On a gate the last result is a stop wherever nobody decided. Elsewhere one more, failed result says what could not
    /// be done: the daemon could not be asked, a hook of this process is refused, or the context cannot be said in JSON.
    ///
    /// # Errors
    ///
    /// None; Radium's signature has one.
    pub async fn execute_hooks(&self, hook_type: HookType, context: &HookContext) -> Result<Vec<HookResult>> {
        let mut notes = Vec::new();
        let mut excess = None;
        match measured(context) {
            Ok(bytes) => excess = self.session.excess(bytes),
            Err((fault, name)) => {
                let problem = fault.below(name);
                if hook_type.is_gate() {
                    return Ok(vec![HookResult::stop(problem)]);
                }
                if !fault.is_replaceable {
                    return Ok(self.run_here(hook_type, context, &HashSet::new(), problem).await);
                }
                notes.push(HookResult::error(format!("{problem}; hooks of other processes see a mark in its place")));
            }
        }
        if hook_type.is_gate() && !context.data.is_object() {
            return Ok(vec![HookResult::stop("context.data is no object, so that no guard can judge it")]);
        }
        let begun = Begun::new(&self.fires, self.session.next_call(), hook_type, context);
        let options = FireOptions {
            call_id: Some(begun.call_id().to_string()),
            envelope: envelope_of(&context.metadata),
            ..FireOptions::default()
        };
        let decision = self.session.fire_async(hook_type.as_str(), begun.payload(), options).await;
        let answers = begun.take_answers();
        if hook_type.is_gate() {
            return Ok(stopped_unless_allowed(joined(hook_type, context, &decision, answers), &decision));
        }
        let problem = excess.or_else(|| was_not_taken(&decision).then(|| decision.explanation()));
        if let Some(problem) = problem {
            let called = answers.keys().cloned().collect();
            return Ok(self.run_here(hook_type, context, &called, problem).await);
        }
        let mut results = match joined(hook_type, context, &decision, answers) {
            Some(results) => results,
            None => vec![HookResult::error(decision.explanation())],
        };
        results.append(&mut notes);
        results.append(&mut self.refusals(hook_type)); // now: a daemon may have been found only by this fire
        Ok(results)
    }

    /// Take off all hooks. One that the daemon still has, since it could not be asked, stays.
    pub async fn clear(&self) {
        let ids: Vec<String> = lock(&self.hooks).list.iter().map(|own| own.id.clone()).collect();
        for id in ids {
            if self.session.unregister_async(&id).await.is_ok() {
                lock(&self.hooks).list.retain(|own| own.id != id);
            }
        }
    }

    /// How many hooks are registered.
    pub async fn count(&self) -> usize {
        lock(&self.hooks).list.iter().filter(|own| own.is_active).count()
    }

    fn ids_of(&self, name: &str) -> Vec<String> {
        let hooks = lock(&self.hooks);
        hooks.list.iter().filter(|own| own.is_active && own.name == name).map(|own| own.id.clone()).collect()
    }

    /// Return a failed result for each hook of a type that the daemon refused when it was connected to again. On a gate
    /// the daemon itself denies for it.
    fn refusals(&self, hook_type: HookType) -> Vec<HookResult> {
        if hook_type.is_gate() {
            return Vec::new();
        }
        let refused = self.session.refused_hooks();
        let hooks = lock(&self.hooks);
        let of_type = hooks.list.iter().filter(|own| own.is_active && own.is_enabled && own.hook_type == hook_type);
        let reason = |own: &Registered| Some(format!("the hook {} is refused: {}", own.id, refused.get(&own.id)?));
        of_type.filter_map(reason).map(HookResult::error).collect()
    }

    /// Call the hooks of this process alone, but for those that were called; the last result says why the daemon was not.
    async fn run_here(
        &self,
        hook_type: HookType,
        context: &HookContext,
        called: &HashSet<String>,
        problem: String,
    ) -> Vec<HookResult> {
        let hooks: Vec<(String, Arc<dyn Hook>)> = {
            let hooks = lock(&self.hooks);
            let is_due = |own: &&Registered| own.is_active && own.is_enabled && own.hook_type == hook_type;
            let due = hooks.list.iter().filter(is_due).filter(|own| !called.contains(&own.id));
            due.map(|own| (own.id.clone(), own.hook.clone())).collect()
        };
        let mut results = Vec::new();
        for (id, hook) in hooks {
            let result = match &self.runner {
                None => match catch_unwind(AssertUnwindSafe(|| hook.execute(context))) {
                    Ok(future) => Caught(future).await,
                    Err(panic) => Err(HookError::ExecutionFailed(text_of(&*panic))),
                },
                runner => catch_unwind(AssertUnwindSafe(|| run(runner.as_ref(), &*hook, context)))
                    .unwrap_or_else(|panic| Err(HookError::ExecutionFailed(text_of(&*panic)))),
            };
            let result = result.unwrap_or_else(|error| HookResult::error(format!("hook {id} failed: {error}")));
            let goes_on = result.should_continue;
            results.push(result);
            if !goes_on {
                break;
            }
        }
        results.push(HookResult::error(format!("{problem}; only hooks of this process were called")));
        results
    }

    /// Give hooks of a type the priorities that the daemon takes and that keep their order; return those that changed.
    fn rearranged(&self, hooks: &mut [Registered], hook_type: HookType) -> Vec<(String, Value, Option<Served>)> {
        let mut changed = Vec::new();
        let mut before: Option<(u32, u64)> = None; // the priority as it was sent, and the order of registration
        for own in hooks.iter_mut().filter(|own| own.hook_type == hook_type) {
            let mut wanted = own.priority.min(HIGHEST);
            if let Some((sent, order)) = before {
                // The daemon calls what was registered first first, where priorities are the same.
                let highest = if own.order < order { sent.saturating_sub(1) } else { sent };
                wanted = wanted.min(highest);
            }
            before = Some((wanted, own.order));
            if own.sent_priority == Some(wanted) {
                continue;
            }
            own.sent_priority = Some(wanted);
            let mut wire = json!({"name": own.id.clone(), "type": hook_type.as_str(), "priority": wanted,
                "served": true});
            if let (false, Some(members)) = (own.is_enabled, wire.as_object_mut()) {
                members.insert("enabled".to_string(), Value::Bool(false));
            }
            changed.push((own.id.clone(), wire, Some(self.served(own.id.clone(), hook_type, own.hook.clone()))));
        }
        changed
    }

    fn served(&self, id: String, hook_type: HookType, hook: Arc<dyn Hook>) -> Served {
        let (fires, runner) = (self.fires.clone(), self.runner.clone());
        Arc::new(move |payload: &Value, call: &Value| {
            let fire = call.at("call_id").as_str().and_then(|call_id| lock(&fires).get(call_id).cloned());
            let context = match &fire {
                Some(fire) => fire.context_of(payload),
                // Another process fired, such as one whose session is a child of this one.
                None => Cow::Owned(HookContext::with_metadata(
                    hook_type.as_str(),
                    payload.clone(),
                    metadata_of(call.at("envelope")),
                )),
            };
            let result = run(runner.as_ref(), &*hook, &context).map_err(|error| error.to_string())?;
            match &fire {
                Some(fire) => fire.answered(&id, result),
                None => wire_result(hook_type, &result),
            }
        })
    }
}

/// A registration that is under way: unless it is over, its hook is not there.
struct Registering<'a> {
    hooks: &'a Mutex<Hooks>,
    id: String,
    changed: Vec<String>,
    is_over: bool,
}

impl Drop for Registering<'_> {
    fn drop(&mut self) {
        let mut hooks = lock(self.hooks);
        if self.is_over {
            hooks.list.iter_mut().filter(|own| own.id == self.id).for_each(|own| own.is_active = true);
        } else {
            hooks.list.retain(|own| own.id != self.id);
            let is_changed = |own: &&mut Registered| self.changed.contains(&own.id);
            hooks.list.iter_mut().filter(is_changed).for_each(|own| own.sent_priority = None);
        }
    }
}

fn in_radium(options: Options) -> Options {
    Options { dialect: Some("radium".to_string()), ..options }
}

/// Return an id that no hook here has: the name, or the name with a number.
fn free_id(hooks: &[Registered], name: &str) -> String {
    let is_taken = |id: &str| hooks.iter().any(|own| own.id == id);
    if !is_taken(name) {
        return name.to_string();
    }
    let mut number = 2;
    loop {
        let id = format!("{name}#{number}");
        if !is_taken(&id) {
            return id;
        }
        number += 1;
    }
}
