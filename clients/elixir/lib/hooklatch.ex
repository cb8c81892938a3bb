defmodule Hooklatch do
  @moduledoc """
  A client of the hooklatch daemon. No answer is a deny: `fire/4` never raises, and never allows a gate by itself.

      {:ok, session} = Hooklatch.open(host: "my-agent")
      decision = Hooklatch.fire(session, "pre_tool_use", %{tool_name: "Bash", tool_input: %{command: "ls"}})
      if Hooklatch.Decision.allowed?(decision), do: run(), else: refuse(decision.reason)

  Or in a supervision tree, where `MyApp.Hooks` then stands for the session:

      children = [{Hooklatch.Session, host: "my-agent", name: MyApp.Hooks}]
  """

  alias Hooklatch.{Decision, JSON, Session}

  @typedoc "A session: its process, or the name of it."
  @type session :: GenServer.server()

  @typedoc "Why there is no result: a cause of this client's own, or the name of the daemon's error; and a text."
  @type problem :: {atom | String.t(), String.t()}

  @typedoc "A definition as the protocol has it, and the function that is called with payload and call, if it is served."
  @type hook :: {map, (map, map -> term) | nil}

  @doc """
  Open a session that ends with the calling process. Without a daemon it opens too: its gates deny, and it connects
  when there is one.

  Options: path, runtime_dir, daemon_uid (the number of the user whose daemon is taken beside one's own and root's),
  session_id, resume_token, name, host, cwd, dialect, personality, plugins,
  require_handlers, emits, parent (`{session_id, child_token}`; by default HOOKLATCH_PARENT names it), require (an
  error if no daemon is reachable), interval and misses (seconds between pings, and how many may stay unanswered).
  """
  @spec open(keyword) :: {:ok, pid} | {:error, problem}
  def open(options \\ []) do
    {:ok, session} = GenServer.start(Session, {self(), Map.new(options)})

    case GenServer.call(session, :opened, :infinity) do
      :ok -> {:ok, session}
      {:error, problem} -> {:error, problem}
    end
  end

  @doc "Fire an event and return the decision. Options: call_id, timeout (seconds), context, envelope, plugins."
  @spec fire(session, String.t() | atom, map, keyword) :: Decision.t()
  def fire(session, event, payload \\ %{}, options \\ []) do
    event = if is_binary(event) or is_atom(event), do: to_string(event), else: inspect(event)
    options = Enum.to_list(options)
    # What functions of this node that are served have to know of the fire; `call.native` has it.
    native = options[:native] && {options[:call_id], options[:native]}
    options = List.keydelete(options, :native, 0)

    with :ok <- object(payload),
         {:ok, params} <- encoded([event: event, payload: payload] ++ options),
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
  @spec serve(session, String.t() | atom, (map -> term), keyword) :: {:ok, String.t()} | {:error, problem}
  def serve(session, event, hook, options \\ []) do
    wire =
      Map.merge(
        %{"event" => to_string(event), "served" => true},
        Map.new(options, fn {k, v} -> {to_string(k), v} end)
      )

    with {:ok, [id]} <- register(session, [{wire, fn payload, _call -> hook.(payload) end}]), do: {:ok, id}
  end

  @doc "Register hooks, all or none: `{definition, function or nil}`, the function called with payload and call."
  @spec register(session, [hook]) :: {:ok, [String.t()]} | {:error, problem}
  def register(session, hooks) do
    with {:ok, ids, _} <- register(session, hooks, false), do: {:ok, ids}
  end

  @doc """
  Register hooks one by one: one that is refused stands in at its gate, where it refuses, and the others are there.

  Return their ids, nil for one whose event nobody knows, and what was refused: the place in the list and the reason.
  """
  @spec register_each(session, [hook]) ::
          {:ok, [String.t() | nil], [{non_neg_integer, String.t()}]} | {:error, problem}
  def register_each(session, hooks), do: register(session, hooks, true)

  defp register(session, hooks, each?) do
    hooks = for {wire, hook} <- hooks, do: {Map.put_new_lazy(wire, "id", &unique/0), hook}

    with {:ok, params} <-
           encoded([hooks: Enum.map(hooks, &elem(&1, 0))] ++ if(each?, do: [each: true], else: [])),
         {:ok, answer} <- call(session, {:register, params, hooks, each?}) do
      case answer do
        %{"ids" => ids} when is_list(ids) and length(ids) == length(hooks) -> {:ok, ids, refused(answer)}
        _ -> {:error, {:protocol, "the answer is not a list of hook ids"}}
      end
    end
  end

  defp refused(%{"refused" => refused}) when is_list(refused),
    do: for(%{"at" => at, "reason" => reason} <- refused, do: {at, reason})

  defp refused(_), do: []

  @doc "Take off a hook by its id."
  @spec unregister(session, String.t()) :: :ok | {:error, problem}
  def unregister(session, id) do
    with {:ok, params} <- encoded(id: id), {:ok, _} <- call(session, {:unregister, params, id}), do: :ok
  end

  @doc "Make any request of the protocol: `{:ok, result}`, or `{:error, {name, text}}`."
  @spec request(session, String.t(), map | keyword) :: {:ok, term} | {:error, problem}
  def request(session, method, params \\ %{}) do
    with {:ok, params} <- encoded(Enum.to_list(params)), do: call(session, {:request, method, params})
  end

  @doc "Send the caller `{:hooklatch, session, announcement}` from now on; once this returns, none is missed."
  @spec subscribe(session, [String.t()]) :: {:ok, integer | nil} | {:error, problem}
  def subscribe(session, topics \\ ["registry"]) do
    with {:ok, %{"revision" => revision}} <- call(session, {:subscribe, topics, self()}), do: {:ok, revision}
  end

  @doc "Whether there is a daemon now."
  @spec connected?(session) :: boolean
  def connected?(session), do: call(session, :connected) == {:ok, true}

  @doc "The session's id, its resume_token and its child_token; each nil until a daemon has given it."
  @spec identity(session) :: {:ok, map} | {:error, problem}
  def identity(session), do: call(session, :identity)

  @doc "End the session in the daemon, and stop for good; one that is supervised is started again by its supervisor."
  @spec close(session) :: :ok
  def close(session) do
    call(session, :close)
    :ok
  end

  defp call(session, message) do
    GenServer.call(session, message, :infinity)
  catch
    :exit, _ -> {:error, {:no_daemon, "the session is closed; open another one"}}
  end

  defp object(payload) when is_map(payload), do: :ok
  defp object(_), do: {:error, {:payload, "the payload is no map"}}

  defp encoded(params) do
    given = Enum.reject(params, fn {_, value} -> value == nil end)
    {:ok, Enum.map(given, fn {key, value} -> {to_string(key), JSON.encode!(value, to_string(key))} end)}
  rescue
    error in JSON.Error -> {:error, {:payload, error.message}}
    error -> {:error, {:payload, "the params cannot be read: #{Exception.message(error)}"}}
  end

  defp unique, do: "served-#{System.unique_integer([:positive])}"

  defp cause({cause, _} = problem) when cause in [:no_daemon, :protocol, :payload], do: problem
  defp cause({"overload", text}), do: {:overload, text}
  defp cause({_, text}), do: {:protocol, text}
end
