defmodule Hooklatch.JSON do
  @moduledoc """
  JSON, strictly: what is not whole and valid raises `Hooklatch.JSON.Error`. Objects are maps with strings as keys.

  Elixir has one of its own from 1.18 on; this is for those before.
  """

  defmodule Error do
    @moduledoc "What is no JSON, or what JSON cannot say; the message says where."
    defexception [:message]
  end

  # as in decisions.json
  @deepest 1000
  @longest_place 200

  @doc "Return what a text says."
  @spec decode!(String.t()) :: term
  def decode!(text) do
    unless String.valid?(text), do: wrong("it is no UTF-8")

    case value(blank(text), 0) do
      {value, rest} -> if blank(rest) == "", do: value, else: wrong("something follows its end")
    end
  end

  @doc """
  Return a value as JSON. Atoms are texts; a tuple, a struct, a function and bytes that are no text raise, with their
  path below `place`.
  """
  @spec encode!(term, String.t()) :: String.t()
  def encode!(value, place \\ "it"), do: IO.iodata_to_binary(encoded(value, [place]))

  @doc "Return a path as people write it, given its parts, the last one first; those in brackets are places in lists."
  @spec place([String.t()]) :: String.t()
  def place(path) do
    [root | keys] = Enum.reverse(path)

    [root | Enum.map(keys, &member/1)]
    |> Enum.join()
    |> String.slice(0, @longest_place)
  end

  defp member("[" <> _ = index), do: index
  defp member(key), do: "." <> if(key =~ ~r/\A[\w-]+\z/u, do: key, else: inspect(key))

  defp value(_, depth) when depth > @deepest, do: wrong("it is nested too deep")
  defp value(<<"null", rest::binary>>, _), do: {nil, rest}
  defp value(<<"true", rest::binary>>, _), do: {true, rest}
  defp value(<<"false", rest::binary>>, _), do: {false, rest}
  defp value(<<?", rest::binary>>, _), do: string(rest, rest, 0, [])

  defp value(<<?[, rest::binary>>, depth) do
    case blank(rest) do
      <<?], rest::binary>> -> {[], rest}
      rest -> list(rest, depth + 1, [])
    end
  end

  defp value(<<?{, rest::binary>>, depth) do
    case blank(rest) do
      <<?}, rest::binary>> -> {%{}, rest}
      rest -> object(rest, depth + 1, %{})
    end
  end

  defp value(text, _) do
    case Regex.run(~r/\A(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?/, text) do
      [all, whole] -> {String.to_integer(whole), after_prefix(text, all)}
      [all, whole, part] -> {float(whole <> part), after_prefix(text, all)}
      [all, whole, part, power] -> {float(whole <> or_zero(part) <> power), after_prefix(text, all)}
      nil -> wrong("no value begins where one should")
    end
  end

  defp or_zero(""), do: ".0"
  defp or_zero(part), do: part

  defp float(text) do
    String.to_float(text)
  rescue
    ArgumentError -> wrong("#{text} is too large")
  end

  defp after_prefix(text, prefix),
    do: binary_part(text, byte_size(prefix), byte_size(text) - byte_size(prefix))

  defp list(text, depth, found) do
    {one, rest} = value(text, depth)

    case blank(rest) do
      <<?,, rest::binary>> -> list(blank(rest), depth, [one | found])
      <<?], rest::binary>> -> {Enum.reverse([one | found]), rest}
      _ -> wrong("a list does not go on")
    end
  end

  defp object(<<?", rest::binary>>, depth, found) do
    {key, rest} = string(rest, rest, 0, [])

    with <<?:, rest::binary>> <- blank(rest),
         {one, rest} = value(blank(rest), depth) do
      if is_map_key(found, key), do: wrong("the key #{inspect(key)} occurs twice in one object")

      case blank(rest) do
        <<?,, rest::binary>> -> object(blank(rest), depth, Map.put(found, key, one))
        <<?}, rest::binary>> -> {Map.put(found, key, one), rest}
        _ -> wrong("an object does not go on")
      end
    else
      _ -> wrong("a key has no value")
    end
  end

  defp object(_, _, _), do: wrong("a key is no text")

  # `from` is the text since the last escape, of which the first `length` bytes are plain.
  defp string(<<?", rest::binary>>, from, length, found),
    do: {IO.iodata_to_binary([found | [binary_part(from, 0, length)]]), rest}

  defp string(<<?\\, rest::binary>>, from, length, found) do
    {character, rest} = escape(rest)
    string(rest, rest, 0, [found, binary_part(from, 0, length), character])
  end

  defp string(<<byte, rest::binary>>, from, length, found) when byte >= 0x20,
    do: string(rest, from, length + 1, found)

  defp string(_, _, _, _), do: wrong("a text does not end, or holds a control character")

  defp escape(<<mark, rest::binary>>) when mark in [?", ?\\, ?/], do: {<<mark>>, rest}
  defp escape(<<?b, rest::binary>>), do: {"\b", rest}
  defp escape(<<?f, rest::binary>>), do: {"\f", rest}
  defp escape(<<?n, rest::binary>>), do: {"\n", rest}
  defp escape(<<?r, rest::binary>>), do: {"\r", rest}
  defp escape(<<?t, rest::binary>>), do: {"\t", rest}

  defp escape(<<?u, digits::binary-size(4), rest::binary>>) do
    case {hex(digits), rest} do
      {high, <<"\\u", digits::binary-size(4), rest::binary>>} when high in 0xD800..0xDBFF ->
        low = hex(digits)
        unless low in 0xDC00..0xDFFF, do: wrong("a text holds a lone surrogate")
        {<<0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00::utf8>>, rest}

      {code, _} when code in 0xD800..0xDFFF ->
        wrong("a text holds a lone surrogate")

      {code, rest} ->
        {<<code::utf8>>, rest}
    end
  end

  defp escape(_), do: wrong("a text has an unknown escape")

  defp hex(digits) do
    if digits =~ ~r/\A[0-9a-fA-F]{4}\z/,
      do: String.to_integer(digits, 16),
      else: wrong("a text has an unknown escape")
  end

  defp blank(<<byte, rest::binary>>) when byte in ' \t\r\n', do: blank(rest)
  defp blank(text), do: text

  defp encoded(nil, _), do: "null"
  defp encoded(value, _) when is_boolean(value), do: Atom.to_string(value)
  defp encoded(value, path) when is_atom(value), do: encoded(Atom.to_string(value), path)
  defp encoded(value, _) when is_integer(value), do: Integer.to_string(value)
  defp encoded(value, _) when is_float(value), do: :erlang.float_to_binary(value, [:short])

  defp encoded(value, path) when is_binary(value) do
    unless String.valid?(value), do: unsaid("a binary that is no UTF-8", path)
    [?", escaped(value), ?"]
  end

  defp encoded(value, path) when is_list(value) do
    if List.improper?(value), do: unsaid("an improper list", path)
    elements = Enum.with_index(value, fn one, at -> encoded(one, ["[#{at}]" | path]) end)
    [?[, Enum.intersperse(elements, ?,), ?]]
  end

  defp encoded(%{__struct__: kind}, path), do: unsaid("a #{inspect(kind)}", path)

  defp encoded(value, path) when is_map(value) do
    members = Enum.map(value, fn {key, one} -> {key_of(key, path), one} end)

    with [twice | _] <- keys(members) -- Enum.uniq(keys(members)),
         do: wrong("#{place([twice | path])} is there twice")

    texts = for {key, one} <- members, do: [encoded(key, path), ?:, encoded(one, [key | path])]
    [?{, Enum.intersperse(texts, ?,), ?}]
  end

  defp encoded(value, path), do: unsaid(inspect(value, limit: 5), path)

  defp keys(members), do: Enum.map(members, &elem(&1, 0))

  defp key_of(key, _) when is_binary(key), do: key
  defp key_of(key, _) when is_atom(key), do: Atom.to_string(key)
  defp key_of(key, path), do: unsaid("a map with the key #{inspect(key, limit: 5)}", path)

  @spec unsaid(String.t(), [String.t()]) :: no_return
  defp unsaid(what, path), do: wrong("#{place(path)} is #{what}, which JSON cannot say")

  defp escaped(text) do
    if text =~ ~r/["\\\x00-\x1f]/, do: for(<<byte <- text>>, do: escaped_byte(byte)), else: text
  end

  defp escaped_byte(?"), do: "\\\""
  defp escaped_byte(?\\), do: "\\\\"

  defp escaped_byte(byte) when byte < 0x20,
    do: "\\u" <> String.pad_leading(Integer.to_string(byte, 16), 4, "0")

  defp escaped_byte(byte), do: byte

  @spec wrong(String.t()) :: no_return
  defp wrong(what), do: raise(Error, message: what)
end
