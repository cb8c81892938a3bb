defmodule Hooklatch.Native do
  @moduledoc """
  What the adapters share: a session for each process that fires, with that process's hooks, and its terms on the wire.

  A session that cannot have its hooks is an error of the fire: nobody may believe in a guard that is not there.
  """

  require Logger

  alias Hooklatch.{BeamAgent, Decision}
  alias Hooklatch.Native.{Ledger, Registrar, Terms}

  @typedoc """
  A hook that is wanted: its key (a tuple whose first element is its kind; hooks of one kind keep their order), its
  definition, and the function that is called with the payload and the call, if there is one.
  """
  @type wanted :: {tuple, map, (map, map -> term) | nil}

  @doc "Set how sessions of this node are opened; see `Hooklatch.open/1`."
  @spec configure(keyword) :: :ok
  def configure(options), do: :persistent_term.put({__MODULE__, :options}, options)

  @doc "Return how sessions of this node are opened."
  @spec options() :: keyword
  def options, do: :persistent_term.get({__MODULE__, :options}, [])

  @doc "Return the calling process's session in a dialect, with exactly the hooks that are wanted. It ends with that process."
  @spec session(String.t(), [wanted]) :: {:ok, pid} | {:error, Hooklatch.problem()}
  def session(dialect, wanted) do
    with {:ok, session, _} <- synced(dialect, wanted), do: {:ok, session}
  end

  defp synced(dialect, own) do
    shared = shared(dialect)
    registrar = Process.get({__MODULE__, dialect}) || begun(dialect)

    try do
      Registrar.sync(registrar, own, shared)
    catch
      :exit, _ -> Registrar.sync(begun(dialect), own, shared)
    end
  end

  defp begun(dialect) do
    {:ok, registrar} = Registrar.start(dialect)
    Process.put({__MODULE__, dialect}, registrar)
    registrar
  end

  # BeamAgent has hooks of a whole node.
  defp shared("beam"), do: &BeamAgent.Hooks.wanted_globals/0
  defp shared(_), do: fn -> [] end

  @doc """
  Fire an event in a dialect with the hooks that are `wanted`, and return what
  `read` makes of the decision. What it warns of is logged. An error if nobody could be asked.

  `payload` is what goes over the wire; `known` is what callbacks of this node are given the terms of: a term and its plain
  copy. `about` is for the functions of the hooks, which find the ledger of the fire in `call.native`.
  """
  @spec fire(
          String.t(),
          atom,
          map,
          {term, term},
          term,
          [wanted],
          (Decision.t(), Ledger.t() -> answer)
        ) ::
          answer | {:error, String.t()}
        when answer: term
  def fire(dialect, event, payload, {term, plain}, about, wanted, read) do
    with {:ok, session, problems} <- synced(dialect, wanted) do
      ledger = Ledger.open(term, plain, about)

      try do
        decision = Hooklatch.fire(session, event, payload, call_id: ledger.call_id, native: ledger)
        warn(event, decision, problems)
        read.(decision, ledger)
      after
        Ledger.close(ledger)
      end
    else
      {:error, {_, text}} -> {:error, "the hooks could not be registered (fail-safe deny): #{text}"}
    end
  end

  # These systems' functions have no place for a warning. What a refusal says is in its reason.
  defp warn(event, decision, problems) do
    for one <- [decision | decision.followed_by],
        text <- warnings(one, problems),
        do: warn("#{event}: #{text}")
  end

  defp warnings(decision, problems) do
    failed =
      for %{"outcome" => outcome, "hook" => hook} = one <- decision.outcomes,
          outcome != "answered" and Decision.allowed?(decision) and not MapSet.member?(problems, hook),
          do: "hook #{one["layer"]}/#{hook} gave no answer that counts: #{one["cause"]}: #{one["message"]}"

    failed ++ Enum.reject(decision.warnings, fn text -> Enum.any?(problems, &String.contains?(text, &1)) end)
  end

  @doc "Log what the caller of an adapter's function cannot be told."
  @spec warn(String.t()) :: :ok
  def warn(text), do: Logger.warning("hooklatch: #{text}")

  @doc """
  Write a term as the wire can say it: atoms are texts, tuples lists, structs maps without their name. A map in which two
  keys would become one, and what JSON cannot say, raises `Hooklatch.JSON.Error` with its path.
  """
  @spec to_wire(term) :: term
  def to_wire(term), do: Terms.plain(term, "payload")

  @doc """
  Write a term as the wire can say it, for an event that can refuse or not (`gate?`): where nothing can be refused, what
  JSON cannot say is replaced by a marked form, and the log says so.
  """
  @spec to_wire(term, boolean, String.t()) :: term
  def to_wire(term, true, place), do: Terms.plain(term, place)

  def to_wire(term, false, place),
    do: Terms.marked(term, place, &warn("#{&1}; others are shown a marked form of it"))

  @doc """
  Return what came back in the terms that were sent: an unchanged part is the very term, a changed one plain data.
  Keys that the sender did not have are atoms if `atoms` names them.
  """
  @spec from_wire(term, term, [atom]) :: term
  def from_wire(wire, term, atoms \\ []),
    do: Terms.native(wire, [{term, Terms.marked(term, "payload", fn _ -> :ok end)}], atoms)

  # Options of a regular expression that RE2 has too, as Elixir names them.
  @letters %{caseless: "i", dotall: "s", multiline: "m"}

  @doc "Write a pattern of a matcher as the dialects read it. Options that RE2 has under another name, or not, raise."
  @spec pattern(term) :: String.t() | map
  def pattern(text) when is_binary(text) do
    unless String.valid?(text), do: raise(ArgumentError, "its matcher is no text")
    text
  end

  def pattern(%Regex{} = regex) do
    options = Regex.opts(regex)
    letters = if is_list(options), do: Enum.map(options, &@letters[&1]), else: String.graphemes(options)

    unless Enum.all?(letters, &(&1 in Map.values(@letters))),
      do: raise(ArgumentError, "its matcher cannot have the options #{inspect(options)}")

    flags = if letters == [], do: "", else: "(?#{letters})"
    %{"regex" => flags <> Regex.source(regex), "search" => true}
  end

  def pattern(other), do: raise(ArgumentError, "its matcher is #{brief(other)}, and no pattern")

  @doc "Write what was found where something else belongs, shortly."
  @spec brief(term) :: String.t()
  def brief(function) when is_function(function) do
    {:arity, arity} = Function.info(function, :arity)
    "a function of #{arity} arguments"
  end

  def brief(term), do: term |> inspect(limit: 5, printable_limit: 60) |> String.slice(0, 100)

  @doc "Write a reason, which may be any term, as a text."
  @spec text(term) :: String.t()
  def text(reason) when is_binary(reason), do: if(String.valid?(reason), do: reason, else: inspect(reason))
  def text(reason) when is_atom(reason), do: Atom.to_string(reason)
  def text([{_, reason} | _]) when is_binary(reason), do: text(reason)
  def text(reason), do: inspect(reason)

  @doc "Write why something that was raised keeps an event from being judged."
  @spec unjudged(Exception.t()) :: String.t()
  def unjudged(error), do: "it cannot be judged (fail-safe deny): #{Exception.message(error)}"

  @doc "Write why something that was thrown, or an exit, keeps an event from being judged."
  @spec unjudged(:throw | :exit, term) :: String.t()
  def unjudged(kind, reason),
    do: "it cannot be judged (fail-safe deny): #{Exception.format_banner(kind, reason)}"
end
