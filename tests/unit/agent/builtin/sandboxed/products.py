"""Small operators around products of matrices, by name. Runs with the sandbox's Python."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from operators import L, b, d, h, i, r

CASES = {}


def c(name, f, *ins):
    CASES[name] = (f if isinstance(f, nn.Module) else L(f), list(ins))


class Mlp(nn.Module):
    """Two layers, the first one's activation an operand of the second."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(24, 40), nn.Linear(40, 24)

    def forward(self, x):
        return x + self.second(F.gelu(self.first(x)))


class Attention(nn.Module):
    """Heads by views, scores by a softmax between two batched products."""

    def __init__(self):
        super().__init__()
        self.packed, self.out = nn.Linear(24, 72), nn.Linear(24, 24, bias=False)

    def forward(self, x):
        q, k, v = (t.view(2, 11, 3, 8).transpose(1, 2) for t in self.packed(x).split(24, -1))
        p = F.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return self.out((p @ v).transpose(1, 2).reshape(2, 11, 24))


c("alone", lambda x, y: x @ y, r(20, 30), r(30, 40))
c("bias_from_behind", lambda x, y: torch.relu(x @ y + x.sum() * y.sum(0)), r(20, 30), r(30, 40))
c("flags", lambda x, y: x.t() @ y.t(), r(30, 20), r(40, 30))
c("weights", lambda x, w: x @ w.t(), r(20, 30), r(40, 30))
c("turned", lambda x, y: x.t() @ y + 1, r(30, 20), r(30, 40))
c("addmm", lambda x, y, z: torch.addmm(z, x, y, beta=0.5, alpha=1.5), r(20, 30), r(30, 40), r(40))
c("linear", lambda x, w, v: torch.relu(F.linear(x, w, v)), r(20, 30), r(40, 30), r(40))
c("deep", lambda x, w, v: F.silu(F.linear(x, w, v)) * 2, r(2, 5, 6, 30), r(40, 30), r(40))
c("scaled", lambda x, w: (x @ w) * 0.25, r(20, 30), r(30, 40))
c("bmm", lambda x, y: torch.tanh(x @ y), r(3, 20, 30), r(3, 30, 40))
c("bmms", lambda x, y: x.transpose(1, 2) @ y.transpose(1, 2), r(3, 30, 20), r(3, 40, 30))
c("baddbmm", lambda x, y, z: torch.baddbmm(z, x, y, beta=2, alpha=0.5), r(9, 8, 7), r(9, 7, 6), r(9, 8, 6))
c("one_side", lambda x, y: (x @ y).sigmoid(), r(6, 8), r(5, 8, 9))
c("expanded", lambda x, y: x[None].expand(4, 6, 8) @ y + y.sum(), r(6, 8), r(4, 8, 9))
c("bias_relu", lambda x, w, v: torch.relu(x @ w + v), r(20, 30), r(30, 40), r(40))
c("bias_tanh", lambda x, w, v: F.gelu(x @ w + v, approximate="tanh"), r(20, 30), r(30, 40), r(40))
c("bias_gelu", lambda x, w, v: F.gelu(F.linear(x, w, v)), r(20, 30), r(40, 30), r(40))
c("rows", lambda x, w, v: (x @ w + v) * v.sigmoid(), r(20, 30), r(30, 40), r(20, 1))
c("residual", lambda x, w, v: F.linear(x, w, v) * 0.5 + x, r(20, 30), r(30, 30), r(30))
c("own_residual", lambda x, w, v: (y := F.linear(x, w, v)) + y.tanh() + x, r(20, 30), r(30, 30), r(30))
c("softmax", lambda x, w, v: F.softmax(F.gelu(F.linear(x, w, v)), 1), r(20, 30), r(40, 30), r(40))
c("columns", lambda x, w: F.softmax(x @ w, 0), r(20, 30), r(30, 40))
c("reduced", lambda x, w, v: torch.sigmoid(F.linear(x, w, v)).sum(1, keepdim=True), r(20, 30), r(40, 30), r(40))
c("lse", lambda x, w: F.mish(torch.logsumexp(torch.clamp((x @ w) * 2, -5, 5), 1, keepdim=True)), r(20, 30), r(30, 40))
c("groups", lambda x, w, v: F.hardtanh(F.group_norm(F.linear(x, w, v), 4)), r(20, 30), r(40, 30), r(40))
c("layer", lambda x, w, v: F.layer_norm(F.linear(x, w) + x, (30,), v, v), r(20, 30), r(30, 30), r(30))
c("least", lambda x, w: (x @ w).amin(1) + (x @ w).amax(), r(20, 30), r(30, 40))
c("both", lambda x, w: ((y := x @ w), torch.relu(y)), r(20, 30), r(30, 40))
c("both2", lambda x, w: (torch.relu(x @ w), (x @ w).exp().sum(1), x @ w), r(20, 30), r(30, 40))
c("crossed", lambda x, w: (y := x @ w).tanh() + y.t(), r(20, 30), r(30, 20))
c("crossed2", lambda x, w: F.softmax(x @ w, 1) + (x @ w).sum(0), r(20, 30), r(30, 20))
c("square", lambda x: x @ x.t(), r(20, 30))
c("chain", lambda x, y, z: (x @ y) @ z, r(20, 30), r(30, 40), r(40, 25))
c("chain2", lambda x, y, z: torch.relu(x @ y) @ z.t() + 1, r(20, 30), r(30, 40), r(25, 40))
c("sum", lambda x, y, z, w: torch.sigmoid(x @ y + z @ w), r(20, 30), r(30, 40), r(20, 9), r(9, 40))
c("gated", lambda x, y, z: F.silu(x @ y) * (x @ z), r(20, 30), r(30, 40), r(30, 40))
c("mlp", Mlp(), r(2, 9, 24))
c("attention", Attention(), r(2, 11, 24))
c("normed", lambda x, w: F.layer_norm(x, (30,)) @ w, r(20, 30), r(30, 40))
c("scales", lambda x, y: (x * 0.3) @ (y.t() / -2) + (2 * x) @ y.t(), r(20, 30), r(40, 30))
c("late", lambda x, y: (x @ y.t()) * -2 + x.pow(2).sum(1, keepdim=True) + y.pow(2).sum(1), r(200, 30), r(40, 30))
c("lazy", lambda x, y: (x * 2 + 1) @ torch.relu(y).t(), r(20, 30), r(40, 30))
c("strided", lambda x, y: x[:, ::2] @ y[1:, :9], r(20, 30), r(16, 40))
c("offset", lambda x, y: x[3:, 5:20] @ y[2:17, 4:] - 1, r(20, 30), r(30, 40))
c("flipped", lambda x, y: x.flip(0) @ y, r(20, 30), r(30, 40))
c("windows", lambda x, y: x.unfold(0, 8, 1) @ y, r(30), r(8, 9))
c("thin", lambda x, w, v: F.linear(x, w, v).relu(), r(3, 30), r(40, 30), r(40))
c("shallow", lambda x, w: torch.tanh(x @ w), r(20, 1), r(1, 40))
c("empty", lambda x, w: torch.relu(x @ w), r(0, 30), r(30, 40))
c("half", lambda x, w, v: torch.relu(F.linear(x, w, v)), h(20, 30), h(40, 30), h(40))
c("halves", lambda x, y: (x @ y).sigmoid() * x.sum(), h(3, 20, 30), h(3, 30, 40))
c("bfloat", lambda x, w, v: F.softmax(F.linear(x, w, v), -1), b(20, 30), b(40, 30), b(40))
c("widened", lambda x, w: (x @ w).float() + 1, h(20, 30), h(30, 40))
c("double", lambda x, w, v: F.gelu(F.linear(x, w, v)), d(20, 30), d(40, 30), d(40))
c("ints", lambda x, w: (x @ w).sum(1), i(20, 30), i(30, 40))
c("triangle", lambda x, y: torch.triu(x @ y), r(20, 20), r(20, 20))
c("lower", lambda x, y: torch.tril(x) @ y, r(20, 20), r(20, 20))
c("pulled", lambda x, w, v: F.linear(x, w, v).sum(-1) + F.linear(x, w).amax(-1), r(9, 33), r(21, 33), r(21))
c("shared", lambda x, w, v: (torch.relu(x) @ w) * torch.tanh(torch.relu(x) @ v), r(20, 30), r(30, 40), r(30, 40))
c("transposed_out", lambda x, w: (x @ w).t().contiguous() * 2, r(20, 30), r(30, 40))
c("view_out", lambda x, w: (x @ w).view(4, 5, 40).transpose(1, 2).exp(), r(20, 30), r(30, 40))
c("loss", lambda x, w, y: F.mse_loss(x @ w, y), r(20, 30), r(30, 40), r(20, 40))
c("ce", lambda x, w, t: F.cross_entropy(x @ w, t), r(20, 30), r(30, 40), torch.randint(0, 40, (20,)))
c("tall", lambda x, w, v: F.gelu(F.linear(x, w, v)), r(700, 24), r(33, 24), r(33))
c("tall_rows", lambda x, w, v: F.softmax(F.linear(x, w, v), -1), r(5, 140, 24), r(33, 24), r(33))
c("tall_sum", lambda x, w, v: F.linear(x, w, v).sigmoid().mean(-1), r(5, 140, 24), r(33, 24), r(33))
c(
    "tall_batch",
    lambda x, y, z: (x @ y).tanh() * z + z.mean(2, keepdim=True),
    r(3, 301, 24),
    r(3, 24, 33),
    r(3, 301, 33),
)
c("tall_groups", lambda x, w, v: F.group_norm(F.linear(x, w, v), 4), r(701, 24), r(36, 24), r(36))
c("tall_both", lambda x, w: ((y := x @ w), y.sigmoid().sum(1)), r(701, 24), r(24, 36))
