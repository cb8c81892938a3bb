# Drives the client for the tests of all clients: commands as lines of JSON in, one answer for each out.
#
# A command `native` with a "with" calls a function of ExAthena's or BeamAgent's hooks, as code of those systems does:
#
#     {"do": "native", "call": "BeamAgent.fire", "with": [TERM, ...], "in": "main", "keep": "r"}
#     {"result": {"gave": TERM, "called": [{"hook": NAME, "with": [TERM, ...]}], "logged": [TEXT, ...]}}
#
# "in" names the process that calls; each has its own session. "keep" names what it gave, for {"$kept": "r"} later. "begin":
# true does not wait; `end` with "in" does. What was raised stands in the place of "gave": {"raised": {"kind", "text"}}.
# "called" is what functions were called with since the last report, "logged" the warnings and errors of the log.
#
#     configure   path, cwd, session_id, ...: options of Hooklatch.Native.configure; forgets all of the case before
#     called      "count": wait for so many calls; logged: for so many lines; messages: for so many of the process "in"
#
# Terms: JSON is what it says, a text as a key too, but
#
#     ":high", {":key": TERM}             an atom, also as a key; nil, true and false are as in JSON
#     {"$text": ":x"}, {"$binary": ...}   a text that begins with a colon; bytes in base64 that are no UTF-8
#     {"$tuple": [...]}, {"$improper": [..., TAIL]}
#     {"$map": [[KEY, TERM], ...]}        a map with keys that are neither
#     {"$struct": "Message", ":role": TERM}   a struct of terms.exs, or of that module
#     {"$regex": [SOURCE, OPTIONS]}, {"$reference": NAME}, {"$process": NAME}
#     {"$path": "../x"}                   a path from the session's own folder
#     {"$call": "BeamAgent.hook", "with": [...]}, {"$kept": NAME}     what a function gives, what was kept
#     {"$function": DOES, "as": NAME, "arity": N}
#
# A function answers with {"answer": TERM}, in which {"$argument": 0} is what it was called with, {"$at": [KEY, ...]} what is
# there in its first argument, and $merge, $drop, $append and $join make others of it; or it does {"raise": TEXT},
# {"throw": TERM}, {"exit": TERM}, {"kill": true}; {"when": {"at": [KEY, ...], "is": TERM or "has": TEXT}, "then", "else"}
# looks at its first argument. What comes back is written in the same form; a function as what it was made of.
{:ok, _, _} =
  Kernel.ParallelCompiler.require(for file <- ~w(native.exs terms.exs), do: Path.join(__DIR__, file))

defmodule Driver do
  alias Hooklatch.{BeamAgent, Decision, JSON}

  @patience 15_000

  def run do
    :io.setopts(:standard_io, encoding: :latin1)
    {:ok, _} = Application.ensure_all_started(:hooklatch)
    Driver.Keeper.start()
    # Standard output is for answers alone.
    for handler <- :logger.get_handler_ids(), do: :ok = :logger.remove_handler(handler)
    :ok = :logger.add_handler(:driver, Driver.Keeper, %{})
    {:ok, calls} = Agent.start(fn -> [] end)
    loop(%{session: nil, pending: %{}, calls: calls})
  end

  defp loop(state) do
    case IO.binread(:stdio, :line) do
      :eof ->
        if state.session, do: Hooklatch.close(state.session)

      line ->
        command = JSON.decode!(line)
        {answer, state} = command(command["do"], command, state)
        IO.binwrite(:stdio, [JSON.encode!(answer), "\n"])
        loop(state)
    end
  end

  defp command("open", command, state) do
    if state.session, do: Hooklatch.close(state.session)
    drop_news()
    Agent.update(state.calls, fn _ -> [] end)
    liveness = command["liveness"] || %{}
    names = [path: "path", dialect: "dialect", require: "require", daemon_uid: "daemon_uid"]
    given = for {key, name} <- names, command[name] != nil, do: {key, command[name]}
    patience = for {key, value} <- liveness, do: {String.to_atom(key), value}

    case Hooklatch.open([host: "conformance"] ++ given ++ patience) do
      {:ok, session} ->
        {:ok, identity} = Hooklatch.identity(session)

        connected = Hooklatch.connected?(session)
        answer = %{connected: connected, session_id: identity.session_id, child_token: identity.child_token}
        {answer, %{state | session: session}}

      {:error, problem} ->
        {failure(problem), %{state | session: nil}}
    end
  end

  defp command("fire", command, state), do: {fire(state.session, command), state}

  defp command("begin", command, state) do
    task = Task.async(fn -> fire(state.session, command) end)
    {%{}, put_in(state.pending[command["as"]], task)}
  end

  defp command("end", command, state), do: {Task.await(state.pending[command["as"]], :infinity), state}

  defp command("serve", command, state) do
    {does, calls} = {command["does"], state.calls}

    hook = fn payload ->
      Agent.update(calls, &(&1 ++ [payload]))
      if does["raise"], do: raise(does["raise"]), else: does["answer"]
    end

    case Hooklatch.serve(state.session, command["event"], hook, id: command["id"]) do
      {:ok, id} -> {%{id: id}, state}
      {:error, problem} -> {failure(problem), state}
    end
  end

  defp command("unregister", command, state) do
    :ok = Hooklatch.unregister(state.session, command["id"])
    {%{}, state}
  end

  defp command("called", command, state) do
    until(fn -> length(Agent.get(state.calls, & &1)) >= command["count"] end)
    {Agent.get(state.calls, & &1), state}
  end

  defp command("subscribe", _, state) do
    case Hooklatch.subscribe(state.session) do
      {:ok, revision} -> {%{revision: revision}, state}
      {:error, problem} -> {failure(problem), state}
    end
  end

  defp command("announcement", _, state) do
    receive do
      {:hooklatch, _, announcement} -> {announcement, state}
    after
      @patience -> {%{error: "nothing was announced"}, state}
    end
  end

  defp command("request", command, state) do
    case Hooklatch.request(state.session, command["method"], command["params"]) do
      {:ok, result} -> {%{result: result}, state}
      {:error, problem} -> {failure(problem), state}
    end
  end

  defp command("wait", command, state) do
    until(fn -> Hooklatch.connected?(state.session) == (command["for"] == "connected") end)
    {%{}, state}
  end

  defp command("close", _, state) do
    if state.session, do: Hooklatch.close(state.session)
    {%{}, state}
  end

  defp command("native", %{"call" => "configure"} = command, state) do
    Driver.Actors.clear()

    for {_, hooks} <- BeamAgent.Hooks.global_registry(),
        hook <- hooks,
        do: BeamAgent.Hooks.unregister_global(hook)

    Driver.Keeper.clear()
    Driver.Keeper.keep(:folder, command["cwd"])

    options =
      for {key, value} <- Map.drop(command, ~w(do call)), value != nil, do: {String.to_atom(key), value}

    Driver.Keeper.keep(:options, options)
    Hooklatch.Native.configure(options)
    {%{}, state}
  end

  defp command("native", %{"call" => "end"} = command, state) do
    {task, state} = pop_in(state.pending[{:native, actor(command)}])
    {Driver.Actors.report(Driver.Actors.finish(task)), state}
  end

  defp command("native", %{"call" => "called"} = command, state),
    do: {Driver.Actors.report(%{gave: :ok}, command["count"]), state}

  defp command("native", %{"call" => "logged"} = command, state),
    do: {%{result: Driver.Terms.write(Driver.Keeper.take(:logged, command["count"]))}, state}

  defp command("native", %{"call" => "messages"} = command, state) do
    answer = Driver.Actors.messages(actor(command), command["count"])
    if command["keep"], do: Driver.Keeper.keep(command["keep"], answer.gave)
    {Driver.Actors.report(answer), state}
  end

  defp command("native", %{"call" => call, "with" => arguments} = command, state) do
    task =
      Driver.Actors.begin(actor(command), fn ->
        term = Driver.Terms.call(call, Driver.Terms.read(arguments))
        if command["keep"], do: Driver.Keeper.keep(command["keep"], term)
        term
      end)

    if command["begin"],
      do: {%{}, put_in(state.pending[{:native, actor(command)}], task)},
      else: {Driver.Actors.report(Driver.Actors.finish(task)), state}
  end

  # Callbacks arrive as what they answer; the answer shows which terms came back.
  defp command("native", %{"call" => "fire"} = command, state) do
    alias BeamAgent.Hooks

    hooks =
      for hook <- command["hooks"] do
        event = String.to_atom(hook["event"])
        callback = fn context -> beam_answer(hook["answer"], context) end

        if hook["matcher"],
          do: Hooks.hook(event, callback, %{tool_name: hook["matcher"]}),
          else: Hooks.hook(event, callback)
      end

    event = String.to_atom(command["event"])

    context =
      Map.merge(%{event: event}, Map.new(command["context"], fn {key, one} -> {String.to_atom(key), one} end))

    {tag, value} = Hooks.fire(event, context, Hooks.build_registry(hooks))
    {%{result: [tag, if(is_map(value), do: inspect_keys(value), else: value)]}, state}
  end

  defp command("native", %{"call" => call} = command, state) do
    alias Hooklatch.ExAthena.Hooks

    hooks =
      for {event, entries} <- command["hooks"], into: %{} do
        functions = for entry <- entries, do: fn input, id -> athena_answer(entry, input, id) end

        {String.to_atom(event),
         if(event == "PreToolUse", do: [%{matcher: "write|edit", hooks: functions}], else: functions)}
      end

    result =
      case call do
        "run_pre_tool_use" ->
          Hooks.run_pre_tool_use(hooks, command["tool"], command["input"], "t-1")

        "run_lifecycle" ->
          Hooks.run_lifecycle(hooks, String.to_atom(command["event"]), payload(command))

        "outputs" ->
          Hooks.run_lifecycle_with_outputs(hooks, String.to_atom(command["event"]), payload(command))
      end

    {%{result: if(is_tuple(result), do: Tuple.to_list(result), else: result)}, state}
  end

  defp actor(command), do: command["in"] || "main"

  defp payload(command), do: Map.new(command["payload"], fn {key, one} -> {String.to_atom(key), one} end)

  defp inspect_keys(map), do: Map.new(map, fn {key, one} -> {inspect(key), one} end)

  defp beam_answer(["ok"], context), do: {:ok, context}
  defp beam_answer(["ok", more], context), do: {:ok, Map.merge(context, more)}
  defp beam_answer(["deny", reason], _), do: {:deny, reason}
  defp beam_answer(["ask", reason], _), do: {:ask, reason}
  defp beam_answer(["raise", text], _), do: raise(text)
  defp beam_answer(["throw", text], _), do: throw(text)
  defp beam_answer(["exit"], _), do: Process.exit(self(), :kill)
  defp beam_answer(["no_shell"], %{tool_name: "Bash"}), do: {:deny, "No shell access allowed"}
  defp beam_answer(["no_shell"], context), do: {:ok, context}
  defp beam_answer(_, _), do: :whatever

  defp athena_answer(["protected"], %{:tool_name => _, "path" => path}, _),
    do: if(path =~ "priv/secrets", do: {:deny, :protected_path}, else: :ok)

  defp athena_answer(["stalled"], %{finish_reason: reason}, _), do: {:halt, reason}
  defp athena_answer([tag, value], _, _), do: {String.to_atom(tag), value}
  defp athena_answer(["ok"], _, _), do: :ok
  defp athena_answer(_, _, _), do: raise("kaputt")

  defp fire(session, command) do
    options = for key <- ~w(call_id timeout context envelope), do: {String.to_atom(key), command[key]}
    decision = Hooklatch.fire(session, command["event"], command["payload"], options)
    own = %{allowed: Decision.allowed?(decision), is_local: Decision.local?(decision)}
    Map.merge(Map.drop(Map.from_struct(decision), [:followed_by]), own)
  end

  defp failure({name, text}), do: %{error: text, name: to_string(name), allowed: false}

  defp drop_news do
    receive do
      {:hooklatch, _, _} -> drop_news()
    after
      0 -> :ok
    end
  end

  defp until(question, left \\ div(@patience, 5)) do
    cond do
      question.() -> :ok
      left == 0 -> raise "it did not come to that"
      true -> Process.sleep(5) && until(question, left - 1)
    end
  end
end

Driver.run()
