defmodule Hooklatch.BeamAgent.Globals do
  @moduledoc """
  The global hooks of this node, which every session of its `Hooklatch.BeamAgent.Hooks` has before its own.

  A change is in force in all of them when `change/1` returns, and the reload bus has told its subscribers. The hooks
  themselves outlive this process, which only knows whom to tell.
  """

  @behaviour GenServer

  alias Hooklatch.{BeamAgent.ReloadBus, Native, Native.Registrar}

  @hooks {Hooklatch.BeamAgent.Hooks, :global}

  @doc "Return the global hooks in the order of their registration."
  @spec hooks() :: [map]
  def hooks, do: :persistent_term.get(@hooks, [])

  @doc "Return the global hooks to a session's registrar, which is refreshed at each change from now on."
  @spec joined() :: [map]
  def joined do
    :ok = GenServer.call(started(), {:join, self()}, :infinity)
    hooks()
  end

  @doc "Change the list of global hooks, everywhere on this node."
  @spec change(([map] -> [map])) :: :ok
  def change(change), do: GenServer.call(started(), {:change, change}, :infinity)

  @impl true
  def init(registrars), do: {:ok, registrars}

  @impl true
  def handle_call({:join, registrar}, _from, registrars),
    do: {:reply, :ok, Map.put_new_lazy(registrars, registrar, fn -> Process.monitor(registrar) end)}

  def handle_call({:change, change}, from, registrars) do
    :persistent_term.put(@hooks, change.(hooks()))

    # A registrar asks this process for what is global, so another one waits for them.
    spawn(fn ->
      registrars |> Map.keys() |> Task.async_stream(&refresh/1, timeout: :infinity) |> Stream.run()
      ReloadBus.notify(:hooks)
      GenServer.reply(from, :ok)
    end)

    {:noreply, registrars}
  end

  @impl true
  def handle_info({:DOWN, _, :process, registrar, _}, registrars),
    do: {:noreply, Map.delete(registrars, registrar)}

  def handle_info(_, registrars), do: {:noreply, registrars}

  defp refresh(registrar) do
    with {:error, {_, text}} <- Registrar.refresh(registrar),
         do:
           Native.warn("a session has not got a change of the global hooks; it refuses until it has: #{text}")
  catch
    :exit, _ -> :ok
  end

  defp started, do: Process.whereis(__MODULE__) || begun(GenServer.start(__MODULE__, %{}, name: __MODULE__))

  defp begun({:ok, globals}), do: globals
  defp begun({:error, {:already_started, globals}}), do: globals
end
