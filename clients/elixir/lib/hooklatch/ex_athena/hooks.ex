defmodule Hooklatch.ExAthena.Hooks do
  @moduledoc """
  `ExAthena.Hooks` over the hooklatch daemon: `alias Hooklatch.ExAthena.Hooks`, and code written for it moves
  unchanged. `Hooklatch.Native.configure/1` says how sessions are opened.

  A callback is served by this node and called by the daemon, in a process of its own, beside the guards that the
  operator put there. On a gate whatever is not a whole answer refuses.

  Callbacks are given the caller's own terms, and the caller those of the callbacks. A hook that cannot be called, as its
  function has another arity or its matcher is no pattern of RE2, refuses on its gate; the log says so. What a decision
  warns of is logged too.
  """

  alias Hooklatch.{Decision, Native}
  alias Hooklatch.Native.{Ledger, Terms}

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
  @of_tools ~w(PreToolUse PostToolUse PostToolUseFailure PermissionRequest PermissionDenied ToolDenied)a
  @keys ~w(
    tool_name tool_use_id session_id parent_session_id prompt request messages result arguments cwd reason denial
    finish_reason subagent_id agent isolation outcome stage estimate metadata iteration unproductive_iterations
    fingerprint message notification_type
  )a
  # What served hooks are sent has the arguments beside the names; those with one of these names in quotation marks.
  @names ~w(tool_name tool_use_id)
  @quoted ["arguments" | @names]

  @typedoc "`fun.(input, tool_use_id_or_session_id)`"
  @type callback :: (map, String.t() | nil -> term)

  @typedoc "Hooks by event: functions, and for events of tools also groups of them with a matcher."
  @type hooks ::
          %{optional(atom) => [callback | %{required(:hooks) => [callback], optional(:matcher) => term}]}
          | nil

  @typedoc "What the hooks on an event said together."
  @type outputs :: %{halt: term, injects: [term], transform: term, augments: [term]}

  @doc "Return the names of all events."
  @spec events() :: [atom]
  def events, do: @events

  @doc """
  Ask the hooks on PreToolUse: `:ok`, `{:deny, reason}` or `{:halt, reason}`.

  The tool's name and its input do not share a map: an argument that is called `tool_name` is an argument.
  """
  @spec run_pre_tool_use(hooks, String.t() | atom, map, String.t() | nil) ::
          :ok | {:deny, term} | {:halt, term}
  def run_pre_tool_use(hooks, tool_name, input, tool_use_id) do
    host = given(%{tool_name: tool_name, tool_use_id: tool_use_id})

    judged(fn ->
      unless is_map(input), do: raise(ArgumentError, "the input of #{inspect(tool_name)} is no map")
      names = Native.to_wire(host, true, "payload")
      arguments = Native.to_wire(input, true, "arguments")
      plain = Map.put(names, "arguments", arguments)
      fire(hooks, :PreToolUse, plain, {input, arguments}, %{id: tool_use_id, host: host}, &before_tool/2)
    end)
    |> case do
      {:error, why} -> {:deny, why}
      answer -> answer
    end
  end

  defp before_tool(decision, ledger) do
    case decision.rendered do
      %{"result" => %{"deny" => reason}} ->
        {:deny, Ledger.reason(ledger, decision, reason)}

      %{"outputs" => %{"halt" => reason}} when reason != nil ->
        {:halt, Ledger.reason(ledger, decision, reason)}

      %{} ->
        if Decision.allowed?(decision), do: :ok, else: {:deny, "the call was refused"}
    end
  end

  @doc "Run the hooks on PostToolUse: `:ok`, `{:halt, reason}`, or `{:augment, text}`, several joined by newlines."
  @spec run_post_tool_use(hooks, String.t() | atom, map, String.t() | nil) ::
          :ok | {:halt, term} | {:augment, term}
  def run_post_tool_use(hooks, tool_name, result, tool_use_id) do
    names = given(%{tool_name: tool_name, tool_use_id: tool_use_id})

    case run_lifecycle_with_outputs(hooks, :PostToolUse, Map.merge(result, names)) do
      %{halt: nil, augments: []} -> :ok
      %{halt: nil, augments: [text]} -> {:augment, text}
      %{halt: reason} -> {:halt, reason}
    end
  end

  @doc "Run the hooks on an event: `:ok` or `{:halt, reason}`."
  @spec run_lifecycle(hooks, atom, map) :: :ok | {:halt, term}
  def run_lifecycle(hooks, event, payload) do
    case run_lifecycle_with_outputs(hooks, event, payload) do
      %{halt: nil} -> :ok
      %{halt: reason} -> {:halt, reason}
    end
  end

  @doc "Run the hooks on an event: `%{halt: reason or nil, injects: messages, transform: prompt or nil, augments: texts}`."
  @spec run_lifecycle_with_outputs(hooks, atom, map) :: outputs
  def run_lifecycle_with_outputs(hooks, event, payload) do
    gate? = event not in @observing

    judged(fn ->
      plain = Native.to_wire(payload, gate?, "payload")

      fire(
        hooks,
        event,
        plain,
        {payload, plain},
        %{id: id(event, payload), host: nil},
        &outputs(event, &1, &2)
      )
    end)
    |> case do
      {:error, why} when gate? ->
        %{none() | halt: why}

      {:error, why} ->
        Native.warn("#{event}: #{why}")
        none()

      outputs ->
        outputs
    end
  end

  defp none, do: %{halt: nil, injects: [], transform: nil, augments: []}

  defp outputs(event, decision, ledger) do
    outputs = if is_map(decision.rendered["outputs"]), do: decision.rendered["outputs"], else: %{}
    refused? = event not in @observing and not Decision.allowed?(decision)
    halt = outputs["halt"] || if(refused?, do: "#{event} was refused")

    %{
      halt: halt && Ledger.reason(ledger, decision, halt),
      injects: Ledger.answers(ledger, :inject, listed(outputs["injects"])),
      transform: hd(Ledger.answers(ledger, :transform, [outputs["transform"]])),
      augments: Ledger.answers(ledger, :augment, listed(outputs["augments"]))
    }
  end

  defp listed(value), do: if(is_list(value), do: value, else: [])

  # Nothing that goes wrong here lets a gate pass.
  defp judged(fun) do
    fun.()
  rescue
    error -> {:error, Native.unjudged(error)}
  catch
    kind, reason -> {:error, Native.unjudged(kind, reason)}
  end

  defp fire(hooks, event, payload, known, about, read) do
    Native.fire("exathena", event, payload, known, about, wanted(hooks), fn decision, ledger ->
      cond do
        not Decision.local?(decision) and is_map(decision.rendered) -> read.(decision, ledger)
        event in @observing -> none()
        true -> {:error, decision.reason || "nobody was asked"}
      end
    end)
  end

  defp given(map), do: Map.reject(map, fn {_, value} -> value == nil end)

  defp id(event, payload) when event in @of_tools, do: any(payload, [:tool_use_id, :session_id])
  defp id(_, payload), do: any(payload, [:session_id])

  defp any(payload, keys),
    do: Enum.find_value(keys, &(Map.get(payload, &1) || Map.get(payload, Atom.to_string(&1))))

  # Definitions

  # The same function may be there twice, so its place is a part of its key.
  defp wanted(nil), do: []

  defp wanted(hooks) when is_map(hooks) or is_list(hooks) do
    for entry <- listed_of(hooks), one <- of_event(entry), do: one
  end

  defp wanted(other), do: [problem("*", nil, "the hooks are #{Native.brief(other)}, and no map of events", 0)]

  defp listed_of(%_{} = struct), do: [{:*, struct}]

  defp listed_of(hooks),
    do: if(is_list(hooks) and List.improper?(hooks), do: [{:*, hooks}], else: Enum.to_list(hooks))

  defp of_event({event, entries}) when is_atom(event) or is_binary(event) do
    entries
    |> flat()
    |> Enum.with_index(fn {matcher, hook}, at -> definition(to_string(event), matcher, hook, at) end)
  end

  defp of_event(other), do: [problem("*", nil, "#{Native.brief(other)} is no event with its hooks", 0)]

  defp flat(nil), do: []

  defp flat(entries) when is_list(entries),
    do: if(List.improper?(entries), do: [{nil, entries}], else: Enum.flat_map(entries, &group/1))

  defp flat(entry), do: group(entry)

  defp group(%{hooks: hooks} = group) when is_list(hooks) do
    if List.improper?(hooks), do: [{group[:matcher], hooks}], else: Enum.map(hooks, &{group[:matcher], &1})
  end

  defp group(%{hooks: hook} = group), do: [{group[:matcher], hook}]
  defp group(hook), do: [{nil, hook}]

  defp definition(event, matcher, function, at) when is_function(function, 2) do
    wire = %{"event" => event, "served" => true}
    wire = if matcher == nil, do: wire, else: Map.put(wire, "matcher", Native.pattern(matcher))
    {{event, matcher, function, at}, wire, &call(event, function, &1, &2)}
  rescue
    error in ArgumentError -> problem(event, nil, error.message, {at, matcher, function})
  end

  defp definition(event, matcher, other, at),
    do:
      problem(event, matcher, "#{Native.brief(other)} is no function of two arguments", {at, matcher, other})

  # It stands in for what cannot be called: at its gate it refuses.
  defp problem(event, matcher, text, key) do
    wire = %{"event" => event, "problem" => text}
    wire = if matcher == nil, do: wire, else: Map.put(wire, "matcher", Native.pattern(matcher))
    {{event, key}, wire, nil}
  rescue
    ArgumentError -> problem(event, nil, text, key)
  end

  # Calls

  defp call(event, function, payload, call) do
    {shown, id} = shown(event, payload, call[:native])
    event |> answer(function.(shown, id)) |> kept(call)
  end

  # Of another session, whose gates are this one's: what it fires is plain data.
  defp shown("PreToolUse", payload, nil) do
    {names, arguments} = Map.split(payload, @names)
    host = Terms.native(names, [], [:tool_name, :tool_use_id])
    {Map.merge(unquoted(arguments), host), host[:tool_use_id]}
  end

  defp shown(event, payload, nil) do
    shown = Terms.native(payload, [], @keys)
    {shown, Enum.find_value(@events, &if(Atom.to_string(&1) == event, do: id(&1, shown)))}
  end

  defp shown("PreToolUse", payload, ledger) do
    arguments = Ledger.native(ledger, unquoted(Map.drop(payload, @names)), [])
    {Map.merge(arguments, ledger.about.host), ledger.about.id}
  end

  defp shown(_, payload, ledger), do: {Ledger.native(ledger, payload, @keys), ledger.about.id}

  defp unquoted(arguments), do: Map.new(arguments, fn {key, value} -> {unquoted_key(key), value} end)

  defp unquoted_key(key) do
    if String.trim(key, "\"") in @quoted and key =~ ~r/\A".*"\z/, do: String.slice(key, 1..-2), else: key
  end

  # An answer is a word, the term that was said, and what the wire has of it.
  defp answer(_, :ok), do: {:ok, nil, "ok"}
  defp answer(_, {:allow, []}), do: {:ok, nil, "ok"}

  defp answer(event, {:deny, reason}) when event in ~w(PreToolUse PermissionRequest),
    do: {:deny, reason, Native.text(reason)}

  defp answer(_, {:halt, reason}), do: {:halt, reason, Native.text(reason)}

  defp answer(event, {:inject, messages}) do
    messages = if is_list(messages), do: messages, else: [messages]
    {:inject, messages, Native.to_wire(messages, gate?(event), "inject")}
  end

  defp answer(event, {:transform, prompt}),
    do: {:transform, prompt, Native.to_wire(prompt, gate?(event), "transform")}

  defp answer(_, {:augment, text}), do: {:augment, text, if(text == nil, do: nil, else: Native.text(text))}
  defp answer(_, other), do: {:garbage, other, inspect(other)}

  defp gate?(event), do: not Enum.any?(@observing, &(Atom.to_string(&1) == event))

  defp kept({word, term, wire}, %{:native => %Ledger{} = ledger, "hook" => hook} = call) do
    # A prompt that another hook has transformed since is not transformed again: the last one counts, as in ExAthena.
    if word == :transform and call["reinvoked"] == true and
         match?({:transform, _}, Ledger.answer(ledger, hook)) do
      "ok"
    else
      Ledger.said(ledger, hook, word, term, wire)
      written(word, wire)
    end
  end

  defp kept({word, _, wire}, _), do: written(word, wire)

  defp written(:ok, _), do: "ok"
  defp written(word, wire), do: %{Atom.to_string(word) => wire}
end
