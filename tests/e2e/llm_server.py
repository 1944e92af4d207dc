"""A real HTTP server in OpenAI's wire format: it checks every request as a strict provider would, answers by a function
of the request, and misbehaves when told to."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    number: int
    """From 1."""
    at: float
    """`time.monotonic`."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        return list(self.body.get("messages", []))


@dataclass(frozen=True)
class Raw:
    """An answer that is no chat completion, or not the whole of one."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Close the connection in the middle."""
    hang_s: float = 0.0
    """Wait so long before a word."""
    drip_s: float = 0.0
    """Send a space now and then for so long, never the end."""


def error(status: int, message: str, **headers: str) -> Raw:
    """An error as OpenAI words it."""
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": None}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(body.encode(), status, {"Content-Type": "application/json", **named})


def call(identity: str | None, name: str | None, arguments: Any, **more: Any) -> dict[str, Any]:
    """A tool call; arguments that are no string are sent as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    made = {"type": "function", "function": {"name": name, "arguments": text}, **more}
    return made if identity is None else {"id": identity, **made}


def says(
    content: str | None = None, *calls: Mapping[str, Any], finish: str | None = None, **more: Any
) -> dict[str, Any]:
    """A chat completion. `more` goes into the message."""
    message = {"role": "assistant", "content": content, **more}
    if calls:
        message["tool_calls"] = list(calls)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": finish or ("tool_calls" if calls else "stop"), "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
    }


Answer = Mapping[str, Any] | Raw
Policy = Callable[[Asked], Answer]


class LlmServer:
    """What the server saw, and where it is."""

    def __init__(self, base: str, stopping: threading.Event) -> None:
        self.base = base
        self.asked: list[Asked] = []
        self.complaints: list[str] = []
        """What a strict provider would have refused."""
        self.stopping = stopping


@contextmanager
def serving(policy: Policy | Sequence[Answer]) -> Iterator[LlmServer]:
    """Serve until the `with` block ends. A sequence is gone through; its last answer is repeated."""
    answers = None if callable(policy) else list(policy)

    def choose(asked: Asked) -> Answer:
        if answers is None:
            assert callable(policy)
            return policy(asked)
        return answers[min(asked.number, len(answers)) - 1]

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    state = LlmServer(f"http://127.0.0.1:{server.server_port}/v1", threading.Event())
    server.state, server.choose, server.lock = state, choose, threading.Lock()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield state
    finally:
        state.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        state: LlmServer = self.server.state  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:  # type: ignore[attr-defined]
            asked = Asked(self.path, headers, body, len(state.asked) + 1, time.monotonic())
            state.asked.append(asked)
        found = complaints(body) if self.path.endswith("/chat/completions") else []  # others have formats of their own
        state.complaints += found
        answer = error(400, found[0]) if found else self.server.choose(asked)  # type: ignore[attr-defined]
        try:
            self._send(answer, state.stopping)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, answer: Answer, stopping: threading.Event) -> None:
        if not isinstance(answer, Raw):
            answer = Raw(json.dumps(answer).encode(), headers={"Content-Type": "application/json"})
        if answer.hang_s:
            stopping.wait(answer.hang_s)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.drip_s:
            self._drip(answer.drip_s, stopping)
            return
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[: len(answer.body) // 2] if answer.cut else answer.body)
        self.wfile.flush()
        self.close_connection = self.close_connection or answer.cut

    def _drip(self, seconds: float, stopping: threading.Event) -> None:
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not stopping.wait(0.05):
            self.wfile.write(b"1\r\n \r\n")
            self.wfile.flush()
        self.close_connection = True


def complaints(body: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a chat request: calls and answers that do not pair, empty texts, arguments not JSON."""
    found: list[str] = []
    waiting: list[str] = []
    for place, message in enumerate(body.get("messages", [])):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                found.append(
                    f"messages[{place}]: answers {message.get('tool_call_id')!r}, which no call before waits for"
                )
            else:
                waiting.remove(message["tool_call_id"])
        elif waiting:
            found.append(f"messages[{place}]: the calls {waiting} must be followed by tool messages")
        found += _wrong_content(place, message)
        calls = message.get("tool_calls", [])
        waiting = waiting + [one["id"] for one in calls]
        found += [f"messages[{place}]: {wrong}" for one in calls if (wrong := _wrong_call(one))]
    if waiting:
        found.append(f"the calls {waiting} have no answer")
    identities = [one["id"] for message in body.get("messages", []) for one in message.get("tool_calls", [])]
    if len(set(identities)) != len(identities):
        found.append("two calls have the same id")
    for tool in body.get("tools") or []:
        function = tool.get("function", tool)
        if "summary" in function["parameters"].get("properties", {}):
            found.append(f"the tool {function['name']} has a field that is not its own")
    return found


def _wrong_content(place: int, message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    if content is None:
        return [] if message.get("tool_calls") else [f"messages[{place}]: no content"]
    texts = [content] if isinstance(content, str) else [part.get("text", "-") for part in content]
    return [f"messages[{place}]: empty text"] if any(not text.strip() for text in texts) else []


def _wrong_call(made: Mapping[str, Any]) -> str:
    try:
        if not isinstance(json.loads(made["function"]["arguments"]), dict):
            return "the arguments are no object"
    except ValueError:
        return "failed to parse tool call arguments as JSON"
    return "" if made["function"]["name"] else "a call without a name"
