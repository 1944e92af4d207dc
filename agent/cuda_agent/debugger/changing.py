"""Commands that change the course of a run. Each leaves a trace in the trajectory."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from cuda_agent.debugger import arguments
from cuda_agent.debugger.desk import Desk, whole_number
from cuda_agent.debugger.screen import call_lines, one_line, plain
from cuda_agent.debugger.stepper import Halt
from cuda_agent.errors import UsageError
from cuda_agent.llm.model import RemoteModel, ToolCall, ToolSpec
from cuda_agent.loop.stop import Stop, StopReason


def edit(desk: Desk, rest: str) -> Halt | None:
    """Change the pending call."""
    call = _pending(desk)
    name, changed = _edited(desk, call, rest)
    if (name, changed) == (call.name, call.arguments):
        desk.write("The call is unchanged.")
        return None
    new = desk.stepper.change(name, changed)
    desk.write(f"The call was changed: {plain(new.name)}")
    for line in call_lines(new):
        desk.write(line)
    return None


def _edited(desk: Desk, call: ToolCall, rest: str) -> tuple[str, dict[str, object]]:
    given = arguments.assignment(rest)
    if not rest:
        return arguments.from_document(desk.edit_text(arguments.as_document(call), suffix=".json"))
    if call.arguments is None:
        raise UsageError("The call's arguments are no JSON object; `edit` alone opens the whole call in an editor.")
    key = given[0] if given else rest
    old = None if given else arguments.text_of(call.arguments, key)
    text = given[1] if given else desk.edit_text(old or "", suffix=_suffix(call, key))
    if old is not None and text == f"{old}\n":
        text = old  # editors end a file with a newline
    return call.name, arguments.with_value(call.arguments, key, text, _spec(desk, call.name))


def _suffix(call: ToolCall, key: str) -> str:
    # The path is the model's, and what it ends with names a file of the host: letters and digits only.
    ending = re.search(r"\.[A-Za-z0-9]{1,8}\Z", str((call.arguments or {}).get("file_path", "")))
    return ending[0] if ending and key != "file_path" else ".txt"


def skip(desk: Desk, rest: str) -> Halt | None:
    """Answer the pending call with a reason instead of running it."""
    _pending(desk)
    if not rest:
        raise UsageError("skip needs a reason, which the model sees: `skip this file is right as it is`.")
    return desk.stepper.skip(rest)


def say(desk: Desk, rest: str) -> Halt | None:
    """Tell the model something."""
    if not rest:
        raise UsageError("say needs what the model is to be told.")
    if desk.stepper.say(rest):
        desk.write("The model reads it with its next request.")
    else:
        desk.write("The model reads it once the calls of this turn are answered.")
    return None


def run(desk: Desk, rest: str) -> Halt | None:
    """Make a call of one's own and tell the model of it."""
    name, _, text = rest.partition(" ")
    spec = _spec(desk, name)
    if spec is None:
        known = ", ".join(one.name for one in desk.session.person.tools)
        raise UsageError(f"run needs a tool ({known}) and its arguments, as in `run Bash ls -l kernels`.")
    made = arguments.arguments_for(spec, text.strip())
    observation = desk.session.person.perform(name, made)
    desk.write(plain(observation.text))
    told = json.dumps(made, ensure_ascii=False)
    desk.stepper.say(f"A person ran {name} {told} beside you. It answered:\n{observation.text}")
    return None


def judge(desk: Desk, rest: str) -> Halt | None:
    """Take a verdict on the workspace as it is."""
    report = desk.session.person.judge()
    if report is None:
        desk.write("There is no model_new.py to judge yet.")
        return None
    kind = "final verdict" if report.final else "verdict"
    desk.write(f"{kind}: {report.status}{f': {plain(report.reason)}' if report.reason else ''}; `show` has the rest.")
    over = desk.session.referee.won and desk.session.agent.limits.polish == 0
    if over and desk.stepper.pending is None and desk.stepper.end is None:
        desk.stepper.end = Stop(StopReason.TARGET_REACHED)
        return Halt()
    return None


def set_value(desk: Desk, rest: str) -> Halt | None:
    """Change the model or a limit from now on."""
    name, _, value = rest.replace("=", " ", 1).partition(" ")
    name, value = name.replace("-", "_"), value.strip()
    if name not in SETTERS or not value:
        raise UsageError(f"set needs one of {', '.join(SETTERS)} and a value, as in `set max_turns 50`.")
    said = SETTERS[name](desk, value)
    desk.session.person.note(f"A person set {name} to {value}.")
    desk.stepper.take_over()
    desk.write(said)
    return None


def _model(desk: Desk, value: str) -> str:
    desk.session.chair.change(model=value)
    return f"{value} is asked from now on."


def _temperature(desk: Desk, value: str) -> str:
    chair = desk.session.chair
    if not isinstance(desk.session.agent.model, RemoteModel):
        raise UsageError(f"The model {desk.session.agent.model.name!r} has no temperature; `set model` names another.")
    number = _number(value, "temperature")
    if not 0 <= number <= 2:
        raise UsageError("temperature must be between 0 and 2.")
    chair.change(temperature=number)
    return f"The temperature is {value} from now on."


def _max_turns(desk: Desk, value: str) -> str:
    agent = desk.session.agent
    agent.limits = replace(agent.limits, max_turns=whole_number(value, "max_turns", least=1))
    return f"The run ends after {agent.limits.max_turns} turns."


def _time_limit(desk: Desk, value: str) -> str:
    if value == "none":
        desk.session.clock.limit_s = None
        return "The run has no time limit."
    seconds = _number(value, "time_limit")
    if seconds <= 0:
        raise UsageError("time_limit must be more than 0 seconds, or none.")
    desk.session.clock.limit_s = seconds
    left = desk.session.clock.left()
    how = f"{left:.0f} s are left" if left > 0 else "they are over, so that it ends with the next step"
    return f"The run ends after {seconds:g} s in all; {how}."


def _polish(desk: Desk, value: str) -> str:
    agent, more = desk.session.agent, whole_number(value, "polish")
    memory = agent.memory()
    if memory.counts.polish_left is not None:
        if desk.stepper.pending is not None:
            raise UsageError("polish can be changed once the calls of this turn are answered.")
        agent.restore(replace(memory, counts=replace(memory.counts, polish_left=more)))
    agent.limits = replace(agent.limits, polish=more)
    return f"Once the target is reached {value} more turns may make the kernel faster."


SETTERS: Mapping[str, Callable[[Desk, str], str]] = {
    "model": _model,
    "temperature": _temperature,
    "max_turns": _max_turns,
    "time_limit": _time_limit,
    "polish": _polish,
}


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise UsageError(f"{what} must be a number, not {one_line(text, 40)!r}.") from error
    if not 0 <= value < 1e9:
        raise UsageError(f"{what} must be a number from 0 on, not {one_line(text, 40)!r}.")
    return value


def _pending(desk: Desk) -> ToolCall:
    if desk.stepper.pending is None:
        raise UsageError("No call is pending; `step` asks the model for the next one.")
    return desk.stepper.pending


def _spec(desk: Desk, name: str) -> ToolSpec | None:
    return next((one for one in desk.session.person.tools if one.name == name), None)
