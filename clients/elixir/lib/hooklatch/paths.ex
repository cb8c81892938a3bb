defmodule Hooklatch.Paths do
  @moduledoc "The daemon's sockets to try, in turn, as the daemon and every other client choose them."

  import Bitwise

  @doc "A path or a folder that was named is the only one: another one could be another daemon's, with other hooks."
  @spec candidates(map) :: [Path.t()]
  def candidates(options) do
    named = options[:runtime_dir] || present(System.get_env("HOOKLATCH_RUNTIME_DIR"))

    cond do
      options[:path] -> [Path.expand(options[:path])]
      named -> [Path.expand("agent.sock", named)]
      true -> session_folder() ++ [Path.join(System.user_home!(), ".local/state/hooklatch/run/agent.sock")]
    end
  end

  defp present(value), do: if(value in [nil, ""], do: nil, else: value)

  defp session_folder do
    folder = System.get_env("XDG_RUNTIME_DIR", "")

    with true <- String.starts_with?(folder, "/"),
         {:ok, %{type: :directory, mode: mode, uid: uid}} <- File.stat(folder),
         {:ok, %{uid: ^uid}} <- File.stat("/proc/self"),
         0o700 <- band(mode, 0o777) do
      [Path.join(folder, "hooklatch/agent.sock")]
    else
      _ -> []
    end
  end
end
