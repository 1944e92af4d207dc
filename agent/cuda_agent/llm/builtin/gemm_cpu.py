"""A product as C++: a call of the BLAS that PyTorch brings along, by its Fortran name.

Fortran counts by columns, so a row-major product is asked for as its transpose: right transposed times left transposed.
"""

from cuda_agent.llm.builtin.cpu_options import CpuOptions
from cuda_agent.llm.builtin.dtypes import STORED
from cuda_agent.llm.builtin.emit import literal
from cuda_agent.llm.builtin.loop_text import declared
from cuda_agent.llm.builtin.stage import Matrix, Product

ROUTINES = {"float32": "sgemm_", "float64": "dgemm_"}
ALONE_BELOW = 1 << 26
"""Operations below which one product of a batch is not worth sharing between the threads."""


def product_parameters(product: Product) -> list[str]:
    """Declare what the launcher of a product takes."""
    return declared(product.reads, product.outputs, ())


def declaration(dtype: str) -> str:
    """Declare the BLAS routine."""
    number = f"const {STORED[dtype]}*"
    return (
        f'extern "C" void {ROUTINES[dtype]}(const char*, const char*, const int*, const int*, const int*, {number}, '
        f"{number}, const int*, {number}, const int*, {number}, {STORED[dtype]}*, const int*);"
    )


def multiplying(name: str, product: Product) -> list[str]:
    """Write the function that makes `rows` rows of the product of one batch."""
    dtype = product.buffer.spec.dtype
    kind = STORED[dtype]
    ops = ['"T"' if one.flipped else '"N"' for one in (product.right, product.left)]
    return [
        declaration(dtype),
        f"static void {name}_multiply(const {kind}* left, const {kind}* right, {kind}* out, int rows) {{",
        f"  const int columns = {product.columns}, depth = {product.depth};",
        f"  const int left_lead = {product.left.lead}, right_lead = {product.right.lead};",
        f"  const {kind} alpha = {literal(product.alpha, dtype)}, beta = 0;",
        f"  {ROUTINES[dtype]}({', '.join(ops)}, &columns, &rows, &depth, &alpha, right, &right_lead, left, &left_lead,",
        f"         {' ' * len(ROUTINES[dtype])}&beta, out, &columns);",
        "}",
        "",
    ]


def start(matrix: Matrix, batch: str) -> str:
    """Say where a matrix of a batch begins."""
    terms = [matrix.buffer.name, *([str(matrix.offset)] if matrix.offset else [])]
    if matrix.step:
        terms.append(f"{batch} * {matrix.step}")
    return " + ".join(terms)


def product_source(name: str, product: Product, options: CpuOptions) -> str:
    """Write the launcher: a batch at a time by all threads, or small ones a batch a thread."""
    each = product.flops // product.batch
    shared = product.batch >= 2 * options.cores and each < ALONE_BELOW
    size = product.rows * product.columns
    return "\n".join(
        [
            *multiplying(name, product),
            f'extern "C" void {name}({", ".join(product_parameters(product))}) {{',
            *(["#pragma omp parallel for schedule(static)"] if shared else []),
            f"  for (int64_t batch = 0; batch < {product.batch}; ++batch)",
            f"    {name}_multiply({start(product.left, 'batch')}, {start(product.right, 'batch')}, "
            f"{product.buffer.name} + batch * {size}, {product.rows});",
            "}",
            "",
        ]
    )
