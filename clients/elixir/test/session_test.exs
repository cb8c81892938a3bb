defmodule Hooklatch.SessionTest do
  use ExUnit.Case
  import ExUnit.CaptureLog

  alias Hooklatch.{Decision, Session}
  alias Hooklatch.Test.Daemon

  @moduletag :daemon
  @payload %{tool_name: "Read", tool_input: %{path: "notes.txt"}}

  defp path, do: :persistent_term.get(:daemon).path

  defp until(question), do: question.() || (:erlang.yield() && until(question))

  describe "under a supervisor" do
    test "a session is one line, has a name, and ends with its supervisor" do
      children = [{Session, host: "x", name: __MODULE__.Hooks, path: path()}]
      {:ok, supervisor} = Supervisor.start_link(children, strategy: :one_for_one)

      assert Hooklatch.connected?(__MODULE__.Hooks)
      assert Decision.allowed?(Hooklatch.fire(__MODULE__.Hooks, "pre_tool_use", @payload))

      assert Hooklatch.fire(__MODULE__.Hooks, :pre_tool_use, %{@payload | tool_name: "bash"}).verdict ==
               "deny"

      {:ok, %{session_id: id}} = Hooklatch.identity(__MODULE__.Hooks)

      Supervisor.stop(supervisor)
      assert %{cause: "no_daemon"} = Hooklatch.fire(__MODULE__.Hooks, "pre_tool_use", @payload)
      # Its id is free at once.
      {:ok, again} = Hooklatch.open(path: path(), session_id: id)
      assert :ok = Hooklatch.close(again)
    end

    test "one that is killed is back as it was, with the hooks that it served" do
      start_supervised!({Session, name: __MODULE__.Hooks, path: path()})
      refuse = fn _ -> %{"verdict" => "deny", "reason" => "mine"} end
      {:ok, _} = Hooklatch.serve(__MODULE__.Hooks, "pre_tool_use", refuse)
      {:ok, off} = Hooklatch.serve(__MODULE__.Hooks, "pre_tool_use", refuse)
      :ok = Hooklatch.unregister(__MODULE__.Hooks, off)
      {:ok, _} = Hooklatch.subscribe(__MODULE__.Hooks)
      {:ok, before} = Hooklatch.identity(__MODULE__.Hooks)
      killed = Process.whereis(__MODULE__.Hooks)

      Process.exit(killed, :kill)
      until(fn -> Process.whereis(__MODULE__.Hooks) not in [nil, killed] end)
      session = Process.whereis(__MODULE__.Hooks)
      until(fn -> Hooklatch.connected?(session) end)

      assert_receive {:hooklatch, ^session, %{"topic" => "registry", "resync" => _}}
      assert {:ok, identity} = Hooklatch.identity(session)
      assert identity.session_id == before.session_id
      assert %{verdict: "deny", reason: "mine"} = Hooklatch.fire(session, "pre_tool_use", @payload)
      {:ok, %{"hooks" => hooks}} = Hooklatch.request(session, "hooks", %{event: "pre_tool_use"})
      assert Enum.count(hooks, &(&1["layer"] == "session")) == 1
    end

    test "two of them, and one with an id of its own" do
      start_supervised!({Session, name: __MODULE__.A, path: path(), session_id: "chosen-id"})
      start_supervised!({Session, name: {:global, __MODULE__.B}, path: path()})

      assert {:ok, %{session_id: "chosen-id"}} = Hooklatch.identity(__MODULE__.A)
      assert {:ok, %{session_id: "ex-" <> _}} = Hooklatch.identity({:global, __MODULE__.B})
    end

    test "without a daemon it starts, refuses, and says so" do
      log =
        capture_log(fn ->
          start_supervised!({Session, name: __MODULE__.Hooks, path: "/nowhere/agent.sock"})
          assert Hooklatch.fire(__MODULE__.Hooks, "pre_tool_use", @payload).cause == "no_daemon"
        end)

      assert log =~ "has no daemon"

      assert {:error, _} =
               start_supervised({Session, path: "/nowhere/agent.sock", require: true}, id: :needed)
    end

    test "a name is the client's if it is a text" do
      start_supervised!({Session, name: "my agent", path: path()})
    end
  end

  test "the loss of a daemon is told of, once, and hooks are back after its return" do
    daemon = Daemon.start()
    {:ok, session} = Hooklatch.open(path: daemon.path)

    {:ok, _} =
      Hooklatch.serve(session, "pre_tool_use", fn _ -> %{"verdict" => "deny", "reason" => "mine"} end)

    log =
      capture_log(fn ->
        Daemon.kill(daemon)
        for _ <- 1..3, do: assert(Hooklatch.fire(session, "pre_tool_use", @payload).cause == "no_daemon")
      end)

    assert length(String.split(log, "has no daemon")) == 2

    daemon = Daemon.run(daemon)
    until(fn -> Hooklatch.connected?(session) end)
    assert Hooklatch.fire(session, "pre_tool_use", @payload).reason == "mine"
    Hooklatch.close(session)
    Daemon.kill(daemon)
  end

  test "an adapter's notification without a daemon is told of; its gate refuses" do
    options = Hooklatch.Native.options()
    on_exit(fn -> Hooklatch.Native.configure(options) end)
    Hooklatch.Native.configure(path: "/nowhere/agent.sock")

    log =
      capture_log(fn ->
        hooks = %{Stop: [fn _, _ -> {:halt, :seen} end]}
        assert Hooklatch.ExAthena.Hooks.run_lifecycle(hooks, :Stop, %{}) == :ok
        assert {:deny, _} = Hooklatch.ExAthena.Hooks.run_pre_tool_use(hooks, "read", %{}, "t")
        context = %{event: :stop, at: {1, 2}}
        assert Hooklatch.BeamAgent.Hooks.fire(:stop, context, nil) == {:ok, context}
        assert {:deny, _} = Hooklatch.BeamAgent.Hooks.fire(:pre_tool_use, %{tool_name: "x"}, nil)
      end)

    assert log =~ "Stop: the hooks could not be registered"
    assert log =~ "stop: no_daemon: no daemon is reachable"
  end

  test "whatever is fired or asked, the fire is decided and the session stays" do
    start_supervised!({Session, name: __MODULE__.Hooks, path: path()})
    session = Process.whereis(__MODULE__.Hooks)

    for payload <- [
          nil,
          [],
          [tool_name: "Read", tool_input: %{}],
          "text",
          7,
          ~D[2026-01-01],
          %{at: {1}},
          %{<<255>> => 1}
        ] do
      assert %{verdict: "deny", cause: "payload"} = Hooklatch.fire(session, "pre_tool_use", payload)
    end

    for event <- [nil, 7, {:pre_tool_use}, <<255>>, "pre_tool_use\n", %{}, ""] do
      assert %{verdict: "deny"} = Hooklatch.fire(session, event, @payload)
    end

    for options <- [
          %{timeout: 0},
          [timeout: :soon],
          [call_id: {1}],
          [:timeout],
          [{"timeout", "x"}]
        ] do
      assert %{verdict: "deny"} = Hooklatch.fire(session, "pre_tool_use", @payload, options)
    end

    for {method, params} <- [
          {"a\",\"id\":9,\"b\":\"", %{}},
          {<<255>>, %{}},
          {"status", %{<<255>> => 1}},
          {7, %{}}
        ] do
      assert {:error, {_, _}} = Hooklatch.request(session, method, params)
    end

    assert {:error, {_, _}} = Hooklatch.subscribe(session, "registry")
    assert {:error, {_, _}} = Hooklatch.unregister(session, nil)
    assert Decision.allowed?(Hooklatch.fire(session, "pre_tool_use", @payload))
    assert Process.whereis(__MODULE__.Hooks) == session
  end

  test "no log of a session shows what joins it" do
    {:ok, session} =
      Hooklatch.open(path: path(), resume_token: String.duplicate("t", 32), session_id: "shown")

    {:ok, %{child_token: token}} = Hooklatch.identity(session)
    shown = inspect(:sys.get_state(session), limit: :infinity)
    refute shown =~ "tttttttt" or shown =~ token
    Hooklatch.close(session)
  end

  test "an orderly end is no loss of the daemon" do
    log =
      capture_log(fn ->
        for _ <- 1..20 do
          {:ok, session} = Hooklatch.open(path: path())
          {:ok, _} = Hooklatch.serve(session, "pre_tool_use", fn _ -> nil end)
          assert Decision.allowed?(Hooklatch.fire(session, "pre_tool_use", @payload))
          :ok = Hooklatch.close(session)
        end
      end)

    refute log =~ "no daemon"
  end

  test "each definition is taken by itself" do
    {:ok, session} = Hooklatch.open(path: path())
    served = &%{"event" => &1, "served" => true, "match" => &2}
    ok = fn _, _ -> nil end

    assert {:ok, [_, id, nil], [{1, _}, {2, text}]} =
             Hooklatch.register_each(session, [
               {served.("pre_tool_use", "Read"), ok},
               {served.("pre_tool_use", %{regex: "("}), ok},
               {%{"event" => "pre_tool_uze", "served" => true}, ok}
             ])

    assert text =~ "pre_tool_uze"
    assert %{verdict: "deny", cause: "load", hook: ^id} = Hooklatch.fire(session, "pre_tool_use", @payload)
    assert {:error, _} = Hooklatch.register(session, [{served.("pre_tool_use", %{regex: "("}), ok}])
    Hooklatch.close(session)
  end

  test "a child's fires call its parent's hooks with plain data" do
    test = self()

    guard = fn input, id ->
      send(test, {:called, input, id})
      {:deny, :protected}
    end

    hooks = %{PreToolUse: [%{matcher: "write", hooks: [guard]}]}
    assert Hooklatch.ExAthena.Hooks.run_pre_tool_use(hooks, "read", %{}, "t-6") == :ok
    # The adapter's own session, which it shows to nobody.
    session = :sys.get_state(Process.get({Hooklatch.Native, "exathena"})).session
    {:ok, %{session_id: id, child_token: token}} = Hooklatch.identity(session)
    {:ok, child} = Hooklatch.open(path: path(), parent: {id, token})

    input = %{tool_name: "write", tool_use_id: "t-7", tool_input: %{"tool_name" => "x", "path" => "y"}}
    assert %{verdict: "deny", reason: "protected"} = Hooklatch.fire(child, "pre_tool_use", input)
    assert_received {:called, %{:tool_name => "write", "tool_name" => "x", "path" => "y"}, "t-7"}
    Hooklatch.close(child)
  end
end
