defmodule Hooklatch.BeamAgentChangesTest do
  use ExUnit.Case
  import Hooklatch.Test.BeamAgent

  @moduletag :daemon

  describe "two hooks that change one field" do
    test "both count, in their order, and each judges the result" do
      adds = fn text ->
        on(:user_prompt_submit, &{:ok, Map.update!(&1, :prompt, fn prompt -> text <> prompt end)})
      end

      assert {:ok, %{prompt: "[b] [a] hi"}} =
               fire(context_of(:user_prompt_submit), [adds.("[a] "), adds.("[b] ")])

      strict =
        on(:user_prompt_submit, fn context ->
          if context.prompt =~ "[b]",
            do: {:deny, :seen},
            else: {:ok, %{context | prompt: "[a] " <> context.prompt}}
        end)

      assert fire(context_of(:user_prompt_submit), [strict, adds.("[b] ")]) == {:deny, :seen}
    end

    test "and what each puts beside them stays as it was put first" do
      copies = on(:pre_tool_use, &{:ok, Map.merge(&1, %{asked: &1.tool_input, level: :low})})
      counts = on(:pre_tool_use, &{:ok, Map.update(&1, :count, 1, fn count -> count + 1 end)})

      rewrites =
        on(:pre_tool_use, fn context ->
          {:ok, Map.put(put_in(context.tool_input["path"], "y"), :level, :high)}
        end)

      clears = on(:pre_tool_use, &{:ok, Map.delete(&1, :note)})
      notes = on(:pre_tool_use, &{:ok, Map.merge(&1, %{note: :made, scratch: 1})})
      hooks = [clears, copies, counts, notes, on(:pre_tool_use, &{:ok, Map.delete(&1, :scratch)}), rewrites]
      beside = %{asked: %{"path" => "x"}, level: :high, count: 1, note: :made}
      final = context(Map.merge(beside, %{tool_input: %{"path" => "y"}}))
      assert fire(context(), hooks ++ [telling(:pre_tool_use)]) === {:ok, final}
      assert_received {:called, ^final}

      # What judges by such a mark is asked again, of what the hooks before it see now.
      marks =
        on(:pre_tool_use, &{:ok, if(&1.tool_input["path"] == "y", do: Map.put(&1, :risk, :high), else: &1)})

      guard = on(:pre_tool_use, &if(&1[:risk] == :high, do: {:deny, :risk}, else: {:ok, &1}))
      assert fire(context(), [marks, guard, rewrites]) == {:deny, :risk}
    end

    test "a first change that comes after the guards have judged is still refused" do
      late = on(:user_prompt_submit, &if(&1.prompt == "b", do: {:ok, %{&1 | prompt: "c"}}, else: {:ok, &1}))
      change = on(:user_prompt_submit, &{:ok, %{&1 | prompt: "b"}})

      assert {:deny, why} = fire(context_of(:user_prompt_submit), [late, change])
      assert why =~ "unsettled" or why =~ "settle"
    end
  end
end
