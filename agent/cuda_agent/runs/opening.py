"""The first moments of a run in its sandbox: files for a new one, everything as it was for one that goes on."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from cuda_agent.files import replace
from cuda_agent.installing import Rules, write_files
from cuda_agent.judging import is_submission_file
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.background import Running, running
from cuda_agent.loop.memory import Memory
from cuda_agent.operators import Operator
from cuda_agent.prompting import Prompts, task_context
from cuda_agent.resources import prompts_dir, tree, workspace_template
from cuda_agent.runs.beginning import Beginning, relocated, shell_state_moved
from cuda_agent.snapshots import Snapshots
from cuda_agent.trajectory import Known, Notice, Resumed, RunStarted
from cuda_agent.workspace import Workspace
from cuda_agent_judge.report import Report
from cuda_agent_tools.sandbox import Sandbox

_SHORT_S = 30.0
_THERE = ("bash", "-c", 'for one; do [[ ! -f $one ]] || printf "%s\\0" "$one"; done', "bash")
"""Prints those of these files that are there."""
_UNLISTED = ("bash", "-c", 'rm -f -- "$1"/jobs/*.job', "bash")


def first_events(beginning: Beginning, model: str) -> Iterator[Known]:
    """Yield what a process says before its sandbox is there."""
    document, operator, past = beginning.record.document, beginning.operator, beginning.past
    turn = past.memory.turn if past else 0
    if past is not None and past.events:
        yield Resumed(turn, model, document["settings"])
    else:
        yield RunStarted(operator.name, operator.sha256, model, document["settings"], document["versions"])
    for text in (*(past.notices if past else ()), *beginning.place.choices):
        yield Notice(turn, text)


class Opening:
    """Brings a workspace and an agent to where the run stands."""

    def __init__(self, beginning: Beginning, sandbox: Sandbox, snapshots: Snapshots) -> None:
        self._beginning = beginning
        self._sandbox = sandbox
        self._past = past = beginning.past if beginning.past and beginning.past.briefed else None
        former, states = (past.workspaces, past.state_dirs) if past else ((), ())
        self.workspace = Workspace(
            sandbox,
            snapshots,
            python=beginning.place.python,
            moved=lambda data: shell_state_moved(
                shell_state_moved(data, former, sandbox.workspace), states, sandbox.state_dir
            ),
        )
        self._lost: tuple[str, ...] = ()
        self._rebuilt = False

    def prepare(self) -> None:
        """Put the files into the workspace.

        Raises:
            WorkspaceError, Damaged, SandboxLost: what was there cannot be put back.
        """
        if self._past is None:
            write_files(self._sandbox, self._beginning.place.python, self._template())
            return
        snapshot = self._past.memory.snapshot
        marker = self._beginning.run.restoring
        if marker.exists() or self.workspace.is_empty():
            replace(marker, b"")
            self._lost = self.workspace.restore(snapshot)
            self._rebuilt = True
        else:
            self.workspace.restore_shell(snapshot)
        no_jobs(self._sandbox)

    def brief(self, agent: Agent, report: Report, rules: Rules) -> None:
        """Tell the model its task, or let the agent know what it knew.

        Raises:
            WorkspaceError, DiskError, SandboxLost: the run cannot be kept.
        """
        prompts = Prompts(prompts_dir())
        if self._past is not None:
            self._go_on(agent, prompts, self._past.memory, self._past.turn)
            return
        context = task_context(
            self._beginning.operator,
            report,
            rules=asdict(rules),
            workspace=self._sandbox.workspace,
            max_turns=self._beginning.settings.max_turns,
        )
        agent.say(prompts.system(context), role="system")
        agent.say(prompts.task(context))
        agent.briefed()

    def _go_on(self, agent: Agent, prompts: Prompts, memory: Memory, last_turn: int) -> None:
        assert self._past is not None
        memory = relocated(memory, self._past.workspaces, self._sandbox.workspace)
        memory = relocated(memory, self._past.state_dirs, self._sandbox.state_dir)
        agent.restore(memory)
        rebuilt = last_turn if self._rebuilt and memory.in_flight is not None else None
        if self._lost or rebuilt is not None:
            agent.say(prompts.nudge("resumed", turn=rebuilt, lost=list(self._lost)), stays=True)
        # Only now: a process that dies before that leaves the next one to rebuild it again, and to say so.
        self._beginning.run.restoring.unlink(missing_ok=True)
        if gone := running(memory.messages):
            agent.say(background_gone(prompts, gone, self._sandbox), stays=True)

    def _template(self) -> dict[str, bytes]:
        workspace = self._sandbox.workspace
        files = {**_own_files(self._beginning.operator), **tree(workspace_template())}
        return {f"{workspace}/kernels/": b"", **{f"{workspace}/{name}": data for name, data in files.items()}}


def background_gone(prompts: Prompts, jobs: Sequence[Running], sandbox: Sandbox) -> str:
    """Return what the model is told of commands that do not run any more, and of what each of them had printed.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    result = sandbox.exec([*_THERE, *(job.log for job in jobs)], timeout_s=_SHORT_S)
    there = result.stdout.decode("utf-8", "surrogateescape").split("\0")
    told = [
        {"number": job.number, "command": job.line, "former": job.log, "log": job.log if job.log in there else ""}
        for job in jobs
    ]
    return prompts.nudge("background", jobs=told)


def no_jobs(sandbox: Sandbox) -> None:
    """Take background commands of a former process off the list: their process ids are others' by now.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    sandbox.exec([*_UNLISTED, sandbox.state_dir], timeout_s=_SHORT_S)


def _own_files(operator: Operator) -> dict[str, bytes]:
    # The operator's own modules must neither stand in for the workspace's commands nor pass for a submission.
    return {name: data for name, data in operator.files.items() if not is_submission_file(name)}
