"""Refuse keys and tokens in files, commands, requests and calls of other servers, and redact them in results.

Keys and tokens are found by their form, by the detectors of bc-detect-secrets (pip install 'hooklatch[guards-secrets]')
and the patterns below.  Without that package this file does not load, and so every gate that it guards denies.
Detectors that guess from words such as "password" or from randomness are left out: they refuse everyday work.

This file is yours: change the lists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeAlias

from hooklatch import amend, deny, hook
from hooklatch.guards import UnreadableCommandError, commands

try:
    from detect_secrets.plugins import (
        artifactory,
        aws,
        basic_auth,
        cloudant,
        discord,
        github_token,
        ibm_cos_hmac,
        jwt,
        mailchimp,
        npm,
        sendgrid,
        slack,
        softlayer,
        square_oauth,
        stripe,
        twilio,
    )
    from detect_secrets.plugins.base import RegexBasedDetector
except ImportError as error:
    raise ImportError(f"{error}; this guard needs detectors: pip install 'hooklatch[guards-secrets]'") from None

DETECTORS = (
    artifactory.ArtifactoryDetector(), aws.AWSKeyDetector(),
    basic_auth.BasicAuthDetector(), cloudant.CloudantDetector(), discord.DiscordBotTokenDetector(),
    github_token.GitHubTokenDetector(), ibm_cos_hmac.IbmCosHmacDetector(), jwt.JwtTokenDetector(),
    mailchimp.MailchimpDetector(), npm.NpmDetector(), sendgrid.SendGridDetector(),
    slack.SlackDetector(), softlayer.SoftlayerDetector(), square_oauth.SquareOAuthDetector(), stripe.StripeDetector(),
    twilio.TwilioKeyDetector(),
)  # fmt: skip
PATTERNS = {
    "a private key": re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY"),
    "an Azure key": re.compile(r"\bAccountKey=[A-Za-z0-9+/]{86}=="),
    "an Anthropic key": re.compile(r"\bsk-ant-[\w-]{20,}"),
    "an OpenAI key": re.compile(  # sk-circle-fade-animation is a name: plain words, and none of the two prefixes
        r"\bsk-(?:(?:proj|svcacct)-|(?![a-z]{1,19}(?:[-_][a-z]{1,19}){1,12}(?![\w-])))[A-Za-z0-9_-]{20,}"
    ),
    "a Google key": re.compile(r"\bAIza[\w-]{35}"),
    "a GitHub token": re.compile(r"\bgithub_pat_\w{22,}"),
    "a GitLab token": re.compile(r"\bgl(?:pat|dt|rt|cbt)-[\w-]{20,}"),
    "a PyPI token": re.compile(r"\bpypi-AgE[\w-]{50,}"),
    "a Hugging Face token": re.compile(r"\bhf_[A-Za-z]{30,}"),
    "a DigitalOcean token": re.compile(r"\bdo[opr]_v1_[a-f0-9]{64}"),
    "an age key": re.compile(r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}"),
    "a Vault token": re.compile(r"\bhv[sb]\.[\w-]{24,}"),
    "a Groq key": re.compile(r"\bgsk_[A-Za-z0-9]{48,}"),
    "an xAI key": re.compile(r"\bxai-[A-Za-z0-9]{60,}"),
    "a Replicate token": re.compile(r"\br8_[A-Za-z0-9]{37}"),
    "a Linear key": re.compile(r"\blin_api_[A-Za-z0-9]{40}"),
    "a Databricks token": re.compile(r"\bdapi[a-f0-9]{32}"),
    "a Shopify token": re.compile(r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    "a Grafana token": re.compile(r"\bglsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}"),
    "an Atlassian token": re.compile(r"\bATATT3[\w=-]{60,}"),
    "a Supabase token": re.compile(r"\bsbp_[a-f0-9]{40}"),
}
# Placeholders of documentation; a text is compared whole.
ALLOWED = {
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "password", "pass", "postgres", "guest",
    "changeme", "xxx", "...",
}  # fmt: skip
PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----|\Z)", re.DOTALL
)
OLD = {"old", "old_string", "old_str", "oldString"}  # the text that an edit removes may hold a secret

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | None"


@hook(
    "pre_tool_use",
    match=["shell", "write", "edit", "fetch", "mcp", "other"],
    timeout=10.0,  # two megabytes in one line take up to three seconds
    description="no secrets in files, commands and requests",
)
def secrets(event: Any) -> Any:
    is_edit = event.tool_kind == "edit" and not str(event.tool_name).startswith("mcp__")
    texts = [*list_input_texts(event.tool_args, is_edit), *list_input_texts(event.tool_input, is_edit)]
    command = event.tool_args.get("command")
    if isinstance(command, str):
        try:  # a secret may be written in pieces: gh"p_…"
            texts += [word.text for parsed in commands(command) for word in parsed.arguments]
            texts.append(re.sub(r"\\\n|['\"\\]", "", command))
        except UnreadableCommandError as error:
            return deny(f"the command cannot be judged: {error}")
    for text in dict.fromkeys(texts):
        for line in text.splitlines():
            if (kind := find_secret_kind(line)) is not None:
                return deny(f"this holds what looks like {kind}; name a variable or a file that is not committed")
    return None


@hook("tool_result", timeout=10.0, description="no secrets in what the model reads of a tool")
def secrets_in_results(event: Any) -> Any:
    try:
        redacted = redact_value(event.tool_response)
    except ValueError as error:
        return deny(str(error))
    return amend(tool_response=redacted) if redacted != event.tool_response else None


def redact_value(value: Json) -> Json:
    """Return a result of the same shape without what looks like a secret.

    Raises:
        ValueError: a key of it looks like one, and another key would be another shape.
    """
    if isinstance(value, str):
        text = PRIVATE_KEY.sub("[redacted: a private key]", value)
        return "".join(map(redact_line, text.splitlines(keepends=True)))
    if isinstance(value, dict):
        if any(find_secret_kind(line) for key in value for line in key.splitlines()):
            raise ValueError("a key of the result holds what looks like a secret")
        return {key: redact_value(below) for key, below in value.items()}
    return [redact_value(below) for below in value] if isinstance(value, list) else value


def redact_line(line: str) -> str:
    for kind, text in list(list_secrets(line)):
        is_password = f":{text}@" in line  # of a URL: it may be a word that stands elsewhere too
        before, after = (":", "@") if is_password else ("", "")
        line = line.replace(f"{before}{text}{after}", f"{before}[redacted: {kind}]{after}")
    end = line[len(line.rstrip("\r\n")) :]
    left = find_secret_kind(line)
    return line if left is None else f"[redacted: a line with {left}]{end}"


def list_input_texts(value: Json, is_edit: bool) -> Iterator[str]:
    """Yield every text of a tool's input, without the text that an edit removes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, below in value.items():
            if is_edit and key == "patch" and isinstance(below, str):
                yield "\n".join(line for line in below.splitlines() if not line.startswith("-"))
            elif not is_edit or key not in OLD:
                yield key
                yield from list_input_texts(below, is_edit)
    elif isinstance(value, list):
        for below in value:
            yield from list_input_texts(below, is_edit)


def find_secret_kind(line: str) -> str | None:
    return next((kind for kind, _ in list_secrets(line)), None)


def list_secrets(line: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each secret in a line."""
    for kind, pattern in PATTERNS.items():
        for match in pattern.finditer(line):
            if match[0] not in ALLOWED:
                yield kind, match[0]
    for detector in DETECTORS:
        for text in list_detected(detector, line):
            is_placeholder = text in ALLOWED or text.startswith(("$", "{", "<", "%")) or f"//{text}:{text}@" in line
            if not is_placeholder:
                yield f"a secret ({detector.secret_type})", text


def list_detected(detector: RegexBasedDetector, line: str) -> Collection[str]:
    """Return what a detector finds: all of a match whose group is only its beginning (ghp), or has nothing of it."""
    found = set(detector.analyze_string(line))
    texts: list[str] = []
    patterns: Iterable[re.Pattern[str]] = getattr(detector, "denylist", ())  # of no known type
    for match in (match for pattern in patterns if found for match in pattern.finditer(line)):
        group = match.lastindex or 0
        if (match[group] if group or not match.re.groups else "") in found:
            texts.append(match[0] if match.start(group) == match.start() else match[group])
    return texts or found
