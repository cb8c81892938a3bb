defmodule Hooklatch.Decision do
  @moduledoc """
  The one answer to a fire, and the decision when there is no answer: a gate denies, what cannot refuse passes.

  `patch` has whole new values for keys of the payload: run that, not what you fired. `rendered` is the answer in the
  words of the session's dialect; it is nil where the client decided by itself.
  """

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
            record: nil

  @type t :: %__MODULE__{}

  @verdicts ~w(pass allow deny ask halt claim)
  # The catalogue's events that cannot refuse. Whatever is not here counts as a gate.
  @passing ~w(
    compact_stage custom_log error_intercept error_log error_recover error_transform message_claim message_dispatch
    message_received message_send message_sent metrics model_request model_response notification performance
    permission_denied personality_switch post_compact post_model post_tool_batch post_tool_use post_tool_use_failure pre_iteration
    prompt_build session_end session_start stop stop_failure subagent_started subagent_stop task_completed
    teammate_idle telemetry tool_path tool_result
  )

  @doc "Whether the action may go on: not for deny and halt, and not for ask, which needs approval first."
  def allowed?(%__MODULE__{verdict: verdict}), do: verdict in ~w(pass allow claim)

  @doc "Whether the client decided by itself, without an answer of the daemon."
  def local?(%__MODULE__{revision: revision}), do: revision == nil

  @doc "Read the answer to a fire; on a native event the decision has that event's name in the catalogue."
  def read(result, event, native?) do
    cond do
      problem = problem(result) -> {:error, {:protocol, "the answer is not a valid decision: #{problem}"}}
      not native? and result["event"] != event -> {:error, {:protocol, "the answer decides on another event"}}
      true -> {:ok, build(result)}
    end
  end

  @doc "Decide in place of the daemon; `problem` is `{cause, text}`."
  def local(event, {cause, text}) when event in @passing,
    do: %__MODULE__{decision_id: local_id(), event: event, verdict: "pass", warnings: ["#{cause}: #{text}"]}

  def local(event, {cause, text}) do
    reason = "the hook daemon did not decide (fail-safe deny): #{text}"
    retryable = cause in [:no_daemon, :overload]
    fields = [event: event, verdict: "deny", cause: to_string(cause), reason: reason, retryable: retryable]
    struct!(__MODULE__, [decision_id: local_id()] ++ fields)
  end

  defp build(result) do
    known =
      for key <- Map.keys(%__MODULE__{}),
          key != :__struct__,
          text = Atom.to_string(key),
          is_map_key(result, text),
          do: {key, result[text]}

    decision = struct!(__MODULE__, known)
    %{decision | followed_by: Enum.map(decision.followed_by, &build/1)}
  end

  defp local_id, do: "local-" <> Base.encode16(:crypto.strong_rand_bytes(8), case: :lower)

  defp problem(%{"decision_id" => id, "event" => event, "verdict" => verdict} = result)
       when is_binary(id) and is_binary(event) and verdict in @verdicts do
    Enum.find_value(result, fn {key, value} ->
      if fits?(key, value), do: nil, else: "its #{key} has another shape"
    end)
  end

  defp problem(_), do: "it names no decision, no event or no verdict"

  defp fits?(key, value) when key in ~w(cause reason layer hook payload_digest append resume),
    do: value == nil or is_binary(value)

  defp fits?(key, value) when key in ~w(patch context record), do: value == nil or is_map(value)
  defp fits?(key, value) when key in ~w(inject outcomes), do: is_list(value) and Enum.all?(value, &is_map/1)
  defp fits?("retryable", value), do: is_boolean(value)
  defp fits?("revision", value), do: value == nil or is_integer(value)
  defp fits?("duration_ms", value), do: is_number(value)
  defp fits?("name", value), do: is_binary(value)
  defp fits?("warnings", value), do: is_list(value) and Enum.all?(value, &is_binary/1)
  defp fits?("followed_by", value), do: is_list(value) and Enum.all?(value, &(problem(&1) == nil))
  defp fits?(_, _), do: true
end
