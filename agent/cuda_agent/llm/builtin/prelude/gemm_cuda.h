//@ gemm:
// A product by cuBLASLt. Each call site has one Gemm; what it asks the library for is asked once for each device.
struct GemmOperand {
  bool flipped;
  int64_t lead, step;
};
struct GemmShape {
  int64_t rows, columns, depth;
  int batch;
  GemmOperand left, right;
  cudaDataType_t type;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasLtEpilogue_t epilogue;
  int algorithms;  // how many of the library's suggestions are timed at the first call; 1: the first is taken
};
class Gemm {
 public:
  explicit Gemm(const GemmShape& shape) : shape_(shape) {}

  const char* run(const void* left, const void* right, const void* bias, const void* alpha, const void* beta,
                  void* out, cudaStream_t stream) {
    const std::lock_guard<std::mutex> hold(mutex());
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return "there is no current CUDA device";
    void* space = workspace(device, stream);
    if (space == nullptr) return "there is no memory for cuBLASLt's workspace of 32 MB";
    const uint32_t aligned[3] = {alignment(right), alignment(left), alignment(out)};
    Plan& plan = plans_[{device, aligned[0], aligned[1], aligned[2]}];
    const auto call = [&](const cublasLtMatmulAlgo_t* algorithm) {
      return cublasLtMatmul(plan.handle, plan.op, alpha, right, plan.right, left, plan.left, beta, out, plan.out, out,
                            plan.out, algorithm, space, kWorkspace, stream);
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (!plan.ready) status = prepare(plan);
    if (status == CUBLAS_STATUS_SUCCESS && bias != nullptr)
      status = cublasLtMatmulDescSetAttribute(plan.op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (status == CUBLAS_STATUS_SUCCESS && !plan.ready) {
      status = choose(plan, aligned, call, stream);
      plan.ready = status == CUBLAS_STATUS_SUCCESS;
    }
    if (status == CUBLAS_STATUS_SUCCESS) status = call(&plan.algorithm);
    if (status == CUBLAS_STATUS_SUCCESS) return nullptr;
    static char said[160];
    std::snprintf(said, sizeof said, "cuBLASLt cannot make this product (%s)", cublasLtGetStatusString(status));
    return said;
  }

 private:
  static constexpr size_t kWorkspace = size_t(32) << 20;
  struct Plan {
    bool ready = false;
    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t op = nullptr;
    cublasLtMatrixLayout_t left = nullptr, right = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };

  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  // Calls on one stream follow each other, so they share what the library writes to in between.
  static void* workspace(int device, cudaStream_t stream) {
    static std::map<std::pair<int, cudaStream_t>, void*> all;
    void*& space = all[{device, stream}];
    if (space == nullptr && cudaMalloc(&space, kWorkspace) != cudaSuccess) space = nullptr;
    return space;
  }
  static uint32_t alignment(const void* pointer) {
    uint32_t bytes = 256;
    while (reinterpret_cast<uintptr_t>(pointer) % bytes != 0) bytes /= 2;
    return bytes;
  }
  cublasStatus_t layout(cublasLtMatrixLayout_t& made, int64_t rows, int64_t columns, int64_t lead, int64_t step) {
    cublasStatus_t status = cublasLtMatrixLayoutCreate(&made, shape_.type, rows, columns, lead);
    if (status != CUBLAS_STATUS_SUCCESS || shape_.batch == 1) return status;
    status = cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &shape_.batch, sizeof(int));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
  }
  cublasStatus_t prepare(Plan& plan) {
    const GemmShape& s = shape_;
    const cublasOperation_t ops[2] = {s.right.flipped ? CUBLAS_OP_T : CUBLAS_OP_N,
                                      s.left.flipped ? CUBLAS_OP_T : CUBLAS_OP_N};
    cublasStatus_t status = plan.handle ? CUBLAS_STATUS_SUCCESS : cublasLtCreate(&plan.handle);
    if (status == CUBLAS_STATUS_SUCCESS) status = cublasLtMatmulDescCreate(&plan.op, s.compute, s.scale);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulDescSetAttribute(plan.op, CUBLASLT_MATMUL_DESC_TRANSA, &ops[0], sizeof ops[0]);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulDescSetAttribute(plan.op, CUBLASLT_MATMUL_DESC_TRANSB, &ops[1], sizeof ops[1]);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulDescSetAttribute(plan.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &s.epilogue, sizeof s.epilogue);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = layout(plan.right, s.right.flipped ? s.depth : s.columns, s.right.flipped ? s.columns : s.depth,
                      s.right.lead, s.right.step);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = layout(plan.left, s.left.flipped ? s.rows : s.depth, s.left.flipped ? s.depth : s.rows, s.left.lead,
                      s.left.step);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = layout(plan.out, s.columns, s.rows, s.columns, s.rows * s.columns);
    return status;
  }
  template <typename Call>
  cublasStatus_t choose(Plan& plan, const uint32_t* aligned, const Call& call, cudaStream_t stream) {
    constexpr int kMost = 8;
    cublasLtMatmulPreference_t wish = nullptr;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&wish);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(wish, what, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned[1]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned[2]);
    cublasLtMatmulHeuristicResult_t found[kMost] = {};
    int count = 0;
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(plan.handle, plan.op, plan.right, plan.left, plan.out, plan.out, wish,
                                              shape_.algorithms < kMost ? shape_.algorithms : kMost, found, &count);
    if (wish != nullptr) cublasLtMatmulPreferenceDestroy(wish);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (count == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    int best = 0;
    float least = -1;
    for (int k = 0; count > 1 && k < count; ++k) {
      const float time = timed(call, found[k].algo, stream);
      if (time >= 0 && (least < 0 || time < least)) least = time, best = k;
    }
    plan.algorithm = found[best].algo;
    return CUBLAS_STATUS_SUCCESS;
  }
  // Milliseconds of the fastest of some calls; negative when one fails.
  template <typename Call>
  static float timed(const Call& call, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) {
    cudaEvent_t begin, end;
    if (cudaEventCreate(&begin) != cudaSuccess) return -1;
    if (cudaEventCreate(&end) != cudaSuccess) return cudaEventDestroy(begin), -1.0f;
    float least = -1;
    for (int k = 0; k < 5; ++k) {
      float time = -1;
      cudaEventRecord(begin, stream);
      const bool done = call(&algorithm) == CUBLAS_STATUS_SUCCESS;
      cudaEventRecord(end, stream);
      if (!done || cudaEventSynchronize(end) != cudaSuccess || cudaEventElapsedTime(&time, begin, end) != cudaSuccess) {
        least = -1;
        break;
      }
      if (k > 0 && (least < 0 || time < least)) least = time;
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return least;
  }

  GemmShape shape_;
  std::map<std::tuple<int, uint32_t, uint32_t, uint32_t>, Plan> plans_;
};
