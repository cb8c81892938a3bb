defmodule Hooklatch.BeamAgent.Hooks do
  @moduledoc """
  `BeamAgent.Hooks` over the hooklatch daemon: `alias Hooklatch.BeamAgent.Hooks`, and code written for it moves
  unchanged. `Hooklatch.Native.configure/1` says how sessions are opened.

  A callback is served by this node and called by the daemon, in a process of its own, beside the guards that the
  operator put there. On a blocking event whatever is not a whole answer is `{:deny, reason}`; `:ok` is one, and changes
  nothing.

  The context stays what it is: each callback is given the terms that the caller and the callbacks before it gave, and so
  is the caller; what the operator's hooks changed is merged in. A hook that cannot be called refuses on its event where
  that can refuse; the log says so. What a decision warns of is logged too.

  Global hooks are those of one node. They fire before a session's own, in all sessions of the node at once;
  `Hooklatch.BeamAgent.ReloadBus` tells of their changes.
  """

  alias Hooklatch.{Decision, Native}
  alias Hooklatch.BeamAgent.Globals
  alias Hooklatch.Native.{Ledger, Terms}

  # Whatever is not here can be refused, also a name that nobody knows.
  @notifying ~w(
    post_tool_use post_tool_use_failure stop session_start session_end subagent_stop notification task_completed
    teammate_idle
  )a
  @keys ~w(
    event session_id tool_name tool_input tool_use_id agent_id agent_type content stop_reason duration_ms
    stop_hook_active prompt params permission_prompt_tool_name permission_suggestions updated_permissions interrupt
    category permission_id metadata agent_transcript_path system_info reason reload_type status
  )a

  @typedoc "What a callback is given, and gives back."
  @type context :: %{optional(atom) => term}

  @typedoc "A function of one argument."
  @type callback :: (context -> {:ok, context} | {:deny, term} | {:ask, term} | :ok)

  @typedoc "A hook; a `matcher` has the pattern of tools' names under `tool_name`."
  @type hook :: %{required(:event) => atom, required(:callback) => callback, optional(:matcher) => map}

  @typedoc "Hooks by event, in the order of their registration."
  @type registry :: %{optional(atom) => [hook]}

  @doc "Return a hook on every occurrence of an event."
  @spec hook(atom, callback) :: hook
  def hook(event, callback) when is_atom(event) and is_function(callback, 1),
    do: %{event: event, callback: callback}

  @doc "Return a hook on the tools that the pattern `matcher.tool_name` finds; one that is no pattern raises."
  @spec hook(atom, callback, map) :: hook
  def hook(event, callback, matcher) when is_map(matcher) do
    _ = if is_binary(matcher[:tool_name]), do: Regex.compile!(matcher.tool_name)
    Map.put(hook(event, callback), :matcher, matcher)
  end

  @doc "Return a registry without hooks."
  @spec new_registry() :: registry
  def new_registry, do: %{}

  @doc "Add a hook to a registry."
  @spec register_hook(hook, registry) :: registry
  def register_hook(hook, registry), do: Map.update(registry, hook.event, [hook], &(&1 ++ [hook]))

  @doc "Add hooks to a registry."
  @spec register_hooks([hook], registry) :: registry
  def register_hooks(hooks, registry), do: Enum.reduce(hooks, registry, &register_hook/2)

  @doc "Return a registry of hooks; nil for none."
  @spec build_registry([hook] | nil | :undefined) :: registry | nil
  def build_registry(none) when none in [[], nil, :undefined], do: nil
  def build_registry(hooks), do: register_hooks(hooks, new_registry())

  @doc "Nothing has to be made before global hooks are registered."
  @spec ensure_global_table() :: :ok
  def ensure_global_table, do: :ok

  @doc "Register a hook for every session of this node; once this returns, each has it."
  @spec register_global(hook) :: :ok
  def register_global(%{event: event} = hook) when is_atom(event), do: Globals.change(&(&1 ++ [hook]))

  @doc "Take a global hook off every session of this node; exactly that one."
  @spec unregister_global(hook) :: :ok
  def unregister_global(hook), do: Globals.change(fn hooks -> Enum.reject(hooks, &(&1 === hook)) end)

  @doc "Return the global hooks of this node."
  @spec global_registry() :: registry
  def global_registry, do: register_hooks(Globals.hooks(), new_registry())

  @doc "Fire an event through the daemon: its guards, the global hooks of this node, and those of the registry."
  @spec fire(atom, context, registry | nil | :undefined) :: {:ok, context} | {:deny, term} | {:ask, term}
  def fire(event, context, registry) do
    case decide(event, context, registry) do
      {:error, why} when event in @notifying ->
        Native.warn("#{event}: #{why}")
        {:ok, context}

      {:error, why} ->
        {:deny, why}

      answer ->
        answer
    end
  end

  # Nothing that goes wrong here lets a gate pass.
  defp decide(event, context, registry) do
    unless is_map(context), do: raise(ArgumentError, "the context is no map")
    plain = Native.to_wire(context, event not in @notifying, "context")
    hooks = wanted(:own, own(registry), 100)

    Native.fire("beam", event, plain, {context, plain}, nil, hooks, fn decision, ledger ->
      answer(event, context, {decision, ledger}, decision.rendered)
    end)
  rescue
    error -> {:error, Native.unjudged(error)}
  catch
    kind, reason -> {:error, Native.unjudged(kind, reason)}
  end

  defp answer(event, context, {decision, ledger}, %{"ok" => %{} = returned}) do
    if event in @notifying or Decision.allowed?(decision),
      do: {:ok, final(returned, context, ledger, event)},
      else: {:error, reason(decision)}
  end

  defp answer(event, _, {%{verdict: "ask"} = decision, ledger}, %{"ask" => reason})
       when event not in @notifying,
       do: {:ask, Ledger.reason(ledger, decision, reason)}

  defp answer(event, _, {%{verdict: "deny"} = decision, ledger}, %{"deny" => _}) when event not in @notifying,
    do: {:deny, Ledger.reason(ledger, decision, reason(decision))}

  # What the client decided by itself is logged already.
  defp answer(event, context, {%{local: true}, _}, _) when event in @notifying, do: {:ok, context}
  defp answer(_, _, {decision, _}, _), do: {:error, reason(decision)}

  defp reason(%{reason: reason}) when is_binary(reason) and reason != "", do: reason
  defp reason(decision), do: "#{decision.event} was refused"

  # The daemon names the event in it, also where the caller did not.
  defp final(returned, context, ledger, event) do
    final = in_terms(ledger, returned, event)

    if is_binary(final[:event]) and not is_map_key(context, :event),
      do: Map.delete(final, :event),
      else: final
  end

  # The context in the terms of this fire. The daemon knows no difference between nil and nothing for keys of the hooks'
  # own; and on a notification it leaves its fields as they are, since no guard has seen another value: what a callback of
  # this node made of them is for the callbacks after it, and for the caller.
  defp in_terms(ledger, wire, event) do
    native = Ledger.native(ledger, wire, @keys)
    {term, plain, shown} = hd(Ledger.versions(ledger))

    Terms.keys(native)
    |> Map.merge(Terms.keys(term))
    |> Enum.reduce(native, fn {text, key}, native ->
      changed? = Map.fetch(plain, text) != Map.fetch(shown, text)
      nil? = is_map_key(term, key) and Map.get(term, key) == nil
      gone? = nil? and not is_map_key(wire, text)
      own? = changed? and (gone? or Map.fetch(wire, text) === Map.fetch(shown, text))

      cond do
        own? and is_map_key(term, key) and (event in @notifying or nil?) ->
          Map.put(native, key, Map.get(term, key))

        own? and event in @notifying ->
          Map.delete(native, key)

        true ->
          native
      end
    end)
  end

  # Definitions

  @doc "Return the global hooks as a session of this node wants them; its registrar, who calls this, hears of changes."
  @spec wanted_globals() :: [Native.wanted()]
  def wanted_globals, do: wanted(:global, Enum.map(Globals.joined(), &{&1.event, &1}), 200)

  defp own(none) when none in [nil, :undefined], do: []
  defp own(%{} = registry), do: for({event, hooks} <- registry, hook <- hooks_of(hooks), do: {event, hook})
  defp own(other), do: [{:*, other}]

  defp hooks_of(hooks) when is_list(hooks), do: if(List.improper?(hooks), do: [hooks], else: hooks)
  defp hooks_of(hook), do: [hook]

  # The same hook may be there twice, so its place is a part of its key.
  defp wanted(kind, hooks, priority) do
    for {{event, hook}, at} <- Enum.with_index(hooks), do: wanted(kind, event, hook, at, priority)
  end

  defp wanted(kind, event, hook, at, priority) do
    key = {kind, event, hook, at}

    try do
      {key, Map.merge(definition(event, hook, priority), %{"served" => true}), &call(hook, event, &1, &2)}
    rescue
      error in ArgumentError ->
        # It stands in for what cannot be called: at its gate it refuses.
        {key, %{"event" => name(event), "priority" => priority, "problem" => error.message}, nil}
    end
  end

  defp definition(event, %{callback: callback} = hook, priority)
       when is_atom(event) and is_function(callback, 1) do
    wire = %{"event" => Atom.to_string(event), "priority" => priority}

    # A matcher without the name of a tool is for all of them, as in BeamAgent; and so is an empty pattern, which finds
    # itself in every name.
    case hook[:matcher] do
      %{tool_name: pattern} when pattern not in [nil, ""] -> Map.put(wire, "matcher", Native.pattern(pattern))
      matcher when is_map(matcher) or matcher == nil -> wire
      other -> raise ArgumentError, "its matcher is #{Native.brief(other)}, and no map"
    end
  end

  defp definition(_, hook, _),
    do: raise(ArgumentError, "#{Native.brief(hook)} has no callback of one argument")

  defp name(event) when is_atom(event) or is_binary(event), do: to_string(event)
  defp name(event), do: inspect(event)

  # Calls

  defp call(hook, event, payload, call) do
    shown = Map.put(shown(event, payload, call[:native]), :event, event)

    case hook.callback.(shown) do
      :ok -> said(call, :ok, changed(call), "ok")
      {:ok, ^shown} -> said(call, :ok, changed(call), "ok")
      {:ok, context} when is_map(context) -> returned(context, shown, payload, event, call)
      {:deny, reason} -> said(call, :deny, reason, %{"deny" => Native.text(reason)})
      {:ask, reason} -> said(call, :ask, reason, %{"ask" => Native.text(reason)})
      other -> said(call, :garbage, nil, %{"garbage" => inspect(other)})
    end
  end

  # Of another session, whose gates are this one's: what it fires is plain data.
  defp shown(_, payload, nil), do: Terms.native(payload, [], @keys)
  defp shown(event, payload, ledger), do: in_terms(ledger, payload, event)

  # A hook is called once more where another one has changed a field since, to judge the result. What it changed it has
  # changed already, and what stands beside the fields is what was put there last: each hook's change counts once, in the
  # order of the hooks, as in BeamAgent. It may still leave a mark that it had no cause for before.
  defp returned(context, shown, payload, event, call) do
    already = changed(call)
    kept = if call["reinvoked"] == true, do: already ++ (Map.keys(shown) -- @keys), else: []
    context = context |> Map.drop(kept) |> Map.merge(Map.take(shown, kept))
    plain = Native.to_wire(context, event not in @notifying, "the context that a callback returned")
    if call[:native], do: Ledger.given(call.native, context, plain, payload)
    both = Map.keys(Map.merge(shown, context))
    now = for key <- both, Map.fetch(context, key) !== Map.fetch(shown, key), do: key
    said(call, :ok, already ++ now, %{"ok" => plain})
  end

  defp changed(%{:native => %Ledger{} = ledger, "reinvoked" => true, "hook" => hook}) do
    case Ledger.answer(ledger, hook) do
      {:ok, keys} -> keys
      _ -> []
    end
  end

  defp changed(_), do: []

  defp said(call, word, term, wire) do
    if call[:native], do: Ledger.said(call.native, call["hook"], word, term, wire)
    wire
  end
end
