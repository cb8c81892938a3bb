defmodule Hooklatch.ExAthenaTest do
  use ExUnit.Case
  import ExUnit.CaptureLog

  alias Hooklatch.ExAthena.Hooks

  @moduletag :daemon

  defmodule Message do
    defstruct role: nil, content: nil, name: nil
  end

  @observing ~w(
    SessionStart SessionEnd PreIteration PostToolUse PostToolUseFailure PermissionDenied ToolDenied Stop StopFailure
    SubagentStop PreCompactStage PostCompact Notification
  )a

  defp pre(hooks, tool, input, id \\ "t-1"), do: Hooks.run_pre_tool_use(%{PreToolUse: hooks}, tool, input, id)
  defp group(matcher, answer), do: %{matcher: matcher, hooks: [fn _, _ -> answer end]}

  defp telling(answer \\ :ok) do
    test = self()

    fn input, id ->
      send(test, {:called, input, id})
      answer
    end
  end

  describe "the tool's name" do
    test "is the host's, whatever the model writes" do
      guard = [group("Shell", {:deny, "no shell"})]

      for input <- [
            %{"command" => "ls"},
            %{"command" => "ls", "tool_name" => "read"},
            %{:tool_name => "read"},
            %{"\"tool_name\"" => "read", "tool_name" => "read"},
            %{"tool_use_id" => "t-2", "arguments" => %{"tool_name" => "read"}},
            %{"arguments" => %{}, "tool_name" => "read"}
          ] do
        assert pre(guard, "Shell", input) == {:deny, "no shell"}, inspect(input)
        assert pre([], "bash", input) == {:deny, "the operator refuses"}, inspect(input)
      end
    end

    test "and a harmless tool has an argument of that name" do
      for {input, seen} <- [
            {%{"tool_name" => "bash", "x" => {1, :a}}, %{"tool_name" => "bash", "x" => {1, :a}}},
            {%{"tool_use_id" => 7}, %{"tool_use_id" => 7}},
            {%{"arguments" => %{"tool_name" => :bash}}, %{"arguments" => %{"tool_name" => :bash}}},
            {%{"arguments" => 1, "\"arguments\"" => 2}, %{"arguments" => 1, "\"arguments\"" => 2}},
            {%{"\"tool_name\"" => 1, "tool_name" => 2}, %{"\"tool_name\"" => 1, "tool_name" => 2}},
            {%{"\"tool_name" => 1, "\"" => 2, "tool_name\"" => 3},
             %{"\"tool_name" => 1, "\"" => 2, "tool_name\"" => 3}},
            {%{tool_name: "bash", x: 1}, %{x: 1}},
            {%{}, %{}}
          ] do
        assert pre([telling()], "read", input) == :ok
        expected = Map.merge(seen, %{tool_name: "read", tool_use_id: "t-1"})
        assert_received {:called, ^expected, "t-1"}
      end
    end

    test "the operator's guards see the argument in the input" do
      assert pre([], "read", %{"tool_name" => "rm -rf"}) == {:deny, "the operator refuses"}
    end

    test "two spellings of one key are refused, and what is no map" do
      assert {:deny, why} = pre([telling()], "read", %{:path => 1, "path" => 2})
      assert why =~ "arguments.path is there twice"
      assert {:deny, why} = pre([telling()], "read", %{"deep" => [%{:a => 1, "a" => 2}]})
      assert why =~ "arguments.deep[0].a is there twice"
      for input <- [nil, [], "x", [a: 1]], do: assert({:deny, _} = pre([telling()], "read", input))
      refute_received {:called, _, _}
    end
  end

  describe "terms" do
    test "callbacks get the caller's, on each event" do
      payload = %{
        session_id: "s",
        prompt: "hi",
        request: %{model: "m", temperature: 1.0},
        messages: [%Message{role: :user, content: "hi"}],
        result: %Message{role: :tool, content: "done"},
        reason: {:error, :enoent},
        finish_reason: :stop,
        isolation: {:in_process, :no_git},
        metadata: %{before: 2},
        iteration: 0,
        mine: %{"text" => :atom, at: {1, 2}}
      }

      for event <- Hooks.events(), event != :PreToolUse do
        assert %{halt: nil} = Hooks.run_lifecycle_with_outputs(%{event => [telling()]}, event, payload)
        assert_received {:called, ^payload, _}, "#{event}"
      end
    end

    test "the second argument is the tool's id where there is a tool, else the session's" do
      tools = ~w(PreToolUse PostToolUse PostToolUseFailure PermissionRequest PermissionDenied ToolDenied)a
      payload = %{tool_name: "read", tool_use_id: "t-9", session_id: "s-9", arguments: %{}, request: %{}}

      for event <- Hooks.events(), event != :PreToolUse do
        Hooks.run_lifecycle(%{event => [telling()]}, event, payload)
        expected = if event in tools, do: "t-9", else: "s-9"
        assert_received {:called, _, ^expected}, "#{event}"
      end

      assert pre([telling()], "read", %{}, "t-8") == :ok
      assert_received {:called, %{tool_use_id: "t-8"}, "t-8"}
      assert pre([telling()], "read", %{}, nil) == :ok
      assert_received {:called, input, nil} when not is_map_key(input, :tool_use_id)
    end

    test "the caller gets those of the callbacks" do
      for reason <- [:protected_path, {:no, %{a: 1}}, "text", <<255>>] do
        assert pre([group(nil, {:deny, reason})], "read", %{}) === {:deny, reason}
        assert pre([group(nil, {:halt, reason})], "read", %{}) === {:halt, reason}
        assert Hooks.run_lifecycle(%{Stop: [fn _, _ -> {:halt, reason} end]}, :Stop, %{}) === {:halt, reason}
        hooks = %{UserPromptSubmit: [fn _, _ -> {:halt, reason} end]}
        assert Hooks.run_lifecycle(hooks, :UserPromptSubmit, %{prompt: "x"}) === {:halt, reason}
      end
    end

    test "a refusal without a reason is one" do
      for reason <- [nil, false, ""] do
        assert {:deny, _} = pre([group(nil, {:deny, reason})], "read", %{})
        assert {:halt, why} = pre([group(nil, {:halt, reason})], "read", %{})
        assert why != nil
        assert {:halt, _} = Hooks.run_lifecycle(%{Stop: [fn _, _ -> {:halt, reason} end]}, :Stop, %{})
        hooks = %{UserPromptSubmit: [fn _, _ -> {:halt, reason} end]}
        assert {:halt, why} = Hooks.run_lifecycle(hooks, :UserPromptSubmit, %{prompt: "x"})
        assert why != nil
      end
    end

    test "messages of several hooks, and of the operator's, come in their order and as they are" do
      [a, b] = for name <- [:a, nil], do: %Message{role: :system, content: "same", name: name}
      plain = %{role: "system", content: "plain"}
      hooks = %{ChatParams: [fn _, _ -> {:inject, a} end, fn _, _ -> {:inject, [b, plain]} end]}
      payload = %{request: %{model: "m", remind: true}, messages: []}

      assert %{injects: injects, halt: nil} = Hooks.run_lifecycle_with_outputs(hooks, :ChatParams, payload)
      assert Enum.sort(injects) == Enum.sort([a, b, plain, %{"role" => "system", "content" => "theirs"}])
      assert Enum.filter(injects, &is_struct/1) == [a, b]
    end

    test "a gate that cannot say a payload refuses, with its path" do
      for {payload, text} <- [
            {%{prompt: <<255>>}, "payload.prompt is a binary"},
            {%{:prompt => "x", "prompt" => "y"}, "payload.prompt is there twice"},
            {%{prompt: "x", pid: self()}, "payload.pid is a pid"}
          ] do
        assert {:halt, why} =
                 Hooks.run_lifecycle(%{UserPromptSubmit: [telling()]}, :UserPromptSubmit, payload)

        assert why =~ text
        refute_received {:called, _, _}
      end
    end

    test "elsewhere the callbacks get the thing itself, and the log says what others do not see" do
      result = %{result: <<0, 255>>, arguments: %{"path" => "x"}, fun: fn -> 1 end}

      log =
        capture_log(fn ->
          hooks = %{PostToolUse: [telling(), fn %{result: <<0, 255>>}, _ -> {:halt, :binary} end]}
          assert Hooks.run_post_tool_use(hooks, "read", result, "t-1") == {:halt, :binary}
        end)

      expected = Map.merge(result, %{tool_name: "read", tool_use_id: "t-1"})
      assert_received {:called, ^expected, "t-1"}
      assert log =~ "payload.result is a binary that is no UTF-8, which JSON cannot say"
      assert log =~ "payload.fun is a function"
    end

    test "a tool's result does not name the tool" do
      result = %{"tool_name" => "write", result: "x"}
      hooks = %{PostToolUse: [%{matcher: "read", hooks: [telling({:augment, "seen"})]}]}

      assert Hooks.run_post_tool_use(hooks, "read", result, "t-1") == {:augment, "seen"}
      assert_received {:called, %{:tool_name => "read", "tool_name" => "write"}, "t-1"}
    end
  end

  describe "outputs" do
    test "augments are joined, and a halt is above them" do
      post = fn answers -> %{PostToolUse: for(answer <- answers, do: fn _, _ -> answer end)} end
      run = fn answers -> Hooks.run_post_tool_use(post.(answers), "read", %{result: "x"}, "t-1") end

      assert run.([{:augment, "a"}]) == {:augment, "a"}
      assert run.([{:augment, "a"}, :ok, {:augment, "b"}]) == {:augment, "a\nb"}
      assert run.([{:augment, ""}]) == :ok
      assert run.([:ok]) == :ok
      assert run.([{:augment, "a"}, {:halt, :stop}]) == {:halt, :stop}
      assert run.([{:deny, "no"}]) == :ok
      assert run.([{:augment, <<255>>}]) == {:augment, <<255>>}
      matched = %{PostToolUse: [%{matcher: "^(Edit|Write)$", hooks: [fn _, _ -> {:augment, "e"} end]}]}
      assert Hooks.run_post_tool_use(matched, "Edit", %{result: "x"}, "t") == {:augment, "e"}
      assert Hooks.run_post_tool_use(matched, "Read", %{result: "x"}, "t") == :ok
    end

    test "of two hooks that transform the prompt the last one counts" do
      run = fn functions ->
        Hooks.run_lifecycle_with_outputs(%{UserPromptSubmit: functions}, :UserPromptSubmit, %{prompt: "x"})
      end

      a = fn _, _ -> {:transform, "a"} end
      b = fn _, _ -> {:transform, "b"} end
      longer = fn %{prompt: prompt}, _ -> {:transform, prompt <> "!"} end
      other = fn %{prompt: prompt}, _ -> {:transform, prompt <> "?"} end

      assert %{transform: "b", halt: nil} = run.([a, b])
      assert %{transform: "a", halt: nil} = run.([b, a])
      assert %{transform: "x!", halt: nil} = run.([longer])
      assert %{transform: last, halt: nil} = run.([longer, other])
      assert last in ["x?", "x!?"]
      assert %{transform: "b", halt: nil} = run.([a, a, telling(), b])
      stop = fn %{prompt: prompt}, _ -> if prompt == "b", do: {:halt, :seen}, else: {:transform, "a"} end
      assert %{halt: :seen} = run.([stop, b])
    end
  end

  describe "hooks that cannot be called" do
    test "refuse for themselves, and the others run" do
      for {bad, tool} <- [
            {fn _ -> :ok end, "read"},
            {"no function", "read"},
            {%{matcher: "(?=x)x", hooks: [telling()]}, "read"},
            {%{matcher: ~r/read/x, hooks: [telling()]}, "read"},
            {%{matcher: "[", hooks: [telling()]}, "read"},
            {%{matcher: 7, hooks: [telling()]}, "read"},
            {%{matcher: "read", hooks: [fn -> :ok end]}, "read"},
            {%{matcher: nil, hooks: :none}, "read"},
            {%{matcher: "read"}, "read"}
          ] do
        hooks = %{
          PreToolUse: [bad],
          Stop: [telling({:halt, :stopped})],
          PostToolUse: [telling({:augment, "x"})]
        }

        log =
          capture_log(fn ->
            assert {:deny, why} = Hooks.run_pre_tool_use(hooks, tool, %{}, "t-1")
            assert is_binary(why)
            assert Hooks.run_lifecycle(hooks, :Stop, %{session_id: "s"}) == {:halt, :stopped}
            assert Hooks.run_post_tool_use(hooks, tool, %{result: "x"}, "t-1") == {:augment, "x"}
          end)

        assert length(String.split(log, "hooklatch: a hook on")) == 2, log
      end
    end

    test "only for the tools that their matcher is for" do
      hooks = [%{matcher: "write", hooks: [fn -> :ok end, telling()]}]

      assert pre(hooks, "read", %{}) == :ok
      assert {:deny, why} = pre(hooks, "write", %{})
      assert why =~ "no function of two arguments"
    end

    test "are told of once where nothing can be refused" do
      for event <- @observing, bad <- [fn -> :ok end, %{matcher: "x", hooks: [telling()]}] do
        of_tool? = event in ~w(PostToolUse PostToolUseFailure PermissionDenied ToolDenied)a
        hooks = %{event => [bad, telling()], PreToolUse: [telling()]}

        log =
          capture_log(fn ->
            for _ <- 1..3,
                do: assert(Hooks.run_lifecycle(hooks, event, %{tool_name: "y", tool_use_id: "t"}) == :ok)

            assert Hooks.run_pre_tool_use(hooks, "read", %{}, "t") == :ok
          end)

        assert_received {:called, _, _}

        if is_function(bad) or not of_tool?,
          do: assert(length(String.split(log, "hooklatch: a hook on")) == 2, log)
      end
    end

    test "an event that nobody knows is told of, and the others run" do
      hooks = %{PreToolUze: [telling()], PreToolUse: [telling()], Stop: [telling()]}
      log = capture_log(fn -> assert Hooks.run_pre_tool_use(hooks, "read", %{}, "t") == :ok end)
      assert_received {:called, _, _}
      assert log =~ "PreToolUze"
      assert {:halt, _} = Hooks.run_lifecycle(hooks, :PreToolUze, %{})
    end

    test "hooks that are no map refuse every gate" do
      for bad <- [7, "hooks", [telling()], [:a | :b], {1, 2}, %{{1, 2} => [telling()]}] do
        assert {:deny, _} = Hooks.run_pre_tool_use(bad, "read", %{}, "t")
        assert {:halt, _} = Hooks.run_lifecycle(bad, :UserPromptSubmit, %{prompt: "x"})
        assert capture_log(fn -> assert Hooks.run_lifecycle(bad, :Stop, %{}) == :ok end) =~ ""
      end

      assert Hooks.run_pre_tool_use(nil, "read", %{}, "t") == :ok
      assert Hooks.run_pre_tool_use([PreToolUse: [telling()]], "read", %{}, "t") == :ok
      assert Hooks.run_pre_tool_use(%{PreToolUse: nil, Stop: []}, "read", %{}, "t") == :ok
    end
  end

  test "a crash refuses its call; elsewhere it is told of" do
    for crash <- [fn _, _ -> raise "kaputt" end, fn _, _ -> throw(:x) end, fn _, _ -> exit(:x) end] do
      assert {:deny, _} = pre([crash], "read", %{})
      assert capture_log(fn -> assert Hooks.run_lifecycle(%{Stop: [crash]}, :Stop, %{}) == :ok end) =~ "Stop"
    end
  end
end
