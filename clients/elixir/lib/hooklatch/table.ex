defmodule Hooklatch.Table do
  @moduledoc """
  Which decisions the daemon writes: decisions.json, which is made from the daemon's own code (clients/README.md).
  """

  @path Path.join(__DIR__, "decisions.json")
  @external_resource @path
  @table Hooklatch.JSON.decode!(File.read!(@path))
  @events @table["events"]
  @combinations @table["combinations"]
  @max_integer 9_007_199_254_740_991

  @doc "Whether an event can refuse; so can one that nobody here knows."
  @spec gate?(String.t()) :: boolean
  def gate?(event), do: Map.get(@events, event, "gate") == "gate"

  @doc "Return why an answer is no decision of the daemon, or nil."
  @spec fault(term) :: String.t() | nil
  def fault(answer), do: unshaped(answer, "decision") || misfit(answer)

  defp misfit(%{"event" => event, "verdict" => verdict, "cause" => cause} = answer) do
    model = @events[event]

    # Of an event that this client does not know, any model's combination may be right.
    rows =
      Enum.filter(@combinations, fn row ->
        row["verdict"] == verdict and row["cause"] == cause and model in [nil, row["model"]]
      end)

    cond do
      rows == [] -> "#{verdict} with cause #{inspect(cause)} is no decision on #{event}"
      not Enum.any?(rows, &of_form?(answer, &1)) -> "it has another form than #{verdict} with its cause"
      true -> nil
    end
  end

  defp of_form?(answer, row) do
    answer["retryable"] == row["retryable"] and
      Enum.all?(row["set"], &(answer[&1] != nil)) and Enum.all?(row["null"], &(answer[&1] == nil))
  end

  defp unshaped(value, kind) when is_map(value) do
    shape = @table[kind]

    missing =
      Enum.find_value(shape["always"], fn {key, _} ->
        unless is_map_key(value, key), do: "its #{key} is missing"
      end)

    missing ||
      Enum.find_value(Map.merge(shape["always"], shape["sometimes"]), fn {key, word} ->
        if is_map_key(value, key) and not fits?(value[key], word), do: "its #{key} is no #{word}"
      end)
  end

  defp unshaped(_, kind), do: "the #{kind} is no object"

  defp fits?(_, "any"), do: true
  defp fits?(value, "text"), do: is_binary(value)
  defp fits?(value, "flag"), do: is_boolean(value)
  defp fits?(value, "integer"), do: is_integer(value) and abs(value) <= @max_integer
  defp fits?(value, "number"), do: is_number(value)
  defp fits?(value, "object"), do: is_map(value)
  defp fits?(value, "head"), do: unshaped(value, "head") == nil
  defp fits?(value, "texts"), do: all?(value, &is_binary/1)
  defp fits?(value, "objects"), do: all?(value, &is_map/1)
  defp fits?(value, "outcomes"), do: all?(value, &(unshaped(&1, "outcome") == nil))
  defp fits?(value, "decisions"), do: all?(value, &(fault(&1) == nil))
  # The others end with "?".
  defp fits?(value, word), do: value == nil or fits?(value, String.trim_trailing(word, "?"))

  defp all?(value, check), do: is_list(value) and Enum.all?(value, check)
end
