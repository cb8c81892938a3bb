"""What a matcher accepts, and what it must never accept."""

import pytest

from hooklatch.core.hooks.matchers import MAX_PATTERN, MAX_SHOWN, MatcherError, compile_matcher
from support.tables import table

ACCEPTS = [
    (None, "anything"),
    ("*", ""),
    ("Bash", "Bash"),
    (["Edit", "Write"], "Write"),
    ({"glob": "mcp__*"}, "mcp__files__read"),
    ({"glob": "mcp__*"}, "mcp__"),
    ({"glob": "mcp__*"}, "mcp__a\nb"),
    ({"glob": "?dit"}, "Edit"),
    ({"glob": "[EW]*"}, "Write"),
    ({"glob": "[!EW]*"}, "Bash"),
    ({"glob": "[^EW]*"}, "Bash"),
    ({"glob": "[!]a]"}, "b"),
    ({"glob": "[]a]"}, "]"),
    ({"glob": r"a\b[\d]"}, r"a\b\ ".strip()),
    ({"glob": "[!-z]a"}, "ba"),
    ({"glob": "[[-]x"}, "[x"),
    ({"glob": "[!^]x"}, "ax"),
    ({"glob": "outil_é*"}, "outil_été"),
    ({"regex": "Edit|Write"}, "Edit"),
    ({"regex": "(?i)bash"}, "BASH"),
    ({"regex": "Bash$"}, "Bash"),
    ({"regex": "sudo", "search": True}, "run sudo now"),
    ({"regex": "sudo$", "search": True}, "run sudo"),
]
REFUSES = [
    ("Bash", "bash"),
    ("Bash", "BashOutput"),
    (["Edit", "Write"], "Edit, Write"),
    ({"glob": "mcp__*"}, "xmcp__a"),
    ({"glob": "a.c"}, "abc"),
    ({"glob": "[!]a]"}, "]"),
    ({"regex": "Edit|Write"}, "EditWrite"),
    ({"regex": "Edit|Write"}, "MultiEdit"),
    ({"regex": "Edit", "search": False}, "MultiEdit"),
    ({"regex": "a|b"}, "ab"),
    ({"regex": "sudo", "search": True}, "su do"),
]
TRAILING = ["Bash", ["Bash"], {"glob": "Bash"}, {"glob": "B?sh"}, {"regex": "Bash"}, {"regex": "Bash$"}]


@table(("source", "value"), ACCEPTS)
def test_it_matches(source: object, value: str) -> None:
    assert compile_matcher(source).matches(value)


@table(("source", "value"), REFUSES)
def test_it_does_not_match(source: object, value: str) -> None:
    assert not compile_matcher(source).matches(value)


@table(
    "name",
    [
        "Edit|Write",
        "mcp__*",
        ".*",
        "mcp__.+",
        "Bash, Edit",
        "Bash(git push)",
        "^Bash$",
        r"mcp__\w",
        "B?sh",
        "mcp__{a,b}",
    ],
)
def test_a_name_that_was_meant_as_a_pattern_is_refused_with_what_is_just_this_text(name: str) -> None:
    with pytest.raises(MatcherError, match="is compared as a whole") as caught:
        compile_matcher(name)
    with pytest.raises(MatcherError):
        compile_matcher(["Bash", name])

    _, _, rest = str(caught.value).rpartition("{glob = '")
    assert compile_matcher({"glob": rest.partition("'}")[0].replace("\\\\", "\\")}).matches(name)


@table("name", ["Bash ", " Bash", "Bash\n", "Ba\u200bsh", "a\0b", " "])
def test_a_name_with_what_nobody_sees_is_refused(name: str) -> None:
    with pytest.raises(MatcherError, match="an invisible character"):
        compile_matcher([name])


@table("pattern", ["*.{pem,key}", "mcp__{a,b}__*"])
def test_a_glob_has_no_choices(pattern: str) -> None:
    with pytest.raises(MatcherError, match="is not a choice in a glob"):
        compile_matcher({"glob": pattern})
    assert compile_matcher({"glob": pattern.replace("{", "[{]")}).matches(pattern)


@table("source", [*TRAILING, {"regex": "Bash$", "search": True}])
@table("tail", ["\n", "\r\n", "\0"])
def test_what_trails_a_name_keeps_it_from_matching(source: object, tail: str) -> None:
    assert not compile_matcher(source).matches("Bash" + tail)


@pytest.mark.parametrize("source", [None, "*"])
def test_only_no_matcher_and_a_star_match_all(source: object) -> None:
    assert compile_matcher(source).matches_all
    assert not compile_matcher({"glob": "*"}).matches_all


@pytest.mark.parametrize("search", [True, False])
def test_a_pattern_that_would_close_a_wrapping_group_is_refused(search: bool) -> None:
    with pytest.raises(MatcherError, match="unexpected"):
        compile_matcher({"regex": "a)|(b", "search": search})


@table(
    ("pattern", "instead"),
    [
        *[(text, "write the exception as a second hook") for text in (r"(?=a)b", r"(?!a)b", r"(?<=a)b", r"(?<!a)b")],
        *[(text, "back-references are not supported") for text in (r"(a)\1", r"(?P<x>a)(?P=x)")],
        *[(text, "RE2 never backtracks") for text in (r"(?>a+)b", r"a++b")],
        *[(text, "repeat at most 1000 times") for text in (r"a{1001}", r"a{2,100000}", r"((a{30}){30}){30}")],
        *[(text, "needs too much memory") for text in (r"\pL{1000}", r"(?:\pL\pN){300}")],
    ],
)
def test_what_cannot_run_in_linear_time_is_refused_with_what_to_write_instead(pattern: str, instead: str) -> None:
    with pytest.raises(MatcherError, match=rf"{instead}.*decide in the callback"):
        compile_matcher({"regex": pattern})


@table(
    ("source", "text"),
    [
        ({"glob": "a", "search": True}, "a glob matcher has no key 'search'"),
        ({"regex": "a", "flags": "i"}, "a regex matcher has no key 'flags'"),
        ({"regex": "a", "glob": "a"}, "has no key"),
        ({"regex": "a", "search": 1}, "search must be true or false, not 1"),
        ({"regex": None}, "a pattern must be a string, not None"),
        ({"glob": ""}, "a pattern must not be empty; leave the matcher out to match all"),
        ({"regex": ""}, "a pattern must not be empty"),
        ({"glob": ["a"]}, "a pattern must be a string"),
        ({"glob": "mcp__[ab"}, r"unclosed '\['"),
        ({"glob": "[z-a]"}, "invalid character class range"),
        ({"glob": "[[:digit:]a]x[b]"}, "a named class"),  # for RE2 a set of all up to the last bracket
        ({"regex": "("}, "missing \\)"),
        ({"regex": "a" * (MAX_PATTERN + 1)}, "4097 characters is over the limit of 4096"),
        ({"glob": "a" * (MAX_PATTERN + 1)}, "over the limit"),
        ({"regex": "(a{1000}){1000}"}, "repetition size"),
        ({"regexp": "a"}, "a matcher is a name, a list of names"),
        ({}, "a matcher is a name"),
        (5, "a matcher is a name"),
        (True, "a matcher is a name"),
        ([], "at least one string"),
        (["Bash", 1], "at least one string"),
        ("", "does not name anything"),
        ([""], "does not name anything"),
        (["Bash", "*"], "does not name anything"),
    ],
)
def test_a_bad_matcher_is_refused_with_its_reason(source: object, text: str) -> None:
    with pytest.raises(MatcherError, match=text):
        compile_matcher(source)


def test_an_error_quotes_the_beginning_of_a_long_value() -> None:
    with pytest.raises(MatcherError) as raised:
        compile_matcher({"x" * (2 * MAX_SHOWN): 1})

    assert "x" * (MAX_SHOWN - 10) in str(raised.value)
    assert "x" * MAX_SHOWN not in str(raised.value)


@pytest.mark.parametrize("source", ["\ud800", ["\ud800"], {"glob": "\ud800*"}, {"regex": "\ud800"}])
def test_a_lone_surrogate_is_refused(source: object) -> None:
    with pytest.raises(MatcherError, match="not valid Unicode"):
        compile_matcher(source)


@pytest.mark.parametrize("search", [True, False])
def test_an_evil_pattern_is_run_in_linear_time(search: bool) -> None:
    matcher = compile_matcher({"regex": "(a+)+$", "search": search})

    assert not matcher.matches("a" * 100_000 + "!")


def test_a_bad_pattern_writes_nothing_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MatcherError):
        compile_matcher({"regex": "(unclosed"})
    compile_matcher({"regex": "(.*)(.*)(.*)x", "search": True}).matches("y" * 10_000)

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("source", "canonical"),
    [
        ("*", None),
        (["Edit"], ["Edit"]),
        ({"regex": "a", "search": False}, {"regex": "a"}),
        ({"regex": "a", "search": True}, {"regex": "a", "search": True}),
    ],
)
def test_its_source_is_one_spelling_that_compiles_again(source: object, canonical: object) -> None:
    matcher = compile_matcher(source)

    assert matcher.source == canonical
    assert compile_matcher(matcher.source).text == matcher.text
