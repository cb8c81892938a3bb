defmodule Hooklatch.BeamAgent.Hooks do
  @moduledoc """
  `BeamAgent.Hooks` over the hooklatch daemon: `alias Hooklatch.BeamAgent.Hooks`, and code written for it moves
  unchanged. `Hooklatch.Native.configure/1` says how sessions are opened.

  A callback is served by this node and called by the daemon, in a process of its own, beside the guards that the
  operator put there. On a blocking event whatever is not a whole answer is `{:deny, reason}`.
  """

  alias Hooklatch.{Decision, JSON, Native}

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
  @global {__MODULE__, :global}

  def hook(event, callback) when is_atom(event) and is_function(callback, 1),
    do: %{event: event, callback: callback}

  def hook(event, callback, matcher) when is_map(matcher) do
    if is_binary(matcher[:tool_name]), do: Regex.compile!(matcher.tool_name)
    Map.put(hook(event, callback), :matcher, matcher)
  end

  def new_registry, do: %{}
  def register_hook(hook, registry), do: Map.update(registry, hook.event, [hook], &(&1 ++ [hook]))
  def register_hooks(hooks, registry), do: Enum.reduce(hooks, registry, &register_hook/2)
  def build_registry(none) when none in [[], nil, :undefined], do: nil
  def build_registry(hooks), do: register_hooks(hooks, new_registry())

  def ensure_global_table, do: :ok
  def register_global(hook), do: change_global(&(&1 ++ [hook]))
  def unregister_global(hook), do: change_global(&List.delete(&1, hook))
  def global_registry, do: register_hooks(:persistent_term.get(@global, []), new_registry())

  defp change_global(change) do
    :global.trans({@global, self()}, fn ->
      :persistent_term.put(@global, change.(:persistent_term.get(@global, [])))
    end)

    :ok
  end

  @doc "Fire an event through the daemon: its guards, the global hooks of this node, and those of the registry."
  def fire(event, context, registry) do
    case decide(event, context, registry) do
      {:ok, answer} -> answer
      {:error, _} when event in @notifying -> {:ok, context}
      {:error, why} -> {:deny, why}
    end
  end

  defp decide(event, context, registry) do
    with {:ok, session} <- session(registry) do
      decision = Hooklatch.fire(session, event, Native.to_wire(context), native: context)
      answer(event, context, decision, decision.rendered)
    else
      {:error, {_, text}} -> {:error, "the hooks could not be registered (fail-safe deny): #{text}"}
    end
  rescue
    error in JSON.Error -> {:error, "the context cannot be judged (fail-safe deny): #{error.message}"}
  end

  defp answer(event, context, decision, %{"ok" => %{} = returned}) do
    if event in @notifying or Decision.allowed?(decision),
      do: {:ok, {:ok, Native.from_wire(returned, context, @keys)}},
      else: {:error, reason(decision)}
  end

  defp answer(event, _, decision, %{"ask" => reason}) when event not in @notifying and is_binary(reason) do
    if decision.verdict == "ask", do: {:ok, {:ask, reason}}, else: {:error, reason}
  end

  defp answer(_, _, decision, _), do: {:error, reason(decision)}

  defp reason(%{reason: reason}) when is_binary(reason) and reason != "", do: reason
  defp reason(decision), do: "#{decision.event} was refused"

  defp session(registry) do
    own = if is_map(registry), do: hooks_of(registry), else: []
    Native.session("beam", wanted(:global, hooks_of(global_registry()), 200) ++ wanted(:own, own, 100))
  end

  defp hooks_of(registry), do: for({_, hooks} <- registry, hook <- hooks, do: hook)

  # The same hook may be there twice, so its place is a part of its name.
  defp wanted(kind, hooks, priority) do
    for {hook, at} <- Enum.with_index(hooks) do
      wire = %{"event" => Atom.to_string(hook.event), "served" => true, "priority" => priority}
      matcher = hook[:matcher]
      wire = if matcher in [nil, %{}], do: wire, else: Map.put(wire, "matcher", Native.to_wire(matcher))
      {{kind, hook, at}, wire, &call(hook, &1, &2)}
    end
  end

  defp call(hook, payload, call) do
    case hook.callback.(Native.from_wire(payload, call[:native], @keys) |> Map.put(:event, hook.event)) do
      {:ok, context} when is_map(context) -> %{"ok" => Native.to_wire(context)}
      {:deny, reason} -> %{"deny" => Native.text(reason)}
      {:ask, reason} -> %{"ask" => Native.text(reason)}
      other -> %{"garbage" => inspect(other)}
    end
  end
end
