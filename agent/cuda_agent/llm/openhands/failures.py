"""What a provider's error means, and the sentence a person gets. Errors are known by status, name and text."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

MAX_SAID_CHARS = 400
"""Of the provider's own words in a message."""


class Kind(StrEnum):
    """The kinds of failure that are treated differently."""

    AUTHENTICATION = "authentication"
    NOT_FOUND = "not found"
    OVERFLOW = "context overflow"
    REFUSED = "refused"
    QUOTA = "quota"
    BAD_REQUEST = "bad request"
    RATE_LIMIT = "rate limit"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"
    UNREADABLE = "unreadable"
    TIMEOUT = "timeout"

    @property
    def may_pass(self) -> bool:
        """Say whether the same request may succeed later."""
        return self in _PASSING


_PASSING = frozenset({Kind.RATE_LIMIT, Kind.UNAVAILABLE, Kind.UNREACHABLE, Kind.UNREADABLE, Kind.TIMEOUT})
_OVERFLOW = re.compile(
    r"context[ _](length|window|size|limit)|prompt is too long|reduce the length|too many (input )?tokens"
    r"|(token|prompt|input|message)[^.\n]{0,100}(exceed|too (large|long|big))",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"content[ _](policy|filter|management)|blocked by .{0,40}(safety|filter|policy)", re.IGNORECASE)
_KEY = re.compile(
    r"(invalid|missing|incorrect|expired|no) (api|x-api)[- _]?key|unauthorized|api_key client option", re.I
)
_EMPTY_PURSE = re.compile(r"insufficient_quota|usage_limit_reached|credit balance|budget", re.IGNORECASE)
_UNREADABLE = re.compile(
    r"JSONDecode|Expecting value|Unable to (get|parse) json|choices is less than 1|Invalid response", re.I
)
_PREFIX = re.compile(r"^(litellm\.)?(\w+(Error|Exception): |Timeout: |litellm\.|\w+Exception - |Error code: \d+ - )+")
_RETRY_IN = re.compile(r"(?:retry|try again) (?:in|after) ([0-9.]+) ?(ms|s|m)?", re.IGNORECASE)
_MOST_CAUSES = 20
_BY_STATUS = {
    401: Kind.AUTHENTICATION,
    402: Kind.QUOTA,
    403: Kind.AUTHENTICATION,
    404: Kind.NOT_FOUND,
    408: Kind.TIMEOUT,
    409: Kind.UNAVAILABLE,
    413: Kind.OVERFLOW,
    429: Kind.RATE_LIMIT,
}
_SENTENCES = {
    Kind.AUTHENTICATION: "{where} does not accept the key; set the right one ({key}).",
    Kind.NOT_FOUND: "{where} has no model {model!r} at this address; check the name and --api-base.",
    Kind.OVERFLOW: "The conversation is longer than {model!r} takes; give its limit with --context-tokens.",
    Kind.REFUSED: "{where} refused the request.",
    Kind.QUOTA: "The account at {where} has nothing left to spend; top it up or use another key.",
    Kind.BAD_REQUEST: "{where} does not take the request.",
    Kind.RATE_LIMIT: "{where} limits the rate and did not yield; try later or with another key.",
    Kind.UNAVAILABLE: "{where} is not available; try later.",
    Kind.UNREACHABLE: "{where} cannot be reached; check that the server runs, the network and --api-base.",
    Kind.UNREADABLE: "{where} answers with something that is no chat completion; check --api-base.",
    Kind.TIMEOUT: "{where} gave no complete answer in time; try later or another model.",
}


@dataclass(frozen=True)
class Failure:
    """One failed request."""

    kind: Kind
    said: str
    """The provider's own words, in one line."""
    retry_after_s: float | None = None
    """How long the provider asks to wait."""


@dataclass(frozen=True)
class Where:
    """What a sentence about a failure may name."""

    model: str
    server: str
    key: str
    """How the key is given."""


def sentence(failure: Failure, where: Where) -> str:
    """Return what happened and what to do, with the provider's words behind it."""
    text = _SENTENCES[failure.kind].format(where=where.server, model=where.model, key=where.key)
    return f"{text} It said: {failure.said}" if failure.said else text


def classify(error: BaseException, *, now: datetime | None = None) -> Failure:
    """Say what an exception of the SDK or of litellm means."""
    origin = error.__cause__ if _status(error) is None and error.__cause__ is not None else error
    status, text = _status(origin), str(origin) or type(origin).__name__
    names = {kind.__name__ for one in _chain(error) for kind in type(one).__mro__}
    wait = _retry_after(origin, text, now or datetime.now(UTC))
    return Failure(_kind(status, text, names, wait), _one_line(text), wait)


def _kind(status: int | None, text: str, names: set[str], wait: float | None) -> Kind:
    clients_fault = status is None or 400 <= status < 500 or status == 500
    if status not in (401, 403, 404, 429) and clients_fault and not names & {"Timeout", "TimeoutError"}:
        if "ContextWindowExceededError" in names or _OVERFLOW.search(text):
            return Kind.OVERFLOW
        if "ContentPolicyViolationError" in names or _REFUSED.search(text):
            return Kind.REFUSED
    if status == 429 and wait is None and _EMPTY_PURSE.search(text):
        return Kind.QUOTA
    return _by_name(status, text, names)


def _by_name(status: int | None, text: str, names: set[str]) -> Kind:
    if _UNREADABLE.search(text) or "LLMNoResponseError" in names:
        return Kind.UNREADABLE
    if names & {"Timeout", "TimeoutError", "LLMTimeoutError"}:
        return Kind.TIMEOUT
    if names & {"ConnectError", "ConnectTimeout", "ClientConnectorError", "gaierror", "ConnectionRefusedError"}:
        return Kind.UNREACHABLE
    if status in (None, 400) and _KEY.search(text):
        return Kind.AUTHENTICATION
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is None or status >= 500:
        return Kind.UNAVAILABLE
    return Kind.BAD_REQUEST


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    while len(found) < _MOST_CAUSES and (further := found[-1].__cause__ or found[-1].__context__) is not None:
        found.append(further)
    return found


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _retry_after(error: BaseException, text: str, now: datetime) -> float | None:
    for headers in (getattr(error, "litellm_response_headers", None), _headers(getattr(error, "response", None))):
        if headers is None:
            continue
        if (milliseconds := headers.get("retry-after-ms")) and (seconds := _number(milliseconds)) is not None:
            return seconds / 1000
        if given := headers.get("retry-after"):
            return _seconds(str(given), now)
    found = _RETRY_IN.search(text)
    if found is None or (value := _number(found[1].rstrip("."))) is None:
        return None
    return value * {"ms": 0.001, "m": 60.0}.get((found[2] or "s").lower(), 1.0)


def _headers(response: Any) -> Any:
    return getattr(response, "headers", None)


def _seconds(given: str, now: datetime) -> float | None:
    seconds = _number(given)
    if seconds is not None:
        return max(0.0, seconds)
    try:
        until = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _one_line(text: str) -> str:
    # litellm puts its own class names in front, several deep.
    words = _PREFIX.sub("", text.partition("Traceback (most recent call last)")[0])
    line = " ".join(words.split())
    return line if len(line) <= MAX_SAID_CHARS else line[:MAX_SAID_CHARS] + " ..."
