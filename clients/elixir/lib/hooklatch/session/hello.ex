defmodule Hooklatch.Session.Hello do
  @moduledoc "What a session says of itself whenever it connects."

  alias Hooklatch.JSON

  @protocol 1
  @version Mix.Project.config()[:version]

  @doc "Return the params of `hello` as pairs of a key and its JSON."
  @spec params(map) :: [{String.t(), String.t()}]
  def params(state) do
    options = state.options
    {parent, token} = parent(options)
    hooks = for id <- Enum.reverse(state.order), do: elem(state.hooks[id], 0)

    session = %{
      id: state.session_id,
      resume_token: state.resume_token,
      parent_session_id: parent,
      parent_token: token,
      cwd: options[:cwd] || File.cwd!(),
      host: options[:host],
      personality: options[:personality],
      plugins: options[:plugins],
      require_handlers: options[:require_handlers],
      hooks: if(hooks != [], do: hooks),
      each: if(hooks != [] and state.each, do: true)
    }

    params = [
      protocol: @protocol,
      client: %{name: options[:name] || "hooklatch-elixir", version: @version},
      session: Map.reject(session, fn {_, value} -> value == nil end),
      dialect: options[:dialect],
      emits: options[:emits]
    ]

    for {key, value} <- params, value != nil, do: {to_string(key), JSON.encode!(value, to_string(key))}
  end

  defp parent(%{parent: nil}), do: {nil, nil}
  defp parent(%{parent: {id, token}}), do: {id, token}

  defp parent(_) do
    case String.split(System.get_env("HOOKLATCH_PARENT", ""), " ", parts: 2) do
      [token, id] -> {id, token}
      [""] -> {nil, nil}
      # It names nobody, so the daemon refuses the session: without its parent, gates would be missing.
      [token] -> {"", token}
    end
  end
end
