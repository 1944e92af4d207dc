"""Thirty drawn operators with products of matrices, of tiny tensors. Runs with the sandbox's Python."""

from bench.drawn_products import draw_products


def made(seed):
    names = {}
    exec(compile(draw_products(seed).source, f"drawn{seed}.py", "exec"), names)
    return names["Model"](), names["get_inputs"]()


CASES = {f"drawn{seed}": made(seed) for seed in range(30)}
