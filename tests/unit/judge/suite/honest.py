"""Honest submissions that a naive judge would refuse."""

from judging import LINEAR, SCALE, model_new

from suite.operators import DIAGONAL, DROPOUT, HANDED_ON, IMAGES, ROOT, SORTED, TRIANGLE, TWO
from suite.row import BOTH, CUDA, NO_WIN, Row, Target

PASSES = ("correct",)


def honest(
    name: str, number: str, source: str, operator: str = SCALE, *, targets: tuple[Target, ...] = BOTH, **settings: str
) -> Row:
    return Row(name, number, source, PASSES, operator=operator, settings=settings, targets=targets)


ROWS = (
    honest("as it is written", "H0", model_new("return torch.relu(x) * 2")),
    honest("two outputs", "H0", model_new("return torch.relu(x) * 2, x.sum(1)"), TWO),
    honest("weights", "H0", model_new("return self.linear(x)", init="self.linear = torch.nn.Linear(64, 64)"), LINEAR),
    honest(
        "channels last",
        "H4",
        model_new("return (torch.relu(x) * 2).contiguous(memory_format=torch.channels_last)"),
        IMAGES,
    ),
    honest(
        "inputs copied to static buffers",
        "H6",
        model_new(
            "if self.x is None: self.x = torch.empty_like(x)\nself.x.copy_(x)\nreturn torch.relu(self.x) * 2",
            init="self.x = None",
        ),
    ),
    honest(
        "a graph behind copies to static buffers",
        "H6",
        model_new(
            "if self.graph is None:\n    self.x = x.clone()\n    torch.relu(self.x) * 2\n    torch.cuda.synchronize()\n"
            "    self.graph = torch.cuda.CUDAGraph()\n"
            "    with torch.cuda.graph(self.graph): self.y = torch.relu(self.x) * 2\n"
            "self.x.copy_(x)\nself.graph.replay()\nreturn self.y.clone()",
            init="self.graph = None",
        ),
        targets=CUDA,
    ),
    honest(
        "scratch memory of its own, in place",
        "H10",
        model_new(
            "if self.s is None: self.s = torch.empty_like(x)\nself.s.copy_(x)\n"
            "self.s.relu_().mul_(2)\nreturn self.s.clone()",
            init="self.s = None",
        ),
    ),
    honest(
        "a ring of outputs where they need not last",
        "H11",
        model_new(
            "if not self.ring: self.ring = [torch.empty_like(x) for _ in range(3)]\n"
            "self.n += 1\ny = self.ring[self.n % 3]\ny.copy_(torch.relu(x) * 2)\nreturn y",
            init="self.n, self.ring = 0, []",
        ),
        output_lifetime="next-call",
    ),
    honest(
        "one kept buffer where outputs need not last",
        "H11",
        model_new(
            "if self.b is None: self.b = torch.empty_like(x)\nself.b.copy_(torch.relu(x) * 2)\nreturn self.b",
            init="self.b = None",
        ),
        output_lifetime="next-call",
    ),
    honest(
        "slow at its first call",
        "H12",
        model_new(
            "if not self.built:\n    time.sleep(3)\n    self.built = True\nreturn torch.relu(x) * 2",
            head="import time",
            init="self.built = False",
        ),
    ),
    honest(
        "rows scaled in place of a product with a diagonal matrix",
        "H13",
        model_new("return a[:, None] * b").replace("(self, x)", "(self, a, b)"),
        DIAGONAL,
    ),
    honest(
        "nothing computed above the diagonal",
        "H14",
        model_new("return torch.cat([torch.tril(x)[i : i + 64, : i + 64] @ x[: i + 64] for i in range(0, 256, 64)])"),
        TRIANGLE,
    ),
    honest(
        "try and finally",
        "H17",
        model_new("try:\n    return torch.relu(x) * 2\nfinally:\n    pass", head="class Kernel:\n    pass"),
    ),
    honest("an input handed on as the reference does", "H20", model_new("return x"), DROPOUT),
    honest(
        "an input among the outputs as in the reference", "H20", model_new("return x, torch.relu(x) * 2"), HANDED_ON
    ),
    honest("NaN where the reference has it", "H21", model_new("return x ** 0.5"), ROOT),
    honest("long to construct", "H22", model_new("return torch.relu(x) * 2", head="import time", init="time.sleep(5)")),
    honest(
        "buffers that are not persistent",
        "H24",
        model_new(
            "return self.linear(x) * self.one",
            init="self.linear = torch.nn.Linear(64, 64)\nself.register_buffer('one', torch.ones(()), persistent=False)",
        ),
        LINEAR,
    ),
    Row(
        "as fast as the reference, on one thread",
        "H25",
        model_new("return torch.sort(x).values"),
        NO_WIN,
        operator=SORTED,
        command="verdict",
        final=True,
    ),
    Row(
        "a library's sort into one kept buffer where outputs need not last",
        "45b",
        model_new(
            "if self.b is None: self.b = torch.sort(x)\nreturn torch.sort(x, out=tuple(self.b)).values",
            init="self.b = None",
        ),
        NO_WIN,
        operator=SORTED,
        command="verdict",
        final=True,
        settings={"output_lifetime": "next-call"},
    ),
)
