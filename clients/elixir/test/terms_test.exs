defmodule Hooklatch.TermsTest do
  use ExUnit.Case, async: true

  alias Hooklatch.{JSON, Native}
  alias Hooklatch.Native.Terms

  defmodule Message do
    defstruct role: nil, content: nil, name: nil
  end

  defp over_the_wire(term), do: term |> Native.to_wire() |> JSON.encode!() |> JSON.decode!()

  test "terms become plain data, and are the very terms again where nobody changed them" do
    term = %{
      :risk => :high,
      :at => {1, 2.0, "x"},
      :message => %Message{role: :user, content: "hi"},
      "list" => [a: 1, b: nil],
      :pattern => ~r/x/i,
      :whole => 3,
      :part => 3.0
    }

    wire = over_the_wire(term)

    assert %{"risk" => "high", "at" => [1, 2.0, "x"], "list" => [["a", 1], ["b", nil]], "whole" => 3} = wire
    assert Native.from_wire(wire, term) === term
  end

  test "what others changed is merged in at exactly the changed parts" do
    term = %{
      :message => %Message{role: :user, content: "hi"},
      :pair => {:ok, "old"},
      "list" => [:a, {:b, 1}, :c],
      :left => :alone
    }

    wire =
      over_the_wire(term)
      |> put_in(["message", "content"], "hello")
      |> put_in(["pair"], ["ok", "new"])
      |> put_in(["list"], ["a", "fresh", ["b", 1], "c"])
      |> Map.put("more", %{"x" => 1})

    assert Native.from_wire(wire, term) === %{
             :message => %Message{role: :user, content: "hello"},
             :pair => {:ok, "new"},
             "list" => [:a, "fresh", {:b, 1}, :c],
             :left => :alone,
             "more" => %{"x" => 1}
           }
  end

  test "1 and 1.0 are two values, and a change from one to the other is a change" do
    assert Native.from_wire(%{"n" => 1}, %{n: 1.0}) === %{n: 1}
    assert Native.from_wire(%{"n" => 1.0}, %{n: 1.0}) === %{n: 1.0}
  end

  test "a struct that has lost or gained a key is a map" do
    message = %Message{role: :user, content: "hi"}

    assert Native.from_wire(%{"role" => "user"}, message) === %{role: :user}
    assert Native.from_wire(Map.put(over_the_wire(message), "more", 1), message)["more"] == 1
  end

  defp refused do
    [
      {%{:tool_name => "bash", "tool_name" => "read"}, "payload.tool_name is there twice"},
      {%{deep: [%{}, %{:risk => :low, "risk" => "high"}]}, "payload.deep[1].risk is there twice"},
      {%{deep: %{nil => 1, "nil" => 2}}, "payload.deep.nil is there twice"},
      {%{content: <<255>>}, "payload.content is a binary that is no UTF-8"},
      {%{content: [<<1::3>>]}, "payload.content[0] is a bitstring"},
      {%{content: [1 | 2]}, "payload.content is an improper list"},
      {%{content: {1, &String.length/1}}, "payload.content[1] is a function"},
      {%{"a b": self()}, ~s(payload."a b" is a pid)},
      {%{map: %{1 => 2}}, "payload.map is a map with the key 1"},
      {%{map: %{<<255>> => 2}}, "payload.map is a map with the key <<255>>"},
      {%{message: %Message{content: make_ref()}}, "payload.message.content is a reference"}
    ]
  end

  test "what JSON cannot say is refused with its path" do
    for {term, text} <- refused() do
      assert_raise JSON.Error, ~r/\A#{Regex.escape(text)}/, fn -> Native.to_wire(term) end
    end
  end

  test "or it is marked, and the term is found again" do
    for {term, text} <- refused() do
      me = self()
      plain = Terms.marked(term, "payload", &send(me, {:marked, &1}))
      assert_received {:marked, marked}
      assert marked =~ text
      wire = plain |> JSON.encode!() |> JSON.decode!()
      assert Terms.native(wire, [{term, plain}]) === term
      assert Terms.native(Map.put(wire, "more", 1), [{term, plain}]) === Map.put(term, "more", 1)
    end
  end

  test "a marked form says what it was, and shortly" do
    plain =
      Terms.marked(%{out: "ok\n" <> String.duplicate(<<255>>, 1000), f: fn -> 1 end}, "payload", fn _ -> 0 end)

    assert %{"$native" => "binary", "text" => "ok\n\uFFFD" <> _ = text} = plain["out"]
    assert String.length(text) <= 200
    assert %{"$native" => "function", "text" => "#Function<" <> _} = plain["f"]
  end

  test "of two keys that would be one, the atom keeps the name" do
    plain = Terms.marked(%{:tool_name => "bash", "tool_name" => "read"}, "payload", fn _ -> :ok end)

    assert plain == %{"tool_name" => "bash", ~s("tool_name") => "read"}
  end

  test "the newest version of a term counts" do
    pairs = for risk <- [:high, "high"], term = %{risk: risk}, do: {term, %{"risk" => "high"}}

    assert Terms.native(%{"risk" => "high"}, pairs) === %{risk: :high}
    assert Terms.native(%{"risk" => "high", "x" => 1}, Enum.reverse(pairs)) === %{:risk => "high", "x" => 1}
  end

  test "a payload of the core is refused with its path too" do
    assert_raise JSON.Error, "payload.at[1].day is a Date, which JSON cannot say", fn ->
      JSON.encode!(%{at: [1, %{day: ~D[2026-01-01]}]}, "payload")
    end

    assert_raise JSON.Error, "payload.a is there twice", fn ->
      JSON.encode!(%{:a => 1, "a" => 2}, "payload")
    end
  end
end
