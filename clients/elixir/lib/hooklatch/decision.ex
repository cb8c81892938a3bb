defmodule Hooklatch.Decision do
  @moduledoc """
  The one answer to a fire, and the decision when there is no answer: a gate denies, what cannot refuse passes.

  `patch` has whole new values for keys of the payload: run that, not what you fired. `rendered` is the answer in the
  words of the session's dialect; it is nil where the client decided by itself, and `local` is then true. `instead` is
  the shell command that a hook names in place of what it refuses, or asks about: the model's next step.
  """

  alias Hooklatch.Table

  defstruct decision_id: nil,
            event: nil,
            verdict: "deny",
            cause: nil,
            reason: nil,
            layer: nil,
            hook: nil,
            retryable: false,
            patch: nil,
            payload_digest: nil,
            inject: [],
            append: nil,
            resume: nil,
            value: nil,
            context: nil,
            revision: nil,
            duration_ms: 0,
            outcomes: [],
            warnings: [],
            name: "",
            rendered: nil,
            followed_by: [],
            instead: nil,
            record: nil,
            local: false

  @typedoc "What the daemon answers a fire with; maps inside have texts as keys."
  @type t :: %__MODULE__{
          decision_id: String.t() | nil,
          event: String.t() | nil,
          verdict: String.t(),
          cause: String.t() | nil,
          reason: String.t() | nil,
          layer: String.t() | nil,
          hook: String.t() | nil,
          retryable: boolean,
          patch: map | nil,
          payload_digest: String.t() | nil,
          inject: [map],
          append: String.t() | nil,
          resume: String.t() | nil,
          value: term,
          context: map | nil,
          revision: integer | nil,
          duration_ms: number,
          outcomes: [map],
          warnings: [String.t()],
          name: String.t(),
          rendered: term,
          followed_by: [t],
          instead: String.t() | nil,
          record: map | nil,
          local: boolean
        }

  @doc "Whether the action may go on: not for deny and halt, and not for ask, which needs approval first."
  @spec allowed?(t) :: boolean
  def allowed?(%__MODULE__{verdict: verdict}), do: verdict in ~w(pass allow claim)

  @doc "Whether the client decided by itself, without an answer of the daemon."
  @spec local?(t) :: boolean
  def local?(%__MODULE__{local: local}), do: local

  @doc "Read the answer to a fire; on a native event the decision has that event's name in the catalogue."
  @spec read(term, String.t(), boolean) :: {:ok, t} | {:error, {:protocol, String.t()}}
  def read(result, event, native?) do
    cond do
      problem = Table.fault(result) -> {:error, {:protocol, "the answer is not a valid decision: #{problem}"}}
      not native? and result["event"] != event -> {:error, {:protocol, "the answer decides on another event"}}
      true -> {:ok, build(result)}
    end
  end

  @doc "Decide in place of the daemon; `problem` is `{cause, text}`."
  @spec local(String.t(), {atom, String.t()}) :: t
  def local(event, {cause, text}) do
    if Table.gate?(event) do
      reason = "the hook daemon did not decide (fail-safe deny): #{text}"
      retryable = cause in [:no_daemon, :overload]
      own(event, verdict: "deny", cause: to_string(cause), reason: reason, retryable: retryable)
    else
      own(event, verdict: "pass", warnings: ["#{cause}: #{text}"])
    end
  end

  defp own(event, fields),
    do: struct!(__MODULE__, [decision_id: local_id(), event: event, local: true] ++ fields)

  defp build(result) do
    known =
      for key <- Map.keys(%__MODULE__{}),
          key not in [:__struct__, :local],
          text = Atom.to_string(key),
          is_map_key(result, text),
          do: {key, result[text]}

    decision = struct!(__MODULE__, known)
    %{decision | followed_by: Enum.map(decision.followed_by, &build/1)}
  end

  defp local_id, do: "local-" <> Base.encode16(:crypto.strong_rand_bytes(8), case: :lower)
end
