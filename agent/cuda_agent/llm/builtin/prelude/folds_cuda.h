//@ chunk:
// A sum of a few numbers, pair by pair.
template <int N, typename T>
FN T chunk_sum(const T (&x)[N]) {
  if constexpr (N == 1) {
    return x[0];
  } else {
    T pairs[(N + 1) / 2];
#pragma unroll
    for (int k = 0; k < N / 2; ++k) pairs[k] = static_cast<T>(x[2 * k] + x[2 * k + 1]);
    if constexpr (N % 2 != 0) pairs[N / 2] = x[N - 1];
    return chunk_sum(pairs);
  }
}
//@ ends:
// What an extreme starts from.
template <typename T>
FN T lowest() {
  if constexpr (std::is_floating_point_v<T>) {
    return -static_cast<T>(INFINITY);
  } else {
    return std::is_signed_v<T> ? static_cast<T>(static_cast<std::make_unsigned_t<T>>(1) << (8 * sizeof(T) - 1)) : T(0);
  }
}
template <typename T>
FN T highest() {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(INFINITY);
  } else {
    return static_cast<T>(~lowest<T>());
  }
}
//@ sum: chunk
// States take elements and other states; which of two states takes the other makes no difference to the result.
template <typename T>
struct Total {
  T value = 0;
  template <int N>
  __device__ __forceinline__ void take(const T (&x)[N]) { value = static_cast<T>(value + chunk_sum(x)); }
  __device__ __forceinline__ void merge(const Total& other) { value = static_cast<T>(value + other.value); }
};
//@ prod:
template <typename T>
struct Product {
  T value = 1;
  template <int N>
  __device__ __forceinline__ void take(const T (&x)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) value = static_cast<T>(value * x[k]);
  }
  __device__ __forceinline__ void merge(const Product& other) { value = static_cast<T>(value * other.value); }
};
//@ max: ends maximum
template <typename T>
struct Highest {
  T value = lowest<T>();
  template <int N>
  __device__ __forceinline__ void take(const T (&x)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) value = op_maximum(value, x[k]);
  }
  __device__ __forceinline__ void merge(const Highest& other) { value = op_maximum(value, other.value); }
};
//@ min: ends minimum
template <typename T>
struct Lowest {
  T value = highest<T>();
  template <int N>
  __device__ __forceinline__ void take(const T (&x)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) value = op_minimum(value, x[k]);
  }
  __device__ __forceinline__ void merge(const Lowest& other) { value = op_minimum(value, other.value); }
};
//@ quotient:
// Approximate division, for means of which only the distance from each other counts.
template <typename T>
FN T quotient(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) return __fdividef(a, b);
#endif
  return a / b;
}
//@ moments: chunk quotient
// The sum, and the sum of squares of the distance from the mean: exact in a chunk, then put together by the gap of means.
template <typename T>
struct Moments {
  T count = 0, value = 0, apart = 0;
  template <int N>
  __device__ __forceinline__ void take(const T (&x)[N]) {
    const T sum = chunk_sum(x), mean = sum * (static_cast<T>(1) / N);
    T squares[N];
#pragma unroll
    for (int k = 0; k < N; ++k) squares[k] = (x[k] - mean) * (x[k] - mean);
    Moments chunk;
    chunk.count = N;
    chunk.value = sum;
    chunk.apart = chunk_sum(squares);
    merge(chunk);
  }
  __device__ __forceinline__ void merge(const Moments& other) {
    const T both = count + other.count;
    if (count > 0 && other.count > 0) {
      const T gap = quotient(other.value, other.count) - quotient(value, count);
      apart = (apart + other.apart) + gap * gap * quotient(count * other.count, both);
    } else {
      apart = apart + other.apart;
    }
    value = value + other.value;
    count = both;
  }
};
//@ powers: chunk ends maximum exp
// The maximum, and the sum of exp(x - maximum). `Finite`: an infinite maximum counts as 0.
template <typename T, bool Finite>
struct Powers {
  T value = lowest<T>(), total = 0;
  static __device__ __forceinline__ T shift(T top) {
    if constexpr (Finite) return std::fabs(top) == static_cast<T>(INFINITY) ? static_cast<T>(0) : top;
    return top == lowest<T>() ? static_cast<T>(0) : top;
  }
  __device__ __forceinline__ T scaled(T by) const {
    return value == lowest<T>() ? static_cast<T>(0) : total * op_exp(shift(value) - by);
  }
  template <int N>
  __device__ __forceinline__ void take(const T (&x)[N]) {
    T top = value;
#pragma unroll
    for (int k = 0; k < N; ++k) top = op_maximum(top, x[k]);
    const T by = shift(top);
    T powers[N];
#pragma unroll
    for (int k = 0; k < N; ++k) powers[k] = op_exp(x[k] - by);
    total = (top == value ? total : scaled(by)) + chunk_sum(powers);
    value = top;
  }
  __device__ __forceinline__ void merge(const Powers& other) {
    const T top = op_maximum(value, other.value), by = shift(top);
    total = scaled(by) + other.scaled(by);
    value = top;
  }
  __device__ __forceinline__ T sum() const {
    return !Finite && value == lowest<T>() ? static_cast<T>(NAN) : total;
  }
};
//@ first: ends
// An extreme and the first place that has it; NaN is more extreme than any number.
template <typename T, bool Max>
struct First {
  T value = Max ? lowest<T>() : highest<T>();
  int32_t place = 2147483647;
  __device__ __forceinline__ void take_one(T x, int32_t at) {
    const bool beyond = Max ? x > value : x < value, odd = x != x, was_odd = value != value;
    const bool level = (x == value) | (odd & was_odd);
    const bool better = beyond | (odd & !was_odd) | (level & (at < place));
    value = better ? x : value;
    place = better ? at : place;
  }
  template <int N>
  __device__ __forceinline__ void take(const T (&x)[N], const int32_t (&at)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) take_one(x[k], at[k]);
  }
  __device__ __forceinline__ void merge(const First& other) { take_one(other.value, other.place); }
};
