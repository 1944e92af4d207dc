"""Thirty drawn operators with reductions, of tiny tensors. Runs with the sandbox's Python."""

from bench.drawn_rows import draw_rows


def made(seed):
    names = {}
    exec(compile(draw_rows(seed).source, f"drawn{seed}.py", "exec"), names)
    return names["Model"](), names["get_inputs"]()


CASES = {f"drawn{seed}": made(seed) for seed in range(30)}
