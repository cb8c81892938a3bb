# Drives the client for the tests of all clients: commands as lines of JSON in, one answer for each out.
defmodule Driver do
  alias Hooklatch.{Decision, JSON}

  @patience 15_000

  def run do
    :io.setopts(:standard_io, encoding: :latin1)
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
    names = [path: "path", dialect: "dialect", require: "require"]
    given = for {key, name} <- names, command[name] != nil, do: {key, command[name]}
    patience = for {key, value} <- liveness, do: {String.to_atom(key), value}

    case Hooklatch.open([host: "conformance"] ++ given ++ patience) do
      {:ok, session} ->
        Process.put(:hooklatch_native, session)
        {:ok, identity} = Hooklatch.identity(session)

        {%{connected: Hooklatch.connected?(session), session_id: identity.session_id},
         %{state | session: session}}

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
