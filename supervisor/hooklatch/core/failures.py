"""The words of a failure in the log, by its cause.  Imports nothing; `refusal_texts` has those for model and person."""

__all__ = ["LOGGED", "format_failure"]

# By cause: what the record says of a failure.
LOGGED = {
    "crash": "hook crashed (fail-safe deny)",
    "timeout": "hook timed out (fail-safe deny)",
    "overload": "no worker was free (fail-safe deny)",
    "protocol": "hook gave an illegal answer (fail-safe deny)",
    "quarantined": "hook is quarantined after repeated crashes (fail-safe deny)",
    "load": "hook could not be loaded (fail-safe deny)",
    "payload": "the payload cannot be judged (fail-safe deny)",
    "unsettled": "hooks did not settle on one payload (fail-safe deny)",
    "unanswered": "nobody approved it (fail-safe deny)",
    "draining": "the daemon is shutting down (fail-safe deny)",
    "abandoned": "the client left while the hook ran",
    "audit": "the decision could not be recorded (fail-safe deny)",
}


def format_failure(cause: str, message: str, hook: str = "") -> str:
    """Return a failure as the log has it: what happened, the hook's full name, and what it said."""
    return ": ".join([part for part in (LOGGED.get(cause, cause), hook, message) if part])
