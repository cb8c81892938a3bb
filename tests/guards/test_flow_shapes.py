"""What a text feeds, writes or fetches and then runs is refused or asked about; so is what deletes data elsewhere."""

from __future__ import annotations

from guards.calls_of_tools import GUARDS, may_call_hook, verdict
from guards.flow_shapes import FETCHED, FLOWING, LOSING, QUIET
from hooklatch.guards.gallery import destructive_commands, git_rules, protected_paths
from support.tables import table

# What these print is decided only then: which words of git and which paths it names, nobody knows.
PRINTED = {
    "f() { echo 'rm -rf /'; }; sh -c \"$(f)\"",
    "sh <(echo 'rm -rf /')",
    "exec < <(echo 'rm -rf /'); sh",
}
SHAPES = [text for texts in FLOWING.values() for text in texts]
SHOWN = [text for text in SHAPES if "rm -rf /" in text and text not in PRINTED]


@table("text", [*SHAPES, *FETCHED, *LOSING])
def test_what_flows_to_what_runs_it_is_refused_or_asked_about(text: str) -> None:
    assert verdict(destructive_commands.destructive_commands, text) != "pass"


@table(
    ("guard", "text"),
    [
        *((git_rules.git_rules, text.replace("rm -rf /", "git push -f")) for text in SHOWN),
        *((protected_paths.protected_paths, text.replace("rm -rf /", "touch .env")) for text in SHOWN),
    ],
)
def test_other_guards_see_the_same(guard: object, text: str) -> None:
    assert verdict(guard, text) != "pass"


@table("text", [text for text in SHAPES if "rm -rf /" in text])
def test_a_condition_calls_its_hook_for_what_flows(text: str) -> None:
    assert may_call_hook("rm", text)


@table("text", QUIET)
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert [guard.__name__ for guard in GUARDS if verdict(guard, text) != "pass"] == []
