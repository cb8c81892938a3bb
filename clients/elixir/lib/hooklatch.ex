defmodule Hooklatch do
  @moduledoc """
  A client of the hooklatch daemon. No answer is a deny: `fire/4` never raises, and never allows a gate by itself.

      {:ok, session} = Hooklatch.open(host: "my-agent")
      decision = Hooklatch.fire(session, "pre_tool_use", %{tool_name: "Bash", tool_input: %{command: "ls"}})
      if Hooklatch.Decision.allowed?(decision), do: run(), else: refuse(decision.reason)
  """

  alias Hooklatch.{Decision, JSON, Session}

  @doc """
  Open a session that ends with the calling process. Without a daemon it opens too: its gates deny, and it connects
  when there is one.

  Options: path, runtime_dir, daemon_uid (the number of the user whose daemon is taken beside one's own and root's),
  session_id, resume_token, name, host, cwd, dialect, personality, plugins,
  require_handlers, emits, parent (`{session_id, child_token}`; by default HOOKLATCH_PARENT names it), require (an
  error if no daemon is reachable), interval and misses (seconds between pings, and how many may stay unanswered).
  """
  def open(options \\ []) do
    {:ok, session} = GenServer.start(Session, {self(), Map.new(options)})

    case GenServer.call(session, :opened, :infinity) do
      :ok -> {:ok, session}
      {:error, problem} -> {:error, problem}
    end
  end

  @doc "Fire an event and return the decision. Options: call_id, timeout (seconds), context, envelope, plugins."
  def fire(session, event, payload \\ %{}, options \\ []) do
    event = to_string(event)
    {native, options} = Keyword.pop(options, :native)

    with {:ok, params} <- encoded([event: event, payload: payload] ++ options),
         {:ok, {result, native?}} <- call(session, {:fire, params, native}),
         {:ok, decision} <- Decision.read(result, event, native?) do
      decision
    else
      {:error, problem} -> Decision.local(event, cause(problem))
    end
  end

  @doc """
  Serve a hook: `hook.(payload)`, in a process of its own, returns a verdict as a map, or nil for no opinion. Whatever
  it raises, throws or exits with denies on a gate. Return `{:ok, id}`.
  """
  def serve(session, event, hook, options \\ []) do
    wire =
      Map.merge(
        %{"event" => to_string(event), "served" => true},
        Map.new(options, fn {k, v} -> {to_string(k), v} end)
      )

    with {:ok, [id]} <- register(session, [{wire, fn payload, _call -> hook.(payload) end}]), do: {:ok, id}
  end

  @doc "Register hooks, all or none: `{definition, function or nil}`, the function called with payload and call."
  def register(session, hooks) do
    hooks = for {wire, hook} <- hooks, do: {Map.put_new_lazy(wire, "id", &unique/0), hook}

    with {:ok, params} <- encoded(hooks: Enum.map(hooks, &elem(&1, 0))) do
      case call(session, {:register, params, hooks}) do
        {:ok, %{"ids" => ids}} when length(ids) == length(hooks) -> {:ok, ids}
        {:ok, _} -> {:error, {:protocol, "the answer is not a list of hook ids"}}
        error -> error
      end
    end
  end

  def unregister(session, id) do
    with {:ok, params} <- encoded(id: id), {:ok, _} <- call(session, {:unregister, params, id}), do: :ok
  end

  @doc "Make any request of the protocol: `{:ok, result}`, or `{:error, {name, text}}`."
  def request(session, method, params \\ %{}) do
    with {:ok, params} <- encoded(Enum.to_list(params)), do: call(session, {:request, method, params})
  end

  @doc "Send the caller `{:hooklatch, session, announcement}` from now on; once this returns, none is missed."
  def subscribe(session, topics \\ ["registry"]) do
    with {:ok, %{"revision" => revision}} <- call(session, {:subscribe, topics, self()}), do: {:ok, revision}
  end

  def connected?(session), do: call(session, :connected) == {:ok, true}

  @doc "The session's id, its resume_token and its child_token; each nil until a daemon has given it."
  def identity(session), do: call(session, :identity)

  @doc "End the session in the daemon, and stop for good."
  def close(session) do
    call(session, :close)
    :ok
  end

  defp call(session, message) do
    GenServer.call(session, message, :infinity)
  catch
    :exit, _ -> {:error, {:no_daemon, "the session is closed; open another one"}}
  end

  defp encoded(params) do
    {:ok, for({key, value} <- params, value != nil, do: {to_string(key), JSON.encode!(value)})}
  rescue
    error in JSON.Error -> {:error, {:payload, error.message}}
  end

  defp unique, do: "served-#{System.unique_integer([:positive])}"

  defp cause({cause, _} = problem) when cause in [:no_daemon, :protocol, :payload], do: problem
  defp cause({"overload", text}), do: {:overload, text}
  defp cause({_, text}), do: {:protocol, text}
end
