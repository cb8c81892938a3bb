# A real daemon with an operator's guards, for all tests; without `hooklatch` on the PATH those that need it are left out.
defmodule Hooklatch.Test.Daemon do
  @moduledoc false

  @guards """
  from hooklatch import amend, ask, context, deny, hook, inject

  @hook("pre_tool_use", priority=1000)
  def guard(event):
      if event.tool_name == "bash" or "rm -rf" in str(event.tool_input):
          return deny("the operator refuses")
      if "sudo" in str(event.tool_input):
          return ask("this runs as root")

  @hook("pre_tool_use", match="patched", priority=150)
  def patch(event):
      return amend(tool_input={**event.tool_input, "path": "/patched"})

  @hook("pre_tool_use", match="noted", priority=150)
  def note(event):
      return context(note="theirs")

  @hook("pre_model")
  def remind(event):
      if event.request.get("remind"):
          return inject({"role": "system", "content": "theirs"})
  """

  def start do
    case System.find_executable(System.get_env("HOOKLATCH_COMMAND", "hooklatch")) do
      nil ->
        nil

      command ->
        start(
          command,
          Path.join(System.tmp_dir!(), "hooklatch-ex-#{System.unique_integer([:positive])}-#{System.pid()}")
        )
    end
  end

  defp start(command, folder) do
    File.mkdir_p!(folder)
    File.write!(Path.join(folder, "guards.py"), @guards)
    File.write!(Path.join(folder, "hooks.toml"), ~s([[source]]\npath = "guards.py"\n))
    daemon = %{command: command, folder: folder, path: Path.join(folder, "run/agent.sock")}
    System.at_exit(fn _ -> remove(folder) end)
    run(daemon)
  end

  # Its daemon, which ends with this process, may write to it to the last.
  defp remove(folder) do
    with {:error, _, _} <- File.rm_rf(folder), do: remove(folder)
  end

  @doc "Start a daemon again where one was killed."
  def run(daemon) do
    environ =
      for {key, place} <- [
            HOOKLATCH_CONFIG: "hooks.toml",
            HOOKLATCH_RUNTIME_DIR: "run",
            XDG_STATE_HOME: "state"
          ],
          do: {to_charlist(key), to_charlist(Path.join(daemon.folder, place))}

    port =
      Port.open({:spawn_executable, "/bin/sh"}, [
        :binary,
        :exit_status,
        args: ["-c", ~s(exec "$0" serve --json 2>>"$1"), daemon.command, Path.join(daemon.folder, "log")],
        env: environ,
        line: 10_000
      ])

    receive do
      {^port, {:data, {:eol, line}}} -> %{"ready" => true} = Hooklatch.JSON.decode!(line)
      {^port, {:exit_status, status}} -> raise "the daemon did not start: #{status}"
    end

    {:os_pid, pid} = Port.info(port, :os_pid)
    System.at_exit(fn _ -> System.cmd("kill", ["#{pid}"], stderr_to_stdout: true) end)
    Map.merge(daemon, %{port: port, pid: pid})
  end

  @doc "Kill the daemon, and wait until it is gone. Whoever started it has to call this."
  def kill(daemon) do
    System.cmd("kill", ["-KILL", "#{daemon.pid}"])

    receive do
      {port, {:exit_status, _}} when port == daemon.port -> :ok
    end
  end
end

Code.require_file("beam_agent_case.exs", __DIR__)

daemon = Hooklatch.Test.Daemon.start()
:persistent_term.put(:daemon, daemon)

if daemon do
  Hooklatch.Native.configure(path: daemon.path)
else
  IO.puts(
    "hooklatch is not on the PATH (HOOKLATCH_COMMAND names another one): tests with a daemon are left out"
  )
end

ExUnit.start(
  exclude: if(daemon, do: [], else: [:daemon]),
  capture_log: true,
  assert_receive_timeout: 10_000
)
