"""Refuse to start an agent that asks no guard, or to bring it hooks and plugins of its own.

A flag, a variable or a command of an agent's program may leave out the settings in which hooklatch's entry stands.
This file is yours: change the tables.  They were read from the programs themselves, in the versions of
docs/reference/hosts.md.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

import msgspec

from hooklatch import ask, deny, hook
from hooklatch.guards import (
    Command,
    UnreadableCommandError,
    Word,
    call_of,
    codes_of,
    commands,
    is_contained,
    paths_written,
    strictest,
    strip_version,
)
from hooklatch.guards.interpreters import paths_in_code, runs_nothing
from hooklatch.guards.paths import PathResolver, PlacedPath, is_match, split_parts
from hooklatch.guards.unseen import may_be
from hooklatch.shelltext.reading.unknown import find_first_run_word, find_run_program

# Globs of tools that this guard passes, such as "mcp__notes__*".  Hosts' own tools that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """The ways in which one program may be started without its guards.

    `names` are those of its program and its packages, `flags` the options that choose or replace settings (a
    pattern of the value may stand behind `=`), `variables` globs of what does so in its environment.  `verbs` are its
    commands that change plugins, extensions or hooks, `looking` the words behind them that only show something.
    `serving` are those that run tools for a client and ask no guard about them, in any layer of settings.
    `folders` are globs of the files that it takes settings, hooks and plugins from, and `copied` of those that it does
    so from only where a whole folder is copied there.  `headed` are its texts that may have hooks in their head.
    """

    names: tuple[str, ...]
    flags: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    serving: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    headed: tuple[str, ...] = ()


SWITCHES = r"=.*\b(features|hooks|plugins|projects|mcp_servers)\b.*"  # keys of Codex's settings
SERVERS = r"=.*(\bcommand\b|\\u).*"  # commands that it starts as servers, where they stand in the word
PROFILES = "/Library/Managed Preferences/*"  # what a profile of the device sets on macOS
AGENTS = (
    Agent(
        names=("claude", "claude-code"),
        flags=(
            "--bare", "--safe-mode", "--restricted", "--settings", "--setting-sources", "--plugin-dir", "--plugin-url",
            "--managed-settings", "--cloud", "--teleport", "--environment", "--permission-prompt-tool=mcp.*",
            r"--agents=.*(\bhooks\b|\\u).*", f"--mcp-config{SERVERS}",
        ),
        variables=(
            "CLAUDE_CODE_SIMPLE", "CLAUDE*SAFE_MODE", "CLAUDE*CONFIG*", "CLAUDE*SETTINGS*", "CLAUDE*PLUGIN*",
            "CLAUDE*HOOK*", "CLAUDE*_MODS_*", "CLAUDE*MANAGED*", "CLAUDE_CODE_SHELL*", "CLAUDE_ENV_FILE",
        ),
        verbs=("plugin", "plugins", "config", "import"),
        serving=("mcp serve",),
        folders=(
            "*/.claude/settings*.json", "*/.claude/hooks/*", "*/.claude/plugins/*", "*/.claude/dev-mods/*",
            "*/.claude/skills/*/hooks/*", "*/.claude/skills/*/.claude-plugin/*", "/etc/claude-code/*",
            "/Library/Application Support/ClaudeCode/*", PROFILES,
        ),
        copied=("*/.claude/skills/*",),
        headed=("*/.claude/skills/*", "*/.claude/agents/*", "*/.claude/commands/*"),
    ),
    Agent(
        names=("codex",),
        flags=(
            f"-c{SWITCHES}", f"--config{SWITCHES}", "--disable=.*(hook|plugin).*", "--enable=.*(hook|plugin|tty).*",
            "--ignore-user-config", "--dangerously-bypass-hook-trust", "--remote",
            "--trust",  # of a project whose settings may turn hooks off
        ),
        variables=("CODEX_HOME",),
        verbs=("plugin", "features", "cloud", "exec-server"),
        serving=("app-server", "remote-control"),
        folders=(
            "*/.codex/hooks.json", "*/.codex/*config.toml", "*/.codex/hooks/*", "*/.codex/plugins/*", "/etc/codex/*",
            PROFILES,
        ),
    ),
    Agent(
        names=("gemini", "gemini-cli"),
        variables=("GEMINI*HOME", "GEMINI*SETTINGS*", "GEMINI*SYSTEM_DEFAULTS*", "GEMINI*TRUSTED*", "GEMINI_DIR"),
        verbs=("extensions", "extension", "hooks", "hook"),
        folders=(
            "*/.gemini/settings.json", "*/.gemini/extensions/*", "*/.gemini/hooks/*", "*/.gemini/trustedFolders.json",
            "/etc/gemini-cli/*", "/Library/Application Support/GeminiCli/*",
        ),
    ),
    Agent(
        names=("copilot",),
        flags=(
            "--plugin-dir", "--config-dir", "--extension-sdk-path", "--connect", "--trust-folder",
            f"--additional-mcp-config{SERVERS}",
        ),
        variables=("COPILOT_HOME", "COPILOT*CONFIG*", "COPILOT*PLUGIN*", "COPILOT*DIST_DIR"),
        verbs=("plugin", "config"),
        folders=(
            "*/.copilot/hooks/*", "*/.copilot/*.json", "*/.copilot/*plugins/*", "*/.copilot/extensions/*",
            "*/.github/hooks/*", "*/.github/extensions/*", "/etc/github-copilot/*",
        ),
        headed=("*/.github/agents/*", "*/.copilot/agents/*"),
    ),
    Agent(
        names=("qwen", "qwen-code"),
        flags=("--bare", "--safe-mode", f"--mcp-config{SERVERS}"),
        serving=("serve",),
        variables=(
            "QWEN_CODE_SIMPLE", "QWEN*SAFE_MODE", "QWEN_HOME", "QWEN_DIR", "QWEN_RUNTIME_DIR", "QWEN*SETTINGS*",
            "QWEN*SYSTEM_DEFAULTS*", "QWEN*TRUSTED*", "QWEN*HOOK*",
        ),
        verbs=("extensions", "extension", "hooks", "hook"),
        folders=(
            "*/.qwen/settings.json", "*/.qwen/extensions/*", "*/.qwen/hooks/*", "*/.qwen/trustedFolders.json",
            "/etc/qwen-code/*", "/Library/Application Support/QwenCode/*",
        ),
    ),
    Agent(
        names=("opencode", "opencode-ai"),
        flags=("--pure", "--attach"),
        variables=("OPENCODE*CONFIG*", "OPENCODE_PURE", "OPENCODE*PLUGIN*", "OPENCODE_TEST_*"),
        verbs=("plugin", "plug", "attach", "uninstall"),
        serving=("serve", "web"),
        folders=(
            "*/opencode/plugin*/*", "*/.opencode/plugin*/*", "*/opencode/*.json*", "/etc/opencode/*",
            "/Library/Application Support/opencode/*", PROFILES,
        ),
    ),
    Agent(
        names=("cursor-agent",),
        variables=("CURSOR*CONFIG*",),
        folders=("*/.cursor/hooks.json", "*/.cursor/hooks/*", "/etc/cursor/*", "/Library/Application Support/Cursor/*"),
    ),
    Agent(
        names=("kimi", "kimi-code"),
        variables=("KIMI_CODE_HOME",),
        serving=("web", "server", "remote", "rc"),
        folders=("*/.kimi-code/config.toml", "*/.kimi-code/plugins/*"),
    ),
    Agent(
        names=("grok",),
        flags=("--plugin-dir",),
        variables=("GROK_HOME", "GROK_CONFIG*"),
        verbs=("plugin", "plugins"),
        folders=(
            "*/.grok/hooks/*", "*/.grok/*.toml", "*/.grok/disabled-hooks", "*/.grok/plugins/*", "/etc/grok/*", PROFILES,
        ),
    ),
    Agent(names=("letta", "letta-code"), serving=("server",), folders=("*/.letta/settings*.json", "*/.letta/mods/*")),
    Agent(
        names=("cline", "@cline/cli"),
        flags=("--config", "--hooks-dir", "--data-dir"),
        variables=("CLINE*DIR",),
        verbs=("plugin", "config"),
        folders=("*/.cline/hooks/*", "*/.clinerules/hooks/*", "*/Cline/Hooks/*", "*/.cline/plugins/*"),
    ),
    Agent(
        names=("auggie",),
        flags=("--augment-cache-dir", "--plugin-dir"),
        verbs=("plugin",),
        folders=("*/.augment/settings*.json", "*/.augment/plugins/*", "/etc/augment/*"),
    ),
    Agent(
        names=("droid", "@factory/cli"),
        flags=("--settings",),
        serving=("daemon",),
        variables=("FACTORY_HOME_OVERRIDE", "FACTORY_RUNTIME_SETTINGS*", "FACTORY_ORG_MANAGED*"),
        verbs=("plugin",),
        folders=(
            "*/.factory/settings*.json", "*/.factory/hooks*", "*/.factory/plugins/*", "/etc/factory/*",
            "/Library/Application Support/Factory/*",
        ),
    ),
    Agent(names=("goose",), verbs=("plugin",), folders=("*/.agents/plugins/*",)),
)  # fmt: skip
# What follows plugin, extensions and the like and only shows something.
LOOKING = {"list", "ls", "show", "details", "validate", "help", "get", "info", "--help", "-h"}
SHOWING = {"--help", "-h", "--version", "-V"}
# What moves any program's settings, or runs code inside it.
OF_ALL = (
    "HOME", "XDG_*", "HOOKLATCH_*", "NODE_OPTIONS", "BUN_OPTIONS", "LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ZDOTDIR",
)  # fmt: skip
# Agents that hooklatch has no entry for, so no guard is asked: program, and a word that must follow it.
UNGUARDED = {
    "aider": "", "amp": "", "codebuff": "", "crush": "", "gptme": "", "kiro-cli": "", "openhands": "", "plandex": "",
}  # fmt: skip
# Programs that run what follows as another user, or where other settings are.
AS_ANOTHER = {"sudo", "doas", "su", "runuser", "pkexec", "run0", "gosu", "su-exec", "setuidgid", "chroot", "bwrap"}
ELSEWHERE = {"ssh", "lxc", "nsenter", "unshare", "firejail", "wsl"}

SETTING = {
    "env", "export", "declare", "typeset", "readonly", "local", "set", "systemd-run", "sudo", "doas", "dotenv",
    "setenv", "set-environment", "tmux", "launchctl", "setx",
}  # fmt: skip
SAYING = {"echo", "printf", "git", "gh", "grep", "egrep", "rg", "cat", "tee", "sed", "awk", "ls", "test", "["}
READING = {"cd", "echo", "ls", "cat", "grep", "head", "tail"}  # which run nothing that they read
INTERPRETERS = ("python", "pypy", "node", "perl", "ruby", "php", "deno", "bun", "lua")
EXECUTING = {"-e", "-c", "-x", "--exec", "--command", "--cmd"}  # of any program: what follows may be a command
COPYING = {"cp", "mv", "rsync", "ln", "install", "tar", "bsdtar", "unzip", "git", "scp"}  # whole folders, too
HEAD = re.compile(r"\s*---[^\n]*\n(.*?)\n---", re.DOTALL)
HOOKS_IN_HEAD = re.compile(r"(?<![\w-])hooks['\"]?\s*:|\?\s[^\n]*\bhooks\b|\\[xuU]|<<\s*:|\*\w+\s*:")
HOOKS_IN_PART = re.compile(r"(?m)^[ \t{+]*['\"]?hooks['\"]?\s*:|\Ahooks\Z")
HOOKS_IN_TEXT = re.compile(r"(?:(?<![\w-])|\\n)hooks['\"]?\s*:")
TEXTLESS = {"rm", "rmdir", "unlink", "touch", "mkdir", "chmod", "chown", "truncate", "mv", "git"}
NAMING = {"cp", "ln", "mv", "install"}  # give a program another name
STARTUP = re.compile(
    r"(?:.*/)?(?:\.(?:bash|zsh|k?sh)\w*|\.(?:bash_|z)?profile|\.zshenv|\.env(?:rc|\.\w+)?|environment|config\.fish)"
)
ASSIGNED = re.compile(r"(?<![\w$-])([A-Za-z_]\w*)\+?=")
BY_NAME = {name: agent for agent in AGENTS for name in agent.names}
INSTALLED = re.compile(r"(?:\S*/)?claude/versions/\S+")  # Claude Code's own program has its version for a name
ANY_NAME = re.compile(r"(?<![\w./-])(?:[\w.~/-]*/)?(" + "|".join(sorted(BY_NAME, key=len, reverse=True)) + r")\b")
UNLESS = "a person starts it"
SET_IN_CODE = re.compile(r"\b([A-Z][A-Z_]{3,})['\"]?\]?\s*(?:=(?!=)|:)")
VALUES = re.compile(r"""(?:=|<<<\s*)\(?(?:'([^']*)'|"((?:[^"\\]|\\.)*)"|(?<=\()([^()]*)\))""")
REST = re.compile(r"[^)\"'`;|&\n]*")  # of a command, to its end
BEGIN = re.compile(r"\w[^$`*?\[{\\]*")  # of a word that is neither an option nor decided when the command runs
ALONE = re.compile(r"\benv\s*[=:]\s*\{(?!\s*(?:\*\*|\.\.\.))")  # an environment of its own, with nothing of this one
DECIDES = "decides which settings and hooks an agent has; a person sets it"
NAMED = 3  # words: a command of two, and what it is told to do
VALUES_READ = 32  # that a command may run whose program is not known; of more, it is not known what they start
NEAR = 1000  # characters behind a name in code that are read again, if the rest was read behind the same name before
BARE_ENVIRONMENT = "the agent would start without the variables that may say where its settings are"


@hook(
    "pre_tool_use",
    match=["write", "edit", "shell", "mcp", "other"],
    timeout=2.0,
    description="no agent is started without its guards",
)
def only_guarded_agents(event: Any) -> Any:
    call = call_of(event, HARMLESS_TOOLS)
    if call.fault is not None:
        return deny(call.fault)
    has_hooks = bool(call.paths) and has_hooks_in_head(event.tool_input)
    for path in call.paths:
        places = PathResolver(call.begin).of_text(path)
        if (answer := judge_places(places, path, is_whole=call.is_losing, has_hooks=has_hooks)) is not None:
            return answer
    if any(STARTUP.fullmatch(path) for path in call.paths):  # a shell or direnv sets what these say
        names = (match[1] for text in list_texts(event.tool_input) for match in ASSIGNED.finditer(text))
        if (name := next(filter(is_own_variable, names), None)) is not None:
            return deny(f"{name} {DECIDES}")
    return strictest(
        (
            *(judge_code(code, call.begin) for code in call.codes),
            *(judge_command_text(line.text, line.folder, is_sure=line.is_sure) for line in call.lines),
        )
    )


def judge_command_text(text: str, begin: str, *, is_sure: bool = True) -> Any:
    """Judge a command that runs in a folder; what cannot be read is denied where the tool is surely a shell."""
    try:
        found = commands(text)
    except UnreadableCommandError as error:
        return (deny if is_sure else ask)(f"the command cannot be judged: {error}")
    started = [start for command in found for start in list_started(command, text)]
    started += list_started_unseen(found, text)
    answers = [judge_start(agent, command) for agent, command in started]
    answers += [judge_variables(text, found, [start for _, start in started])]
    # Code may talk of agents if it starts nothing, and no other command could run what it prints or writes.
    is_talk = all(command.program in READING or runs_nothing(command) for command in found)
    answers += [judge_other(command, begin, is_talk=is_talk) for command in found]
    paths = PathResolver(begin, text, found)
    has_hooks = HOOKS_IN_TEXT.search(text) is not None
    for command in found:
        is_copied = command.program in COPYING
        for word in paths_written(command):
            places = paths.changed(word, command)
            is_whole = is_copied or command.program == "rm"
            answers.append(
                judge_places(
                    places, word.text, is_whole=is_whole, is_copied=is_copied, has_hooks=has_hooks,
                    is_unseen=not shows_what_it_writes(command),
                )
            )  # fmt: skip
    return strictest(answers)


def list_started(command: Command, text: str) -> Iterator[tuple[Agent, Command]]:
    """Yield each agent that a command of a text starts, with its words: also behind a program that no table has."""
    name = (command.program or "").removesuffix(".exe")
    if name == "cli":  # @factory/cli, of npm
        name = command.text.partition(" ")[0]
    if (agent := BY_NAME.get("claude" if INSTALLED.match(command.text) else name)) is not None:
        yield agent, command
        return
    if command.program is None:
        if may_be(command, text, ANY_NAME):  # C=claude; $C …
            yield from ((BY_NAME[name], command) for name in dict.fromkeys(ANY_NAME.findall(text)))
        return
    first = find_first_run_word(name, command.arguments) if name else None
    end = find_run_program(name, command.arguments) if first is not None else None  # which is a command of its own
    if is_script_of_node(command):
        first = 0
    for at in range(*slice(len(command.arguments) if first is None else first, end).indices(len(command.arguments))):
        words = command.arguments[at:]
        if at and command.arguments[at - 1].text in EXECUTING:
            yield from list_started_by(words[0].text)
        for part in re.split(r"[/@]", words[0].text):
            if (agent := BY_NAME.get(part.removesuffix(".js"))) is not None:
                within = (*command.within, name)
                yield agent, Command(program=agent.names[0], within=within, arguments=tuple(words[1:]))
                break


def list_started_unseen(found: Sequence[Command], text: str) -> Iterator[tuple[Agent, Command]]:
    """Yield each agent that commands may start whose program is not known: C='claude …'; $C, and $(echo claude …)."""
    unknown = [command for command in found if command.program is None]
    values = ["".join(groups) for groups in VALUES.findall(text)] if unknown else []
    seen = [command.text if command.fed_by is None else text for command in unknown]  # what it is, or reads
    for each in dict.fromkeys(seen):
        ends = [(match[0], REST.match(each, match.end())) for match in ANY_NAME.finditer(each)]
        values += [name + rest[0] for name, rest in ends if rest is not None]
    for count, value in enumerate(dict.fromkeys(value for value in values if ANY_NAME.search(value) is not None)):
        if count == VALUES_READ:
            yield from ((BY_NAME[name], unknown[0]) for name in dict.fromkeys(ANY_NAME.findall(text)))
            return
        yield from list_started_by(value)


def list_started_by(value: str) -> Iterator[tuple[Agent, Command]]:
    """Yield each agent that a value starts, if it is run; the mere name of one is seen elsewhere."""
    named = ANY_NAME.search(value)
    if named is None or value == named[0]:
        return
    try:
        for other in commands(value):
            yield from list_started(other, value)
    except UnreadableCommandError:
        yield BY_NAME[named[1]], Command(program=named[1], arguments=(Word(value, False),))


def is_script_of_node(command: Command) -> bool:
    """Return whether a program of JavaScript is started by its file: node …/@openai/codex/bin/codex.js."""
    return command.program in ("node", "bun", "deno") and any("/" in word.text for word in command.arguments[:3])


def judge_start(agent: Agent, command: Command) -> Any:
    """Judge the words with which an agent's program is started, and who starts it where."""
    name = command.program or agent.names[0]
    if command.program is None and command.within[-1:] == ("env",):
        return ask(f"how {name} would start is decided only when it runs")
    is_ended = command.within[-1:] == ("npm",) and command.arguments and command.arguments[0].text == "--"
    words = list_before_end(command.arguments[1:] if is_ended else command.arguments)  # npm takes the first for itself
    texts = [word.text for word in words]
    if (flag := next(list_flags(agent, texts), None)) is not None:
        return deny(f"{name} {flag} may leave out the settings that ask its guards, or what they judge; {UNLESS}")
    verb = next((named[0] for named in list_named(texts) if named and named[0] in agent.verbs), None)
    if verb is not None and LOOKING.isdisjoint(texts):
        return deny(f"{name} {verb} changes what runs inside the agent or where its guards are; a person does that")
    if (served := find_served(agent, texts)) is not None:
        return deny(f"{name} {served} runs tools for its clients, about which no guard is asked; {UNLESS}")
    if (by := next((by for by in command.within if by in AS_ANOTHER), None)) is not None:
        return deny(f"behind {by}, {name} has other settings and no guards; {UNLESS}")
    if not ELSEWHERE.isdisjoint(command.within) or is_contained(command):
        return ask(f"{name} runs elsewhere, where it is unknown which guards it has")
    is_given = not {"xargs", "parallel"}.isdisjoint(command.within)
    if is_given or is_open(agent, words):
        return ask(f"the options of {name} are decided only when it runs; behind `--` they are none")
    return None


def find_served(agent: Agent, words: Sequence[str]) -> str | None:
    """Return by which of its commands an agent's program serves its tools, by the words behind its name."""
    if not SHOWING.isdisjoint(words):
        return None
    for each, named in itertools.product(agent.serving, list_named(words)):
        end = len(each.split())
        if named[:end] == each.split() and LOOKING.isdisjoint(named[end : end + 1]):
            return each
    return None


def list_named(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the first words that are not an option: with those that may be options' values, and without them."""
    yield list(itertools.islice((word for word in words if not word.startswith("-")), NAMED))
    pairs = zip(itertools.chain([""], words), words, strict=False)
    yield list(itertools.islice((word for before, word in pairs if "-" not in (before[:1], word[:1])), NAMED))


def is_open(agent: Agent, words: Sequence[Word]) -> bool:
    """Return whether a word that is decided only when the command runs may be one of an agent's flags or verbs."""
    named, before = "", ""
    for word in () if all(word.is_known for word in words) else words:
        begin = BEGIN.match(word.text) if word.is_one else None
        if not word.is_known and begin is None and (agent.flags or not before):
            return True
        if not word.is_known and begin is not None:
            is_verb = any(each.startswith(named + begin[0]) for each in (*agent.verbs, *agent.serving))
            of_option = plain(before) if before.startswith("-") else ""
            if is_verb or any(plain(flag.partition("=")[0]) in of_option for flag in agent.flags if "=" in flag):
                return True
        if not word.text.startswith("-"):
            named = f"{named}{word.text} "[:64]  # longer than all of them
        before = word.text
    return False


def list_before_end(words: Sequence[Word]) -> list[Word]:
    """Return the words before `--`, behind which there are no options."""
    end = next((at for at, word in enumerate(words) if word.text == "--" and word.is_known), len(words))
    return list(words[:end])


def list_flags(agent: Agent, words: Sequence[str]) -> Iterator[str]:
    """Yield each word that is one of an agent's flags: --flag, --flag=value, --flag value, -cvalue."""
    for word, value in itertools.zip_longest(words, words[1:], fillvalue=""):
        if not word.startswith("-"):
            continue
        for flag in agent.flags:
            name, mark, pattern = flag.partition("=")
            if len(name) == 2:
                value_given = word[2:].removeprefix("=") or value if word.startswith(name) else None
            else:
                given, is_joined, inline = word.partition("=")
                value_given = (inline if is_joined else value) if plain(given) == plain(name) else None
            if value_given is not None and (not mark or re.fullmatch(pattern, value_given, re.DOTALL) is not None):
                yield word
                break


def plain(option: str) -> str:
    """Return an option as readers of options compare it that take --safeMode for --safe-mode."""
    return re.sub(r"[-_]", "", option).lower()


def judge_variables(text: str, found: Sequence[Command], started: Sequence[Command]) -> Any:
    """Judge the variables that a text sets: an agent's own at all times, everybody's where it starts an agent."""
    spoken = [words for command in found if command.program in SAYING for words in list_spoken(command, found)]
    spoken += [word.text for start in started for word in start.arguments if " " in word.text]  # what an agent is told
    assigned = [match[1] for match in ASSIGNED.finditer(text)]
    for other in [match[1] for line in spoken for match in ASSIGNED.finditer(line)]:
        if other in assigned:
            assigned.remove(other)
    named: list[str] = []
    for command in found:
        if command.program in SETTING:
            named += [word.text.partition("=")[0].removesuffix("+") for word in command.arguments]
        if command.program == "unset" and started:
            named += [word.text for word in command.arguments]
        if command.program == "env" and started:
            named += [word.text for word in command.values_of("-u", "--unset")]
            if command.has_option("-i", "--ignore-environment") or "-" in [word.text for word in command.arguments]:
                return ask(BARE_ENVIRONMENT)
    for name in (*assigned, *named):
        if is_own_variable(name):
            return deny(f"{name} {DECIDES}")
        if started and any(fnmatchcase(name, pattern) for pattern in OF_ALL):
            return deny(f"with {name} set, the agent may have other settings and no guards; {UNLESS}")
    return None


def is_own_variable(name: str) -> bool:
    """Return whether a variable is one that an agent takes its settings or hooks from."""
    return any(fnmatchcase(name, pattern) for agent in AGENTS for pattern in agent.variables)


def list_spoken(command: Command, found: Sequence[Command]) -> Iterator[str]:
    """Yield what a command says or writes into a file: not what is run as a command, or read as a shell begins."""
    written = [redirect.target.text for redirect in command.redirects if ">" in redirect.operator]
    written += [word.text for word in paths_written(command)]
    if any(STARTUP.fullmatch(file) is not None for file in written):
        return
    texts = [word.text for word in command.arguments]
    texts += [redirect.target.text for redirect in command.redirects if redirect.operator.startswith("<<")]
    run = [other.text for other in found if other.text and other is not command]
    inner = [other.text for other in found if other.text and other.within]
    for text in texts:
        if not any(other in text for other in (run if "(" in text else inner)):
            yield text


def judge_other(command: Command, begin: str, *, is_talk: bool) -> Any:
    """Judge a command that may start an agent: one that is not known here, or by code, which may talk of agents."""
    name = command.program or ""
    follows = UNGUARDED.get(name)
    first = command.arguments[0].text if command.arguments else ""
    if follows is not None and first not in SHOWING and (not follows or re.fullmatch(follows, first) is not None):
        return ask(f"{name} is an agent that hooklatch does not guard")
    if strip_version(name).startswith(INTERPRETERS):
        return strictest(judge_code(code, begin, is_talk=is_talk) for code in codes_of(command))
    if name in NAMING and (agent := find_program(command)) is not None:
        return ask(f"{agent} would have another name, by which its flags are not known")
    return None


def find_program(command: Command) -> str | None:
    """Return the agent whose program is among the files of a command: /usr/bin/claude, $(which claude)."""
    for word in command.operands:
        if "bin/" in word.text or re.search(r"\b(?:which|command -v|type -p)\s", word.text):
            name = re.split(r"[/\s]", word.text.rstrip(")`"))[-1]
            if name in BY_NAME or INSTALLED.fullmatch(word.text):
                return name
    return None


def judge_code(code: str, begin: str, *, is_talk: bool = False) -> Any:
    """Judge code of any language: whether it starts an agent in one of its ways around, or writes its files."""
    names, moved = set(re.findall(r"[A-Z][A-Z_]{3,}", code)), set(SET_IN_CODE.findall(code))
    read: set[str] = set()
    for match in () if is_talk else ANY_NAME.finditer(code):
        agent = BY_NAME[match[1]]
        end = match.end() + NEAR if match[1] in read else None
        read.add(match[1])
        words = [part for part in re.split(r"[\s'\"`,()\[\]{}]+", code[match.end() : end]) if part]
        if (flag := next(list_flags(agent, words), None)) is not None:
            return deny(f"this code may start {match[1]} with {flag}, which may leave out its guards; {UNLESS}")
        if (served := find_served(agent, words)) is not None:
            return deny(f"this code may start {match[1]} {served}, which asks no guard about its tools; {UNLESS}")
        if words and words[0] in agent.verbs and LOOKING.isdisjoint(words[1:2]):
            return deny(f"this code may start {match[1]} {words[0]}, which changes what runs inside it; {UNLESS}")
        if any(fnmatchcase(name, pattern) for name in names for pattern in agent.variables) or any(
            fnmatchcase(name, pattern) for name in moved for pattern in OF_ALL
        ):
            return deny(f"this code may start {match[1]} with other settings and no guards; {UNLESS}")
        if ALONE.search(code) is not None:
            return ask(BARE_ENVIRONMENT)
    paths = PathResolver(begin)
    has_hooks = HOOKS_IN_TEXT.search(code) is not None
    return strictest(judge_places(paths.of_text(path), path, has_hooks=has_hooks) for path in paths_in_code(code))


def judge_places(
    places: Iterable[PlacedPath],
    text: str,
    *,
    is_whole: bool = False,
    is_copied: bool = False,
    has_hooks: bool = False,
    is_unseen: bool = False,
) -> Any:
    """Judge a path that is written: whether an agent takes settings, hooks or plugins from there."""
    for place in places:
        parts = tuple(part.lower() for part in split_parts(place.whole))
        for agent in AGENTS:
            name = agent.names[0]
            patterns = (*agent.folders, *(agent.copied if is_copied else ()))
            if any(is_match(parts, pattern.lower(), is_whole=is_whole) for pattern in patterns):
                return deny(f"{text} is where {name} takes hooks, plugins or settings from; a person changes it")
            if (has_hooks or is_copied or is_unseen) and any(
                is_match(parts, glob, is_whole=False) for glob in agent.headed
            ):
                answer = deny if has_hooks else ask
                return answer(f"{name} runs hooks in the head of {text}; a person adds them")
    return None


def shows_what_it_writes(command: Command) -> bool:
    """Return whether the text that a command writes, if any, stands in the command."""
    if command.program in TEXTLESS:
        return True
    if command.program in ("echo", "printf"):
        return command.is_known
    is_given = command.given is not None and command.given.is_known
    return is_given and (command.program == "tee" or (command.program == "cat" and not command.operands))


def has_hooks_in_head(tool_input: Any) -> bool:
    """Return whether a text that is written has hooks in its head, or is a part of one that has."""
    for text in list_texts(tool_input):
        head = HEAD.match(text)
        if (HOOKS_IN_PART.search(text) if head is None else HOOKS_IN_HEAD.search(head[1])) is not None:
            return True
    return False


def list_texts(value: object) -> Iterator[str]:
    """Yield the texts in a tool's input, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in (
            cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
        ):
            yield from list_texts(part)
