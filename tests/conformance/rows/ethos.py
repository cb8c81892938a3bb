"""What Ethos' hook registry and the code around it state about themselves, case by case."""

from conformance.table import Row, span

__all__ = ["IDS", "ROWS"]

IDS = span("ET", 1, 55)

GATEWAY = "the point gateway_message is newer than the page; before_dispatch has its payload and its answer here"
POINT = "it is no point of Ethos' page; here it is a custom event of the configuration"
GATE = "a verifier is a gate here, a custom event of the configuration: its refusal is a deny, and its crash too"
TICKETS = "it is about the state of a ticket, which the host looks at before it fires anything"
GOALS = "it is about the attempts of the goal runner; a gate on them is a custom event, as in ET-35"
PAYLOAD = "which of these a host sends is its own affair; every key that it sends is carried"

ROWS = (
    Row("ET-01", "two void handlers both run"),
    Row("ET-02", "a void handler that throws costs nobody anything"),
    Row("ET-03", "the first value of a key wins, and later handlers fill in other keys"),
    Row("ET-04", "the first claim ends the chain"),
    Row("ET-05", "the handlers of a plugin that is unregistered are not called"),
    Row("ET-06", "without a list of plugins only built-in handlers of a void point run"),
    Row("ET-07", "with an empty list only built-in handlers of a void point run"),
    Row("ET-08", "built-in handlers and those of the listed plugins run, others do not"),
    Row("ET-09", "a listed plugin that throws keeps no built-in handler from running"),
    Row("ET-10", "with an empty list only built-in handlers amend"),
    Row("ET-11", "only listed plugins amend"),
    Row("ET-12", "with an empty list no plugin claims"),
    Row("ET-13", "a listed plugin claims"),
    Row(
        "ET-14",
        "a loop that is declared gated and has no handler fails at its first tool call",
        "differs",
        "require_handlers: the call is denied with cause load, and the run goes on",
    ),
    Row("ET-15", "a loop that is declared gated and has a handler runs its tools"),
    Row("ET-16", "a loop that is declared ungated says so, with its reason"),
    Row("ET-17", "it says so once, not once a run"),
    Row(
        "ET-18",
        "three denials in a row halt the run",
        "differs",
        "the host chooses the number (denial_breaker), and there is none unless it does",
    ),
    Row("ET-19", "two denials and a success halt nothing"),
    Row("ET-20", "a denied call is not ok, and its error has the reason"),
    Row("ET-21", "rejections that no hook made do not count as denials"),
    Row("ET-22", "a tool called by a script gets the same error as one called by the model"),
    Row("ET-23", "one place in the sources fires before_tool_call", "not applicable", "it scans Ethos' own sources"),
    Row("ET-24", "a rejected call does not run, and the model is told so by an error result"),
    Row("ET-25", "the text of a rejection stands bare in the result"),
    Row("ET-26", "a claimed message with a reply runs no agent, and the reply is there to be sent", "differs", GATEWAY),
    Row(
        "ET-27",
        "the same reply twice is sent once",
        "not applicable",
        "sending, and remembering what was sent, are the gateway's",
    ),
    Row("ET-28", "a claimed message without a reply has nothing to send", "differs", GATEWAY),
    Row("ET-29", "a message that nobody claims goes its usual way", "differs", GATEWAY),
    Row("ET-30", "a message goes its usual way where no handler is registered", "differs", GATEWAY),
    Row("ET-31", "the handler is shown exactly the message's six fields", "differs", GATEWAY),
    Row("ET-32", "a process that ends is told once, with all fields", "differs", POINT),
    Row(
        "ET-33",
        "waiting for a process that has ended tells nobody again",
        "not applicable",
        "it is about the process tool's own book-keeping: hooklatch fires what the host fires",
    ),
    Row("ET-34", "the exit code of a failed process is told", "differs", POINT),
    Row("ET-35", "a verifier that rejects keeps a ticket from being completed, with its reason", "differs", GATE),
    Row("ET-36", "a verifier that passes lets a ticket be completed", "differs", GATE),
    Row("ET-37", "a ticket that is not running is refused without asking a verifier", "not applicable", TICKETS),
    Row(
        "ET-38",
        "without a registry a ticket is completed",
        "differs",
        "without a daemon nobody can verify: the gate denies with cause no_daemon",
    ),
    Row("ET-39", "without a verifier a ticket is completed", "differs", GATE),
    Row("ET-40", "a verifier that rejects the last attempt exhausts a goal", "not applicable", GOALS),
    Row("ET-41", "without a verifier a goal is completed", "not applicable", GOALS),
    Row("ET-42", "what is said to a goal while its verifier runs is in its next attempt", "not applicable", GOALS),
    Row("ET-43", "a hook that a plugin registers fires where the plugin is allowed"),
    Row("ET-44", "after its clean-up it does not"),
    Row("ET-45", "a plugin's hook fires for the personality that lists it, and for no other"),
    Row(
        "ET-46",
        "before an LLM call a handler is shown system, tools, messages and the request's id",
        "differs",
        PAYLOAD,
    ),
    Row("ET-47", "after an LLM call it is shown these, the finish reason and the duration", "differs", PAYLOAD),
    Row("ET-48", "of two tools that run at once each has its own duration"),
    Row("ET-49", "a spoken turn's calls have their origin"),
    Row("ET-50", "a typed turn's calls have none"),
    Row("ET-51", "a safe command runs without approval"),
    Row("ET-52", "a dangerous command that is approved runs"),
    Row(
        "ET-53",
        "a dangerous command that is not approved is rejected with the person's reason and the danger's",
        "differs",
        "the refusal has the person's reason; the danger's is that of the ask before it, in the run's decisions",
    ),
    Row("ET-54", "the danger's reason is shown to the person who approves"),
    Row("ET-55", "a dangerous command on the allow-list runs without approval"),
)
