"""The URLs of engines, the passwords beside them, and what is said of those that cannot be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hooklatch.fleet.engine.engine import Address, EngineRefusedError, NotInstalledError, add_user, read_url, redact_url
from hooklatch.fleet.engine.opening import PASSWORD, open_engine, read_password
from support.tables import table

SECRET = "hunter2"


@table(
    "url, address",
    [
        ("redis://engine", Address("redis", host="engine")),
        ("redis://engine:7000", Address("redis", host="engine", port=7000)),
        ("redis://engine/", Address("redis", host="engine")),
        ("redis://engine/3", Address("redis", host="engine", number=3)),
        (
            "rediss://host-a@engine.example.org:6380/1",
            Address("rediss", "host-a", "engine.example.org", 6380, number=1),
        ),
        ("redis://[::1]:6379", Address("redis", host="::1", port=6379)),
        ("redis://10.0.0.1", Address("redis", host="10.0.0.1")),
        ("redis://a%40b@engine", Address("redis", "a@b", "engine")),
        ("redis+unix:///run/redis.sock", Address("redis+unix", path="/run/redis.sock")),
        ("redis+unix://user@/run/redis%20x.sock", Address("redis+unix", "user", path="/run/redis x.sock")),
        ("etcd://engine", Address("etcd", host="engine")),
    ],
)
def test_a_url_says_where_an_engine_is(url: str, address: Address) -> None:
    assert read_url(url) == address
    assert read_url(str(address)) == address


@table(
    "url, says",
    [
        ("", "has no scheme"),
        ("engine", "has no scheme"),
        ("engine:6379", "has no scheme"),
        ("//engine", "has no scheme"),
        ("redis:engine", "has no scheme"),
        ("redis://", "names no host"),
        ("redis:///0", "names no host"),
        ("redis://user@", "names no host"),
        ("redis://engine:port", "is not a URL"),
        ("redis://engine:99999", "is not a URL"),
        ("redis://[::1", "is not a URL"),
        ("redis://engine/one", "'one' is not the number of a database"),
        ("redis://engine/1/2", "'1/2' is not the number of a database"),
        ("redis://engine/-1", "is not the number of a database"),
        ("redis://engine/123456", "is not the number of a database"),
        ("redis://engine?db=1", "'?'"),
        ("redis://engine#x", "'#'"),
        ("redis://engine x", "space"),
        ("redis://engine\n", "space"),
        ("redis+unix://run/redis.sock", "names no path"),
        ("redis+unix:///", "names no path"),
        ("redis+unix://", "names no path"),
        (f"redis://user:{SECRET}@engine", "has a password in it"),
        (f"redis://:{SECRET}@engine", "has a password in it"),
        ("redis://user:@engine", "has a password in it"),
        (f"rediss://user:{SECRET}@@engine", "has a password in it"),
        (f"redis://user:{SECRET}/x@engine", "is not a URL"),
        (f"redis://user:{SECRET}#x@engine", "is not a URL"),
        (f"redis+unix://user:{SECRET}@/run/redis.sock", "has a password in it"),
        (f"user:{SECRET}@engine", "has no scheme"),
    ],
)
def test_what_is_no_url_is_refused_with_what_to_write_and_without_its_secret(url: str, says: str) -> None:
    with pytest.raises(EngineRefusedError) as refused:
        read_url(url)

    text = str(refused.value)
    assert says in text
    assert SECRET not in text
    assert "redis+unix:///PATH" in text or "password_file" in text or "///PATH" in text


@table(
    "url, user, result",
    [
        ("redis://engine", None, "redis://engine"),
        ("redis://engine:7/2", "host", "redis://host@engine:7/2"),
        ("redis://a@engine", "b", "redis://a@engine"),
        ("redis+unix:///s", "host", "redis+unix://host@/s"),
        ("redis://[::1]:1", "a@b", "redis://a%40b@[::1]:1"),
    ],
)
def test_a_user_is_put_into_a_url_that_names_none(url: str, user: str | None, result: str) -> None:
    assert add_user(url, user) == result


@table(
    "url, text",
    [
        ("redis://engine", "redis://engine"),
        (f"redis://user:{SECRET}@engine", "redis://…@engine"),
        (f"redis://user:{SECRET}@x@engine/1", "redis://…@engine/1"),
        (f"user:{SECRET}@engine", "…@engine"),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_secret(url: str, text: str) -> None:
    assert redact_url(url) == text


@table("url", ["etcd://engine", "nats://engine", "http://engine", "redis+tcp://engine", "redis3://engine"])
def test_an_unknown_scheme_is_refused_with_those_that_are_known(url: str) -> None:
    with pytest.raises(
        EngineRefusedError, match=r"there is no engine '.*'; write redis://.*rediss://.*redis\+unix:///"
    ):
        open_engine(url, "fleet")


def test_a_library_that_is_missing_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("coredis", "hooklatch.fleet.engine.redis"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "coredis", None)

    with pytest.raises(
        NotInstalledError, match=r"the package coredis is not installed: .* -m pip install 'hooklatch\[fleet\]'"
    ):
        open_engine("redis://engine", "fleet")


def test_a_password_comes_from_its_file_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")

    assert read_password(str(file)) == SECRET
    assert read_password(None) is None
    monkeypatch.setenv(PASSWORD, "other")
    assert read_password(None) == "other"
    assert read_password(str(file)) == SECRET


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"\xff\xfe", b"a" * 5000, None])
def test_a_file_without_a_password_is_refused_and_never_taken_for_none(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(EngineRefusedError, match="the password file"):
        read_password(str(file))
