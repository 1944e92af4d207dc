//@ pick:
// condition ? a : b by bits. The compiler makes branches of the operator where operands are constants (a clamp in front
// of an exp), and a loop with branches does not vectorise.
template <size_t Bytes>
struct Bits;
template <>
struct Bits<1> {
  using type = uint8_t;
};
template <>
struct Bits<2> {
  using type = uint16_t;
};
template <>
struct Bits<4> {
  using type = uint32_t;
};
template <>
struct Bits<8> {
  using type = uint64_t;
};
template <typename T>
FN T pick(bool condition, T a, T b) {
  using U = typename Bits<sizeof(T)>::type;
  const U mask = static_cast<U>(-static_cast<U>(condition));
  U x, y;
  std::memcpy(&x, &a, sizeof a);
  std::memcpy(&y, &b, sizeof b);
  const U bits = static_cast<U>((x & mask) | (y & ~mask));
  T picked;
  std::memcpy(&picked, &bits, sizeof picked);
  return picked;
}
//@ bits:
// Reinterpretations and selects only, so that loops around these functions vectorise.
FN float as_float(int32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
FN int32_t as_int(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
FN float power_of_two(int32_t n) { return as_float((n + 127) << 23); }
//@ exp: bits pick
// exp(r) * 2^n with |r| <= ln 2 / 2; the scale is split in two so that subnormal results come out.
FN float op_exp(float x) {
  const float low = pick(x < -104.0f, -104.0f, x);
  const float bounded = pick(low > 89.0f, 89.0f, low);
  const float n = std::rint(bounded * 1.44269504f);
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 0.00139262034f;
  p = p * r + 0.00836319488f;
  p = p * r + 0.0416665545f;
  p = p * r + 0.166665769f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const int32_t whole = static_cast<int32_t>(n), half = whole >> 1;
  return p * power_of_two(half) * power_of_two(whole - half);
}
FN double op_exp(double x) { return std::exp(x); }
//@ exp2: bits pick
FN float op_exp2(float x) {
  const float low = pick(x < -151.0f, -151.0f, x);
  const float bounded = pick(low > 129.0f, 129.0f, low);
  const float n = std::rint(bounded);
  const float r = (bounded - n) * 0.693147181f;
  float p = 0.00139262034f;
  p = p * r + 0.00836319488f;
  p = p * r + 0.0416665545f;
  p = p * r + 0.166665769f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const int32_t whole = static_cast<int32_t>(n), half = whole >> 1;
  return p * power_of_two(half) * power_of_two(whole - half);
}
FN double op_exp2(double x) { return std::exp2(x); }
//@ expm1: exp pick
FN float op_expm1(float x) {
  float p = 0.000199448745f;
  p = p * x + 0.0013982186f;
  p = p * x + 0.00833323613f;
  p = p * x + 0.0416657912f;
  p = p * x + 0.166666668f;
  p = p * x + 0.500000012f;
  const float near = p * x * x + x;
  const float far = op_exp(x) - 1.0f;
  return pick(std::fabs(x) < 0.5f, near, far);
}
FN double op_expm1(double x) { return std::expm1(x); }
//@ log: bits pick
// x = m * 2^n with m in [sqrt(1/2), sqrt(2)).
FN float op_log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = x * 8388608.0f;
  const float normal = pick(tiny, scaled, x);
  const int32_t bits = as_int(normal) - 0x3f3504f3;
  const int32_t exponent = bits >> 23;
  const float m = as_float((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const float n = static_cast<float>(pick(tiny, exponent - 23, exponent));
  float p = 0.0697161145f;
  p = p * m - 0.114797338f;
  p = p * m + 0.116854199f;
  p = p * m - 0.124256873f;
  p = p * m + 0.142490576f;
  p = p * m - 0.166678023f;
  p = p * m + 0.200007157f;
  p = p * m - 0.24999997f;
  p = p * m + 0.333333312f;
  const float square = m * m;
  const float sum = (p * m * square - 0.5f * square + n * -2.12194440e-4f) + m + n * 0.693359375f;
  const float finite = pick(x == INFINITY, x, sum);
  const float positive = pick(x == 0.0f, -INFINITY, finite);
  return pick((x < 0.0f) | (x != x), NAN, positive);
}
FN double op_log(double x) { return std::log(x); }
//@ log2: log
FN float op_log2(float x) { return op_log(x) * 1.44269504f; }
FN double op_log2(double x) { return std::log2(x); }
//@ log10: log
FN float op_log10(float x) { return op_log(x) * 0.434294482f; }
FN double op_log10(double x) { return std::log10(x); }
//@ log1p: log pick
// What rounding took from 1 + x is given back as a factor.
FN float op_log1p(float x) {
  const float sum = 1.0f + x;
  const float taken = sum - 1.0f;
  const float corrected = op_log(sum) * (x / taken);
  const float normal = pick(taken == 0.0f, x, corrected);
  return pick(sum == INFINITY, sum, pick(sum == 0.0f, -INFINITY, normal));
}
FN double op_log1p(double x) { return std::log1p(x); }
//@ tanh: exp pick
FN float op_tanh(float x) {
  const float size = std::fabs(x), square = x * x;
  float p = -0.00604516509f;
  p = p * square + 0.0209613291f;
  p = p * square - 0.0538432632f;
  p = p * square + 0.133327188f;
  p = p * square - 0.333333284f;
  const float near = p * square * x + x;
  const float far = std::copysign(1.0f - 2.0f / (op_exp(2.0f * size) + 1.0f), x);
  return pick(size < 0.625f, near, far);
}
FN double op_tanh(double x) { return std::tanh(x); }
//@ erf: exp pick
FN float op_erf(float x) {
  const float size = std::fabs(x), square = x * x;
  float p = 7.87587508e-05f;
  p = p * square - 0.000801686429f;
  p = p * square + 0.00518908742f;
  p = p * square - 0.026854212f;
  p = p * square + 0.112835947f;
  p = p * square - 0.376126267f;
  p = p * square + 1.12837917f;
  const float t = pick(size > 4.0f, 4.0f, size);
  float q = 1.32723618e-05f;
  q = q * t - 0.000316937023f;
  q = q * t + 0.00343235138f;
  q = q * t - 0.0226047722f;
  q = q * t + 0.103281118f;
  q = q * t + 0.639141258f;
  q = q * t + 1.12589365f;
  q = q * t + 0.00076589777f;
  const float near = p * x;
  const float far = std::copysign(1.0f - op_exp(-q), x);
  return pick(size < 1.0f, near, far);
}
FN double op_erf(double x) { return std::erf(x); }
//@ quarter_turns:
// sin (odd = 0) or cos (odd = 1) in double: the reduction by pi/2 in two parts holds for |x| up to about 1e9.
FN double quarter_turns(float value, int64_t odd) {
  const double x = value;
  const double n = std::rint(x * 0.63661977236758134308);
  const double r = (x - n * 1.57079632679489655800) - n * 6.12323399573676603587e-17;
  const double square = r * r;
  double s = -2.48055195e-08;
  s = s * square + 2.75559892e-06;
  s = s * square - 0.000198412669;
  s = s * square + 0.00833333333;
  s = s * square - 0.166666667;
  s = s * square * r + r;
  double c = -2.73011934e-07;
  c = c * square + 2.48006032e-05;
  c = c * square - 0.00138888877;
  c = c * square + 0.0416666667;
  c = c * square * square - 0.5 * square + 1.0;
  const double turns = n + static_cast<double>(odd);
  const double within = turns - 4.0 * std::floor(turns * 0.25);
  const double half = std::floor(within * 0.5), odd_turn = within - 2.0 * half;
  return (1.0 - 2.0 * half) * (odd_turn * c + (1.0 - odd_turn) * s);
}
//@ sin: quarter_turns
FN float op_sin(float x) { return static_cast<float>(quarter_turns(x, 0)); }
FN double op_sin(double x) { return std::sin(x); }
//@ cos: quarter_turns
FN float op_cos(float x) { return static_cast<float>(quarter_turns(x, 1)); }
FN double op_cos(double x) { return std::cos(x); }
