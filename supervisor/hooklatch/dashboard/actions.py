"""The actions on the pages: each is shown once more with its meaning, needs a reason, and is recorded.

GET /do/NAME shows the form. POST /do/NAME has the daemon do it, with the name of the user.  Forms carry a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hooklatch.core.answers import Ask, AsksAnswer
from hooklatch.core.status_answers import StatusAnswer
from hooklatch.core.text import find_disguised_word, find_omission_mark, format_count, read_duration
from hooklatch.dashboard.doors import Keys
from hooklatch.dashboard.feed import QueryResult
from hooklatch.dashboard.rendering import MAX_TEXT, format_page_json
from hooklatch.dashboard.site import DashboardSite

__all__ = ["Actions", "FormError"]

MAX_BYTES = 64 * 1024
MAX_FIELDS = 20
TYPE = "application/x-www-form-urlencoded"


class FormError(Exception):
    """A form is refused, with a status and a text, on a page of this place."""

    def __init__(self, status: int, text: str, place: str) -> None:
        super().__init__(text)
        self.status, self.place = status, place


async def read_form(request: Request, keys: Keys, place: str = "") -> dict[str, str]:
    """Return the fields, without the form key."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != TYPE:
        raise FormError(415, f"a form is posted as {TYPE}", place)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise FormError(413, f"the form is longer than {MAX_BYTES} bytes", place)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict",
                          max_num_fields=MAX_FIELDS)  # fmt: skip
    except ValueError:
        raise FormError(400, "the form cannot be read", place) from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise FormError(400, "the form has a field twice", place)
    if not keys.is_form_key(fields.pop("form_key", "")):
        text = "the form is not one of this dashboard, or the dashboard was restarted; open the page again"
        raise FormError(403, text, place)
    return fields


MAX_REASON = 500  # characters that the daemon keeps of a reason
RELOAD_TIMEOUT = 180.0  # seconds: changed files are imported for the first time
VERDICTS = ("allow", "deny")


class Action(msgspec.Struct, frozen=True):
    """An action of an administrator: `method` of the daemon, on a hook, or on nothing without `has_hook`.

    `meaning` explains its effect, `page` is shown afterwards. With `lasts`, the form has a duration.
    """

    method: str
    title: str
    button: str
    meaning: str
    page: str
    done: str
    lasts: bool = False
    may_be_all: bool = False
    has_hook: bool = True
    is_grave: bool = False


ACTIONS = {
    "suspend": Action(
        "suspend", "Suspend", "Suspend",
        "It is left out of every fire until the time is over: what it guards is not guarded meanwhile.",
        "suspensions", "is suspended", lasts=True, may_be_all=True, is_grave=True,
    ),
    "resume": Action(
        "resume", "End the suspension of", "End the suspension", "It is asked again from the next fire on.",
        "suspensions", "is asked again", may_be_all=True,
    ),
    "disable": Action(
        "disable", "Disable", "Disable",
        "It is left out of every fire until an administrator enables it, also after a restart: what it guards"
        " is not guarded meanwhile.",
        "hooks", "is disabled", is_grave=True,
    ),
    "enable": Action("enable", "Enable", "Enable", "It is asked again from the next fire on.", "hooks", "is enabled"),
    "lift": Action(
        "enable", "Lift the quarantine of", "Lift the quarantine",
        "It is called again at once. If its worker dies again, so often, it is quarantined again.",
        "suspensions", "is not quarantined any more",
    ),
    "reload": Action(
        "reload", "Reload the files", "Reload",
        "Every change of the files is loaded now, also that a file is gone or empty; every quarantine is lifted.",
        "", "", has_hook=False,
    ),
}  # fmt: skip


class ActionTarget(msgspec.Struct, frozen=True):
    """The target of an action: a hook or a plugin by its name, or all."""

    hook: str = ""
    is_all: bool = False

    @property
    def text(self) -> str:
        return "every hook" if self.is_all else self.hook


class Actions:
    """The handlers of forms, and of the pages that hold one."""

    def __init__(self, site: DashboardSite) -> None:
        self._site = site

    async def form(self, request: Request) -> Response:
        """Show the meaning of an action, and a form for its reason."""
        action = ACTIONS.get(request.path_params["name"])
        target = read_action_target(request.query_params)
        if action is None or not is_fit(action, target):
            return self._site.wrong(404, "there is no such action, or it does not say for which hook")
        given = {"for": length} if (length := request.query_params.get("for")) else {}
        return self._form(request.path_params["name"], action, target, given)

    async def act(self, request: Request) -> Response:
        """Perform the action of a form, and go to its page, or show the form again with the fault."""
        name = request.path_params["name"]
        action = ACTIONS.get(name)
        fields = await read_form(request, self._site.keys)
        target = read_action_target(fields)
        if action is None or not is_fit(action, target):
            return self._site.wrong(404, "there is no such action, or it does not say for which hook")
        try:
            params = make_action_params(action, target, fields)
        except ValueError as error:
            return self._form(name, action, target, fields, fault=str(error), status=400)
        async with self._site.asking() as asker:
            answer = await asker.ask(action.method, dict[str, Any], timeout=RELOAD_TIMEOUT, by=self._site.who, **params)
        if answer.value is None:
            return self._form(name, action, target, fields, fault=answer.fault, status=409)
        self._site.notice(format_action_result(action, target, answer.value))
        return self._site.go(action.page)

    def _form(
        self, name: str, action: Action, target: ActionTarget, fields: Mapping[str, str], *, fault: str = "",
        status: int = 200,
    ) -> Response:  # fmt: skip
        return self._site.page(
            "confirm.html", title=f"{action.title} {target.text}".strip(), place=action.page, status=status, name=name,
            action=action, target=target, fields=fields, fault=fault, who=self._site.who,
        )  # fmt: skip

    async def ask_form(self, request: Request) -> Response:
        """Show an open ask, and the form for its answer."""
        problems = await self._ask(request.query_params.get("id", ""))
        if problems.value is None:
            return self._site.wrong(404, problems.fault, place="asks")
        if request.query_params.get("digest", problems.value["payload_digest"]) != problems.value["payload_digest"]:
            return self._site.wrong(409, "this link is about another payload than the ask's", place="asks")
        return self._ask_form(problems.value, {})

    async def answer(self, request: Request) -> Response:
        """Answer an ask for exactly the payload that the form showed."""
        fields = await read_form(request, self._site.keys, "asks")
        problems = await self._ask(fields.get("id", ""))
        if problems.value is None:
            return self._site.wrong(409, problems.fault, place="asks")
        reason, verdict = fields.get("reason", "").strip(), fields.get("verdict", "")
        if fields.get("digest") != problems.value["payload_digest"]:
            return self._ask_form(
                problems.value, fields, fault="it is another payload than the form showed", status=409
            )
        if verdict not in VERDICTS or not reason:
            return self._ask_form(problems.value, fields, fault="it needs a reason, and an answer", status=400)
        async with self._site.asking() as asker:
            answer = await asker.ask(
                "answer_ask", dict[str, Any], id=problems.value["id"], payload_digest=problems.value["payload_digest"],
                verdict=verdict, reason=reason[:MAX_REASON],
                by=self._site.who,
            )  # fmt: skip
        if answer.value is None:
            return self._ask_form(problems.value, fields, fault=answer.fault, status=409)
        self._site.notice(f"The answer to {problems.value['tool'] or problems.value['event']} is {verdict}.")
        return self._site.go("asks")

    async def _ask(self, name: str) -> QueryResult[Ask]:
        async with self._site.asking() as asker:
            asks = await asker.ask("asks", AsksAnswer)
        if asks.value is None:
            return QueryResult(fault=asks.fault)
        for ask in asks.value["asks"]:
            if ask["id"] == name:
                return QueryResult(ask)
        return QueryResult(fault="it does not wait for an answer any more: it was answered, or its time is over")

    def _ask_form(self, ask: Ask, fields: Mapping[str, str], *, fault: str = "", status: int = 200) -> Response:
        payload, patch = (
            format_payload_text(ask["excerpt"], ask["excerpt_cut"]),
            format_payload_text(ask["patch"], ask["patch_cut"]),
        )
        title = f"Answer {ask['tool'] or ask['event']}"
        return self._site.page(
            "ask.html", title=title, place="asks", status=status, ask=ask, fields=fields, payload=payload,
            patch=patch, mark=find_omission_mark(payload, patch),
            disguised=find_disguised_word(payload) or find_disguised_word(patch), fault=fault, who=self._site.who,
        )  # fmt: skip

    async def verify(self, request: Request) -> Response:
        """Begin a check of the record. Its page shows the progress."""
        await read_form(request, self._site.keys, "record")
        async with self._site.asking() as asker:
            status = await asker.ask("status", StatusAnswer)
        if status.value is None:
            return self._site.wrong(409, status.fault, place="record")
        if not self._site.checks.begin(status.value["record"]["folder"]):
            self._site.notice("The record is being checked already.")
        return self._site.go("record")


def format_payload_text(value: object, beginning: str | None) -> str:
    """Return a payload or a patch for a page, or its beginning, or an empty text if there is none."""
    if beginning is not None or value is None:
        return beginning or ""
    text = format_page_json(value)
    # A page cuts longer texts, and without the indentation more of the payload fits.
    return text if len(text) <= MAX_TEXT else msgspec.json.encode(value).decode()


def read_action_target(fields: Mapping[str, str]) -> ActionTarget:
    return ActionTarget(fields.get("hook", ""), fields.get("all") == "1")


def is_fit(action: Action, target: ActionTarget) -> bool:
    """Return whether an action allows this target: one hook, or all hooks if it may be for all."""
    if not action.has_hook:
        return not target.hook and not target.is_all
    return bool(target.hook) is not target.is_all and (action.may_be_all or not target.is_all)


def make_action_params(action: Action, target: ActionTarget, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the params of the request to the daemon.

    Raises:
        ValueError: the reason is missing or too long, or the duration is invalid.
    """
    reason = " ".join(fields.get("reason", "").split())
    if not reason:
        raise ValueError("it needs a reason, which is recorded")
    if len(reason) > MAX_REASON:
        raise ValueError(f"the reason is longer than {MAX_REASON} characters")
    params: dict[str, Any] = {"reason": reason}
    if action.has_hook:
        params["all" if target.is_all else "id"] = True if target.is_all else target.hook
    if action.method in ("enable", "disable"):
        params["scope"] = "global"
    if action.lasts:
        params["seconds"] = read_duration(fields.get("for", ""))
    return params


def format_action_result(action: Action, target: ActionTarget, result: Mapping[str, Any]) -> str:
    """Return the notice of the next page about an action, with the daemon's warnings."""
    if action.method == "reload":
        problems = (
            format_count(len(read_list(result, "diagnostics")), "problem")
            if "diagnostics" in result
            else "problems unknown"
        )
        text = f"The files were loaded: revision {result.get('revision')}, {problems}."
    else:
        text = f"{target.text[:1].upper()}{target.text[1:]} {action.done}."
    return " ".join([text, *(f"{warning}." for warning in read_list(result, "warnings"))])


def read_list(result: Mapping[str, Any], key: str) -> list[object]:
    value: object = result.get(key)
    return cast("list[object]", value) if isinstance(value, list) else []
