defmodule Hooklatch.MixProject do
  use Mix.Project

  def project do
    [
      app: :hooklatch,
      version: "0.1.0",
      elixir: "~> 1.14",
      description: "A client of the hooklatch daemon, which runs an agent's hooks and fails closed.",
      package: [
        licenses: ["MIT"],
        links: %{},
        files: ["lib", "mix.exs", ".formatter.exs", "README.md", "CHANGELOG.md", "LICENSE"]
      ],
      docs: [main: "readme", extras: ["README.md", "CHANGELOG.md", "LICENSE"]],
      deps: []
    ]
  end

  def application, do: [extra_applications: [:logger, :crypto]]
end
