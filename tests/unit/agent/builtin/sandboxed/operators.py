# ruff: noqa: B023 - each inner function is made and called with its name at once
"""Small operators of the two families, by name: a module and its inputs. Runs with the sandbox's Python."""

import torch
import torch.nn as nn
import torch.nn.functional as F

r = torch.randn


class L(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *a):
        return self.f(*a)


class P(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Module()
        self.lin.w = nn.Parameter(r(7))
        self.register_buffer("b", r(5, 1))
        self.bn = nn.BatchNorm1d(5).eval()
        self.bn.running_mean.normal_()

    def forward(self, d, k):
        gated = self.bn(d["a"].unsqueeze(0))[0] * self.lin.w + self.b
        return {"y": (gated, d["a"] > 0), "z": [d["a"].t() * k]}


def h(*a):
    return r(*a).half()


def b(*a):
    return r(*a).bfloat16()


def d(*a):
    return r(*a).double()


def i(*a):
    return torch.randint(-9, 9, a)


def u8(*a):
    return torch.randint(0, 200, a, dtype=torch.uint8)


CASES = {}


def c(name, f, *ins):
    CASES[name] = (f if isinstance(f, nn.Module) else L(f), list(ins))


c("diag", lambda a, b: torch.diag(a) @ b, r(37), r(37, 53))
c("rdiag", lambda a, b: b @ torch.diag(a), r(53), r(37, 53))
c("diagT", lambda a, b: (torch.diag(a) @ b.t()).t(), r(37), r(53, 37))
c("embed", lambda a, b: torch.diag_embed(a) @ b, r(3, 9), r(3, 9, 11))
c("embedT", lambda a, b: b @ torch.diag_embed(a).transpose(1, 2), r(3, 11), r(3, 9, 11))
c("bcast", lambda a, b: b @ torch.diag(a), r(11), r(3, 9, 11))
c("bcastl", lambda a, b: torch.diag(a) @ b, r(9), r(3, 9, 11))
c("eye", lambda a, b: (torch.eye(13) * a) @ b, r(13), r(13, 6))
c("eye2", lambda a, b: (a.unsqueeze(1) * torch.eye(13)) @ b * 2 + 1, r(13), r(13, 6))
c("linear", lambda a, b, x: F.linear(x, torch.diag(a), b), r(8), r(8), r(5, 8))
c("mv", lambda a, b: torch.diag(a) @ b, r(80), r(80))
c("dd", lambda a, b: torch.diag(a) @ torch.diag(b), r(8), r(8))
c("ddx", lambda a, b, x: torch.diag(a.exp()) @ torch.diag(b).t() @ x, r(8), r(8), r(8, 4))
c("chainpro", lambda a, b: torch.relu(torch.diag(torch.sigmoid(a)) @ (b * 0.5) + 1), r(33), r(33, 17))
c("addmm", lambda a, b, x: torch.addmm(x, torch.diag(a), b, beta=0.5, alpha=2.0), r(33), r(33, 17), r(17))
c("baddbmm", lambda a, b, x: torch.baddbmm(x, torch.diag_embed(a), b), r(2, 33), r(2, 33, 17), r(2, 33, 17))
c("einsum", lambda a, b: torch.einsum("i,ij->ij", a, b), r(33), r(33, 17))
c("negdiag", lambda a, b: (-torch.diag(a) * 3) @ b, r(33), r(33, 17))
c("diagdbl", lambda a, b: torch.diag(a) @ b, d(33), d(33, 17))
c("diaghalf", lambda a, b: torch.diag(a) @ b, h(33), h(33, 17))
c("diagsum", lambda a, b: (torch.diag(a) + torch.diag(a)) @ b, r(33), r(33, 17))
c("diagmask", lambda a, b: torch.diag(torch.diag(b)) @ b, r(33), r(33, 33))
c("multi", lambda a, b, x: torch.diag(a) @ x @ torch.diag(b), r(33), r(17), r(33, 17))
UNARY = (
    "exp exp2 expm1 sin cos tanh erf sigmoid abs neg sign floor ceil round trunc frac erfc tan atan sinh "
    "reciprocal isnan isinf isfinite signbit square"
)
for n in UNARY.split():
    c("u_" + n, (lambda n: lambda x: getattr(torch, n)(x * 3))(n), r(5, 67))
for n in ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "acosh"]:
    c("u_" + n, (lambda n: lambda x: getattr(torch, n)(x.abs() * 3 + (1 if n == "acosh" else 1e-3)))(n), r(5, 67))
for n in ["asin", "acos", "atanh"]:
    c("u_" + n, (lambda n: lambda x: getattr(torch, n)(x))(n), torch.rand(5, 67) * 1.8 - 0.9)
for n in [
    "relu",
    "relu6",
    "silu",
    "mish",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "selu",
    "elu",
    "celu",
    "softplus",
    "softsign",
    "logsigmoid",
    "tanhshrink",
    "hardshrink",
    "softshrink",
    "leaky_relu",
    "hardtanh",
]:
    c("a_" + n, (lambda n: lambda x: getattr(F, n)(x * 4))(n), r(5, 67))
c("gelut", lambda x: F.gelu(x, approximate="tanh"), r(5, 67))
c("thresh", lambda x: F.threshold(x, 0.1, 20.0), r(5, 67))
c("prelu", lambda x, w: F.prelu(x, w), r(5, 67), r(67))
c("glu", lambda x: F.glu(x, 0), r(6, 67))
for n in [
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "atan2",
    "hypot",
    "fmod",
    "remainder",
    "logaddexp",
    "xlogy",
    "copysign",
]:
    c("b_" + n, (lambda n: lambda x, y: getattr(torch, n)(x, y.abs() if n == "xlogy" else y))(n), r(5, 67), r(67))
for n in ["eq", "ne", "lt", "le", "gt", "ge"]:
    c("c_" + n, (lambda n: lambda x, y: getattr(torch, n)(x, y))(n), i(5, 67), i(5, 1))
c(
    "divf",
    lambda x, y: (torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc"), x / y),
    r(5, 67),
    r(5, 67),
)
c(
    "idiv",
    lambda x: (
        torch.div(x, 4, rounding_mode="floor"),
        torch.div(x, -4, rounding_mode="trunc"),
        x / 4,
        x % 5,
        x // 3,
        torch.fmod(x, 5),
    ),
    i(5, 67),
)
c(
    "intops",
    lambda x, y: ((x + y * 3 - 1).abs(), x * y, x**2, -x, x & y, x | y, ~x, x.sign(), x.clamp(-3, 4), x.relu()),
    i(5, 67),
    i(67),
)
c("u8", lambda x, y: (x + y, x * 2, x - 3, ~x, x / 2, x.float() * 0.5), u8(5, 67), u8(67))
c("i8i16", lambda x, y: x + y, i(5, 67).to(torch.int8), u8(67))
c(
    "bool",
    lambda x, y: (
        (x > 0) & (y > 0),
        (x > 0) | (y > 0),
        (x > 0) ^ (y > 0),
        ~(x > 0),
        (x > 0) * x,
        (x > 0) + (y > 0),
        torch.logical_and(x, y),
        torch.logical_not(x),
    ),
    r(5, 67),
    r(67),
)
c("pow", lambda x: (x**3, x.abs() ** 0.5, x.abs() ** -0.5, x**-1, x**-2, 2**x, x.abs() ** 1.7, x**0, x**4), r(5, 67))
c(
    "alpha",
    lambda x, y: (
        torch.add(x, y, alpha=2),
        torch.sub(x, y, alpha=0.5),
        torch.rsub(x, y, alpha=3),
        1 - x,
        torch.addcmul(x, y, y, value=0.3),
        torch.addcdiv(x, y, y + 9, value=0.3),
        torch.lerp(x, y, 0.7),
        torch.lerp(x, y, y),
    ),
    r(5, 67),
    r(67),
)
c("where", lambda x, y: torch.where(x > y, x, 0.0) + torch.where(x < 0, 1, y), r(5, 67), r(67))
c("mfill", lambda x, y: x.masked_fill(y > 0, -1e9).clamp(min=-2), r(5, 67), r(67))
c("mfillinf", lambda x, y: x.masked_fill(y > 0, float("-inf")).exp(), r(5, 67), r(67))
c("clampt", lambda x, y: x.clamp(y, y + 1).clamp(max=1.5), r(5, 67), r(67))
c(
    "nan",
    lambda x: (
        x.log().clamp(0, 1),
        x.log().relu(),
        torch.maximum(x.log(), x),
        F.relu6(x.log()),
        x.log().tanh(),
        x.log().exp(),
        x.log().sigmoid(),
        F.gelu(x.log()),
        torch.fmax(x.log(), x),
    ),
    r(5, 67),
)
c(
    "inf",
    lambda x: (
        torch.exp(x * 100),
        torch.tanh(x * 100),
        torch.sigmoid(x * 100),
        F.gelu(x * 100),
        F.softplus(x * 100),
        F.silu(x * 200),
        torch.log(x.abs().floor()),
        F.elu(x * 100),
        F.mish(x * 90),
        torch.erf(x * 9),
        F.logsigmoid(x * 100),
    ),
    r(5, 67),
)
c("half", lambda x, y: F.gelu(x * 2 + y) - x.exp(), h(5, 67), h(67))
c("bf", lambda x, y: (F.silu(x * 2 + y).float() * x, x.to(torch.float16)), b(5, 67), b(67))
c("halfbf", lambda x, y: x + y, h(5, 67), b(67))
c(
    "tohalf",
    lambda x: (
        x.half().float() * 3,
        x.bfloat16().float(),
        (x * 1e-6).half(),
        (x * 1e5).half(),
        x.int(),
        x.bool(),
        x.double(),
        x.long(),
    ),
    r(5, 67),
)
c("dbl", lambda x, y: torch.tanh(x) * y + x.exp() - torch.erf(x) + F.gelu(x) + torch.sin(x), d(5, 67), r(67))
c("t", lambda x, y: x.t() * 2 + y, r(67, 35), r(35, 67))
c("t2", lambda x, y: x.t() * y.t(), r(67, 35), r(67, 35))
c("perm", lambda x, y: x.permute(2, 0, 1) * y, r(17, 33, 20), r(20, 17, 33))
c("perm4", lambda x, y: torch.relu(x.permute(0, 2, 3, 1) + y), r(2, 19, 9, 10), r(19))
c(
    "nchw",
    lambda x, y: (x + y.view(1, -1, 1, 1)).sigmoid(),
    r(2, 19, 9, 10).to(memory_format=torch.channels_last),
    r(19),
)
c("slice", lambda x: x[:, 1:-3:2] * x[:, :-4:2], r(9, 60))
c("flip", lambda x: x.flip(1) + x, r(9, 61))
c("select", lambda x: x[1] - x[:, 2] + x[-1, 3], r(9, 9))
c("expand", lambda x, y: x.unsqueeze(1).expand(9, 5, 7) * y[None, :, None], r(9, 7), r(5))
c("reshape", lambda x: (x.t().reshape(6, -1) * 2).view(3, -1) + 1, r(12, 10))
c("reshape2", lambda x, y: (x[:, None] * y[None]).flatten() + 1, r(12), r(10))
c("strided", lambda x, y: x * y + 1, r(40, 30)[::2, 1::3], r(10, 20).t())
c("bstride", lambda x, y: x * y + 1, r(1, 30).expand(20, 30), r(20, 1).expand(20, 30))
c("zerodim", lambda x, y: x * y + 2, r(()), r(()))
c("zerodim2", lambda x, y: x * y, r(4, 5), torch.tensor(2.0, dtype=torch.float64))
c("empty", lambda x: x * 2, r(0, 5))
c("one", lambda x: x * 2, r(1, 1, 1))
c("outs", lambda x, y: (x + y, x * 2, y.exp(), [x - y, {"q": x.t()}]), r(5, 67), r(67))
c("param", P(), {"a": r(5, 7)}, 3)
c("split", lambda x: [p * 2 for p in x.chunk(3, 1)] + list(x.unbind(0)), r(5, 9))
c("arange", lambda x: x * torch.arange(67) + torch.arange(0, 5, 1.0).unsqueeze(1) + torch.arange(3, 70), r(5, 67))
c("tril", lambda x: torch.tril(x) + torch.triu(x, 1) * 2 + torch.tril(x, -2), r(3, 20, 30))
c(
    "inplace",
    lambda x: ((x * 1).add_(1).relu_().mul_(2).clamp_(0, 3), (x + 0).fill_(3.0), torch.zeros_like(x) + x),
    r(5, 67),
)
c("diagview", lambda x: torch.diagonal(x, 1) * 2 + x.diagonal(-1), r(20, 20))
c("consts", lambda x: x * torch.tensor(2.5) + torch.full((67,), 3.0) + torch.ones(5, 1), r(5, 67))
c("repeat", lambda x: x.repeat(2, 3) * 2, r(5, 6))
c("five", lambda x, y: x.permute(4, 2, 0, 1, 3) * y, r(3, 2, 5, 4, 6), r(4, 1).expand(4, 4)[:2, :].contiguous())
c("big1d", lambda x, y: torch.relu(x) * y, r(100003), r(100003))
c("bigt", lambda x, y, z: F.gelu(x.t() + y) * z, r(515, 301), r(301, 1), r(515))
c("bigodd", lambda x, y: x * y + x.abs(), r(333, 3), r(3))
c("bcmid", lambda x, y: x * y, r(7, 1, 33), r(1, 65, 1))
c("unf", lambda x: x.unfold(1, 3, 2) * 2, r(5, 21))
c("batchT", lambda x, y: x.transpose(1, 2) + y, r(3, 40, 50), r(3, 50, 40))
c("t16", lambda x, y: x.t() * y, h(70, 90), h(90, 70))
