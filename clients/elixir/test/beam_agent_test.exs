defmodule Hooklatch.BeamAgentTest do
  use ExUnit.Case
  import Hooklatch.Test.BeamAgent
  import ExUnit.CaptureLog

  alias Hooklatch.BeamAgent.{Hooks, ReloadBus}

  @moduletag :daemon

  defmodule Ticket do
    defstruct id: nil, state: :open
  end

  @events ~w(
    pre_tool_use user_prompt_submit permission_request subagent_start pre_compact config_change
    post_tool_use post_tool_use_failure stop session_start session_end subagent_stop notification task_completed
    teammate_idle
  )a
  @notifying Enum.drop(@events, 6)

  setup do
    on_exit(fn ->
      for {_, hooks} <- Hooks.global_registry(), hook <- hooks, do: Hooks.unregister_global(hook)
    end)
  end

  describe "terms" do
    test "a mark that one hook leaves is the same term for the next one, and for the caller" do
      for event <- @events, risk <- [:high, 1, 1.0, {:score, 7}, %Ticket{id: 1}, ["a", :b], "high", nil] do
        score = on(event, &{:ok, Map.merge(&1, %{:risk => risk, "text" => risk})})
        assert {:ok, final} = fire(context_of(event), [score, telling(event)])
        assert_received {:called, seen}
        assert %{:risk => ^risk, "text" => ^risk} = seen
        assert final === Map.merge(context_of(event), %{:risk => risk, "text" => risk})
      end
    end

    test "a guard that looks for the mark refuses" do
      score = on(:pre_tool_use, &{:ok, put_in(&1.tool_input["risk"], {:risk, :high})})

      guard =
        on(
          :pre_tool_use,
          &if(&1.tool_input["risk"] == {:risk, :high}, do: {:deny, "too risky"}, else: {:ok, &1})
        )

      assert fire(context(), [score, guard]) == {:deny, "too risky"}
      assert fire(context(), [guard]) == {:ok, context()}
    end

    test "what is given stays that very term through many hooks" do
      given =
        context(%{
          tool_input: %{:mode => :fast, "at" => {1, 2}, "ticket" => %Ticket{id: 7}, "n" => 2.0},
          category: :shell,
          own: %{deep: [%{at: {:a, "b"}}]},
          big: 2 ** 70
        })

      count = on(:pre_tool_use, &{:ok, Map.update(&1, :count, 1, fn count -> count + 1 end)})

      assert fire(given, List.duplicate(count, 12)) === {:ok, Map.put(given, :count, 12)}
      assert fire(given, []) === {:ok, given}
      assert Hooks.fire(:pre_tool_use, given, nil) === {:ok, given}
      assert Hooks.fire(:pre_tool_use, given, :undefined) === {:ok, given}
    end

    test "a context without its event comes back without it" do
      given = Map.delete(context(), :event)

      assert Hooks.fire(:pre_tool_use, given, nil) === {:ok, given}
      assert Hooks.fire(:pre_tool_use, given, Hooks.build_registry([telling(:pre_tool_use)])) === {:ok, given}
      assert_received {:called, %{event: :pre_tool_use}}
    end

    test "what the operator changed is merged in at exactly the changed parts" do
      input = %{:mode => :fast, "path" => "/asked", "ticket" => %Ticket{id: 7}}
      mark = on(:pre_tool_use, &{:ok, Map.put(&1, :risk, :high)})

      assert {:ok, final} = fire(context(%{tool_name: "patched", tool_input: input}), [mark])
      assert final.tool_input === %{input | "path" => "/patched"}
      assert final.risk === :high

      assert {:ok, final} = fire(context(%{tool_name: "noted"}), [mark])
      assert final === context(%{:tool_name => "noted", :risk => :high, "note" => "theirs"})
    end

    test "a key that a hook takes out is out, and one that it sets to nil is there" do
      sanitizer = on(:pre_tool_use, &{:ok, &1 |> Map.delete(:dangerous) |> Map.put(:reviewer, nil)})

      assert {:ok, final} = fire(context(%{dangerous: :yes}), [sanitizer, telling(:pre_tool_use)])
      assert_received {:called, seen}
      assert seen === context(%{reviewer: nil})
      assert final === context(%{reviewer: nil})
    end

    test "a key that was there and is set to nil is nil" do
      for event <- @events do
        clears = on(event, &{:ok, Map.merge(&1, %{:own => nil, "text" => nil})})
        given = Map.merge(context_of(event), %{:own => %{a: 1}, "text" => 1})
        cleared = %{given | :own => nil, "text" => nil}
        assert fire(given, [clears, telling(event)]) === {:ok, cleared}
        assert_received {:called, ^cleared}
      end
    end

    test "on a notification a sanitizer's context is the auditor's and the caller's, fields too" do
      context = %{
        event: :post_tool_use,
        tool_name: "Read",
        content: "key=123",
        metadata: %{a: 1},
        own: fn -> 1 end
      }

      sanitizer = on(:post_tool_use, &{:ok, &1 |> Map.put(:content, {:cut, "key"}) |> Map.delete(:metadata)})

      assert {:ok, final} = fire(context, [sanitizer, telling(:post_tool_use), telling(:post_tool_use)])
      expected = context |> Map.delete(:metadata) |> Map.put(:content, {:cut, "key"})
      assert_received {:called, ^expected}
      assert_received {:called, ^expected}
      assert final === expected
    end

    test "after an ignored refusal or a crash in the middle the marks before it are there" do
      mark = on(:post_tool_use, &{:ok, Map.put(&1, :risk, :high)})

      for answer <- [
            fn _ -> {:deny, "no"} end,
            fn _ -> {:ask, "no"} end,
            fn _ -> raise "kaputt" end,
            fn _ -> :what end
          ] do
        log =
          capture_log(fn ->
            assert {:ok, %{risk: :high}} =
                     fire(context_of(:post_tool_use), [mark, on(:post_tool_use, answer)])
          end)

        assert log =~ "post_tool_use"
      end
    end

    test "what JSON cannot say is refused on a gate, with its path" do
      for {bad, text} <- [
            {%{own: fn -> 1 end}, "context.own is a function"},
            {%{tool_input: %{"out" => <<255>>}}, "context.tool_input.out is a binary that is no UTF-8"},
            {%{"tool_name" => "Bash"}, "context.tool_name is there twice"},
            {%{tool_input: %{:path => 1, "path" => 2}}, "context.tool_input.path is there twice"}
          ] do
        assert {:deny, reason} = fire(context(bad), [telling(:pre_tool_use)])
        assert reason =~ text
        refute_received {:called, _}
      end
    end

    test "and so is what a hook gives back" do
      for bad <- [
            &Map.put(&1, "tool_name", "x"),
            &Map.put(&1, :own, self()),
            &put_in(&1.tool_input["path"], <<255>>)
          ] do
        assert {:deny, reason} = fire(context(), [on(:pre_tool_use, fn context -> {:ok, bad.(context)} end)])

        assert reason =~ "the context that a callback returned.t" or
                 reason =~ "the context that a callback returned.own"
      end
    end

    test "on a notification the hooks are called with it all the same, and the log says what others do not see" do
      own = fn -> 1 end
      bad = %{:content => <<255, 0>>, :own => own, "content" => "theirs", 7 => :seven, :at => [1 | 2]}
      context = Map.merge(context_of(:post_tool_use), bad)
      mark = on(:post_tool_use, &{:ok, Map.put(&1, :more, {self(), own})})

      log =
        capture_log(fn ->
          assert {:ok, final} = fire(context, [telling(:post_tool_use), mark, telling(:post_tool_use)])
          assert_received {:called, ^context}
          assert_received {:called, %{more: {pid, ^own}} = seen} when is_pid(pid)
          assert seen === final
          assert Map.delete(final, :more) === context
        end)

      assert log =~ "context.content is a binary that is no UTF-8"
      assert log =~ "context.content is there twice"
    end

    test "the first reason counts, as the term that it is" do
      for reason <- [:protected_path, {:no, 1}, "text", ""] do
        deny = on(:pre_tool_use, fn _ -> {:deny, reason} end)
        ask = on(:pre_tool_use, fn _ -> {:ask, reason} end)
        assert fire(context(), [deny, on(:pre_tool_use, fn _ -> {:deny, "second"} end)]) === {:deny, reason}
        assert fire(context(), [ask, deny]) === {:ask, reason}
      end

      assert fire(context(%{tool_name: "bash"}), []) == {:deny, "the operator refuses"}
      assert fire(context(%{tool_input: %{"command" => "sudo x"}}), []) == {:ask, "this runs as root"}
    end
  end

  describe "answers" do
    test "a bare :ok changes nothing, and anything else that is unknown refuses" do
      assert fire(context(), [on(:pre_tool_use, fn _ -> :ok end)]) === {:ok, context()}
      assert {:deny, _} = fire(context(), [on(:pre_tool_use, fn _ -> :okay end)])
      assert {:deny, _} = fire(context(), [on(:pre_tool_use, fn _ -> {:ok, :context} end)])
      assert {:deny, _} = fire(context(), [on(:pre_tool_use, fn _ -> nil end)])
    end
  end

  describe "hooks that cannot be called" do
    test "refuse for themselves, on their gate, and the others run" do
      bad = [
        %{event: :pre_tool_use, callback: fn _, _ -> :ok end},
        %{event: :pre_tool_use},
        %{event: :pre_tool_use, callback: &{:ok, &1}, matcher: "Read"},
        %{event: :pre_tool_use, callback: &{:ok, &1}, matcher: %{tool_name: ~r/read/x}},
        Hooks.hook(:pre_tool_use, &{:ok, &1}, %{tool_name: "(?=Read)Read"})
      ]

      for hook <- bad do
        registry = Hooks.build_registry([hook, telling(:stop)])

        assert capture_log(fn -> assert {:deny, _} = Hooks.fire(:pre_tool_use, context(), registry) end) =~
                 "cannot be called"

        assert {:ok, _} = Hooks.fire(:stop, context_of(:stop), registry)
        assert_received {:called, _}
      end
    end

    test "are told of once where nothing can be refused, and leave a gate alone" do
      for event <- @notifying ++ [:what_is_this] do
        registry = Hooks.build_registry([%{event: event, callback: :no_function}, telling(:pre_tool_use)])

        log =
          capture_log(fn ->
            for _ <- 1..3, do: assert({:ok, _} = Hooks.fire(:pre_tool_use, context(), registry))
            if event in @notifying, do: assert({:ok, _} = Hooks.fire(event, context_of(event), registry))
          end)

        assert_received {:called, _}
        assert length(String.split(log, "hooklatch: a hook on")) == 2, log
      end
    end

    test "a registry that is none refuses every gate" do
      for bad <- [[telling(:stop)], "registry", 7] do
        assert {:deny, _} = Hooks.fire(:pre_tool_use, context(), bad)
        assert {:deny, _} = Hooks.fire(:user_prompt_submit, context_of(:user_prompt_submit), bad)
      end
    end

    test "an empty pattern is in every name, and of no event without a tool" do
      note = on(:user_prompt_submit, &{:ok, Map.put(&1, :seen, true)})
      hooks = [Map.put(note, :matcher, %{tool_name: ""})]
      assert {:ok, %{seen: true}} = fire(context_of(:user_prompt_submit), hooks)
    end

    test "a matcher of a regular expression keeps its options; one without a name is for all tools" do
      deny = fn _ -> {:deny, "no"} end

      for {matcher, tool, refused?} <- [
            {%{tool_name: ~r/read/i}, "Read", true},
            {%{tool_name: ~r/read/}, "Read", false},
            {%{tool_name: ~r/Rea/}, "Read", true},
            {%{tool_name: "Read"}, "Read", true},
            {%{tool_name: "^Read.*"}, "ReadFile", true},
            {%{tool_name: "^Read.*"}, "Write", false},
            {%{}, "Read", true},
            {%{tool_name: ""}, "Read", true},
            {%{tool_name: ~r//}, "Read", true},
            {%{tool_name: ~r/^r.*d$/is}, "Read", true},
            {%{tool_name: ~r/^read$/s}, "Read", false},
            {%{"tool_name" => "Bash"}, "Read", true}
          ] do
        hook = %{event: :pre_tool_use, callback: deny, matcher: matcher}
        assert fire(context(%{tool_name: tool}), [hook]) == {:deny, "no"} == refused?, inspect(matcher)
      end
    end
  end

  describe "order" do
    test "hooks fire in the order of the registry, also when another registry was fired before" do
      [a, b, c] =
        for name <- [:a, :b, :c],
            do: on(:stop, &{:ok, Map.update(&1, :trail, [name], fn trail -> trail ++ [name] end)})

      for hooks <- [[a, b], [c, b], [b, c], [a, b, c], [c], [a, c, b]] do
        names = for hook <- hooks, do: Enum.at([:a, :b, :c], Enum.find_index([a, b, c], &(&1 == hook)))
        assert {:ok, %{trail: ^names}} = fire(context_of(:stop), hooks)
      end
    end
  end

  describe "global hooks" do
    test "fire before a session's own, in sessions that are open too, and tell the bus" do
      :ok = ReloadBus.subscribe()
      :ok = ReloadBus.subscribe()
      version = ReloadBus.version()
      own = on(:stop, &{:ok, Map.update(&1, :trail, [:own], fn trail -> trail ++ [:own] end)})
      global = on(:stop, &{:ok, Map.put(&1, :trail, [:global])})
      assert {:ok, %{trail: [:own]}} = fire(context_of(:stop), [own])

      :ok = Hooks.register_global(global)
      assert_receive {:beam_agent_reload, :hooks, next}
      assert next == version + 1
      refute_received {:beam_agent_reload, _, _}
      assert Hooks.global_registry() == %{stop: [global]}
      assert {:ok, %{trail: [:global, :own]}} = fire(context_of(:stop), [own])
      assert {:ok, %{trail: [:global]}} = fire(context_of(:stop), [])

      :ok = Hooks.unregister_global(global)
      assert_receive {:beam_agent_reload, :hooks, _}
      assert Hooks.global_registry() == %{}
      assert {:ok, final} = fire(context_of(:stop), [own])
      assert final.trail == [:own]
      :ok = ReloadBus.unsubscribe()
      assert self() not in ReloadBus.subscribers()
    end

    test "are in a running session before its process fires again" do
      test = self()
      hook = on(:pre_tool_use, fn _ -> {:deny, "no, globally"} end)

      agent =
        spawn_link(fn ->
          {:ok, _} = fire(context(), [])
          {:ok, session} = Hooklatch.Native.session("beam", [])
          {:ok, _} = Hooks.fire(:pre_tool_use, context(), nil)
          send(test, {:session, session})
          Process.sleep(:infinity)
        end)

      assert_receive {:session, session}
      :ok = Hooks.register_global(hook)
      {:ok, %{"hooks" => hooks}} = Hooklatch.request(session, "hooks", %{event: "pre_tool_use"})
      assert Enum.any?(hooks, &(&1["layer"] == "session")), inspect(hooks)
      :ok = Hooks.unregister_global(hook)
      {:ok, %{"hooks" => hooks}} = Hooklatch.request(session, "hooks", %{event: "pre_tool_use"})
      refute Enum.any?(hooks, &(&1["layer"] == "session"))
      Process.unlink(agent)
      Process.exit(agent, :kill)
    end

    test "exactly the one is taken off" do
      [a, b] = for text <- ["a", "b"], do: on(:pre_tool_use, fn _ -> {:deny, text} end)
      for hook <- [a, b], do: :ok = Hooks.register_global(hook)
      assert fire(context(), []) == {:deny, "a"}
      :ok = Hooks.unregister_global(a)
      :ok = Hooks.unregister_global(on(:stop, &{:ok, &1}))
      assert fire(context(), []) == {:deny, "b"}
    end
  end

  test "another process's fires do not see these terms" do
    mark = on(:pre_tool_use, &{:ok, Map.put(&1, :risk, :high)})
    tasks = for _ <- 1..8, do: Task.async(fn -> fire(context(%{pid: inspect(self())}), [mark]) end)

    for task <- tasks do
      pid = inspect(task.pid)
      assert {:ok, %{risk: :high, pid: ^pid}} = Task.await(task)
    end
  end
end
