defmodule Hooklatch.ExAthena.Hooks do
  @moduledoc """
  `ExAthena.Hooks` over the hooklatch daemon: `alias Hooklatch.ExAthena.Hooks`, and code written for it moves
  unchanged. `Hooklatch.Native.configure/1` says how sessions are opened.

  A callback is served by this node and called by the daemon, in a process of its own, beside the guards that the
  operator put there. On a gate whatever is not a whole answer refuses.
  """

  alias Hooklatch.{Decision, JSON, Native}

  @events ~w(
    SessionStart SessionEnd UserPromptSubmit PreIteration ChatParams PreToolUse PostToolUse PostToolUseFailure
    PermissionRequest PermissionDenied ToolDenied Stop StopFailure SubagentStart SubagentStop PreCompact
    PreCompactStage PostCompact Notification
  )a
  # Whatever is not here can be refused, also a name that nobody knows.
  @observing ~w(
    SessionStart SessionEnd PreIteration PostToolUse PostToolUseFailure PermissionDenied ToolDenied Stop StopFailure
    SubagentStop PreCompactStage PostCompact Notification
  )a
  @denying ~w(PreToolUse PermissionRequest)a
  @keys ~w(
    tool_name tool_use_id session_id parent_session_id prompt request messages result arguments cwd reason denial
    finish_reason subagent_id agent isolation outcome stage estimate metadata iteration unproductive_iterations
    fingerprint message notification_type
  )a

  def events, do: @events

  @doc "`:ok`, `{:deny, reason}` or `{:halt, reason}`."
  def run_pre_tool_use(hooks, tool_name, input, tool_use_id) do
    payload = Map.merge(input, %{tool_name: tool_name, tool_use_id: tool_use_id})

    case fire(hooks, :PreToolUse, given(payload), tool_use_id) do
      {:ok, %{"result" => %{"deny" => reason}}, _} -> {:deny, reason}
      {:ok, %{"outputs" => %{"halt" => reason}}, _} when reason != nil -> {:halt, reason}
      {:ok, _, true} -> :ok
      {:ok, _, false} -> {:deny, "the call was refused"}
      {:error, why} -> {:deny, why}
    end
  end

  @doc "`:ok` or `{:halt, reason}`; what hooks append is in `run_lifecycle_with_outputs(hooks, :PostToolUse, ...)`."
  def run_post_tool_use(hooks, tool_name, result, tool_use_id) do
    run_lifecycle(
      hooks,
      :PostToolUse,
      Map.merge(result, given(%{tool_name: tool_name, tool_use_id: tool_use_id}))
    )
  end

  @doc "`:ok` or `{:halt, reason}`."
  def run_lifecycle(hooks, event, payload) do
    case run_lifecycle_with_outputs(hooks, event, payload) do
      %{halt: nil} -> :ok
      %{halt: reason} -> {:halt, reason}
    end
  end

  @doc "`%{halt: reason or nil, injects: messages, transform: prompt or nil, augments: texts}`."
  def run_lifecycle_with_outputs(hooks, event, payload) do
    none = %{halt: nil, injects: [], transform: nil, augments: []}

    case fire(hooks, event, payload, payload[:session_id]) do
      {:ok, %{"outputs" => %{"halt" => halt} = outputs}, allowed?} when halt == nil or is_binary(halt) ->
        refused = if event not in @observing and not allowed?, do: "#{event} was refused"

        parts =
          for {key, name} <- [injects: "injects", augments: "augments"],
              is_list(outputs[name]),
              do: {key, outputs[name]}

        Map.merge(none, Map.new([halt: halt || refused, transform: outputs["transform"]] ++ parts))

      {:ok, _, _} ->
        if event not in @observing, do: %{none | halt: "#{event} was refused"}, else: none

      {:error, why} ->
        if event not in @observing, do: %{none | halt: why}, else: none
    end
  end

  defp fire(hooks, event, payload, id) do
    case Native.session("exathena", wanted(hooks)) do
      {:ok, session} ->
        decision = Hooklatch.fire(session, event, Native.to_wire(payload), native: {payload, id})

        if Decision.local?(decision) or not is_map(decision.rendered),
          do: {:error, decision.reason || Enum.join(decision.warnings, ", ")},
          else: {:ok, decision.rendered, Decision.allowed?(decision)}

      {:error, {_, text}} ->
        {:error, "the hooks could not be registered (fail-safe deny): #{text}"}
    end
  rescue
    error in [JSON.Error, ArgumentError] -> {:error, "it cannot be judged (fail-safe deny): #{error.message}"}
  end

  defp given(map), do: Map.reject(map, fn {_, value} -> value == nil end)

  # The same function may be there twice, so its place is a part of its name.
  defp wanted(hooks) do
    for {event, entries} <- hooks || %{}, {matcher, function, at} <- flat(entries) do
      wire = %{"event" => Atom.to_string(event), "served" => true}
      wire = if matcher == nil, do: wire, else: Map.put(wire, "matcher", pattern(matcher))
      {{event, matcher, function, at}, wire, &call(event, function, &1, &2)}
    end
  end

  defp flat(entries) do
    entries
    |> Enum.flat_map(fn
      %{hooks: functions} = group -> Enum.map(functions, &{group[:matcher], &1})
      function when is_function(function, 2) -> [{nil, function}]
      other -> raise ArgumentError, "#{inspect(other)} is no hook"
    end)
    |> Enum.with_index(fn {matcher, function}, at -> {matcher, function, at} end)
  end

  defp pattern(text) when is_binary(text), do: text

  defp pattern(%Regex{} = regex) do
    case Regex.opts(regex) do
      none when none in ["", []] -> Regex.source(regex)
      folded when folded in ["i", [:caseless]] -> "(?i)" <> Regex.source(regex)
      other -> raise ArgumentError, "a matcher cannot have the options #{inspect(other)}"
    end
  end

  defp call(event, function, payload, call) do
    {native, id} = if is_tuple(call[:native]), do: call.native, else: {%{}, nil}
    atoms = if event == :PreToolUse, do: [:tool_name, :tool_use_id], else: @keys
    answer(event, function.(Native.from_wire(payload, native, atoms), id))
  end

  defp answer(_, :ok), do: "ok"
  defp answer(_, {:allow, []}), do: "ok"
  defp answer(event, {:deny, reason}) when event in @denying, do: %{"deny" => Native.text(reason)}
  defp answer(_, {:halt, reason}), do: %{"halt" => Native.text(reason)}
  defp answer(_, {:inject, messages}), do: %{"inject" => Native.to_wire(List.wrap(messages))}
  defp answer(_, {:transform, prompt}), do: %{"transform" => Native.to_wire(prompt)}
  defp answer(_, {:augment, text}), do: %{"augment" => Native.to_wire(text)}
  defp answer(_, other), do: %{"garbage" => inspect(other)}
end
