"""The tools of authors for tests of hooks: a hook runs in this process or in a real worker, and assertions check it.

    def test_no_rm():
        assert_denies(no_rm, event("pre_tool_use", tool_input={"command": "rm -rf /"}), reason="rm")

Each name is loaded when it is first used, since pytest loads the plugin in every run, also in those without a hook.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.testing.assertions import (
        HookTester,
        assert_allows,
        assert_amends,
        assert_asks,
        assert_denies,
        assert_fails,
        assert_passes,
        run,
    )
    from hooklatch.testing.events import event
    from hooklatch.testing.in_process import InProcess
    from hooklatch.testing.memory import Memory
    from hooklatch.testing.results import Result
    from hooklatch.testing.workers import Worker

__all__ = [
    "event", "run", "Result", "assert_allows", "assert_amends", "assert_asks", "assert_denies", "assert_fails",
    "assert_passes", "HookTester", "InProcess", "Memory", "Worker",
]  # fmt: skip

HOMES = {"event": "events", "InProcess": "in_process", "Memory": "memory", "Result": "results", "Worker": "workers"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{HOMES.get(name, 'assertions')}"), name)
    globals()[name] = value  # once is enough
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
