"""The compiler's report on kernels, read."""

import pytest

from cuda_agent_judge.ptxas import CompiledKernel, read_ptxas

PLAIN = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5scalePKfPff' for 'sm_90a'
ptxas info    : Function properties for _Z5scalePKfPff
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers, 376 bytes cmem[0]
ptxas info    : Compile time = 4.210 ms
"""
TERSE = """\
ptxas info    : Compiling entry function '_Z7row_sumPK6float4Pfi' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 64 bytes smem
"""
SPILLING = """\
ptxas info    : Compiling entry function '_Z4bodyPf' for 'sm_80'
ptxas info    : Function properties for _Z4bodyPf
    4096 bytes stack frame, 120 bytes spill stores, 88 bytes spill loads
ptxas info    : Used 255 registers, 4096+16 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]
"""
WITH_A_FUNCTION = """\
ptxas info    : Compiling entry function '_Z4mainPf' for 'sm_86'
ptxas info    : Function properties for _Z4mainPf
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 0 barriers, 8 bytes cumulative stack size, 360 bytes cmem[0]
ptxas info    : Function properties for _Z5apartf
    64 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
"""


@pytest.mark.parametrize(
    ("output", "kernels"),
    [
        ("", []),
        ("kernels/a.cu(3): warning #177-D: variable was declared but never referenced\n", []),
        (PLAIN, [CompiledKernel("_Z5scalePKfPff", "90a", registers=16)]),
        (TERSE, [CompiledKernel("_Z7row_sumPK6float4Pfi", "90a", registers=32, shared_bytes=64)]),
        (
            SPILLING,
            [
                CompiledKernel(
                    "_Z4bodyPf", "80", 255, shared_bytes=4096, stack_bytes=4096, spill_stores=120, spill_loads=88
                )
            ],
        ),
        (WITH_A_FUNCTION, [CompiledKernel("_Z4mainPf", "86", registers=20, stack_bytes=8)]),
    ],
)
def test_each_kernel_is_read_and_nothing_else(output: str, kernels: list[CompiledKernel]) -> None:
    assert read_ptxas(output) == kernels


def test_kernels_come_in_order_whatever_stands_between_them() -> None:
    found = read_ptxas(PLAIN + "a warning\n" + SPILLING + TERSE)
    assert [kernel.registers for kernel in found] == [16, 255, 32]
    assert [kernel.spill_bytes for kernel in found] == [0, 208, 0]


def test_lines_that_belong_to_no_kernel_are_passed_over() -> None:
    assert (
        read_ptxas(
            "ptxas info    : Used 16 registers\n    0 bytes stack frame, 9 bytes spill stores, 9 bytes spill loads"
        )
        == []
    )
