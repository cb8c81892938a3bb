defmodule Hooklatch.Session.Calls do
  @moduledoc "Calls of served hooks: each runs in a process of its own, which may crash, and its answer is a line."

  alias Hooklatch.JSON

  @doc """
  Call a hook's function in a process of its own, which the caller monitors. The caller is sent
  `{:answered, pid, socket, id, body}` when there is an answer.
  """
  @spec begin(String.t(), port, (map, map -> term), map) :: pid
  def begin(id, socket, function, call) do
    session = self()

    {pid, _} = spawn_monitor(fn -> send(session, {:answered, self(), socket, id, body(function, call)}) end)

    pid
  end

  @doc "Return the line that answers the request of this id."
  @spec answer(String.t(), String.t()) :: String.t()
  def answer(id, body), do: ~s({"jsonrpc":"2.0","id":#{id},#{body}}\n)

  @doc "Return what an answer says where there is no result."
  @spec failed(integer, String.t(), String.t()) :: String.t()
  def failed(code, name, text) do
    text = if String.valid?(text), do: text, else: inspect(text)
    ~s("error":#{JSON.encode!(%{code: code, message: text, data: %{name: name}})})
  end

  defp body(function, call) do
    ~s("result":#{JSON.encode!(function.(call["payload"], call), "the answer")})
  catch
    kind, reason -> failed(-32_603, "internal_error", Exception.format_banner(kind, reason, __STACKTRACE__))
  end
end
