"""Commands that show something and change nothing."""

import codecs
import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from cuda_agent.debugger.accounts import budget_lines, ledger_lines, token_lines
from cuda_agent.debugger.desk import Desk, whole_number
from cuda_agent.debugger.kernels import NOW, kernel_at
from cuda_agent.debugger.moving import show_breakpoints
from cuda_agent.debugger.screen import WIDTH, call_lines, gist, one_line, paragraph, plain, table, todo_lines
from cuda_agent.debugger.stepper import Halt
from cuda_agent.errors import UsageError
from cuda_agent.history import standing
from cuda_agent.llm.model import Message, ToolCall
from cuda_agent.runs.summary import performance_lines, verdict_lines
from cuda_agent.trajectory import Judged

SHELL_TIMEOUT_S = 24 * 3600.0
_LISTED = 10


def list_calls(desk: Desk, rest: str) -> Halt | None:
    """Show the calls around the pending one, and the breakpoints."""
    answers = {message.tool_call_id: message.content for message in desk.session.agent.messages}
    rows: list[tuple[str, ...]] = []
    turn = 0
    for message in desk.session.agent.messages:
        if message.role == "assistant":
            turn += 1
            rows += [_row(desk, turn, call, answers) for call in message.tool_calls]
    for line in table(rows[-_LISTED:]):
        desk.write(line)
    if not rows:
        desk.write("No call was made yet.")
    show_breakpoints(desk)
    return None


def _row(desk: Desk, turn: int, call: ToolCall, answers: Mapping[str | None, str]) -> tuple[str, ...]:
    mark = ">" if call is desk.stepper.pending else " "
    last = next((line for line in reversed(answers.get(call.id, "").splitlines()) if line.strip()), "")
    answer = one_line(last, 25) if not last.startswith("{") else one_line(last, 12)
    return (mark, f"turn {turn}", one_line(call.name, 12), one_line(gist(call), 26), answer)


def show_verdict(desk: Desk, rest: str) -> Halt | None:
    """Show the last verdict with its times and errors, and the last profile that the model took."""
    judged = [event for event in standing(desk.watch.events) if isinstance(event, Judged)]
    if not judged:
        desk.write("No verdict was taken yet; `judge` takes one.")
    else:
        report = judged[-1].report
        desk.write(f"Verdict of turn {judged[-1].turn}")
        for line in [*verdict_lines(report), *_error_lines(report)]:
            desk.write(paragraph(line))
        if report.get("details"):
            desk.write(plain(str(report["details"])))
        _write_performance(desk, report)
    profile = desk.watch.profile
    if profile is not None and (not judged or profile.submission_sha256 != judged[-1].report.get("submission_sha256")):
        desk.write("\nThe model's own last profile")
        told = json.loads(profile.to_json())
        for line in verdict_lines(told):
            desk.write(paragraph(line))
        _write_performance(desk, told)
    return None


def _write_performance(desk: Desk, report: Mapping[str, object]) -> None:
    for line in performance_lines(report):
        desk.write(plain(line))


def _error_lines(report: Mapping[str, object]) -> list[str]:
    errors = report.get("errors")
    return [
        f"Error:    output {one['output'] or '0'} ({one['dtype']}): relative L2 {one['relative_l2']:.3g}"
        f" (limit {one['relative_l2_limit']:.3g}), largest {one['max_error']:.3g} (limit {one['max_error_limit']:.3g})"
        for one in (errors if isinstance(errors, list) else [])
        if one.get("relative_l2") is not None and one.get("max_error") is not None
    ]


def diff(desk: Desk, rest: str) -> Halt | None:
    """Compare the kernel of two turns; `now` is the workspace, and the second is `now` unless it is named."""
    words = rest.split()
    if not 1 <= len(words) <= 2:
        raise UsageError("diff needs one or two turns: `diff 3`, `diff 3 5`, `diff 5 now`.")
    first, second = (*words, NOW)[:2]
    before, after = kernel_at(desk, first), kernel_at(desk, second)
    shown = False
    for name in sorted({*before, *after}):
        old, new = (files.get(name, b"").decode("utf-8", "replace").splitlines() for files in (before, after))
        for line in difflib.unified_diff(old, new, f"{name} ({first})", f"{name} ({second})", "", "", 2, ""):
            desk.write(plain(line))
            shown = True
    if not shown:
        desk.write("The kernels are the same.")
    return None


def shell(desk: Desk, rest: str) -> Halt | None:
    """Run a command in the sandbox, beside the model's own shell."""
    if not rest:
        raise UsageError("sh needs a command; it runs in the workspace, as in `sh ls kernels`.")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces: list[str] = [""]

    def on_output(data: bytes) -> None:
        *lines, pieces[0] = (pieces[0] + decoder.decode(data)).split("\n")
        for line in lines:
            desk.write(plain(line.rstrip("\r")))

    result = desk.session.sandbox.exec(["bash", "-c", rest], timeout_s=SHELL_TIMEOUT_S, on_output=on_output)
    if pieces[0]:
        desk.write(plain(pieces[0]))
    if result.exit_code:
        desk.write(f"[exit code {result.exit_code}]")
    return None


def print_topic(desk: Desk, rest: str) -> Halt | None:
    """Show one of the topics."""
    topic, _, more = (rest or "call").partition(" ")
    if topic.isdigit():
        topic, more = "message", topic
    found = [name for name in TOPICS if name == topic] or [name for name in TOPICS if name.startswith(topic)]
    if len(found) != 1:
        raise UsageError(f"print knows {', '.join(TOPICS)}; not {topic!r}.")
    for line in TOPICS[found[0]](desk, more.strip()):
        desk.write(line)
    return None


def _call(desk: Desk, rest: str) -> list[str]:
    call = desk.stepper.pending
    if call is None:
        return ["No call is pending; `step` asks the model."]
    place, count = desk.stepper.place
    return [f"call {place} of {count}: {plain(call.name)} ({plain(call.id)})", *call_lines(call, whole=True)]


def _reply(desk: Desk, rest: str) -> list[str]:
    message = next((one for one in reversed(desk.session.agent.messages) if one.role == "assistant"), None)
    return ["The model has not replied yet."] if message is None else _whole(message)


def _message(desk: Desk, rest: str) -> list[str]:
    messages = desk.session.agent.messages
    if not rest:
        numbered = islice(enumerate(messages), max(0, len(messages) - 40), None)
        return [f"{n:>4}  {one.role:<9}  {one_line(_first(one), WIDTH - 17)}" for n, one in numbered]
    number = whole_number(rest, "A message's number")
    if number >= len(messages):
        raise UsageError(f"There is no message {number}; the last one is {len(messages) - 1}.")
    return _whole(messages[number])


def _first(message: Message) -> str:
    calls = ", ".join(call.name for call in message.tool_calls)
    return f"{message.content[:200]} {f'[{calls}]' if calls else ''}"


def _whole(message: Message) -> list[str]:
    head = f"{message.role}{f' (answer to {message.tool_call_id})' if message.tool_call_id else ''}"
    lines = [plain(head)]
    if message.reasoning:
        lines += ["reasoning:", paragraph(message.reasoning, indent="    ", width=WIDTH)]
    lines += [paragraph(message.content)] if message.content else []
    for call in message.tool_calls:
        lines += [f"{plain(call.name)} ({plain(call.id)})", *call_lines(call, whole=True)]
    return lines


def _tokens(desk: Desk, rest: str) -> list[str]:
    agent = desk.session.agent
    return token_lines(agent.messages, desk.session.person.tools, agent.usage[-1].input_tokens if agent.usage else 0)


def _todos(desk: Desk, rest: str) -> list[str]:
    answered = {message.tool_call_id for message in desk.session.agent.messages}
    made = [call for message in desk.session.agent.messages for call in message.tool_calls]
    plans = [call for call in made if call.name == "TodoWrite" and call.id in answered]
    items = (plans[-1].arguments or {}).get("todos") if plans else None
    if not isinstance(items, list):
        return ["The model has written no plan yet."]
    return todo_lines(items)


def _ledger(desk: Desk, rest: str) -> list[str]:
    best = desk.session.referee.best
    return ledger_lines(standing(desk.watch.events), best.turn if best else None)


def _budget(desk: Desk, rest: str) -> list[str]:
    return budget_lines(desk.session)


TOPICS: Mapping[str, Callable[[Desk, str], Sequence[str]]] = {
    "call": _call,
    "reply": _reply,
    "message": _message,
    "tokens": _tokens,
    "todos": _todos,
    "ledger": _ledger,
    "budget": _budget,
}
