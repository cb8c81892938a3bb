defmodule Driver.Keeper do
  @moduledoc "What the steps of one case share: names for terms, the calls of functions, and what was logged."

  @patience 15_000

  def start do
    :ets.new(__MODULE__, [:named_table, :public])
    Process.register(spawn_link(fn -> loop(%{calls: [], logged: []}, []) end), __MODULE__)
  end

  @doc "Forget the case before."
  def clear do
    :ets.delete_all_objects(__MODULE__)
    ask(:clear)
  end

  def keep(name, term), do: :ets.insert(__MODULE__, {name, term})

  def kept(name) do
    case :ets.lookup(__MODULE__, name) do
      [{_, term}] -> term
      [] -> nil
    end
  end

  def once(name, make) do
    :ets.insert_new(__MODULE__, {name, make.()})
    kept(name)
  end

  def all(kind), do: List.flatten(:ets.match(__MODULE__, {{kind, :_}, :"$1"}))

  def name_of(kind, term) do
    case :ets.match(__MODULE__, {{kind, :"$1"}, term}) do
      [[name] | _] -> name
      [] -> nil
    end
  end

  @doc "Note something for the next report; once it returns, it is in there."
  def note(what, one), do: ask({:note, what, one})

  @doc "Return what was noted since the last time, once there are so many of it."
  def take(what, count), do: ask({:take, what, count})

  defp ask(question) do
    keeper = Process.whereis(__MODULE__)
    mark = make_ref()
    send(keeper, {self(), mark, question})

    receive do
      {^mark, answer} -> answer
    after
      @patience -> [["nothing more came of #{inspect(question)}", []]]
    end
  end

  defp loop(noted, waiting) do
    {waiting, noted} = Enum.flat_map_reduce(waiting, noted, &given/2)

    receive do
      {from, mark, {:note, what, one}} ->
        send(from, {mark, :ok})
        loop(Map.update!(noted, what, &(&1 ++ [one])), waiting)

      {from, mark, {:take, what, count}} ->
        loop(noted, [{from, mark, what, count} | waiting])

      {from, mark, :clear} ->
        send(from, {mark, :ok})
        loop(%{calls: [], logged: []}, [])
    end
  end

  defp given({from, mark, what, count} = waiting, noted) do
    if length(noted[what]) >= count do
      send(from, {mark, noted[what]})
      {[], %{noted | what => []}}
    else
      {[waiting], noted}
    end
  end

  # A handler of :logger.
  def log(%{level: level, msg: message}, _) when level in [:warning, :error, :critical, :alert, :emergency] do
    if self() != Process.whereis(__MODULE__), do: note(:logged, text(message))
  end

  def log(_, _), do: :ok

  defp text({:string, text}), do: IO.chardata_to_string(text)
  defp text({:report, report}), do: inspect(report)
  defp text({format, arguments}), do: IO.chardata_to_string(:io_lib.format(format, arguments))
end

defmodule Driver.Behaviour do
  @moduledoc "Functions for the systems to call: each notes what it was called with, and does what its case says."

  alias Driver.{Keeper, Terms}

  def function(does, name, 0), do: fn -> run(does, name, []) end
  def function(does, name, 1), do: fn a -> run(does, name, [a]) end
  def function(does, name, 2), do: fn a, b -> run(does, name, [a, b]) end
  def function(does, name, 3), do: fn a, b, c -> run(does, name, [a, b, c]) end

  defp run(does, name, arguments) do
    Keeper.note(:calls, [name, arguments])
    act(does, arguments)
  end

  defp act(%{"when" => test} = does, arguments) do
    act(if(holds?(test, arguments), do: does["then"], else: does["else"]), arguments)
  end

  defp act(%{"answer" => answer}, arguments), do: Terms.read(answer, arguments)
  defp act(%{"raise" => text}, _), do: raise(text)
  defp act(%{"throw" => term}, arguments), do: throw(Terms.read(term, arguments))
  defp act(%{"exit" => term}, arguments), do: exit(Terms.read(term, arguments))
  defp act(%{"kill" => true}, _), do: Process.exit(self(), :kill)

  defp holds?(%{"at" => path} = test, [first | _]) do
    found = Terms.at(first, Terms.read(path))

    case test do
      %{"is" => wanted} -> found === Terms.read(wanted)
      %{"has" => part} -> is_binary(found) and String.contains?(found, part)
      _ -> found != nil
    end
  end
end

defmodule Driver.Actors do
  @moduledoc "Processes that call a system's functions, by name; each has its own session with the daemon."

  alias Driver.{Keeper, Terms}

  @patience 60_000

  @doc "End those of the case before."
  def clear do
    for pid <- Keeper.all(:actor) do
      watched = Process.monitor(pid)
      Process.exit(pid, :kill)

      receive do
        {:DOWN, ^watched, _, _, _} -> :ok
      end
    end
  end

  def pid(name), do: Keeper.kept({:actor, name}) || Keeper.once({:actor, name}, fn -> spawn(&loop/0) end)
  def name(pid), do: Keeper.name_of(:actor, pid)

  @doc "Have a process begin what it shall do; `finish` waits for what came of it."
  def begin(name, function) do
    pid = pid(name)
    watched = Process.monitor(pid)
    send(pid, {:run, self(), watched, function})
    {pid, watched}
  end

  def finish({pid, watched}) do
    receive do
      {^watched, answer} ->
        Process.demonitor(watched, [:flush])
        answer

      {:DOWN, ^watched, _, _, why} ->
        %{raised: %{kind: "down", text: inspect(why)}}
    after
      @patience -> raise "#{inspect(pid)} is not done: #{inspect(Process.info(pid, :current_stacktrace))}"
    end
  end

  defp loop do
    receive do
      {:run, from, mark, function} -> send(from, {mark, answered(function)})
    end

    loop()
  end

  defp answered(function) do
    %{gave: function.()}
  catch
    :error, %kind{} = error -> %{raised: %{kind: inspect(kind), text: Exception.message(error)}}
    kind, term -> %{raised: %{kind: to_string(kind), text: inspect(term)}}
  end

  @doc "Open a session of the calling process's own, beside those that the systems' functions open."
  def open do
    {:ok, session} = Hooklatch.open(Keeper.kept(:options))
    session
  end

  @doc "Return the messages that a process has got, once there are so many."
  def messages(name, count), do: finish(begin(name, fn -> received(count, []) end))

  defp received(count, before) do
    receive do
      message when not (is_tuple(message) and elem(message, 0) in [:run, :DOWN]) ->
        received(count - 1, [message | before])
    after
      if(count > 0, do: div(@patience, 4), else: 0) -> Enum.reverse(before)
    end
  end

  @doc "Return the changes that a reload bus told of, counted from a version of it."
  def since(messages, version),
    do: for({:beam_agent_reload, type, number} <- messages, do: {type, number - version})

  @doc "Return the report of a call: what the caller was given, and what each function was called with."
  def report(answer, count \\ 0) do
    called =
      for [name, arguments] <- Keeper.take(:calls, count), do: %{hook: name, with: Terms.write(arguments)}

    answer = if is_map_key(answer, :gave), do: %{answer | gave: Terms.write(answer.gave)}, else: answer
    %{result: Map.merge(answer, %{called: called, logged: Terms.write(Keeper.take(:logged, 0))})}
  end
end
