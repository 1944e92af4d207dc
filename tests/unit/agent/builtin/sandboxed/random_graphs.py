"""Thirty drawn operators of tiny tensors, by name: a module and its inputs. Runs with the sandbox's Python."""

from bench.drawn_operators import draw


def made(seed):
    names = {}
    exec(compile(draw(seed).source, f"drawn{seed}.py", "exec"), names)
    return names["Model"](), names["get_inputs"]()


CASES = {f"drawn{seed}": made(seed) for seed in range(30)}
