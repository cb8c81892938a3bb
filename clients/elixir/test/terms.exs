# Structs of the tests' own, as ExAthena has some; `{"$struct": "Message"}` is the first.
defmodule Driver.Message do
  defstruct role: nil, content: nil, name: nil
end

defmodule Driver.Denial do
  defstruct code: nil, requested_tool: nil
end

defmodule Driver.Terms do
  @moduledoc "Elixir's terms as JSON, both ways, in the form that the head of driver.exs describes."

  alias Driver.{Actors, Keeper}

  @doc "Return the term that a value says; `arguments` are those of the function that asks, for `$argument` and the like."
  def read(json, arguments \\ [])
  def read(":" <> name, _), do: String.to_atom(name)
  def read(list, arguments) when is_list(list), do: Enum.map(list, &read(&1, arguments))
  def read(%{"$text" => text}, _), do: text
  def read(%{"$binary" => text}, _), do: Base.decode64!(text)
  def read(%{"$tuple" => items}, arguments), do: List.to_tuple(read(items, arguments))
  def read(%{"$regex" => [source, options]}, _), do: Regex.compile!(source, options)
  def read(%{"$reference" => name}, _), do: Keeper.once({:reference, name}, &make_ref/0)
  def read(%{"$process" => name}, _), do: Actors.pid(name)
  def read(%{"$kept" => name}, _), do: Keeper.kept(name)
  def read(%{"$path" => path}, _), do: Path.expand(path, Keeper.kept(:folder))
  def read(%{"$call" => name, "with" => with_}, arguments), do: call(name, read(with_, arguments))

  def read(%{"$map" => pairs}, arguments),
    do: Map.new(pairs, fn [key, value] -> {read(key, arguments), read(value, arguments)} end)

  def read(%{"$improper" => items}, arguments) do
    [tail | rest] = Enum.reverse(read(items, arguments))
    Enum.reduce(rest, tail, &[&1 | &2])
  end

  def read(%{"$struct" => name} = object, arguments) do
    own = Module.concat(Driver, name)
    kind = if Code.ensure_loaded?(own), do: own, else: Module.concat([name])
    Map.put(read(Map.delete(object, "$struct"), arguments), :__struct__, kind)
  end

  def read(%{"$function" => does} = object, _) do
    made = Driver.Behaviour.function(does, object["as"], object["arity"])
    Keeper.keep({:function, made}, object)
    made
  end

  def read(%{"$argument" => number}, arguments), do: Enum.at(arguments, number)
  def read(%{"$at" => path}, [first | _] = arguments), do: at(first, read(path, arguments))
  def read(%{"$merge" => [a, b]}, arguments), do: Map.merge(read(a, arguments), read(b, arguments))
  def read(%{"$drop" => [a, keys]}, arguments), do: Map.drop(read(a, arguments), read(keys, arguments))

  def read(%{"$append" => [list, one]}, arguments),
    do: (read(list, arguments) || []) ++ [read(one, arguments)]

  def read(%{"$join" => texts}, arguments), do: Enum.join(read(texts, arguments))

  def read(%{} = object, arguments) do
    for key = "$" <> _ <- Map.keys(object), do: raise("the driver knows no #{key}")
    Map.new(object, fn {key, value} -> {read(key), read(value, arguments)} end)
  end

  def read(plain, _), do: plain

  @doc "Return what is at a path of keys, or nil."
  def at(term, path), do: Enum.reduce(path, term, &if(is_map(&2), do: Map.get(&2, &1)))

  @doc "Call a system's function by its name."
  def call(name, arguments) do
    [function | parts] = Enum.reverse(String.split(name, "."))

    module =
      case Enum.reverse(parts) do
        [system] when system in ["BeamAgent", "ExAthena"] -> Module.concat([Hooklatch, system, Hooks])
        others -> Module.concat(others)
      end

    apply(module, String.to_atom(function), arguments)
  end

  @doc "Return a term as JSON."
  def write(plain) when plain in [nil, true, false] or is_number(plain), do: plain
  def write(atom) when is_atom(atom), do: ":" <> Atom.to_string(atom)

  def write(bytes) when is_binary(bytes) do
    cond do
      not String.valid?(bytes) -> %{"$binary" => Base.encode64(bytes)}
      String.starts_with?(bytes, ":") -> %{"$text" => bytes}
      true -> bytes
    end
  end

  def write(tuple) when is_tuple(tuple), do: %{"$tuple" => Enum.map(Tuple.to_list(tuple), &write/1)}
  def write(list) when is_list(list), do: list(list, [])
  def write(%Regex{} = regex), do: %{"$regex" => [Regex.source(regex), options(Regex.opts(regex))]}

  def write(%kind{} = struct) do
    name = String.replace_prefix(inspect(kind), "Driver.", "")
    Map.put(write(Map.delete(struct, :__struct__)), "$struct", name)
  end

  def write(map) when is_map(map) do
    if Enum.all?(Map.keys(map), &plain_key?/1),
      do: Map.new(map, fn {key, value} -> {key(key), write(value)} end),
      else: %{"$map" => Enum.sort(for {key, value} <- map, do: [write(key), write(value)])}
  end

  def write(function) when is_function(function),
    do: Keeper.kept({:function, function}) || %{"$function" => inspect(function)}

  def write(reference) when is_reference(reference),
    do: %{"$reference" => Keeper.name_of(:reference, reference) || inspect(reference)}

  def write(pid) when is_pid(pid), do: %{"$process" => Actors.name(pid) || inspect(pid)}
  def write(other), do: %{"$other" => inspect(other)}

  defp list([one | rest], before), do: list(rest, [write(one) | before])
  defp list([], before), do: Enum.reverse(before)
  defp list(tail, before), do: %{"$improper" => Enum.reverse([write(tail) | before])}

  defp plain_key?(key) when is_atom(key), do: true
  defp plain_key?(key) when is_binary(key), do: String.valid?(key) and not (key =~ ~r/\A[:$]/)
  defp plain_key?(_), do: false

  defp key(key) when is_atom(key), do: ":" <> Atom.to_string(key)
  defp key(key), do: key

  # Elixir 1.14 gives letters, and later ones names.
  defp options(text) when is_binary(text), do: text
  defp options(names), do: Enum.map_join(names, &String.at(Atom.to_string(&1), 0))
end
