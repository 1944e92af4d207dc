//@ pick:
template <typename T>
FN T pick(bool condition, T a, T b) { return condition ? a : b; }
//@ exp:
template <typename T>
FN T op_exp(T x) { return std::exp(x); }
//@ exp2:
template <typename T>
FN T op_exp2(T x) { return std::exp2(x); }
//@ expm1:
template <typename T>
FN T op_expm1(T x) { return std::expm1(x); }
//@ log:
template <typename T>
FN T op_log(T x) { return std::log(x); }
//@ log2:
template <typename T>
FN T op_log2(T x) { return std::log2(x); }
//@ log10:
template <typename T>
FN T op_log10(T x) { return std::log10(x); }
//@ log1p:
template <typename T>
FN T op_log1p(T x) { return std::log1p(x); }
//@ sin:
template <typename T>
FN T op_sin(T x) { return std::sin(x); }
//@ cos:
template <typename T>
FN T op_cos(T x) { return std::cos(x); }
//@ tan:
template <typename T>
FN T op_tan(T x) { return std::tan(x); }
//@ asin:
template <typename T>
FN T op_asin(T x) { return std::asin(x); }
//@ acos:
template <typename T>
FN T op_acos(T x) { return std::acos(x); }
//@ atan:
template <typename T>
FN T op_atan(T x) { return std::atan(x); }
//@ sinh:
template <typename T>
FN T op_sinh(T x) { return std::sinh(x); }
//@ cosh:
template <typename T>
FN T op_cosh(T x) { return std::cosh(x); }
//@ tanh:
template <typename T>
FN T op_tanh(T x) { return std::tanh(x); }
//@ asinh:
template <typename T>
FN T op_asinh(T x) { return std::asinh(x); }
//@ acosh:
template <typename T>
FN T op_acosh(T x) { return std::acosh(x); }
//@ atanh:
template <typename T>
FN T op_atanh(T x) { return std::atanh(x); }
//@ erf:
template <typename T>
FN T op_erf(T x) { return std::erf(x); }
//@ erfc:
template <typename T>
FN T op_erfc(T x) { return std::erfc(x); }
