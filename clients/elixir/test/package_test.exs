defmodule Hooklatch.PackageTest do
  use ExUnit.Case, async: true

  @generated [__struct__: 0, __struct__: 1, __info__: 1, module_info: 0, module_info: 1]

  {:ok, modules} = :application.get_key(:hooklatch, :modules)
  # An implementation of a protocol is documented where the protocol is.
  @modules Enum.reject(modules, &(Code.ensure_loaded?(&1) and function_exported?(&1, :__impl__, 1)))

  for module <- @modules do
    test "#{inspect(module)} is documented, and its functions have specs" do
      module = unquote(module)
      {:docs_v1, _, :elixir, _, %{"en" => text}, _, docs} = Code.fetch_docs(module)
      assert text != ""

      {:ok, specs} = Code.Typespec.fetch_specs(module)
      specified = for {name, _} <- specs, do: name

      docs =
        for {{:function, name, arity}, _, _, doc, meta} <- docs,
            do: {{name, arity}, doc, meta[:defaults] || 0}

      public = module.module_info(:exports) -- @generated
      callbacks = for {name, :hidden, _} <- docs, do: name

      for {name, arity} <- public -- callbacks, not Enum.any?(docs, &of_default?(&1, name, arity)) do
        assert {_, %{"en" => text}, _} = List.keyfind(docs, {name, arity}, 0), "#{name}/#{arity} has no @doc"
        assert text =~ ~r/\A\S/
        assert {name, arity} in specified, "#{name}/#{arity} has no @spec"
      end
    end
  end

  defp of_default?({{name, most}, _, defaults}, name, arity), do: arity < most and arity >= most - defaults
  defp of_default?(_, _, _), do: false

  test "the package has what its readers look for" do
    project = Hooklatch.MixProject.project()

    for path <- project[:package][:files], do: assert(File.exists?(path), path)
    assert project[:deps] == []
    assert project[:description] != ""
    assert File.read!("LICENSE") =~ "MIT"
  end
end
