"""Begins a run or goes on with it, and kills itself with -9 at one point: the next process has what stands on disk.

    python killed_at.py FOLDER POINT

POINT is an event of this process (its type, or the name of a stage), `told` (where the drive of the run takes over),
`asked` (the model replied to what it was told), or `none`.
"""

import os
import signal
import sys
from pathlib import Path

from tests.unit.agent.fakes import call, calls
from tests.unit.agent.quick import OPERATOR, PLACE, QuickJudge

from cuda_agent.config import Settings
from cuda_agent.llm.model import Reply
from cuda_agent.llm.scripted import ScriptedModel
from cuda_agent.operators import load
from cuda_agent.run_dir import RunDir, load_document
from cuda_agent.runs.beginning import Beginning
from cuda_agent.runs.record import Record
from cuda_agent.runs.resume import past_of
from cuda_agent.runs.session import Session
from cuda_agent.runs.single import carry_out
from cuda_agent.trajectory import Event, Silent, StageStarted

SCRIPT = [
    calls(call("Bash", "b1", command="echo half done; sleep 304.5", run_in_background=True)),
    calls(
        call("Bash", "b2", command="until grep -q half ../state/jobs/*.log; do sleep 0.02; done"),
        call("Bash", "b3", command="seq 9000; export MARK=7; echo two > two"),
        call("Bash", "b4", command="echo unanswered"),
    ),
    calls(
        call(
            "Bash",
            "b5",
            command='echo "MARK is $MARK"; cat two ../state/jobs/*.log; jobs; tail -n1 ../state/out*/*; pwd',
        )
    ),
    Reply(text="", gave_up="seen enough"),
]
"""The process that begins the run is killed before the last call of the second turn is answered."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Watching(Silent):
    """Dies when the event of this type or name was written."""

    def __init__(self, point: str) -> None:
        self._point = point

    def on_event(self, event: Event) -> None:
        if self._point in (event.type, event.name if isinstance(event, StageStarted) else ""):
            die()


def main() -> None:
    """Run one process."""
    folder, point = Path(sys.argv[1]), sys.argv[2]
    folder.with_name("op.py").write_text(OPERATOR)
    operator = load(folder.with_name("op.py"))
    settings = Settings(operator=operator.path)

    def first(session: Session) -> None:
        agent = session.agent
        agent.settle(agent.step())
        *answered, _ = agent.ask().tool_calls
        for one in answered:
            agent.answer(one)
        die()

    def later(session: Session) -> None:
        if point == "told":
            die()
        session.agent.catch_up()
        turn = session.agent.step()
        if point == "asked":
            die()
        session.agent.settle(turn)
        session.agent.run()

    if not folder.exists():
        run = RunDir.create(folder, operator.name)
        with run.open_trajectory() as log:
            run.keep_operator(operator.files)
            begin = Beginning(settings, operator, PLACE, run, Record(run, operator, settings, PLACE.described), log)
            carry_out(begin, ScriptedModel(SCRIPT), Silent(), first, judge=QuickJudge)
    run = RunDir(folder)
    with run.open_trajectory() as log:
        past = past_of(run, log)
        record = Record.reopened(run, load_document(folder), settings, PLACE.described)
        begin = Beginning(settings, operator, PLACE, run, record, log, past)
        model = ScriptedModel(SCRIPT, replies=sum(past.replies.values()))
        carry_out(begin, model, Watching(point), later, judge=QuickJudge)


if __name__ == "__main__":
    main()
