defmodule Hooklatch.Peer do
  @moduledoc """
  Connects to a daemon of this user, of root, or of the user that was named: the only place here that connects. The
  kernel says who listens before anything is sent.
  """

  # asm-generic/socket.h, unix(7): struct ucred. Where an architecture has other numbers, the answer is no such struct.
  @sol_socket 1
  @so_peercred 17
  @size 12
  @root 0
  @patience 2000

  # What the daemon does not take at once waits in the driver, as much as a session may have in flight: whoever sends
  # does not wait, above all not the session, which ticks. Another backend than this one would wait.
  @options [
    {:inet_backend, :inet},
    :local,
    :binary,
    active: false,
    packet: :raw,
    buffer: 65_536,
    high_watermark: 1_073_741_824
  ]

  @doc "Return `{:ok, socket}` of the first path where a daemon listens that may be believed, or `{:error, text}`."
  @spec connect([Path.t()], non_neg_integer | nil) :: {:ok, :gen_tcp.socket()} | {:error, String.t()}
  def connect(paths, daemon_uid), do: connect(paths, daemon_uid, [])

  @doc "Hang up, and drop what the daemon did not read: to wait until it does could take minutes."
  @spec close(:gen_tcp.socket()) :: :ok
  def close(socket) do
    :inet.setopts(socket, linger: {true, 0})
    :gen_tcp.close(socket)
  end

  defp connect([], _daemon_uid, failures),
    do: {:error, "no daemon is reachable at #{Enum.join(Enum.reverse(failures), ", ")}"}

  defp connect([path | others], daemon_uid, failures) do
    case attempt(path, daemon_uid) do
      {:ok, socket} -> {:ok, socket}
      {:error, why} -> connect(others, daemon_uid, ["#{path} (#{why})" | failures])
    end
  end

  defp attempt(path, daemon_uid) do
    with {:ok, socket} <- :gen_tcp.connect({:local, path}, 0, @options, @patience) do
      with :ok <- check(socket, daemon_uid), :ok <- :inet.setopts(socket, active: true) do
        {:ok, socket}
      else
        {:error, why} ->
          close(socket)
          {:error, why}
      end
    end
  end

  defp check(socket, daemon_uid) do
    with {:ok, [{:raw, _, _, <<_pid::32, uid::native-32, _gid::32>>}]} <-
           :inet.getopts(socket, [{:raw, @sol_socket, @so_peercred, @size}]),
         {:ok, own} <- own_uid() do
      if uid in [@root, own, daemon_uid],
        do: :ok,
        else: {:error, "another user listens there: #{uid}"}
    else
      _ -> {:error, "the kernel does not tell who listens there"}
    end
  end

  # proc(5): the real user, the effective one, and two more.
  defp own_uid do
    with {:ok, status} <- File.read("/proc/self/status"),
         [_, uid] <- Regex.run(~r/^Uid:\t\d+\t(\d+)/m, status),
         do: {:ok, String.to_integer(uid)}
  end
end
