// cuBLASLt for the host: matrices by columns, products by three loops in double. It checks what the library checks.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

using cudaStream_t = int;
using cudaEvent_t = int;
enum cudaError_t { cudaSuccess = 0, cudaErrorUnknown = 1 };
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaMalloc(void** memory, size_t bytes) { return *memory = std::malloc(bytes), cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = 1, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) {
  static int calls = 0;
  return *time = static_cast<float>((++calls * 7) % 5), cudaSuccess;
}

enum cudaDataType_t { CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F, CUDA_R_64F };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_64F };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasLtEpilogue_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_RELU = 2, CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_RELU_BIAS = 6, CUBLASLT_EPILOGUE_GELU = 32, CUBLASLT_EPILOGUE_GELU_BIAS = 36
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_EPILOGUE,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER
};
enum cublasLtMatrixLayoutAttribute_t {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
};
struct LtOp {
  cublasComputeType_t compute; cudaDataType_t scale;
  cublasOperation_t right = CUBLAS_OP_N, left = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT; const void* bias = nullptr;
};
struct LtLayout { cudaDataType_t type; uint64_t rows, columns; int64_t lead; int batch = 1; int64_t step = 0; };
struct cublasLtMatmulAlgo_t { int number = -1; };
struct cublasLtMatmulHeuristicResult_t { cublasLtMatmulAlgo_t algo; };
using cublasLtHandle_t = int*;
using cublasLtMatmulDesc_t = LtOp*;
using cublasLtMatrixLayout_t = LtLayout*;
using cublasLtMatmulPreference_t = size_t*;

inline const char* cublasLtGetStatusString(cublasStatus_t s) { return s ? "refused" : "well"; }
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* made) { return *made = new int(0), CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t c, cudaDataType_t s) {
  if ((c == CUBLAS_COMPUTE_64F) != (s == CUDA_R_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return *made = new LtOp{c, s}, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t op, cublasLtMatmulDescAttributes_t what, const void* value, size_t size) {
  void* places[] = {&op->right, &op->left, &op->epilogue, &op->bias};
  const size_t sizes[] = {sizeof op->right, sizeof op->left, sizeof op->epilogue, sizeof op->bias};
  if (size != sizes[what]) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(places[what], value, size);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t* made, cudaDataType_t type, uint64_t rows, uint64_t columns, int64_t lead) {
  return *made = new LtLayout{type, rows, columns, lead}, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what, const void* value, size_t size) {
  const bool count = what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  if (size != (count ? sizeof layout->batch : sizeof layout->step)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(count ? static_cast<void*>(&layout->batch) : &layout->step, value, size);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  return *made = new size_t(0), CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
  return delete wish, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t what, const void*, size_t size) {
  const bool space = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  return size == (space ? sizeof(uint64_t) : sizeof(uint32_t)) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
inline bool fit(const LtOp& op, const LtLayout& right, const LtLayout& left, const LtLayout& out) {
  const bool flip = op.right == CUBLAS_OP_T, turn = op.left == CUBLAS_OP_T;
  if ((flip ? right.columns : right.rows) != out.rows || (turn ? left.rows : left.columns) != out.columns) return false;
  if ((flip ? right.rows : right.columns) != (turn ? left.columns : left.rows)) return false;
  for (const LtLayout* one : {&right, &left, &out})
    if (one->lead < static_cast<int64_t>(one->rows) || one->batch != out.batch || one->type != out.type) return false;
  return (out.type == CUDA_R_64F) == (op.compute == CUBLAS_COMPUTE_64F);
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t right, cublasLtMatrixLayout_t left,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t, int wanted,
    cublasLtMatmulHeuristicResult_t* found, int* count) {
  if (c != out || !fit(*op, *right, *left, *out)) return CUBLAS_STATUS_INVALID_VALUE;
  if ((op->epilogue & CUBLASLT_EPILOGUE_BIAS) && op->bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  for (*count = 0; *count < wanted && *count < 3; ++*count) found[*count].algo.number = *count;
  return CUBLAS_STATUS_SUCCESS;
}
inline double lt_read(const void* from, int64_t place, cudaDataType_t type) {
  if (type == CUDA_R_16F) return __half2float(static_cast<const __half*>(from)[place]);
  if (type == CUDA_R_16BF) return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[place]);
  return type == CUDA_R_32F ? static_cast<const float*>(from)[place] : static_cast<const double*>(from)[place];
}
inline void lt_write(void* to, int64_t place, cudaDataType_t type, double x) {
  if (type == CUDA_R_16F) static_cast<__half*>(to)[place] = __float2half_rn(static_cast<float>(x));
  else if (type == CUDA_R_16BF) static_cast<__nv_bfloat16*>(to)[place] = __float2bfloat16_rn(static_cast<float>(x));
  else if (type == CUDA_R_32F) static_cast<float*>(to)[place] = static_cast<float>(x);
  else static_cast<double*>(to)[place] = x;
}
inline double lt_end(double x, int epilogue) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU) return x < 0 ? 0 : x;
  if (!(epilogue & CUBLASLT_EPILOGUE_GELU)) return x;
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
inline cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t, cublasLtMatmulDesc_t op, const void* alpha, const void* right, cublasLtMatrixLayout_t r,
    const void* left, cublasLtMatrixLayout_t l, const void* beta, const void* c, cublasLtMatrixLayout_t,
    void* out, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm, void* space, size_t, cudaStream_t) {
  if (algorithm->number < 0 || c != out || space == nullptr || !fit(*op, *r, *l, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (lt_read(beta, 0, op->scale) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool flip = op->right == CUBLAS_OP_T, turn = op->left == CUBLAS_OP_T;
  const int64_t depth = static_cast<int64_t>(flip ? r->rows : r->columns);
  for (int64_t b = 0; b < d->batch; ++b)
    for (int64_t i = 0; i < static_cast<int64_t>(d->columns); ++i)
      for (int64_t j = 0; j < static_cast<int64_t>(d->rows); ++j) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += lt_read(right, b * r->step + (flip ? k + j * r->lead : j + k * r->lead), r->type) *
                 lt_read(left, b * l->step + (turn ? i + k * l->lead : k + i * l->lead), l->type);
        sum *= lt_read(alpha, 0, op->scale);
        if (op->epilogue & CUBLASLT_EPILOGUE_BIAS) sum += lt_read(op->bias, j, d->type);
        lt_write(out, b * d->step + j + i * d->lead, d->type, lt_end(sum, op->epilogue));
      }
  return CUBLAS_STATUS_SUCCESS;
}
