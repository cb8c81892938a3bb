defmodule Hooklatch.Native.Ledger do
  @moduledoc """
  What one fire was given and what its callbacks gave back, as terms beside their plain copies. It ends with the fire.

  The wire carries plain copies. Whoever of this node is shown the payload next is shown these terms, wherever the wire
  still says what their copies say. A fire is found by its `call_id`, which nobody else can guess: another session whose
  fires call hooks of this node has no ledger, and gets plain data.
  """

  alias Hooklatch.{Decision, Native.Terms}

  @enforce_keys [:call_id, :table, :about]
  defstruct @enforce_keys

  @typedoc "`about` is what the adapter needs to know of the fire beside its payload."
  @type t :: %__MODULE__{call_id: String.t(), table: :ets.table(), about: term}

  @doc "Begin a fire of a payload and its plain copy; the calling process has to `close/1` it."
  @spec open(term, term, term) :: t
  def open(payload, plain, about \\ nil) do
    call_id = "call-" <> Base.encode16(:crypto.strong_rand_bytes(12), case: :lower)
    ledger = %__MODULE__{call_id: call_id, table: :ets.new(__MODULE__, [:ordered_set, :public]), about: about}
    given(ledger, payload, plain, plain)
    ledger
  end

  @doc "Forget the fire."
  @spec close(t) :: true
  def close(ledger), do: :ets.delete(ledger.table)

  @doc "Keep what a callback gave back for the payload that it was shown as `wire`."
  @spec given(t, term, term, term) :: true
  def given(ledger, term, plain, wire),
    do: :ets.insert(ledger.table, {{:given, -:erlang.unique_integer([:monotonic])}, {term, plain, wire}})

  @doc "Return all versions of the payload, the newest first: the term, its copy, and what its giver had been shown."
  @spec versions(t) :: [{term, term, term}]
  def versions(ledger), do: :ets.select(ledger.table, [{{{:given, :_}, :"$1"}, [], [:"$1"]}])

  @doc "Return what came over the wire in the terms of this fire."
  @spec native(t, term, [atom]) :: term
  def native(ledger, wire, atoms),
    do: Terms.native(wire, for({term, plain, _} <- versions(ledger), do: {term, plain}), atoms)

  @doc "Keep the answer of a hook: a word, the term that it said, and what the wire has of it."
  @spec said(t, String.t(), atom, term, term) :: true
  def said(ledger, hook, word, term, plain), do: :ets.insert(ledger.table, {{:said, hook}, word, term, plain})

  @doc "Return the word and the term that a hook has said last in this fire, or nil."
  @spec answer(t, String.t()) :: {atom, term} | nil
  def answer(ledger, hook) do
    case :ets.lookup(ledger.table, {:said, hook}) do
      [{_, word, term, _}] -> {word, term}
      [] -> nil
    end
  end

  @doc "Return the reason of a refusal: the term, if a hook of this node decided, else the text."
  @spec reason(t, Decision.t(), term) :: term
  def reason(ledger, %Decision{cause: "policy", hook: hook, layer: "session"}, text) do
    case answer(ledger, hook) do
      # Nil would say that nothing was refused.
      {word, term} when word in [:deny, :ask, :halt] and term not in [nil, false] -> term
      _ -> text
    end
  end

  def reason(_, _, text), do: text

  @doc "Return each of some answers as the term that a hook of this node said with this word, where one did."
  @spec answers(t, atom, [term]) :: [term]
  def answers(ledger, word, answers) do
    own = :ets.select(ledger.table, [{{{:said, :_}, word, :"$1", :"$2"}, [], [{{:"$1", :"$2"}}]}])

    pairs =
      Enum.flat_map(own, fn {term, plain} ->
        if is_list(plain), do: Enum.zip(term, plain), else: [{term, plain}]
      end)

    elem(Enum.map_reduce(answers, pairs, &answered/2), 0)
  end

  # Each of them is one answer: two hooks may say what looks the same on the wire.
  defp answered(wire, pairs) do
    case Enum.find(pairs, fn {_, plain} -> plain === wire end) do
      {term, _} = pair -> {term, List.delete(pairs, pair)}
      nil -> {wire, pairs}
    end
  end
end
