"""A checker of kernels as they are often written, which tests hold up against the judge; nothing else uses it.

It imports the reference and the submission into its own process, gives both the inputs of seed 42, compares with
torch.allclose at 1e-2 and times both on the last inputs. Its answer is the last line that is printed.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

RUNS = 3


def load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(output: Any) -> list[Any]:
    return list(output) if isinstance(output, (list, tuple)) else [output]


def is_right(model: Any, model_new: Any, inputs: list[Any]) -> bool:
    want = [leaf.clone() for leaf in leaves(model(*inputs))]
    got = leaves(model_new(*inputs))
    return all(
        torch.allclose(mine.to(its.dtype), its, rtol=1e-2, atol=1e-2) for mine, its in zip(got, want, strict=False)
    )


def seconds(call: Any, inputs: list[Any], device: str) -> float:
    if device == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        start.record()
        call(*inputs)
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3
    began = time.perf_counter()
    call(*inputs)
    return time.perf_counter() - began


def main(argv: list[str]) -> int:
    """Check model_new.py against model.py of a folder, on a device, with a built library where there is one."""
    folder, device, library = Path(argv[0]), argv[1], argv[2]
    if library:
        load(Path(library), "cuda_extension")
    reference, submission = load(folder / "model.py", "model"), load(folder / "model_new.py", "model_new")
    init: list[Any] = getattr(reference, "get_init_inputs", list)()
    models = []
    for kind in (reference.Model, submission.ModelNew):
        torch.manual_seed(42)
        models.append(kind(*init).to(device).eval())
    right, inputs = True, []
    with torch.no_grad():
        for _ in range(RUNS):
            torch.manual_seed(42)
            inputs = [one.to(device) for one in reference.get_inputs()]
            right = is_right(models[0], models[1], inputs) and right
        took = [min(seconds(model, inputs, device) for _ in range(RUNS)) for model in models]
    print(json.dumps({"ok": right, "speedup": took[0] / max(took[1], 1e-9)}))
    return 0 if right else 1
