defmodule Hooklatch.Session do
  @moduledoc """
  One live agent run, across the connections that it takes: framing, unanswered requests, pings, served hooks.

      no socket ──connect, hello──▶ socket ──lost, silent, faulty──▶ no socket, and again after a back-off

  A request that finds the connection just lost waits for the first attempt to get another; after that attempt, and
  until a later one succeeds, every request fails at once. A message that makes no sense ends the connection: nobody
  knows which request that would have answered.
  """

  use GenServer
  require Logger

  alias Hooklatch.{JSON, Paths, Peer, Table}
  alias Hooklatch.Session.{Calls, Hello}

  @protocol 1
  @max_frame 9 * 1024 * 1024
  @max_payload 8 * 1024 * 1024
  @farewell 1000
  @first_retry 50
  @last_retry 5000
  @reserved 4

  # Crash reports show a state; who has these can join the session.
  @derive {Inspect, except: [:options, :resume_token, :child_token]}
  defstruct owner: nil,
            options: %{},
            paths: [],
            socket: nil,
            # :new and :lost (requests are held until the next attempt is over), :connected, :away
            state: :new,
            problem: "no attempt to connect was made yet",
            opening: nil,
            held: [],
            number: 0,
            # what to do with the answer by the request's number; nil where nobody waits for it
            unanswered: %{},
            queue: :queue.new(),
            in_flight: 0,
            most: 1,
            missed: 0,
            ticking: nil,
            begun: [],
            size: 0,
            attempts: 0,
            hooks: %{},
            order: [],
            # whether a hook that the daemon refuses is refused alone, also when the session is resumed
            each: false,
            calls: %{},
            topics: MapSet.new(),
            listeners: MapSet.new(),
            session_id: nil,
            resume_token: nil,
            child_token: nil,
            revision: nil,
            limit: @max_payload,
            # what served hooks need to know of the fires of this session, by their call_id
            natives: %{}

  @type option :: {atom, term}

  @doc "Describe a session for a supervisor: `{Hooklatch.Session, host: \"my-agent\", name: MyApp.Hooks}`."
  @spec child_spec([option]) :: Supervisor.child_spec()
  def child_spec(options) do
    # The supervisor keeps both, so that a session that is started again is the one that it was.
    options =
      if options[:session_id],
        do: Keyword.put_new_lazy(options, :resume_token, fn -> token_of(options[:session_id]) end),
        else: [session_id: "ex-" <> binary_part(token(), 0, 16), resume_token: token()] ++ options

    %{id: options[:name] || __MODULE__, start: {__MODULE__, :start_link, [options]}}
  end

  # A supervisor may be started again itself, and asks for the description again.
  defp token_of(id) do
    key = {__MODULE__, :token, id}
    token = :persistent_term.get(key, nil) || token()
    :persistent_term.put(key, token)
    token
  end

  defp token, do: Base.url_encode64(:crypto.strong_rand_bytes(32), padding: false)

  @doc """
  Open a session that is linked to the calling process, as supervisors do. Every function of `Hooklatch` takes its pid,
  or its name.

  It takes the options of `Hooklatch.open/1`; a `name` that is an atom, `{:global, term}` or `{:via, module, term}`
  registers the process. One that was killed and is started again by its supervisor is the same session: with its id,
  its hooks and those that they are served by, and its subscribers, who are told to look for what they missed.
  """
  @spec start_link([option]) :: GenServer.on_start()
  def start_link(options) do
    {registered, options} = registered(Map.new(options))

    with {:ok, session} <- GenServer.start_link(__MODULE__, {nil, options}, registered) do
      case GenServer.call(session, :opened, :infinity) do
        :ok -> {:ok, session}
        {:error, problem} -> {:error, problem}
      end
    end
  end

  defp registered(%{name: name} = options) when name != nil and not is_binary(name),
    do: {[name: name], Map.delete(options, :name)}

  defp registered(options), do: {[], options}

  @impl true
  def init({owner, options}) do
    # A supervised session has no owner; it ends with an order of its supervisor, which `terminate` hears of.
    if owner, do: Process.monitor(owner), else: Process.flag(:trap_exit, true)
    given = Map.take(options, [:session_id, :resume_token])
    state = struct!(%__MODULE__{owner: owner, options: options, paths: Paths.candidates(options)}, given)
    {:ok, recalled(state)}
  end

  # What a supervised session has to know when it is started again, after it was killed.

  defp remembered(%{owner: nil, session_id: id} = state) when id != nil do
    :persistent_term.put({__MODULE__, id}, Map.take(state, [:hooks, :order, :each, :topics, :listeners]))
    state
  end

  defp remembered(state), do: state

  defp recalled(%{owner: nil, session_id: id} = state) when id != nil do
    known = :persistent_term.get({__MODULE__, id}, %{})
    for listener <- known[:listeners] || [], do: Process.monitor(listener)
    # Any revision of the daemon is later, so that listeners are told that they missed something.
    struct!(%{state | revision: if(known[:listeners], do: 0)}, known)
  end

  defp recalled(state), do: state

  defp forgotten(state) do
    if state.owner == nil, do: :persistent_term.erase({__MODULE__, state.session_id})
    state
  end

  # The first attempt begins with this, so that whoever opens the session is there to be told of its end.
  @impl true
  def handle_call(:opened, from, %{state: :new} = state), do: connect(%{state | opening: from})
  def handle_call(:opened, _from, state), do: {:reply, :ok, state}
  def handle_call(:connected, _from, state), do: {:reply, {:ok, state.state == :connected}, state}

  def handle_call(:identity, _from, state),
    do: {:reply, {:ok, Map.take(state, [:session_id, :resume_token, :child_token, :revision])}, state}

  def handle_call(:close, from, %{state: :connected} = state) do
    Process.send_after(self(), {:closed, from}, @farewell)
    {:noreply, send_now(state, "session.close", [], {:close, from})}
  end

  def handle_call(:close, _from, state), do: {:stop, :normal, :ok, end_all(state, "the session was closed")}
  def handle_call(request, from, state), do: {:noreply, asked(request, from, state)}

  @impl true
  def handle_info({:tcp, socket, data}, %{socket: socket} = state), do: {:noreply, receive_data(state, data)}

  def handle_info({:tcp_closed, socket}, %{socket: socket} = state),
    do: {:noreply, lost(state, "the daemon hung up")}

  def handle_info({:tcp_error, socket, why}, %{socket: socket} = state),
    do: {:noreply, lost(state, "the connection failed: #{inspect(why)}")}

  def handle_info({:tick, socket}, %{socket: socket} = state) when socket != nil, do: {:noreply, tick(state)}
  def handle_info(:connect, %{socket: nil} = state), do: connect(state)
  def handle_info({:refused, answer}, state), do: {:stop, :normal, refuse_opening(state, answer)}

  def handle_info({:closed, from}, state) do
    GenServer.reply(from, :ok)
    {:stop, :normal, end_all(state, "the session was closed")}
  end

  def handle_info({:answered, pid, socket, id, body}, state) do
    {_, calls} = Map.pop(state.calls, pid)
    if socket == state.socket, do: write(state, Calls.answer(id, body))
    {:noreply, %{state | calls: calls}}
  end

  def handle_info({:DOWN, _, :process, owner, _}, %{owner: owner} = state),
    do: {:stop, :normal, end_all(say_goodbye(state), "its owner has ended")}

  def handle_info({:DOWN, _, :process, pid, why}, state) do
    case Map.pop(state.calls, pid) do
      {{socket, id}, calls} when socket == state.socket ->
        write(state, Calls.answer(id, Calls.failed(-32_603, "internal_error", inspect(why))))
        {:noreply, %{state | calls: calls}}

      {_, calls} ->
        {:noreply, %{state | calls: calls, listeners: MapSet.delete(state.listeners, pid)}}
    end
  end

  # Of a connection that is over.
  def handle_info(_, state), do: {:noreply, state}

  @impl true
  def terminate(_, state), do: end_all(forgotten(say_goodbye(state)), "the session was closed")

  defp say_goodbye(state) do
    if state.state == :connected,
      do: write(state, ~s({"jsonrpc":"2.0","id":0,"method":"session.close","params":{}}\n))

    state
  end

  # Connecting

  defp connect(state) do
    case Peer.connect(state.paths, state.options[:daemon_uid]) do
      {:ok, socket} ->
        state = %{
          state
          | socket: socket,
            begun: [],
            size: 0,
            unanswered: %{},
            in_flight: 0,
            most: 1,
            missed: 0
        }

        {:noreply, send_now(state, "hello", Hello.params(state), :hello)}

      {:error, problem} ->
        {:noreply, not_connected(state, {:no_daemon, problem})}
    end
  end

  defp welcomed(state, %{"protocol" => @protocol} = welcome) do
    limits = if is_map(welcome["limits"]), do: welcome["limits"], else: %{}

    state = %{
      state
      | session_id: welcome["session_id"] || state.session_id,
        resume_token: welcome["resume_token"] || state.resume_token,
        child_token: welcome["child_token"],
        limit: limits["payload_bytes"] || @max_payload,
        most: max(1, (limits["in_flight"] || 64) - @reserved)
    }

    if MapSet.size(state.topics) == 0 do
      connected(state, welcome["revision"])
    else
      send_now(state, "subscribe", [{"topics", JSON.encode!(Enum.sort(state.topics))}], :resubscribed)
    end
  end

  defp welcomed(state, _),
    do: not_connected(hang_up(state), {:protocol, "the daemon speaks another protocol"})

  defp connected(state, revision) do
    if state.state != :new, do: Logger.info("hooklatch: #{named(state)} has a daemon again")
    state = heard_of(%{state | state: :connected, attempts: 0}, revision)
    if state.opening, do: GenServer.reply(state.opening, :ok)
    release(%{state | opening: nil})
  end

  # Tell listeners if they missed something; an announcement may have overtaken the answer.
  defp heard_of(%{revision: before} = state, revision) when before in [nil, revision],
    do: %{state | revision: revision}

  defp heard_of(state, revision) do
    current = max(state.revision, revision || state.revision)
    tell(%{state | revision: current}, %{"topic" => "registry", "resync" => current})
  end

  defp not_connected(state, {cause, text} = problem) do
    refused? = is_binary(cause) and cause not in ["draining", "overload"]

    if state.opening != nil and (refused? or state.options[:require]) do
      send(self(), {:refused, {:error, problem}})
      state
    else
      if state.state == :new, do: tell_of_loss(state, text)
      if state.opening, do: GenServer.reply(state.opening, :ok)
      retry(release(%{state | state: :away, opening: nil, problem: text}))
    end
  end

  defp tell_of_loss(state, text),
    do:
      Logger.warning("hooklatch: #{named(state)} has no daemon, its gates refuse until there is one: #{text}")

  defp named(state), do: "session #{state.session_id || "of #{inspect(state.owner)}"}"

  defp refuse_opening(state, answer) do
    GenServer.reply(state.opening, answer)
    end_all(%{state | opening: nil}, "the session was refused")
  end

  defp retry(state) do
    longest = min(@last_retry, @first_retry * Integer.pow(2, min(state.attempts, 16)))
    Process.send_after(self(), :connect, round(longest * (1 - :rand.uniform() / 2)))
    %{state | attempts: state.attempts + 1}
  end

  # Run what waited for the end of an attempt.
  defp release(state) do
    Enum.reduce(Enum.reverse(state.held), %{state | held: []}, fn {request, from}, state ->
      asked(request, from, state)
    end)
  end

  defp lost(%{state: :connected} = state, problem) do
    tell_of_loss(state, problem)
    retry(fail_waiting(hang_up(%{state | state: :lost, problem: problem}), problem))
  end

  defp lost(state, problem), do: not_connected(hang_up(state), {:no_daemon, problem})

  defp faulty(%{state: :connected} = state, problem) do
    text = "the daemon sent what cannot be understood: #{problem}"
    tell_of_loss(state, text)
    retry(fail_waiting(hang_up(%{state | state: :lost, problem: text}), {:protocol, text}))
  end

  defp faulty(state, problem), do: lost(state, problem)

  defp hang_up(state) do
    if state.socket, do: Peer.close(state.socket)
    if state.ticking, do: Process.cancel_timer(state.ticking)
    %{state | socket: nil, ticking: nil, queue: :queue.new(), begun: [], size: 0}
  end

  defp fail_waiting(state, {_, _} = problem) do
    for {_, {:reply, from, _}} <- state.unanswered, do: GenServer.reply(from, {:error, problem})
    for {_, {:close, from}} <- state.unanswered, do: send(self(), {:closed, from})
    %{state | unanswered: %{}, in_flight: 0, natives: %{}}
  end

  defp fail_waiting(state, text), do: fail_waiting(state, {:no_daemon, text})

  defp end_all(state, text) do
    for {_, from} <- state.held, do: GenServer.reply(from, {:error, {:no_daemon, text}})
    for {pid, _} <- state.calls, do: Process.exit(pid, :kill)
    fail_waiting(hang_up(%{state | held: [], calls: %{}, state: :closed}), text)
  end

  # Requests

  # What somebody asks for that cannot be asked is no end of the session, which others have too.
  defp asked(request, from, state) do
    ask(request, from, state)
  rescue
    error ->
      GenServer.reply(from, {:error, {:payload, "it cannot be asked: #{Exception.message(error)}"}})
      state
  end

  defp ask(request, from, %{state: waiting} = state) when waiting in [:new, :lost],
    do: %{state | held: [{request, from} | state.held]}

  # Subscribed as soon as there is a daemon, also where there is none now.
  defp ask({:subscribe, topics, listener}, from, state) do
    Process.monitor(listener)
    topics = Enum.into(topics, state.topics)
    state = remembered(%{state | topics: topics, listeners: MapSet.put(state.listeners, listener)})
    submit(state, "subscribe", [{"topics", JSON.encode!(Enum.sort(topics))}], {:reply, from, nil})
  end

  defp ask({:fire, params, native}, from, state) do
    {_, payload} = List.keyfind(params, "payload", 0)
    cut? = byte_size(payload) > state.limit
    # The daemon is told that it was too long, and refuses.
    params =
      if cut?,
        do: List.keyreplace(params, "payload", 0, {"payload", "{}"}) ++ [{"truncated", "true"}],
        else: params

    case native do
      {id, known} -> submit(put_in(state.natives[id], known), "fire", params, {:reply, from, {:fire, id}})
      nil -> submit(state, "fire", params, {:reply, from, {:fire, nil}})
    end
  end

  defp ask({:register, params, hooks, each?}, from, state) do
    before = {state.hooks, state.order}
    state = %{state | each: state.each or each?}
    # First: the daemon may call a hook before we read that it is active.
    submit(remembered(keep(state, hooks)), "register", params, {:reply, from, {:registered, hooks, before}})
  end

  defp ask({:unregister, params, id}, from, state),
    do: submit(state, "unregister", params, {:reply, from, {:unregistered, id}})

  defp ask({:request, method, params}, from, state), do: submit(state, method, params, {:reply, from, nil})

  defp keep(state, hooks) do
    Enum.reduce(hooks, state, fn {wire, hook}, state ->
      id = wire["id"]
      order = if is_map_key(state.hooks, id), do: state.order, else: [id | state.order]
      %{state | hooks: Map.put(state.hooks, id, {wire, hook}), order: order}
    end)
  end

  defp submit(%{state: :connected} = state, method, params, then) do
    {number, line} = line(state, method, params)

    if byte_size(line) > @max_frame do
      settle(state, then, {:error, {:payload, "#{method} would be a message over #{@max_frame} bytes"}})
    else
      state = %{state | number: number, unanswered: Map.put(state.unanswered, number, then)}
      send_queued(watch(%{state | queue: :queue.in(line, state.queue)}))
    end
  end

  defp submit(state, _method, _params, then), do: settle(state, then, {:error, {:no_daemon, state.problem}})

  defp send_queued(state) do
    with true <- state.in_flight < state.most, {{:value, line}, queue} <- :queue.out(state.queue) do
      write(state, line)
      send_queued(%{state | queue: queue, in_flight: state.in_flight + 1})
    else
      _ -> state
    end
  end

  defp send_now(state, method, params, then) do
    {number, line} = line(state, method, params)
    write(state, line)
    watch(%{state | number: number, unanswered: Map.put(state.unanswered, number, then)})
  end

  defp line(state, method, params) do
    members = Enum.map_join(params, ",", fn {key, json} -> [JSON.encode!(key), ?:, json] end)
    number = state.number + 1
    {number, ~s({"jsonrpc":"2.0","id":#{number},"method":#{JSON.encode!(method)},"params":{#{members}}}\n)}
  end

  # What cannot be written is a connection that has ended, which says so itself. It never waits: see Peer.
  defp write(%{socket: socket}, line), do: :gen_tcp.send(socket, line)

  # Liveness: a daemon that answers nothing, not even pings, is gone. Intervals are counted, not measured.

  defp watch(%{ticking: nil} = state), do: schedule(%{state | missed: 0})
  defp watch(state), do: state

  defp schedule(state) do
    interval = round(1000 * (state.options[:interval] || 1))
    %{state | ticking: Process.send_after(self(), {:tick, state.socket}, interval)}
  end

  defp tick(state) do
    waits? = Enum.any?(state.unanswered, fn {_, then} -> then != nil end)

    cond do
      not waits? ->
        %{state | ticking: nil}

      state.missed >= (state.options[:misses] || 5) ->
        lost(state, "the daemon is connected but silent, even to pings")

      state.missed == 0 ->
        schedule(%{state | missed: 1})

      true ->
        schedule(send_now(%{state | missed: state.missed + 1}, "ping", [], nil))
    end
  end

  # What arrives

  defp receive_data(state, data), do: take_lines(%{state | missed: 0}, data)

  defp take_lines(%{socket: nil} = state, _), do: state

  defp take_lines(state, data) do
    case :binary.split(data, "\n") do
      [part] -> begin_line(state, part)
      [part, rest] -> finish_line(begin_line(state, part), rest)
    end
  end

  defp begin_line(state, part) do
    state = %{state | begun: [state.begun, part], size: state.size + byte_size(part)}

    if state.size > @max_frame,
      do: faulty(state, "a line is over the limit of #{@max_frame} bytes"),
      else: state
  end

  defp finish_line(%{socket: nil} = state, _), do: state

  defp finish_line(state, rest) do
    line = IO.iodata_to_binary(state.begun)
    take_lines(take(%{state | begun: [], size: 0}, line), rest)
  end

  defp take(state, line) do
    case JSON.decode!(line) do
      %{"jsonrpc" => "2.0"} = message ->
        if Enum.count(~w(method result error), &part?(message, &1)) == 1,
          do: take_message(state, message),
          else: faulty(state, "a message is a request, a result or an error")

      _ ->
        faulty(state, "it is no JSON-RPC 2.0 object")
    end
  rescue
    error in JSON.Error -> faulty(state, error.message)
  end

  # Some libraries send `"error": null` with a result.
  defp part?(message, key), do: is_map_key(message, key) and (key != "error" or message[key] != nil)

  defp take_message(state, %{"method" => "announce", "params" => params} = message)
       when not is_map_key(message, "id"),
       do: announced(state, params)

  defp take_message(state, %{"method" => method, "id" => nil}) when is_binary(method),
    do: faulty(state, "a request whose id is null can have no answer")

  defp take_message(state, %{"method" => method, "id" => id} = message) when is_binary(method),
    do: serve(state, JSON.encode!(id), method, message["params"])

  # A newer daemon may announce more than we know.
  defp take_message(state, %{"method" => method}) when is_binary(method), do: state

  defp take_message(state, %{"id" => id, "error" => %{} = error}),
    do: answered(state, id, {:error, read_error(error)})

  defp take_message(state, %{"id" => id, "result" => result} = message)
       when not is_map_key(message, "error") or :erlang.map_get("error", message) == nil,
       do: answered(state, id, {:ok, result})

  defp take_message(state, _), do: faulty(state, "an answer needs a result or an error")

  defp read_error(error) do
    name = if is_map(error["data"]), do: error["data"]["name"]
    text = if is_binary(error["message"]), do: error["message"], else: "it gave no reason"
    {if(is_binary(name), do: name, else: ""), text}
  end

  defp answered(state, id, answer) do
    case Map.pop(state.unanswered, id, :unknown) do
      {:unknown, _} ->
        faulty(state, "it answers request #{inspect(id)}, which was never sent")

      {{:reply, _, _} = then, rest} ->
        send_queued(settle(%{state | unanswered: rest, in_flight: state.in_flight - 1}, then, answer))

      {then, rest} ->
        settle(%{state | unanswered: rest}, then, answer)
    end
  end

  defp settle(state, nil, _), do: state
  defp settle(state, :hello, {:ok, welcome}), do: welcomed(state, welcome)
  defp settle(state, :hello, {:error, problem}), do: not_connected(hang_up(state), problem)
  defp settle(state, :resubscribed, {:ok, %{"revision" => revision}}), do: connected(state, revision)

  defp settle(state, :resubscribed, _),
    do: not_connected(hang_up(state), {:protocol, "the daemon took no subscription"})

  defp settle(state, {:close, from}, _) do
    send(self(), {:closed, from})
    %{hang_up(state) | state: :closed, problem: "the session was closed"}
  end

  defp settle(state, {:reply, from, {:fire, id}}, answer) do
    answer = with {:ok, result} <- answer, do: {:ok, {result, state.options[:dialect] != nil}}
    GenServer.reply(from, answer)
    %{state | natives: Map.delete(state.natives, id)}
  end

  defp settle(state, {:reply, from, {:registered, _, {hooks, order}}}, {:error, _} = answer) do
    GenServer.reply(from, answer)
    remembered(%{state | hooks: hooks, order: order})
  end

  # What has no id in the answer was refused, and nothing stands in for it.
  defp settle(state, {:reply, from, {:registered, hooks, _}}, {:ok, %{"ids" => ids}} = answer)
       when is_list(ids) do
    GenServer.reply(from, answer)
    gone = for {{wire, _}, nil} <- Enum.zip(hooks, ids), do: wire["id"]
    remembered(%{state | hooks: Map.drop(state.hooks, gone), order: state.order -- gone})
  end

  defp settle(state, {:reply, from, {:unregistered, id}}, {:ok, _} = answer) do
    GenServer.reply(from, answer)
    remembered(%{state | hooks: Map.delete(state.hooks, id), order: List.delete(state.order, id)})
  end

  defp settle(state, {:reply, from, _}, answer) do
    GenServer.reply(from, answer)
    state
  end

  defp announced(state, %{"topic" => topic} = announcement) when is_binary(topic) do
    current = announcement["resync"] || announcement["revision"]
    problem = if is_map_key(announcement, "decision"), do: Table.fault(announcement["decision"])

    cond do
      problem != nil -> faulty(state, "the announced decision is not valid: #{problem}")
      is_integer(current) -> tell(%{state | revision: current}, announcement)
      true -> tell(state, announcement)
    end
  end

  defp announced(state, _), do: faulty(state, "an announcement names no topic")

  defp tell(state, announcement) do
    for listener <- state.listeners, do: send(listener, {:hooklatch, self(), announcement})
    state
  end

  # Served hooks

  defp serve(state, id, "call", %{"hook" => hook, "event" => event, "payload" => %{}} = call)
       when is_binary(hook) and is_binary(event) do
    case state.hooks[hook] do
      {_, function} when is_function(function, 2) ->
        pid = Calls.begin(id, state.socket, function, Map.put(call, :native, state.natives[call["call_id"]]))
        %{state | calls: Map.put(state.calls, pid, {state.socket, id})}

      _ ->
        refuse(state, id, -32_603, "internal_error", "this client serves no hook #{hook}")
    end
  end

  defp serve(state, id, "call", _),
    do: refuse(state, id, -32_602, "invalid_params", "it is no call of a hook")

  defp serve(state, id, method, _),
    do: refuse(state, id, -32_601, "method_not_found", "no client serves #{method}")

  defp refuse(state, id, code, name, text) do
    write(state, Calls.answer(id, Calls.failed(code, name, text)))
    state
  end
end
