"""A user for whom the kernel watches no more files: this is said, and changes are noticed by looking at the files."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from support.commands import CONFIG, GUARDS, PATIENCE, Daemon, Place, new_place
from support.warm_commands import PROGRAM

# A namespace of users, in which these limits are for it alone.
LIMIT = 'echo "$2" > "/proc/sys/user/$1" && shift 2 && exec "$@"'
WITH = ["unshare", "--user", "--map-root-user", "sh", "-c", LIMIT, "sh"]
NOT_HERE = shutil.which("unshare") is None or bool(
    subprocess.run([*WITH, "max_inotify_watches", "1", "true"], capture_output=True, check=False).returncode
)
pytestmark = [
    pytest.mark.linux_only("hints of changed files (inotify)"),
    pytest.mark.slow,  # a daemon of its own, and files that are looked at every 2 s
    pytest.mark.skipif(NOT_HERE, reason="no namespace of users can be made here"),
]


def serve_with(place: Place, limit: str, number: int) -> Daemon:
    process = subprocess.Popen(
        [*WITH, limit, str(number), *PROGRAM, "serve", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=place.folder, env=place.environment, text=True,
    )  # fmt: skip
    place.begun.append(process)
    return Daemon(process, place)


@pytest.mark.parametrize(
    ("limit", "number", "said"),
    [
        ("max_inotify_instances", 0, "watches no files for this daemon"),
        ("max_inotify_watches", 2, "watches no more files"),
    ],
)
def test_without_enough_watches_changes_are_noticed_later_and_the_status_says_so(
    limit: str, number: int, said: str
) -> None:
    with new_place() as place:
        daemon, end = serve_with(place, limit, number), time.monotonic() + PATIENCE
        try:
            while not (warned := [one for one in place.json("status")["warned"] if one["reason"] == "watch"]):
                assert time.monotonic() < end
            place.write({"guards.py": GUARDS.replace("no rm here", "none at all"), "hooks.toml": CONFIG})
            while "none at all" not in place.fire_tool("Bash", command="rm x").stdout:
                assert time.monotonic() < end
        finally:
            daemon.stop()

    assert said in warned[0]["what"]
