"""Commands in a container or on another machine that a program reaches: docker exec, kubectl exec, heroku run.

Knows programs by tables; parses nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hooklatch.shelltext.command import Command
from hooklatch.shelltext.option_reader import list_option_values
from hooklatch.shelltext.words import Word

__all__ = ["CONTAINED", "ENGINES", "list_contained_commands", "is_attended", "is_contained", "list_images", "mounted"]

ENGINES: Final = ("docker", "podman", "nerdctl", "finch")
OF_IMAGES: Final = ("run", "create", "pull", "push", "container run", "container create", "image pull", "image push")
OF_ENGINE: Final = ("exec", "run", "create", "container exec", "container run", "container create", "compose exec",
                    "compose run", "sandbox run")  # fmt: skip
# Programs with the verbs behind which a container is named, and then a command.
VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(ENGINES, OF_ENGINE),
    **dict.fromkeys(("docker-compose", "podman-compose"), ("exec", "run")),
    **dict.fromkeys(("kubectl", "oc", "k3s kubectl", "microk8s.kubectl"), ("exec", "run", "debug", "rsh")),
    **dict.fromkeys(("lxc", "incus", "multipass"), ("exec",)),
    **dict.fromkeys(("apptainer", "singularity"), ("exec",)),
    "buildah": ("run",), "limactl": ("shell",), "nomad": ("alloc exec", "exec"), "crictl": ("exec",), "ctr": ("run",),
    "ddev": ("exec",), "lando": ("ssh",), "distrobox": ("enter",),
}  # fmt: skip
# Those behind which the command stands at once.
AT_ONCE: Final[Mapping[str, tuple[str, ...]]] = {
    "heroku": ("run", "run:detached"), "railway": ("run", "ssh"), "minikube": ("ssh",), "colima": ("ssh",),
    "ddev": ("exec",), "sail": ("exec",), "toolbox": ("run",), "devcontainer": ("exec",),
}  # fmt: skip
CONTAINED: Final = frozenset(VERBS) | frozenset(AT_ONCE)
# Options that take no value.  All others may take the next word.
FLAGS: Final = frozenset({
    "--detach", "--interactive", "--tty", "--rm", "--privileged", "--init", "--read-only", "--publish-all", "--quiet",
    "--no-healthcheck", "--build", "--oom-kill-disable", "--no-TTY", "--no-tty", "--no-deps", "--service-ports",
    "--use-aliases", "--quiet-pull", "--stdin", "--remove-orphans", "--wait", "--attach", "--debug", "--verbose",
    "--no-ansi", "--compatibility", "--nv", "--contain", "--cleanenv", "--exit-code", "--no-notify", "--replace",
    "--tls", "--leave-stdin-open", "--latest",
})  # fmt: skip
VALUED: Final = frozenset({
    "-e", "--env", "-v", "--volume", "-p", "--publish", "-w", "--workdir", "-u", "--user", "--name", "--network",
    "--net", "--mount", "--entrypoint", "--env-file", "-h", "--hostname", "-l", "--label", "--add-host", "--cpus", "-m",
    "--memory", "--platform", "--restart", "--shm-size", "--gpus", "--ulimit", "--cap-add", "--cap-drop", "--device",
    "--security-opt", "--dns", "--ip", "--link", "--log-driver", "--log-opt", "--pid", "--ipc", "--tmpfs", "--index",
    "--volumes-from", "-c", "--container", "-n", "--namespace", "--context", "--kubeconfig", "-f", "--file",
    "--profile", "--project-name", "--userns", "--project-directory", "--image", "--size", "-a", "--app", "-r",
    "--remote", "--pull", "--runtime", "--group-add", "--cidfile", "-H", "--host",
})  # fmt: skip
CLUSTER: Final = frozenset("ditTPqDR")  # short options that may stand together
INTERACTIVE: Final = frozenset({"-i", "-l", "-il", "-li", "--login"})
MOUNTS: Final = re.compile(r"\A(?:--volume=|-[a-z]*v(?=[/~.$]))")
A_PATH: Final = re.compile(r"[/~]|\.\.")
SOURCES: Final = re.compile(r"(?:^|[,=])(?:src|source)=((?:/|~|\.\.)[^,]*)")
MAX_BEGINS: Final = 8


def is_contained(command: Command) -> bool:
    """Return whether a command runs in a container or on another machine; `podman unshare` runs it on this one."""
    within = (*command.within, "")
    return any(program in CONTAINED and after != "unshare" for program, after in itertools.pairwise(within))


def is_attended(program: str, words: Sequence[Word]) -> bool:
    """Return whether a shell that this program starts with these words and no input is one that a person types into."""
    return program in CONTAINED and all(word.text in INTERACTIVE for word in words)


def list_contained_commands(name: str, words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the commands that a program runs in a container, in each way that its options may be read."""
    for table, before in ((VERBS, 1), (AT_ONCE, 0)):
        for verb in table.get(name, ()):
            for rest in find_behind_verb(words, verb.split()):
                yield from list_commands_behind(rest, before)


def find_behind_verb(words: Sequence[Word], verb: Sequence[str]) -> Iterator[Sequence[Word]]:
    """Yield what stands behind the words of a verb, between which there may be options."""
    if not verb:
        yield words
        return
    for at in find_option_ends(words):
        if at < len(words) and words[at].text == verb[0]:
            yield from find_behind_verb(words[at + 1 :], verb[1:])


def list_commands_behind(words: Sequence[Word], before: int) -> Iterator[Sequence[Word]]:
    """Yield what stands behind options and the name of a container."""
    found: set[int] = set()
    for begin in find_option_ends(words):
        at = min(begin + before, len(words))
        if before and at < len(words) and words[at].text == "--":
            at += 1
        elif before and "--" in [word.text for word in words[at:]] and words[at].text.startswith("-"):
            at += [word.text for word in words[at:]].index("--") + 1  # kubectl exec pod -c app -- ls
        entry = next(list_option_values(words[:begin], frozenset({"--entrypoint"})), None)
        if at not in found and (at < len(words) or entry is not None):
            found.add(at)
            yield ([entry] if entry is not None and entry.text else []) + list(words[at:])


def find_option_ends(words: Sequence[Word]) -> list[int]:
    """Return where options may end, the plain reading first; of an option that no table has, both are followed."""
    found: list[int] = []
    waiting, seen = [0], {0}
    while waiting and len(found) < MAX_BEGINS:
        at = waiting.pop()
        text = words[at].text if at < len(words) else ""
        if text == "--":
            found.append(at + 1)
        elif not text.startswith("-") or text == "-":
            found.append(at)
        else:
            is_flag = "=" in text or text in FLAGS or (text[:2] != "--" and CLUSTER.issuperset(text[1:]))
            is_valued = text in VALUED or (text[:2] != "--" and text[:2] in VALUED)
            is_whole = text[:2] in VALUED and text[:2] != "--" and len(text) > 2
            steps = [1] if is_flag or is_whole else [2] if is_valued else [1, 2]
            for step in steps:
                if at + step not in seen:
                    seen.add(at + step)
                    waiting.append(at + step)
    return list(dict.fromkeys(min(end, len(words)) for end in found))


def list_images(name: str, words: Sequence[Word]) -> Iterator[Word]:
    """Yield the images that an engine may fetch or send, in each way that its options may be read."""
    for verb in OF_IMAGES if name in ENGINES else ():
        for rest in find_behind_verb(words, verb.split()):
            yield from (rest[at] for at in find_option_ends(rest) if at < len(rest))


def mounted(words: Sequence[Word]) -> Iterator[str]:
    """Yield the folders of this machine that a container is given: -v /:/h, --volume=/:/h, --mount src=/,dst=/h."""
    for word in words:
        path, colon, _ = MOUNTS.sub("", word.text).replace("${HOME}", "~").replace("$HOME", "~").partition(":")
        if colon and A_PATH.match(path):
            yield path
        yield from SOURCES.findall(word.text)
