"""docs/guides/environments.md: what it shows is read by the code that reads it."""

from __future__ import annotations

import re

from hooklatch.environments import environments, store
from hooklatch.environments.requirements import read_requirements
from support.repository import ROOT

PAGE = (ROOT / "docs" / "guides" / "environments.md").read_text()


def test_the_example_of_a_block_is_one() -> None:
    (text,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    compile(text, "example", "exec")
    found = read_requirements(text.encode())

    assert found is not None
    assert found.dependencies == ("detect-secrets==1.5.0",)
    assert found.admits("3.11.0")


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"At most {environments.MAX_ENVIRONMENTS} are in use" in PAGE
    assert f"for {store.KEPT_DAYS} days is removed" in PAGE
    assert f"again after {environments.FIRST_WAIT:.0f} s" in PAGE
    assert f"up to {environments.LAST_WAIT / 60:.0f} minutes" in PAGE
    assert all(prefix in PAGE for prefix in ("PIP_", "UV_"))
