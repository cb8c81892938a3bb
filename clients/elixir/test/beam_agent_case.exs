# What the tests of BeamAgent's hooks share: contexts, and hooks that tell the test of their calls.
defmodule Hooklatch.Test.BeamAgent do
  @moduledoc false

  alias Hooklatch.BeamAgent.Hooks

  def context(more \\ %{}),
    do: Map.merge(%{event: :pre_tool_use, tool_name: "Read", tool_input: %{"path" => "x"}}, more)

  def context_of(event), do: %{event: event, tool_name: "Read", tool_input: %{}, prompt: "hi", agent_id: "a"}

  def fire(context, hooks), do: Hooks.fire(context.event, context, Hooks.build_registry(hooks))
  def on(event, fun), do: Hooks.hook(event, fun)

  def telling(event) do
    test = self()

    on(event, fn context ->
      send(test, {:called, context})
      {:ok, context}
    end)
  end
end
