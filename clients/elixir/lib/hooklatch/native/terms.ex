defmodule Hooklatch.Native.Terms do
  @moduledoc """
  Elixir's terms as plain data for the wire, and back again. Knows no event, no hook and no process.

  Atoms are texts, tuples lists, structs maps without their name, and a regular expression its source. What JSON cannot
  say is refused with its path; or it is replaced by a marked form, `%{"$native" => kind, "text" => text}`.
  """

  alias Hooklatch.JSON

  # Of a marked form.
  @longest 200
  # Below what the daemon reads (decisions.json), with room for what is around it.
  @deepest 900

  @typedoc "A term, and the plain copy of it that others were shown."
  @type pair :: {term, term}

  @doc """
  Return a term as plain data. A `Hooklatch.JSON.Error` names the path of what JSON cannot say.

  `path` is where the term stands, such as `"payload"`.
  """
  @spec plain(term, String.t()) :: term
  def plain(term, path), do: copy(term, [path], :strict, 0)

  @doc "Return a term as plain data in which what JSON cannot say is marked; `report` is called with each place and what is there."
  @spec marked(term, String.t(), (String.t() -> term)) :: term
  def marked(term, path, report), do: copy(term, [path], {:mark, report}, 0)

  defp copy(term, path, mode, depth) when depth > @deepest, do: unsaid(term, path, mode, "nested too deep")
  defp copy(term, _, _, _) when is_number(term) or term in [nil, true, false], do: term
  defp copy(term, _, _, _) when is_atom(term), do: Atom.to_string(term)
  defp copy(%Regex{} = regex, _, _, _), do: Regex.source(regex)

  defp copy(term, path, mode, _) when is_binary(term),
    do: if(String.valid?(term), do: term, else: unsaid(term, path, mode, "a binary that is no UTF-8"))

  defp copy(term, path, mode, depth) when is_tuple(term),
    do: copy_list(Tuple.to_list(term), path, mode, depth)

  defp copy(term, path, mode, depth) when is_list(term) do
    if List.improper?(term),
      do: unsaid(term, path, mode, "an improper list"),
      else: copy_list(term, path, mode, depth)
  end

  defp copy(%{} = term, path, mode, depth) do
    {keys, faults} = keys_and_faults(term)
    for fault <- faults, do: refuse(mode, fault_text(fault, path))
    copy_map(term, keys, path, mode, depth)
  end

  defp copy(term, path, mode, _), do: unsaid(term, path, mode, "a #{kind(term)}")

  defp copy_list(list, path, mode, depth),
    do: Enum.with_index(list, fn one, at -> copy(one, ["[#{at}]" | path], mode, depth + 1) end)

  defp copy_map(map, keys, path, mode, depth),
    do: Map.new(keys, fn {text, key} -> {text, copy(Map.get(map, key), [text | path], mode, depth + 1)} end)

  @doc """
  Return the keys of a map by the texts that the wire has for them.

  Of an atom and a text that would be one, the atom keeps the name: programs write atoms, models write texts. The other
  one is in quotation marks, as in ExAthena's payloads. What is neither is written as Elixir shows it.
  """
  @spec keys(map) :: %{String.t() => term}
  def keys(map), do: elem(keys_and_faults(map), 0)

  defp keys_and_faults(map) do
    Enum.reduce(Map.keys(map), {%{}, []}, fn
      :__struct__, found -> found
      key, {keys, faults} -> with_key(text_of(key), key, keys, faults)
    end)
  end

  defp with_key(nil, key, keys, faults),
    do:
      {Map.put(keys, free(inspect(key, limit: 20, printable_limit: @longest), keys), key),
       [{:key, key} | faults]}

  defp with_key(text, key, keys, faults) when is_map_key(keys, text) do
    {first, other} = if is_atom(key), do: {key, keys[text]}, else: {keys[text], key}
    {keys |> Map.put(text, first) |> Map.put(free("\"#{text}\"", keys), other), [{:twice, text} | faults]}
  end

  defp with_key(text, key, keys, faults), do: {Map.put(keys, text, key), faults}

  defp free(text, keys) when is_map_key(keys, text), do: free("\"#{text}\"", keys)
  defp free(text, _), do: text

  defp fault_text({:key, key}, path),
    do: "#{JSON.place(path)} is a map with the key #{inspect(key, limit: 5)}, which JSON cannot say"

  defp fault_text({:twice, text}, path),
    do: "#{JSON.place([text | path])} is there twice, as an atom and as a text"

  defp text_of(key) when is_atom(key), do: Atom.to_string(key)
  defp text_of(key) when is_binary(key), do: if(String.valid?(key), do: key)
  defp text_of(_), do: nil

  defp unsaid(term, path, mode, what) do
    refuse(mode, "#{JSON.place(path)} is #{what}, which JSON cannot say")
    %{"$native" => kind(term), "text" => text(term)}
  end

  defp refuse(:strict, text), do: raise(JSON.Error, message: text)
  defp refuse({:mark, report}, text), do: report.(text)

  defp kind(term) when is_function(term), do: "function"
  defp kind(term) when is_pid(term), do: "pid"
  defp kind(term) when is_reference(term), do: "reference"
  defp kind(term) when is_port(term), do: "port"
  defp kind(term) when is_binary(term), do: "binary"
  defp kind(term) when is_bitstring(term), do: "bitstring"
  defp kind(term) when is_list(term), do: "list"
  defp kind(term) when is_tuple(term), do: "tuple"
  defp kind(%kind{}), do: inspect(kind)
  defp kind(_), do: "map"

  defp text(bytes) when is_binary(bytes) do
    start = binary_part(bytes, 0, min(byte_size(bytes), 4 * @longest))
    for(part <- String.chunk(start, :valid), do: valid(part)) |> Enum.join() |> String.slice(0, @longest)
  end

  defp text(term), do: term |> inspect(limit: 50, printable_limit: @longest) |> String.slice(0, @longest)

  defp valid(part), do: if(String.valid?(part), do: part, else: "\uFFFD")

  @doc """
  Return what came over the wire in the terms that are known, the newest of `pairs` first: an unchanged part is the very
  term, and around a changed one the containers stay what they were. What nobody here knows is plain data.

  `atoms` are keys that are atoms although nobody here wrote them.
  """
  @spec native(term, [pair], [atom]) :: term
  def native(wire, pairs, atoms \\ []) do
    case Enum.find(pairs, fn {_, plain} -> plain === wire end) do
      {term, _} -> term
      nil -> rebuilt(wire, pairs, Map.new(atoms, &{Atom.to_string(&1), &1}))
    end
  end

  defp rebuilt(%{} = wire, pairs, atoms) do
    maps = for {%{} = term, %{} = plain} <- pairs, not marked?(plain), do: {term, plain, keys(term)}

    built =
      Map.new(wire, fn {text, value} ->
        own = for {term, plain, %{^text => key}} <- maps, do: {key, {Map.get(term, key), plain[text]}}
        {key, _} = List.first(own, {Map.get(atoms, text, text), nil})
        {key, native(value, Enum.map(own, &elem(&1, 1)))}
      end)

    case maps do
      [{%kind{} = struct, _, _} | _] when map_size(struct) == map_size(built) + 1 ->
        if Enum.all?(Map.keys(built), &is_map_key(struct, &1)),
          do: Map.put(built, :__struct__, kind),
          else: built

      _ ->
        built
    end
  end

  defp rebuilt(wire, pairs, _) when is_list(wire) do
    lists =
      for {term, plain} <- pairs, is_list(plain), do: {List.to_tuple(elements(term)), List.to_tuple(plain)}

    same = for {terms, plains} <- Enum.reverse(lists), pair <- zipped(plains, terms), into: %{}, do: pair

    built =
      Enum.with_index(wire, fn value, at ->
        beside = for {terms, plains} <- lists, at < tuple_size(terms), do: {elem(terms, at), elem(plains, at)}

        if Enum.all?(beside, fn {_, plain} -> plain !== value end) and is_map_key(same, value),
          do: same[value],
          else: native(value, beside)
      end)

    case pairs do
      [{tuple, _} | _] when is_tuple(tuple) and tuple_size(tuple) == length(built) -> List.to_tuple(built)
      _ -> built
    end
  end

  defp rebuilt(wire, _, _), do: wire

  defp marked?(plain), do: is_map_key(plain, "$native") and map_size(plain) == 2

  defp elements(term) when is_tuple(term), do: Tuple.to_list(term)
  defp elements(term), do: term

  defp zipped(plains, terms), do: Enum.zip(Tuple.to_list(plains), Tuple.to_list(terms))
end
