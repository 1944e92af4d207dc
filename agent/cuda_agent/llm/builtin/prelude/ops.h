//@ add:
template <typename T>
FN T op_add(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) return a || b;
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}
//@ sub:
template <typename T>
FN T op_sub(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else return a - b;
}
//@ mul:
template <typename T>
FN T op_mul(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) return a && b;
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else return a * b;
}
//@ floor_divide:
template <typename T>
FN T op_floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    const T quotient = static_cast<T>(a / b);
    return static_cast<T>(quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0));
  } else {
    if (b == 0) return a / b;
    const T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(T(0), a / b);
    const T floored = std::floor(quotient);
    return quotient - floored > T(0.5) ? floored + 1 : floored;
  }
}
//@ trunc_divide:
template <typename T>
FN T op_trunc_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) return b == 0 ? T(0) : static_cast<T>(a / b);
  else return std::trunc(a / b);
}
//@ fmod:
template <typename T>
FN T op_fmod(T a, T b) {
  if constexpr (std::is_integral_v<T>) return b == 0 ? T(0) : static_cast<T>(a % b);
  else return std::fmod(a, b);
}
//@ remainder: fmod
template <typename T>
FN T op_remainder(T a, T b) {
  const T rest = op_fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? static_cast<T>(rest + b) : rest;
}
//@ neg:
template <typename T>
FN T op_neg(T x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(-static_cast<uint64_t>(x));
  else return -x;
}
//@ abs: pick
template <typename T>
FN T op_abs(T x) {
  if constexpr (std::is_integral_v<T>) return pick(x < 0, static_cast<T>(-static_cast<uint64_t>(x)), x);
  else return std::fabs(x);
}
//@ sign:
template <typename T>
FN T op_sign(T x) { return static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0)); }
//@ reciprocal:
template <typename T>
FN T op_reciprocal(T x) { return T(1) / x; }
//@ sqrt:
template <typename T>
FN T op_sqrt(T x) { return std::sqrt(x); }
//@ rsqrt:
template <typename T>
FN T op_rsqrt(T x) { return T(1) / std::sqrt(x); }
//@ relu: pick
template <typename T>
FN T op_relu(T x) { return pick(x < T(0), T(0), x); }
//@ relu6: pick
template <typename T>
FN T op_relu6(T x) { return pick(x < T(0), T(0), pick(x > T(6), T(6), x)); }
//@ floor:
template <typename T>
FN T op_floor(T x) { return std::floor(x); }
//@ ceil:
template <typename T>
FN T op_ceil(T x) { return std::ceil(x); }
//@ trunc:
template <typename T>
FN T op_trunc(T x) { return std::trunc(x); }
//@ round:
template <typename T>
FN T op_round(T x) { return std::rint(x); }
//@ frac:
template <typename T>
FN T op_frac(T x) { return x - std::trunc(x); }
//@ bitwise_not:
template <typename T>
FN T op_bitwise_not(T x) {
  if constexpr (std::is_same_v<T, bool>) return !x;
  else return static_cast<T>(~x);
}
//@ bitwise_and:
template <typename T>
FN T op_bitwise_and(T a, T b) { return static_cast<T>(a & b); }
//@ bitwise_or:
template <typename T>
FN T op_bitwise_or(T a, T b) { return static_cast<T>(a | b); }
//@ bitwise_xor:
template <typename T>
FN T op_bitwise_xor(T a, T b) { return static_cast<T>(a ^ b); }
//@ logical_and:
FN bool op_logical_and(bool a, bool b) { return a & b; }
//@ logical_or:
FN bool op_logical_or(bool a, bool b) { return a | b; }
//@ logical_xor:
FN bool op_logical_xor(bool a, bool b) { return a ^ b; }
//@ logical_not:
FN bool op_logical_not(bool a) { return !a; }
//@ maximum: pick
// NaN in either operand comes through, as in PyTorch.
template <typename T>
FN T op_maximum(T a, T b) { return pick((a > b) | (a != a), a, b); }
//@ minimum: pick
// NaN in either operand comes through, as in PyTorch.
template <typename T>
FN T op_minimum(T a, T b) { return pick((a < b) | (a != a), a, b); }
//@ fmax: pick
template <typename T>
FN T op_fmax(T a, T b) { return pick((a > b) | (b != b), a, b); }
//@ fmin: pick
template <typename T>
FN T op_fmin(T a, T b) { return pick((a < b) | (b != b), a, b); }
//@ atan2:
template <typename T>
FN T op_atan2(T a, T b) { return std::atan2(a, b); }
//@ hypot:
template <typename T>
FN T op_hypot(T a, T b) { return std::hypot(a, b); }
//@ copysign:
template <typename T>
FN T op_copysign(T a, T b) { return std::copysign(a, b); }
//@ isnan:
template <typename T>
FN bool op_isnan(T x) { return x != x; }
//@ isinf:
template <typename T>
FN bool op_isinf(T x) { return std::fabs(x) == static_cast<T>(INFINITY); }
//@ isfinite:
template <typename T>
FN bool op_isfinite(T x) { return std::fabs(x) < static_cast<T>(INFINITY); }
//@ signbit:
template <typename T>
FN bool op_signbit(T x) { return std::signbit(x); }
//@ pow:
template <typename T>
FN T op_pow(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b < 0) return a == 1 ? T(1) : (a == T(-1) ? T(b % 2 != 0 ? -1 : 1) : T(0));
    uint64_t power = 1, base = static_cast<uint64_t>(a);
    for (uint64_t n = static_cast<uint64_t>(b); n != 0; n >>= 1, base *= base)
      if (n & 1) power *= base;
    return static_cast<T>(power);
  } else {
    return std::pow(a, b);
  }
}
//@ xlogy: log pick
template <typename T>
FN T op_xlogy(T a, T b) {
  const T product = a * op_log(b);
  return pick(b != b, b, pick(a == T(0), T(0), product));
}
//@ logaddexp: exp log1p pick
template <typename T>
FN T op_logaddexp(T a, T b) {
  const T top = pick(a < b, b, a);
  const T sum = top + op_log1p(op_exp(-std::fabs(a - b)));
  return pick((a == b) & (std::fabs(a) == static_cast<T>(INFINITY)), a, sum);
}
//@ sigmoid: exp
template <typename T>
FN T op_sigmoid(T x) { return T(1) / (T(1) + op_exp(-x)); }
//@ silu: exp
template <typename T>
FN T op_silu(T x) { return x / (T(1) + op_exp(-x)); }
//@ gelu: erf
template <typename T>
FN T op_gelu(T x) { return T(0.5) * x * (T(1) + op_erf(x * T(0.70710678118654752440))); }
//@ gelu_tanh: tanh
template <typename T>
FN T op_gelu_tanh(T x) {
  const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T(1) + op_tanh(inner));
}
//@ mish: tanh softplus
template <typename T>
FN T op_mish(T x) { return x * op_tanh(op_softplus(x, T(1), T(20))); }
//@ softplus: exp log1p pick
template <typename T>
FN T op_softplus(T x, T beta, T threshold) {
  const T scaled = x * beta;
  const T soft = op_log1p(op_exp(scaled)) / beta;
  return pick(scaled > threshold, x, soft);
}
//@ log_sigmoid: exp log1p pick
template <typename T>
FN T op_log_sigmoid(T x) {
  const T low = pick(x > T(0), T(0), x);
  return low - op_log1p(op_exp(-std::fabs(x)));
}
//@ hardsigmoid: relu6
template <typename T>
FN T op_hardsigmoid(T x) { return op_relu6(x + T(3)) / T(6); }
//@ hardswish: relu6
template <typename T>
FN T op_hardswish(T x) { return x * op_relu6(x + T(3)) / T(6); }
//@ leaky_relu: pick
template <typename T>
FN T op_leaky_relu(T x, T slope) {
  const T low = x * slope;
  return pick(x > T(0), x, low);
}
//@ elu: expm1 pick
template <typename T>
FN T op_elu(T x, T alpha, T scale, T input_scale) {
  const T low = op_expm1(x * input_scale) * (alpha * scale), high = x * scale;
  return pick(x < T(0), low, high);
}
//@ celu: expm1 pick
template <typename T>
FN T op_celu(T x, T alpha) {
  const T low = alpha * op_expm1(x / alpha);
  return pick(x < T(0), low, x);
}
//@ hardshrink: pick
template <typename T>
FN T op_hardshrink(T x, T limit) { return pick((x >= -limit) & (x <= limit), T(0), x); }
//@ softshrink: pick
template <typename T>
FN T op_softshrink(T x, T limit) {
  const T high = x - limit, low = x + limit, zero = x * T(0);
  return pick(x > limit, high, pick(x < -limit, low, zero));
}
//@ threshold: pick
template <typename T>
FN T op_threshold(T x, T limit, T value) { return pick(x <= limit, value, x); }
//@ lerp: pick
template <typename T>
FN T op_lerp(T a, T b, T weight) {
  const T near = a + weight * (b - a), far = b - (b - a) * (T(1) - weight);
  return pick(std::fabs(weight) < T(0.5), near, far);
}
