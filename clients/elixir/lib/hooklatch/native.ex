defmodule Hooklatch.Native do
  @moduledoc """
  What the adapters share: a session for each process that fires, with that process's hooks, and terms over the wire.

  A hook that could not be registered is an error of the fire: nobody may believe in a guard that is not there.
  """

  alias Hooklatch.JSON

  @doc "Set how sessions of this node are opened; see `Hooklatch.open/1`."
  def configure(options), do: :persistent_term.put({__MODULE__, :options}, options)

  @doc """
  Return the calling process's session in a dialect, with exactly the hooks that are wanted: `{key, definition,
  function}`. It ends with that process.
  """
  def session(dialect, wanted) do
    with {:ok, session, registered} <- opened(dialect) do
      fresh =
        for {key, wire, function} <- wanted, not is_map_key(registered, key), do: {key, {wire, function}}

      gone = Map.drop(registered, Enum.map(wanted, &elem(&1, 0)))

      with {:ok, ids} <- register(session, Enum.map(fresh, &elem(&1, 1))),
           :ok <- unregister(session, Map.values(gone)) do
        added = Map.new(Enum.zip(Enum.map(fresh, &elem(&1, 0)), ids))
        Process.put({__MODULE__, dialect}, {session, Map.merge(Map.drop(registered, Map.keys(gone)), added)})
        {:ok, session}
      end
    end
  end

  defp opened(dialect) do
    case Process.get({__MODULE__, dialect}) do
      {session, registered} ->
        if Process.alive?(session), do: {:ok, session, registered}, else: open(dialect)

      nil ->
        open(dialect)
    end
  end

  defp open(dialect) do
    options = :persistent_term.get({__MODULE__, :options}, [])
    with {:ok, session} <- Hooklatch.open([dialect: dialect] ++ options), do: {:ok, session, %{}}
  end

  defp register(_, []), do: {:ok, []}
  defp register(session, hooks), do: Hooklatch.register(session, hooks)

  defp unregister(session, ids) do
    Enum.reduce_while(ids, :ok, fn id, :ok ->
      case Hooklatch.unregister(session, id) do
        :ok -> {:cont, :ok}
        error -> {:halt, error}
      end
    end)
  end

  @doc "Write a term as the wire can say it: atoms are texts, tuples lists, structs maps without their name."
  def to_wire(%Regex{} = regex), do: Regex.source(regex)
  def to_wire(%_{} = struct), do: to_wire(Map.from_struct(struct))
  def to_wire(map) when is_map(map), do: Map.new(map, fn {key, one} -> {to_key(key), to_wire(one)} end)
  def to_wire(list) when is_list(list), do: Enum.map(list, &to_wire/1)
  def to_wire(tuple) when is_tuple(tuple), do: to_wire(Tuple.to_list(tuple))
  def to_wire(value) when value in [nil, true, false], do: value
  def to_wire(atom) when is_atom(atom), do: Atom.to_string(atom)
  def to_wire(value), do: value

  defp to_key(key) when is_binary(key), do: key
  defp to_key(key) when is_atom(key), do: Atom.to_string(key)
  defp to_key(key), do: raise(JSON.Error, message: "#{inspect(key)} is no key")

  @doc """
  Return what came back in the terms that were sent: an unchanged part is the very term, a changed one plain data.
  Keys that the sender did not have are atoms if `atoms` names them.
  """
  def from_wire(wire, term, atoms \\ []) do
    cond do
      to_wire(term) == wire ->
        term

      is_map(wire) ->
        own =
          if is_map(term),
            do: Map.new(Map.delete(term, :__struct__), fn {key, _} -> {to_string(key), key} end),
            else: %{}

        known = Map.merge(Map.new(atoms, &{Atom.to_string(&1), &1}), own)
        Map.new(wire, fn {key, one} -> part(known[key] || key, one, term) end)

      true ->
        wire
    end
  end

  defp part(key, wire, term) when is_map(term), do: {key, from_wire(wire, Map.get(term, key))}
  defp part(key, wire, _), do: {key, wire}

  @doc "Write a reason, which may be any term, as a text."
  def text(reason) when is_binary(reason), do: if(String.valid?(reason), do: reason, else: inspect(reason))
  def text(reason) when is_atom(reason), do: Atom.to_string(reason)
  def text([{_, reason} | _]) when is_binary(reason), do: reason
  def text(reason), do: inspect(reason)
end
