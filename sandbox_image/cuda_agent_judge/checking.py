"""Correctness: calls on fresh inputs whose outputs, inputs and weights are all held against the reference."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuda_agent_judge import battery, contract, drawing
from cuda_agent_judge.defences import ALL, Defences
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.report import OutputError
from cuda_agent_judge.session import Session
from cuda_agent_judge.workers import Refused, Workers

TIMED_CALL = "a timed call"
_BETWEEN_BANDS = "in a call whose tensors lie between guard bands: what is read out of bounds there is NaN"


def new_seed() -> int:
    """A secret seed of the width generators take."""
    return secrets.randbits(63)


def seeds(*, fresh: bool) -> Callable[[], int]:
    """What gives a seed for each call: always a new one or, for a test, always the same."""
    if fresh:
        return new_seed
    same = new_seed()
    return lambda: same


def refuse_vendor_calls(names: list[Any]) -> None:
    """Refuse kernels that call others' libraries, where only own ones may compute.

    Raises:
        Refused: there is one of these names.
    """
    if names:
        called = ", ".join(str(name)[:60] for name in names[:5])
        raise Refused(
            "policy",
            f"the kernels call {called}, but all arithmetic has to be the submission's own (libraries: own): "
            "write the product yourself",
        )


@dataclass(frozen=True)
class _Called:
    """A call of the submission, and what the reference says to its inputs."""

    variant: str
    answer: dict[str, Any]
    expected: dict[str, Any]
    failed: Refused | None
    """Why there is no answer."""


def _malformed() -> Refused:
    return Refused("tampering", "the submission interfered with the judge: its audit came back malformed")


class Checker:
    """Makes checked calls and keeps the worst error of each output."""

    def __init__(self, workers: Workers, session: Session, shared: dict[str, Any], defences: Defences = ALL) -> None:
        self._workers = workers
        self._defences = defences
        self.seeds = seeds(fresh=defences.fresh)
        self._held = session.output_lifetime == "held" and not shared["aliasing"] and defences.lifetime
        self._any_library = session.libraries == "any"
        self._own_only = session.libraries == "own"
        self._shared = shared
        self._signed = bool(shared["signed"])
        self.repeatable = not shared["writes"]
        """Whether calls in a row on the same inputs all give the same."""
        self.calls = 0
        self.errors: dict[str, OutputError] = {}
        self.notes: list[str] = [drawing.HARDENED] if shared["hardened"] else []

    def check(self, variants: tuple[str, ...]) -> None:
        """Make one checked call a variant.

        Raises:
            Refused: a call was wrong.
        """
        for variant in variants:
            if variant == "native" or (self._signed and self._defences.fresh):
                self._checked_call(variant)

    def audit(self) -> None:
        """Make a checked call that is looked at from inside.

        Raises:
            Refused: it computes with libraries that it may not use, writes out of bounds or is wrong in another way.
        """
        guarded = self._defences.red_zones
        called = self._audited(guarded=guarded)
        if guarded and "unguarded" in called.answer:
            said = str(called.answer["unguarded"])[:300]
            self.notes.append(f"writes out of bounds were not looked for: the call between guard bands failed ({said})")
            called, guarded = self._audited(guarded=False), False
        if called.failed is None and not self._any_library:
            self._refuse_compute(called.answer)
        if called.failed is None and guarded:
            self._refuse_writes(called.answer)
        self._judge(called, _BETWEEN_BANDS if guarded else f"{battery.AUDITED} inputs")

    def _audited(self, *, guarded: bool) -> _Called:
        order = {"limited": not self._any_library}
        return self._called(battery.AUDITED, lambda: self._workers.ask_candidate(Kind.AUDIT, order), guarded=guarded)

    def _refuse_writes(self, found: dict[str, Any]) -> None:
        said = found.get("out_of_bounds")
        if not isinstance(said, list):
            raise _malformed()
        if said:
            raise Refused("incorrect", str(said[0])[:600], "\n".join(str(line)[:600] for line in said[:20]))

    def _refuse_compute(self, found: dict[str, Any]) -> None:
        refused, own, vendor = found.get("refused"), found.get("own"), found.get("vendor")
        if not (isinstance(refused, list) and isinstance(own, list) and isinstance(vendor, list)):
            raise _malformed()
        if found.get("compiled"):
            raise Refused("policy", "the submission uses torch.compile; only own kernels may compute")
        if refused:
            names = ", ".join(str(name)[:60] for name in refused[:5])
            raise Refused(
                "policy", f"the submission computes with PyTorch operations ({names}); write a kernel instead"
            )
        if self._own_only:
            refuse_vendor_calls(vendor)
        if not own:
            raise Refused("policy", "none of the submission's own functions ran; call one of cuda_extension in forward")

    def check_weights(self) -> None:
        """Refuse a submission that changed its weights, or ran torch.compile where that is not allowed.

        Raises:
            Refused: it did.
        """
        found = self._workers.ask_candidate(Kind.STATE)
        changed = self._workers.ask_reference(Kind.STATE)["changed"]
        if changed:
            raise Refused("incorrect", f"forward changed the weight {changed[0]!r}; weights must stay as they are")
        if found.get("compiled") and not self._any_library:
            raise Refused("policy", "the submission uses torch.compile; only own kernels may compute")

    def degenerate(self) -> str:
        """Why the operator's answers tell nothing, or ""."""
        found = self._workers.ask_reference(Kind.SCREEN, {"seed": new_seed()})
        if found["unchanged"]:
            self.notes.append("the operator returns an input unchanged: there is nothing to compute")
        return str(found["degenerate"])

    def land(self, *, values: bool, where: str) -> None:
        """Take the latest output out of the candidate worker and judge it.

        Raises:
            Refused: its form, its values or what it did to its inputs is wrong.
        """
        meta = self._workers.ask_candidate(Kind.LAND, {"which": "current"})
        said = contract.broken(meta, self._shared["form"], held=self._held, own=self._defences.alias)
        if said:
            raise Refused("incorrect", said)
        if self._workers.unseen:
            raise Refused(
                "tampering",
                f"the submission's output could not be read when forward had returned: {self._workers.unseen}",
            )
        if self._defences.still and meta.get("settled") is not True:
            raise Refused(
                "incorrect", "the output still changed after forward had returned; finish all work in forward"
            )
        result = self._workers.ask_reference(Kind.COMPARE)
        self.calls += 1
        values = values and (self._defences.checked or where != TIMED_CALL)
        if values:
            self._keep(result["errors"])
        if not result["ok"] and (values or "was written to" in result["reason"]):
            raise Refused("incorrect", f"{result['reason']} ({where})")

    def check_previous(self) -> None:
        """Land the output before the latest one again: it must still be what it was.

        Raises:
            Refused: it changed.
        """
        if not self._held or self.calls == 0:
            return
        self._workers.ask_candidate(Kind.LAND, {"which": "previous"})
        if not self._workers.ask_reference(Kind.HELD)["ok"]:
            raise Refused(
                "incorrect", "an output changed when forward was called again; return fresh memory on every call"
            )

    def _draw(self, variant: str, *, guarded: bool) -> None:
        body = {"variant": variant, "seed": self.seeds(), "prepared": variant}
        drawn = self._workers.ask_reference(Kind.DRAW, body)
        order = {"set": secrets.randbelow(64), "values": drawn["values"], "poison": self._defences.poison}
        order["red_zones"] = guarded
        self._workers.ask_candidate(Kind.PREPARE, order)

    def _checked_call(self, variant: str) -> None:
        called = self._called(variant, lambda: self._workers.go({"spin_us": 300}, submission=True)[0])
        failed, expected = called.failed, called.expected
        if failed and not expected["usable"] and "reason" in expected and failed.status == "runtime_error":
            return
        self._judge(called, f"{variant} inputs")

    def _called(self, variant: str, call: Callable[[], dict[str, Any]], *, guarded: bool = False) -> _Called:
        """Have the submission called on fresh inputs while the reference answers them."""
        self._draw(variant, guarded=guarded)
        self._workers.tell_reference(Kind.EXPECT, {"variant": variant})
        failed: Refused | None = None
        answer: dict[str, Any] = {}
        try:
            answer = call()
        except Refused as refusal:
            failed = refusal
        expected = self._workers.hear_reference().body
        return _Called(variant, answer, expected, failed)

    def _judge(self, called: _Called, where: str) -> None:
        if called.failed is not None:
            raise called.failed
        expected = called.expected
        self._workers.look(called.answer)
        if called.variant == "native" and not expected.get("wide"):
            note = "no fp64 reference: compared with the reference's own precision"
            self.notes += [note] if note not in self.notes else []
        self.check_previous()
        self.land(values=bool(expected["usable"]), where=where)

    def _keep(self, errors: list[dict[str, Any]]) -> None:
        for raw in errors:
            error = OutputError(**raw)
            known = self.errors.get(error.output)
            if known is None or error.relative_l2 > known.relative_l2:
                self.errors[error.output] = error
