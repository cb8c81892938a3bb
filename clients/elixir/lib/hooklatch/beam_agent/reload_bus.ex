defmodule Hooklatch.BeamAgent.ReloadBus do
  @moduledoc """
  BeamAgent's reload bus: who subscribes is sent `{:beam_agent_reload, type, version}` at each change. One bus for one node,
  as there; `Hooklatch.subscribe/2` hears of the daemon's hooks, which are those of all nodes.

  It starts when it is first needed. The version counts the changes of this node since it began, whatever becomes of the
  bus.
  """

  @behaviour GenServer

  @version {__MODULE__, :version}

  @doc "Start the bus, if it does not run yet."
  @spec ensure_table() :: :ok
  def ensure_table do
    started()
    :ok
  end

  @doc "Send a process, by default the caller, every change from now on; once, however often it subscribes."
  @spec subscribe(pid) :: :ok
  def subscribe(pid \\ self()), do: ask({:subscribe, pid})

  @doc "Send a process, by default the caller, no more of them."
  @spec unsubscribe(pid) :: :ok
  def unsubscribe(pid \\ self()), do: ask({:unsubscribe, pid})

  @doc "Return who subscribes."
  @spec subscribers() :: [pid]
  def subscribers, do: ask(:subscribers)

  @doc "Tell the subscribers of a change; once this returns, each has been sent the message."
  @spec notify(atom) :: :ok
  def notify(type), do: ask({:notify, type})

  @doc "Return how many changes there have been."
  @spec version() :: non_neg_integer
  def version, do: :persistent_term.get(@version, 0)

  @impl true
  def init(subscribers), do: {:ok, subscribers}

  @impl true
  def handle_call({:subscribe, pid}, _from, subscribers),
    do: {:reply, :ok, Map.put_new_lazy(subscribers, pid, fn -> Process.monitor(pid) end)}

  def handle_call({:unsubscribe, pid}, _from, subscribers) do
    {watched, rest} = Map.pop(subscribers, pid)
    if watched, do: Process.demonitor(watched, [:flush])
    {:reply, :ok, rest}
  end

  def handle_call(:subscribers, _from, subscribers), do: {:reply, Map.keys(subscribers), subscribers}

  def handle_call({:notify, type}, _from, subscribers) do
    version = version() + 1
    :persistent_term.put(@version, version)
    for pid <- Map.keys(subscribers), do: send(pid, {:beam_agent_reload, type, version})
    {:reply, :ok, subscribers}
  end

  @impl true
  def handle_info({:DOWN, _, :process, pid, _}, subscribers), do: {:noreply, Map.delete(subscribers, pid)}
  def handle_info(_, subscribers), do: {:noreply, subscribers}

  defp ask(question), do: GenServer.call(started(), question, :infinity)

  defp started, do: Process.whereis(__MODULE__) || begun(GenServer.start(__MODULE__, %{}, name: __MODULE__))

  defp begun({:ok, bus}), do: bus
  defp begun({:error, {:already_started, bus}}), do: bus
end
