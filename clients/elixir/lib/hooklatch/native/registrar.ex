defmodule Hooklatch.Native.Registrar do
  @moduledoc """
  Keeps the hooks of one process's session as they are wanted. It ends with that process, and the session with it.

  Hooks are registered one by one: one that is refused stands in at its gate, and the log says so, once.
  """

  @behaviour GenServer
  require Logger

  alias Hooklatch.Native

  @enforce_keys [:owner, :dialect]
  # `own` are wanted by the owner, `shared` says which besides; `registered` has the id of each by its key, in order.
  defstruct [:owner, :dialect, :session, own: [], shared: nil, registered: [], problems: MapSet.new()]

  @doc "Start the registrar of the calling process."
  @spec start(String.t()) :: {:ok, pid}
  def start(dialect), do: GenServer.start(__MODULE__, %__MODULE__{owner: self(), dialect: dialect})

  @doc """
  Register what is wanted, and take off the rest; return the session and the ids of hooks that were refused.

  `shared` returns hooks that are wanted besides, and is asked again by `refresh/1`.
  """
  @spec sync(pid, [Native.wanted()], (() -> [Native.wanted()])) ::
          {:ok, pid, MapSet.t(String.t())} | {:error, Hooklatch.problem()}
  def sync(registrar, own, shared), do: GenServer.call(registrar, {:sync, own, shared}, :infinity)

  @doc "Bring a session that is open to what is wanted now."
  @spec refresh(pid) :: :ok | {:error, Hooklatch.problem()}
  def refresh(registrar), do: GenServer.call(registrar, :refresh, :infinity)

  @impl true
  def init(state) do
    Process.monitor(state.owner)
    {:ok, state}
  end

  @impl true
  def handle_call({:sync, own, shared}, _from, state) do
    with {:ok, state} <- opened(%{state | own: own, shared: shared}), {:ok, state} <- brought(state) do
      {:reply, {:ok, state.session, state.problems}, state}
    else
      {:error, problem, state} -> {:reply, {:error, problem}, state}
    end
  end

  def handle_call(:refresh, _from, %{session: nil} = state), do: {:reply, :ok, state}

  def handle_call(:refresh, _from, state) do
    case brought(state) do
      {:ok, state} -> {:reply, :ok, state}
      {:error, problem, state} -> {:reply, {:error, problem}, state}
    end
  end

  @impl true
  def handle_info({:DOWN, _, :process, owner, _}, %{owner: owner} = state), do: {:stop, :normal, state}

  # The next fire opens another one.
  def handle_info({:DOWN, _, :process, session, _}, %{session: session} = state),
    do: {:noreply, %{state | session: nil, registered: [], problems: MapSet.new()}}

  def handle_info(_, state), do: {:noreply, state}

  defp opened(%{session: nil} = state) do
    case Hooklatch.open([dialect: state.dialect] ++ Native.options()) do
      {:ok, session} ->
        Process.monitor(session)
        {:ok, %{state | session: session}}

      {:error, problem} ->
        {:error, problem, state}
    end
  end

  defp opened(state), do: {:ok, state}

  defp brought(state) do
    wanted = state.own ++ state.shared.()
    kept = kept(Enum.map(wanted, &elem(&1, 0)), Enum.map(state.registered, &elem(&1, 0)))
    fresh = for {key, _, _} = one <- wanted, not MapSet.member?(kept, key), do: one
    {left, gone} = Enum.split_with(state.registered, fn {key, _} -> MapSet.member?(kept, key) end)

    # The new ones first: what a session hands down to others never has a gap.
    with {:ok, added, problems} <- register(state.session, fresh),
         state = %{
           state
           | registered: left ++ gone ++ added,
             problems: MapSet.union(state.problems, problems)
         },
         :ok <- unregister(state.session, gone) do
      {:ok, %{state | registered: left ++ added}}
    else
      {:error, problem} -> {:error, problem, state}
    end
  end

  # Hooks fire in the order of their registration, those of one kind (the first part of a key) among themselves: what
  # comes after the first difference is registered anew.
  defp kept(wanted, registered) do
    by_kind = Enum.group_by(registered, &elem(&1, 0))

    wanted
    |> Enum.group_by(&elem(&1, 0))
    |> Enum.flat_map(fn {kind, keys} -> common(keys, Map.get(by_kind, kind, [])) end)
    |> MapSet.new()
  end

  defp common([same | a], [same | b]), do: [same | common(a, b)]
  defp common(_, _), do: []

  defp register(_, []), do: {:ok, [], MapSet.new()}

  defp register(session, fresh) do
    hooks = for {_, wire, function} <- fresh, do: {wire, function}

    with {:ok, ids, refused} <- Hooklatch.register_each(session, hooks) do
      own = for {{_, %{"problem" => problem}, _}, at} <- Enum.with_index(fresh), do: {at, problem}
      refused = Map.new(own ++ refused)
      for {at, reason} <- refused, do: warn(elem(Enum.at(fresh, at), 1), reason)
      problems = for at <- Map.keys(refused), id = Enum.at(ids, at), do: id
      {:ok, Enum.zip(Enum.map(fresh, &elem(&1, 0)), ids), MapSet.new(problems)}
    end
  end

  defp warn(wire, reason),
    do: Logger.warning("hooklatch: a hook on #{wire["event"]} cannot be called: #{reason}")

  defp unregister(session, gone) do
    Enum.reduce_while(gone, :ok, fn
      {_, nil}, :ok ->
        {:cont, :ok}

      {_, id}, :ok ->
        case Hooklatch.unregister(session, id) do
          :ok -> {:cont, :ok}
          error -> {:halt, error}
        end
    end)
  end
end
