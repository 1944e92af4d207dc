"""Small operators with reductions, norms and losses, by name. Runs with the sandbox's Python."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from operators import L, b, d, h, i, r

CASES = {}


def c(name, f, *ins):
    CASES[name] = (f if isinstance(f, nn.Module) else L(f), list(ins))


class Net(nn.Module):
    """Norms with parameters and running statistics."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LayerNorm((12,))
        self.group = nn.GroupNorm(3, 6)
        self.batch = nn.BatchNorm2d(6)
        self.rms = nn.RMSNorm(12)
        for one in (self.layer, self.group, self.batch, self.rms):
            nn.init.normal_(one.weight)
        self.batch.running_mean.normal_()
        self.eval()

    def forward(self, x):
        return self.layer(x), torch.relu(self.group(x)), self.group(x), F.gelu(self.batch(x)), self.rms(x)


def pick(n, *shape):
    return torch.randint(0, n, shape)


c("sums", lambda x: (x.sum(), x.sum(-1), x.sum(0), x.sum((0, 2)), x.sum(1, keepdim=True), x.mean()), r(5, 33, 67))
c("means", lambda x: (x.mean(-1) * 2 + 1, x.mean(1), x.mean((1, 2)), x.mean((0, 2), keepdim=True)), r(5, 33, 67))
c("extremes", lambda x: (x.amax(1), x.amin((0, 2)), x.max(), x.min(), x.max(1)[0], x.min(2)[1]), r(5, 33, 67))
c("places", lambda x: (x.argmax(1), x.argmin(-1), x.argmax(), x.argmax(0, keepdim=True), x.max(1)), r(5, 33, 67))
c("ties", lambda x: (x.argmax(1), x.argmin(-1), x.max(0), x.min(1)), i(6, 40, 9))
c("nans", lambda x: (x.log().amax(1), x.log().argmax(1), x.log().min(0), x.log().sum(0)), r(7, 65))
c("infs", lambda x: ((x * 1e30).exp().sum(1), torch.logsumexp(x.masked_fill(x < 0, -torch.inf), 1)), r(5, 7))
c("allinf", lambda x: torch.logsumexp(x.masked_fill(x < 9, -torch.inf), 1), r(5, 7))
c("ints", lambda x: (x.sum(1), x.sum(), x.amax(0), x.prod(1) % 7, (x > 0).sum(1), (x * 2).amin()), i(5, 9))
c("truth", lambda x: ((x > 2).any(1), (x > -9).all(0), (x > 0).any(), (x > 0).all(1), (x > 0).sum(0)), r(5, 33))
c("prods", lambda x: (x.prod(1), (x[:2] * 0.1 + 1).prod()), r(5, 33))
c("softmax", lambda x: (F.softmax(x, -1), F.softmax(x, 1), F.log_softmax(x * 3, 0)), r(5, 33, 67))
c("softmaxes", lambda x, y: F.softmax(x + y, -1) * y + F.log_softmax(x, 1), r(5, 33, 8), r(8))
c("softmaxT", lambda x: F.softmax(x.transpose(0, 2), -1).transpose(1, 2), r(6, 33, 40))
c("longsoft", lambda x: F.softmax(x * 2, -1), r(2, 70001))
c("onesoft", lambda x: (F.softmax(x, 1), F.softmax(x, 0)), r(5, 1))
c("lse", lambda x: (torch.logsumexp(x, 1), torch.logsumexp(x, (0, 2)), x.logsumexp(-1, keepdim=True) - x), r(5, 33, 67))
c("layer", lambda x: F.layer_norm(x, (67,)), r(5, 33, 67) + 3)
c("layer2", lambda x, w, v: F.silu(F.layer_norm(x, (33, 67), w, v)) + x, r(5, 33, 67), r(33, 67), r(33, 67))
c("net", Net(), r(2, 6, 5, 12))
c("instance", lambda x: F.instance_norm(x), r(3, 4, 9, 11))
c("groups", lambda x: F.group_norm(x, 2), r(3, 8, 77))
c("rms", lambda x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5), r(3, 24, 9, 10))
c("var", lambda x: (x.var(-1), x.std((0, 1)), *torch.var_mean(x, 1), x.std(), *torch.std_mean(x, (0, 2))), r(5, 33, 67))
c("var0", lambda x: x.var(1, correction=0) + x.var(1, keepdim=True).squeeze(1), r(5, 33, 67) * 2 + 100)
c("norms", lambda x: (x.norm(), x.norm(dim=1), x.norm(p=1, dim=-1), F.normalize(x, dim=1), x.abs().max()), r(5, 33, 67))
c("linf", lambda x: torch.linalg.vector_norm(x, float("inf"), dim=(0, 1)), r(5, 33, 67))
c("l1norm", lambda x: x / x.abs().sum(1, keepdim=True), r(5, 3300))
c("frob", lambda x: x / torch.norm(x, p="fro"), r(50, 3301))
c(
    "mse",
    lambda x, y: (F.mse_loss(x, y), F.mse_loss(x, y, reduction="sum"), F.mse_loss(x, y, reduction="none")),
    r(5, 67),
    r(5, 67),
)
c(
    "bent",
    lambda x, y: (F.smooth_l1_loss(x, y), F.huber_loss(x, y, delta=0.7), F.smooth_l1_loss(x, y, beta=0.3)),
    r(5, 67),
    r(5, 67),
)
c("l1", lambda x, y: F.l1_loss(x, y) + F.hinge_embedding_loss(x, y.sign()), r(300, 671), r(300, 671))
c(
    "bce",
    lambda x, y: (F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), F.binary_cross_entropy_with_logits(x, y)),
    r(5, 67),
    r(5, 67),
)
c("kl", lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), r(50, 67), r(50, 67))
c("kl2", lambda x, y: F.kl_div(x, y, log_target=True), r(50, 67), r(50, 67))
c("ce", lambda x, t: F.cross_entropy(x, t), r(50, 67), pick(67, 50))
c("ce2", lambda x, t: F.cross_entropy(x, t, ignore_index=3), r(5, 6, 9), pick(6, 5, 9))
c("ce3", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), r(5, 6, 9), pick(6, 5, 9))
c("nll", lambda x, t: F.nll_loss(x, t, reduction="none"), r(50, 67), pick(67, 50))
c(
    "cosine",
    lambda x, y: (F.cosine_similarity(x, y, dim=1), F.triplet_margin_loss(x, y, x + y)),
    r(5, 33, 8),
    r(5, 33, 8),
)
c("hinge", lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0)), r(500, 3), r(500, 1).sign())
c("half", lambda x: (F.softmax(x, -1), x.sum(0), x.mean(), F.layer_norm(x, (67,)), x.amax(1), x.norm(dim=1)), h(33, 67))
c("bfloat", lambda x: (F.log_softmax(x, 0), x.sum(-1).relu(), x.float().mean(1), x.argmax(1), x.var(0)), b(33, 67))
c("double", lambda x: (F.softmax(x, 0), x.sum(1), x.logsumexp(1), x.std(), x.prod(1)), d(33, 67))
c("strided", lambda x, y: (F.softmax(x, -1), y.sum(0), (x + y).mean(1)), r(80, 90)[::2, 1::3], r(30, 40).t())
c("bcast", lambda x, y: (x * y).sum((0, 2)), r(7, 1, 33), r(1, 65, 1))
c("expanded", lambda x: x.sum(1) + x.amax(1), r(20, 1).expand(20, 30))
c("tall", lambda x: (x.sum(0), x.mean(0), x.amax(0)), r(20011, 7))
c("wide", lambda x: (x.sum(0), F.softmax(x, 0), x.var(0)), r(9, 3001))
c("twice", lambda x: (x - x.mean(1, keepdim=True)).pow(2).sum(1).sqrt().mean(), r(64, 130))
c("attention", lambda x, m: F.softmax(x.masked_fill(m > 1, -1e9) / 8, -1), r(2, 3, 17, 19), r(17, 19))
c("chain", lambda x: F.gelu(x).sum(1).sigmoid().unsqueeze(1) * x, r(40, 50))
c("scalar", lambda x: (x.sum(), x.max(), x.softmax(0)), r(()))
c("pool", lambda x: (F.adaptive_avg_pool2d(x, 1), x.mean((2, 3)).relu()), r(3, 4, 9, 11))
c("pools", lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, (3, 2), (2, 1)), F.max_pool2d(x, 3, 1)), r(2, 3, 9, 11))
c("pools1", lambda x: F.max_pool1d(x[:, None], 3).squeeze(1).sum(1) + F.avg_pool1d(x, 2).amax(1), r(7, 33))
c("empty", lambda x: x.sum(1), r(0, 5))
c("dot", lambda x, y: (x * y).sum() / (x.norm() * y.norm()), r(1000), r(1000))
c("clast", lambda x: (x.mean((2, 3)), F.softmax(x, 1)), r(2, 19, 9, 10).to(memory_format=torch.channels_last))
c("shared", lambda x: torch.softmax(x, 1).sum(1) + torch.softmax(x, 1).amax(1), r(9, 33))
c("seven", lambda x: x.sum((0, 2, 4)) + 1, r(3, 4, 5, 6, 7))
c("pulled", lambda x, w, v: F.linear(x, w, v).sum(-1), r(9, 33), r(21, 33), r(21))
c("pulled2", lambda x, w, v: (F.linear(x, w, v) / 2).sum(1, keepdim=True) * 1.5, r(9, 33), r(21, 33), r(21))
c("pulled3", lambda x, w: ((x @ w).mean(0), (x @ w).sum(), x.t().mm(x).sum(1)), r(9, 33), r(33, 21))
c("pulled4", lambda x, w, v: (3 - F.linear(x, w, v) * 2 + x[..., :1]).mean(-1), r(4, 9, 33), r(21, 33), r(21))
c("pulled5", lambda x, w: (F.linear(x, w).sum(-1), F.linear(x, w).sum((0, 2))), r(4, 9, 33), r(21, 33))
c("pulled6", lambda x, w: ((x @ w).sum(-1), (x @ w).sum(1), (x @ w).mean((0, 1))), r(4, 9, 33), r(4, 33, 21))
c("matvec", lambda x, w, v: (w @ v, F.linear(v, w), torch.addmv(x, w, v, alpha=2), v.dot(v)), r(65), r(65, 33), r(33))
c("narrow", lambda x, w, v: torch.sigmoid(F.linear(x, w, v)), r(50, 70), r(2, 70), r(2))
c("crossed", lambda x: (x.sum(1)[None] * x.sum(0)[:, None], x.sum(1).flip(0)[:, None] * x), r(7, 9))
c("turned", lambda x: (x.mean(1).t() + x.mean(1), x.flip(2).amax(2), x.mean(2)[:, ::2]), r(5, 9, 5))
c("chained", lambda x: F.softmax(x - x.amax(0), 1).sum(0).log().sum() * x.mean(1), r(7, 9))
c("windows", lambda x: (x.unfold(1, 3, 2).sum(-1), x.unfold(1, 4, 4).amax(-1)), r(5, 21))
c("diagonals", lambda a, x: (torch.diag(a) @ x).sum(1) + (torch.diag(a) @ x).amax(), r(7), r(7, 9))
c("masked", lambda x: torch.where(x > 0, x, 0.0).sum(1) / (x > 0).sum(1).clamp(min=1), r(33, 65))
c("centred", lambda x: (x - x.mean((1, 2), keepdim=True)) / x.std((1, 2), keepdim=True), r(6, 7, 33))
c("outer", lambda x, y: (x[:, None] * y[None]).logsumexp(1), r(33), r(65))
