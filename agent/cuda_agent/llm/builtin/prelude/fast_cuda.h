//@ exp:
// To a few units of 2^-23 times the argument, as in the code that torch.compile writes: one multiplication, one instruction.
FN float op_exp(float x) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
  return power;
#else
  return std::exp(x);
#endif
}
FN double op_exp(double x) { return std::exp(x); }
//@ maximum: pick
// NaN in either operand comes through, as in PyTorch; for float in one instruction.
template <typename T>
FN T op_maximum(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) {
    float both;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(both) : "f"(a), "f"(b));
    return both;
  }
#endif
  return pick((a > b) | (a != a), a, b);
}
//@ minimum: pick
// NaN in either operand comes through, as in PyTorch; for float in one instruction.
template <typename T>
FN T op_minimum(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) {
    float both;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(both) : "f"(a), "f"(b));
    return both;
  }
#endif
  return pick((a < b) | (a != a), a, b);
}
