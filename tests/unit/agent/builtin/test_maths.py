"""The kernels' functions for float against libm's in double, over the whole range; and that loops of them vectorise."""

import subprocess
from pathlib import Path

import pytest

from cuda_agent.llm.builtin.prelude import write_prelude

FILES = ["fast_math.h", "std_math.h", "ops.h", "memory_cpu.h"]
WORST_ULP = {"exp": 2, "exp2": 3, "expm1": 3, "log": 2, "log2": 3, "log10": 3, "log1p": 4, "tanh": 3, "erf": 3}
"""Allowed distance from the exact value in units of its last place (of subnormals: of the smallest)."""
TRIGONOMETRIC = {"sin": 1, "cos": 1}
FLAGS = ["-O3", "-march=native", "-std=c++17", "-fopenmp", "-fno-math-errno"]
CHAINS = [
    "op_sigmoid(op_minimum(op_maximum(x, -1.0f), 1.5f))",
    "op_gelu(op_relu(x))",
    "op_gelu_tanh(op_hardshrink(x, 0.5f))",
    "op_elu(op_threshold(x, 0.1f, 20.0f), 1.0f, 1.0f, 1.0f)",
    "op_softplus(op_relu6(x), 1.0f, 20.0f)",
    "op_log1p(op_abs(op_leaky_relu(x, 0.01f)))",
    "op_silu(pick(x > 0.1f, x, 0.2f))",
    "op_mish(op_softshrink(x, 0.5f))",
    "op_log_sigmoid(op_celu(x, 1.0f))",
    "op_erf(op_tanh(op_exp(-op_abs(x))))",
]
PROGRAM = """
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#define FN static inline
%s
template <typename F, typename G>
static void compare(const char* name, F mine, G exact, float limit) {
  double worst = 0;
  int wrong = 0;
  for (uint64_t pattern = 0; pattern < (1ull << 32); pattern += 2557) {
    const uint32_t bits = static_cast<uint32_t>(pattern);
    float x;
    std::memcpy(&x, &bits, sizeof x);
    if (std::fabs(x) > limit) continue;
    const float got = mine(x), want = static_cast<float>(exact(static_cast<double>(x)));
    if (std::isfinite(want) && std::isfinite(got)) {
      const double unit = std::ldexp(1.0, std::max(std::ilogb(want == 0 ? 1e-45f : want), -126) - 23);
      worst = std::max(worst, std::fabs(got - exact(static_cast<double>(x))) / unit);
    } else {
      wrong += !(std::isnan(want) ? std::isnan(got) : want == got);
    }
  }
  std::printf("%%s %%.9g %%d\\n", name, worst, wrong);
}
int main() {
%s
}
"""


def test_the_kernels_own_functions_are_right_over_the_whole_range(tmp_path: Path) -> None:
    calls = [
        f'compare("{name}", [](float x) {{ return op_{name}(x); }}, [](double x) {{ return std::{name}(x); }},'
        f" {limit});"
        for table, limit in ((WORST_ULP, "INFINITY"), (TRIGONOMETRIC, "1e5f"))
        for name in table
    ]
    prelude = write_prelude({*WORST_ULP, *TRIGONOMETRIC}, FILES)
    (tmp_path / "maths.cpp").write_text(PROGRAM % (prelude, "\n".join(calls)))
    subprocess.run(["g++", *FLAGS, "maths.cpp", "-o", "maths"], cwd=tmp_path, check=True)
    said = [line.split() for line in subprocess.check_output([str(tmp_path / "maths")], text=True).splitlines()]
    assert [name for name, _, _ in said] == list(WORST_ULP | TRIGONOMETRIC)
    limits = WORST_ULP | TRIGONOMETRIC
    assert [(name, worst) for name, worst, _ in said if float(worst) > limits[name]] == []
    assert [name for name, _, wrong in said if wrong != "0"] == [], "infinite or NaN where it should not be"


@pytest.mark.parametrize("chain", CHAINS)
def test_a_loop_over_a_chain_of_functions_vectorises(chain: str, tmp_path: Path) -> None:
    names = {part.split("(")[0] for part in chain.split("op_")[1:]} | {"pick"}
    loop = f"#pragma omp simd\n  for (int64_t k = 0; k < n; ++k) {{ const float x = from[k]; to[k] = {chain}; }}"
    text = (
        "#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <type_traits>\n#define FN static inline\n"
    )
    text += write_prelude(names, FILES)
    text += f"\nvoid run(const float* __restrict__ from, float* __restrict__ to, int64_t n) {{\n  {loop}\n}}\n"
    (tmp_path / "loop.cpp").write_text(text)
    done = subprocess.run(
        ["g++", *FLAGS, "-fopt-info-vec-optimized", "-c", "loop.cpp"], cwd=tmp_path, check=True, capture_output=True
    )
    assert b"loop vectorized" in done.stderr
