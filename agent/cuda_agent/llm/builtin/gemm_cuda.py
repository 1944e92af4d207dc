"""A product as a call of cuBLASLt, which counts by columns: a row-major product is asked for as its transpose."""

from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.emit import literal
from cuda_agent.llm.builtin.loop_text import declared
from cuda_agent.llm.builtin.stage import Matrix, Product

TYPES = {"float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF", "float32": "CUDA_R_32F", "float64": "CUDA_R_64F"}
EPILOGUES = {
    (None, False): "DEFAULT",
    (None, True): "BIAS",
    ("relu", False): "RELU",
    ("relu", True): "RELU_BIAS",
    ("gelu_tanh", False): "GELU",
    ("gelu_tanh", True): "GELU_BIAS",
}


def compute_type(product: Product) -> str:
    """Return in which arithmetic it is multiplied and added."""
    dtype = product.buffer.spec.dtype
    if dtype == "float64":
        return "CUBLAS_COMPUTE_64F"
    return "CUBLAS_COMPUTE_32F_FAST_TF32" if dtype == "float32" and product.tf32 else "CUBLAS_COMPUTE_32F"


def operand_text(matrix: Matrix) -> str:
    """Say how a matrix lies."""
    return f"{{{'true' if matrix.flipped else 'false'}, {matrix.lead}, {matrix.step}}}"


def product_source(name: str, product: Product, options: CudaOptions) -> str:
    """Write the launcher; it returns what went wrong, nullptr when nothing did."""
    kind = TYPES[product.buffer.spec.dtype]
    wide = "float64" if product.buffer.spec.dtype == "float64" else "float32"
    epilogue = EPILOGUES[product.activation, product.bias is not None]
    params = [*declared(product.reads, product.outputs, ()), "cudaStream_t stream"]
    left, right = (start(one) for one in (product.left, product.right))
    bias = start(product.bias) if product.bias else "nullptr"
    return "\n".join(
        [
            f'extern "C" const char* {name}({", ".join(params)}) {{',
            "  // Rows, columns, depth, batches; of either operand whether it is transposed, its lead, its step.",
            f"  static Gemm gemm({{{product.rows}, {product.columns}, {product.depth}, {product.batch}, "
            f"{operand_text(product.left)}, {operand_text(product.right)},",
            f"                    {kind}, {compute_type(product)}, {TYPES[wide]}, CUBLASLT_EPILOGUE_{epilogue}, "
            f"{options.algorithms}}});",
            f"  const {'double' if wide == 'float64' else 'float'} alpha = {literal(product.alpha, wide)}, beta = 0;",
            f"  return gemm.run({left}, {right}, {bias}, &alpha, &beta, {product.buffer.name}, stream);",
            "}",
            "",
        ]
    )


def start(matrix: Matrix) -> str:
    """Say where the first batch's matrix begins."""
    return f"{matrix.buffer.name} + {matrix.offset}" if matrix.offset else matrix.buffer.name
