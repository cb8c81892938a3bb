"""What fuzzing begins with: real inputs out of this repository, and the words that stand in them.

Knows files and code blocks; knows no reader.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator

from hooklatch_worker import wire
from hooklatch_worker.author.call_context import EmittedTelemetry
from hooklatch_worker.author.marker import MarkedEvent
from hooklatch_worker.lsp import wire as lsp_wire
from support.repository import ROOT

__all__ = ["NASTY", "seeds_of", "words"]

MAX_SEED = 4096  # bytes; a longer one makes each example slow and no other
BLOCK = re.compile(r"```(json|toml)\n(.*?)```", re.DOTALL)
TEXT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{2,30}")
# What readers break on: depth, width, numbers without end, halves of characters, names that mean something.
NASTY = [
    b"[" * 2000, b'{"a":' * 600, b"[[a]]\n" * 50, b"a." * 300, b"9" * 4500, b"-1e999", b"1e400", b"NaN", b"inf", b"nan",
    b"-0", b"0.5", b"1" + b"0" * 400, b'"\\ud800"', b'"\\udc00\\ud800"', b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"\r\n",
    b"\\u0000", b"null", b"true", b"{}", b"[]", b'""', b"18446744073709551616", b"\xf0\x9f\x92\xa9", b"\xed\xa0\x80",
    b"__line__", b"__proto__", b"(?=a)", b"\\1", b"{1001}", b"(((a{30}){30}){30})", b"[" * 40 + b"]" * 40, b"*" * 64,
    b"(a|b|ab)*" * 20, b"1979-05-27T07:32:00Z", b"\xc2\x85", b"\xe2\x80\xa8",
]  # fmt: skip


def blocks(kind: str) -> Iterator[bytes]:
    """Yield the examples in the docs that are of a kind."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for name, text in BLOCK.findall(page.read_text()):
            if name == kind:
                yield text.encode()
                if kind == "json":
                    yield from (line.encode() for line in text.splitlines())


def recorded() -> Iterator[bytes]:
    """Yield the first of each kind of document that Claude Code was seen to send, and a recorded session."""
    for path in sorted((ROOT / "tests/data").rglob("*.jsonl")):
        yield path.read_bytes().partition(b"\n")[0]
    yield from (ROOT / "examples/recorded-session.jsonl").read_bytes().splitlines()[:20]


def configurations() -> Iterator[bytes]:
    yield (ROOT / "examples/hooks/hooks.toml").read_bytes()
    yield from blocks("toml")
    yield from CONFIGURATIONS


def settings() -> Iterator[bytes]:
    yield from SETTINGS
    yield from blocks("json")


def frames() -> Iterator[bytes]:
    marker = MarkedEvent(event="pre_tool_use", match={"glob": "mcp__*"}, config={"limit": 5})
    for message in (
        wire.SourceLoaded(
            1,
            [wire.HookDeclaration("guard", 3, marker)],
            ["guard"],
            {"/a/guards.py": "5e1f"},
            build=wire.BuildFiles({"/a/lib.py": b"pass"}),
        ),
        wire.LoadFailed(1, "no module named 'x'", "/a/guards.py", 3),
        wire.CallAnswered(1, 2, b'{"verdict":"deny"}', stdout=b"out", stderr=b"err", truncated=True, exit_code=3),
        wire.CallSilent(1, 2),
        wire.CallAnswered(1, 2, cause="crash", message="ValueError: no"),
        wire.CallAnswered(1, 2, emitted=[EmittedTelemetry("lsp_diagnostics_start", b"{}")]),
        wire.ZygoteReady(7),
        wire.WorkerForked(1, 7),
        wire.ForkFailed(1, "no memory"),
        wire.WorkerExited(1, 7, -9),
    ):
        yield wire.encode_frame(message)
    yield wire.encode_frame(wire.ZygoteReady(1)) + wire.encode_frame(wire.WorkerExited(1, 2, 0)) + b"\0\0"


def served() -> Iterator[bytes]:
    """Yield what a language server says."""
    yield lsp_wire.encode_lsp_message({"id": 1, "result": {"capabilities": {"textDocumentSync": 1}}})
    yield lsp_wire.encode_lsp_message(
        {"method": "textDocument/publishDiagnostics", "params": {"uri": "file:///a", "version": 2}}
    )
    yield lsp_wire.encode_lsp_message({"id": "a", "error": {"code": -32601, "message": "no"}}) * 2
    yield b"Content-Type: a\r\nContent-Length: 2\r\n\r\n{}"
    yield b"file://localhost/home/me/%41b.py"


CONFIGURATIONS = [
    b"[workers]\nworkers = 4\ncalls = 100\nage = 60.0\nmemory_mib = 512\nopen_files = 256\nfile_mib = 64\n",
    b'[[hook]]\nid = "a"\nevent = ["stop", "pre_tool_use"]\nrun = "guards.py:a"\n'
    b'match = { regex = "a|b", search = true }\n'
    b"config = { when = 1979-05-27, deep = { list = [1, 2.5, true] } }\n",
    b'[[hook]]\nid = "b"\nevent = "pre_tool_use"\ncommand = "exit 2"\nenv = { A = "b" }\noutput = "json"\ncwd = "x"\n',
    b'[[event]]\nname = "deploy_requested"\nmodel = "gate"\nverdicts = ["deny"]\nmatch = "target"\n'
    b'fields = { target = "str" }\n',
    b'[[override]]\nid = "acme.audit"\nenabled = false\n'
    b'[personality.calm]\nplugins = ["acme"]\n[lsp]\nenabled = true\n',
    b'[[dialect]]\nname = "mine"\nstyle = "merged"\nmatcher = "full"\n[dialect.events.BeforeTool]\n'
    b'feeds = [{ event = "pre_tool_use", keys = { tool = "tool_name" } }]\n'
    b'answers = { words = { deny = "refused" } }\n',
]
CONDITIONS = [
    b'{"command":["git push","rm"],"tool_input.timeout":">= 100"}',
    b'{"path":["~/.ssh/**","*.pem","src/[a-z]?/../x"],"cwd":"/w"}',
    b'{"tool_input.a.b":{"glob":"*x*"},"tool_name":"Bash","x":{"equals":true}}',
    b"cd x && sudo -u a git -C . push | xargs -n1 sh -c 'rm $0' <<E\n$(curl x)\nE",
    b"./a/../b//c\\d\xcc\x81",
]
SETTINGS = [
    b'{"hooks":{"PreToolUse":[{"matcher":"Edit|Write","hooks":[{"type":"command","command":"exit 2","timeout":5}]}]}}',
    b'{"hooks":{"PreToolUse":[{"match":"edit_file","command":"exit 2","timeout":5000,"cwd":"a","description":"no"}]}}',
    b'{"hooks":{"Stop":[{"hooks":[{"command":"$CLAUDE_PROJECT_DIR/a.sh","args":["a"],"async":true,"if":"Bash(*)"}]}]}}',
    b'{"disableAllHooks":true,"hooks":{"PostLLMCall":[{"command":"cat","env":{"A":"b"},"payloadFormat":"claude"}]}}',
    b'[{"event":"PreToolUse","command":"true","match":"a.*b"},{"event":"Stop","command":"true"}]',
    b'[[hooks]]\nname = "a"\ntype = "before_tool"\npriority = 5\nenabled = true\n'
    b'script = "a.sh"\n[hooks.config]\nb = 1\n',
]
ANSWERS = [
    b'{"verdict":"deny","reason":"no"}',
    b'{"verdict":"allow","patch":{"tool_input":{"command":"ls"}},"warnings":["w"]}',
    b'{"inject":[{"role":"user","content":"hi"}],"append":["a"],"resume":"r","last":true,"context":{"a":1}}',
    b'{"verdict":"claim","value":{"a":[1,2.5,null]},"reason":null}', b'{"decision":"block","reason":"no"}',
    b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",'
    b'"updatedInput":{"command":"ls"}}}',
    b'{"continue":false,"stopReason":"enough","systemMessage":"m"}', b'{"exitCode":2,"stderr":"no","timedOut":false}',
    b'{"success":true,"message":null,"modified_data":{"a":1},"should_continue":false}',
    b'{"ok":{"a":1}}', b'["deny","no"]',
]  # fmt: skip
LINES = [
    b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","payload":{},"context":{"a":1},"timeout":2.5}}\n',
    b'{"jsonrpc":"2.0","id":"a","method":"hello","params":{"protocol":1,"session":{"id":"s","hooks":[{"id":"h"}]}}}\n{}\n',
    b'{"jsonrpc":"2.0","id":1,"result":{"verdict":"deny"}}\n{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"no"}}\n',
]
PATTERNS = [
    b"Edit|Write", b"mcp__*", b"(?i)bash", b"[!]a]*?", b"(a|b){2,5}", b"a)|(b",
    b"^(a+)+$", b"[[:alpha:]]+\\b\\pL\\x{41}",
    b'{"glob":"mcp__*"}', b'{"regex":"Edit|Write","search":true}', b'["Edit","Write"]', b"((((a*)*)*)*)*",
    b"(?P<name>a)",
]  # fmt: skip
DEFINITIONS = [
    b'{"id":"no-rm","event":"pre_tool_use","match":{"regex":"Bash"},"run":"guards.py:no_rm","priority":200,"timeout":2.0}',
    b'{"id":"mine","event":["pre_tool_use","stop"],"served":true,"config":{"a":[1,{"b":null}]},"plugin":"p"}',
    b'{"id":"sh","event":"pre_tool_use","argv":["a","b"],"env":{"A":"b"},"payload":"claude","output":"json","observe":true}',
    b'{"event":"PreToolUse","matcher":"a.*","command":"exit 2","timeout":5000}',
    b'{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":["guards.py:a",{"name":"b","timeout":1}]}]}}',
    b'{"point":"before_tool_execution","name":"a","model":"sequential","priority":3}',
]
EVENTS = [
    b'{"name":"deploy_requested","model":"gate","verdicts":["deny","ask"],"match":"target","fields":{"target":"str"}}',
    b'{"name":"draft","model":"amend","patch":["text"],"combine":"first_wins","view":"original","timeout":5}',
    b'{"name":"who","model":"claim","verdicts":["claim"],"outputs":["value"],"fields":["a","b"],"when":"now"}',
]
DIALECTS = [
    b'{"name":"mine","style":"tagged","events":{"before":"stop"},"matcher":"search","timeout_unit":"ms","event_key":"type"}',
    b'{"name":"mine","style":"exit","events":{"before":{"feeds":["pre_tool_use"],"answers":{"words":{"deny":"block"}},'
    b'"aliases":["b"]}},"registration":{"fn":"id"},"structured":{"halt":"stop"}}',
    b'{"name":"mine","style":"threaded","events":{"b":{"feeds":[{"event":"pre_tool_use","keys":{"tool":"tool_name",'
    b'"args.a":"tool_input.a"},"gathers":"rest","ends_at":["deny"]}],"answers":{"words":{"deny":"deny"}}}}}',
]
CASES = [(ROOT / "examples/policy-tests.toml").read_bytes(), *DEFINITIONS[:1]]


@functools.cache
def seeds_of(name: str) -> list[bytes]:
    """Return the real inputs of one target, none of them long."""
    found = {
        "frames": frames,
        "lines": lambda: (*LINES, *(line + b"\n" for line in blocks("json"))),
        "verdicts": lambda: ANSWERS,
        "payload": lambda: (*recorded(), b'{"tool_name":"Bash","a":1}\xff{"a":1.0,"b":{"c":[]}}'),
        "matchers": lambda: PATTERNS,
        "conditions": lambda: CONDITIONS,
        "definitions": lambda: (*DEFINITIONS, *blocks("json")),
        "configuration": configurations,
        "settings": settings,
        "importing": lambda: (*settings(), *configurations()),
        "dialects": lambda: (*DIALECTS, *CONFIGURATIONS[-1:]),
        "native": lambda: (payload + b"\xff" + answer for payload in recorded() for answer in ANSWERS[:9:4]),
        "rendering": lambda: ANSWERS,
        "registrations": lambda: DEFINITIONS,
        "host": recorded,
        "custom_events": lambda: EVENTS,
        "language_servers": served,
        "shell_answers": lambda: ANSWERS,
        "policy_cases": lambda: (*CASES, *recorded()),
    }[name]()
    return [seed[:MAX_SEED] for seed in found]


@functools.cache
def words(name: str) -> list[bytes]:
    """Return what stands in the inputs of a target: names and quoted names, to be put where others stood."""
    text = b"\n".join(seeds_of(name)).decode("utf-8", "replace")
    found = sorted(set(TEXT.findall(text)))[:300]
    return [*(word.encode() for word in found), *(json.dumps(word).encode() for word in found), *NASTY]
