"""The analysis (docs/analysis.md) as lines for a reader."""

from typing import Any

Json = Any
MAX_LINES = 60
"""Operations that are shown; --json has all."""


def analysis_text(analysis: dict[str, Json]) -> str:
    """Inputs, parameters, operations and totals, a line each; the notes stand in the report."""
    inputs = analysis["inputs"]
    if [entry["path"] for entry in inputs] == [[index] for index in range(len(inputs))]:
        names = dict(zip((entry["id"] for entry in inputs), analysis["forward"], strict=False))
    else:
        names = {entry["id"]: ".".join(map(str, entry["path"])) for entry in inputs}
    lines = [f"input {entry['id']} {names.get(entry['id'], '')}: {_value(entry)}" for entry in inputs]
    lines += [f"{entry['kind']} {entry['id']} {entry['name']}: {_value(entry)}" for entry in analysis["parameters"]]
    lines += [f"constant {entry['id']}: {_value(entry)}" for entry in analysis["constants"]]
    nodes = analysis["nodes"]
    lines += [_node(node) for node in nodes[:MAX_LINES]]
    if len(nodes) > MAX_LINES:
        lines.append(f"... and {len(nodes) - MAX_LINES} more operations (--json lists them)")
    lines.append("returns " + ", ".join(_output(output) for output in analysis["outputs"]))
    totals = analysis["totals"]
    lines.append(
        f"totals: {_count(totals['flops'])}FLOP; {_count(totals['bytes_required'])}B must be read and written at "
        f"least, the operations one by one move {_count(totals['bytes_moved'])}B"
    )
    return "\n".join(lines)


def _node(node: dict[str, Json]) -> str:
    args = [_argument(arg) for arg in node["args"]]
    args += [f"{key}={_argument(arg)}" for key, arg in node["kwargs"].items() if arg is not None]
    made = ", ".join(f"{output['id']} {_shape(output)}" for output in node["outputs"]) or node["id"]
    text = f"{made} = {node['op']}({', '.join(args)})"
    if node["implied"]:
        return f"{text}  implied"
    return f"{text}  view" if node["view"] else f"{text}  {_count(node['flops'])}FLOP {_count(node['bytes'])}B"


def _argument(value: Json) -> str:
    if isinstance(value, dict) and len(value) == 1:
        return str(next(iter(value.values())))
    if isinstance(value, list):
        return f"[{', '.join(map(_argument, value))}]"
    return str(value)


def _output(output: dict[str, Json]) -> str:
    where = ".".join(map(str, output["path"]))
    what = output["ref"] if "ref" in output else _argument(output["value"])
    return f"{where}: {what}" if where else str(what)


def _value(entry: dict[str, Json]) -> str:
    if entry.get("kind") == "value":
        return _argument(entry["value"])
    return f"{_shape(entry)} {_count(entry['bytes'])}B"


def _shape(entry: dict[str, Json]) -> str:
    text = f"{entry['dtype']}{entry['shape']}"
    expected, dense = 1, True
    for size, stride in zip(reversed(entry["shape"]), reversed(entry["strides"] or []), strict=False):
        dense = dense and (size == 1 or stride == expected)
        expected *= size
    return text if dense else f"{text} strides {entry['strides']}"


def _count(number: int) -> str:
    """A number with its SI prefix: "17.2 G"."""
    amount = float(number)
    for prefix in ("", "k", "M", "G"):
        if amount < 1000:
            return f"{amount:.3g} {prefix}"
        amount /= 1000
    return f"{amount:.3g} T"
