"""Submissions whose result is no fresh plain tensor of the reference's form, or that write where they must not."""

from judging import model_new

from suite.operators import IEEE, PRODUCT, SOFTMAX, TWO
from suite.row import BOTH, Row

FORM = "the form is held against the reference's, from raw bytes"
VALUES = "a plain checker compares these as well"
LAZY = """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            for one in args:
                if isinstance(one, Lazy) and one.__dict__.get("todo") is not None:
                    x = one.__dict__.pop("todo")
                    one.as_subclass(torch.Tensor).copy_(torch.relu(x) * 2)
            return function(*args, **(kwargs or {}))
"""
KEPT = model_new(
    "if self.b is None: self.b = torch.empty_like(x)\nreturn torch.mm(x, x, out=self.b)", init="self.b = None"
)

ROWS = (
    Row(
        "a tensor that computes when it is used",
        "36",
        model_new("y = torch.empty_like(x).as_subclass(Lazy)\ny.todo = x\nreturn y", head=LAZY),
        said="plain torch.Tensor",
        plain=BOTH,
        by=FORM,
    ),
    Row(
        "a conjugate view",
        "36",
        model_new("return torch._neg_view(torch.relu(x) * -2)"),
        said="not dense",
        plain=BOTH,
        by=FORM,
    ),
    Row(
        "a sparse tensor",
        "36",
        model_new("return (torch.relu(x) * 2).to_sparse()"),
        said="not dense",
        by=FORM,
        unshown="a plain checker fails on it",
    ),
    Row(
        "stride 0",
        "38",
        model_new("return x.new_zeros(1, 1).expand(256, 1024)"),
        said="not dense",
        plain=BOTH,
        by=FORM,
        operator=SOFTMAX,
    ),
    Row(
        "one value for all",
        "38",
        model_new("return x.new_zeros(1)"),
        said="shape [1]",
        plain=BOTH,
        by=FORM,
        operator=SOFTMAX,
    ),
    Row(
        "a part of the shape",
        "38",
        model_new("return (torch.relu(x) * 2)[:1]"),
        said="shape [1, 1024]",
        by=FORM,
        unshown=VALUES,
    ),
    Row(
        "in double precision",
        "39",
        model_new("return (torch.relu(x) * 2).double()"),
        said="dtype float64",
        plain=BOTH,
        by=FORM,
    ),
    Row(
        "in half precision",
        "39",
        model_new("return (torch.relu(x) * 2).half()"),
        said="dtype float16",
        plain=BOTH,
        by=FORM,
    ),
    Row("a list around it", "41", model_new("return [torch.relu(x) * 2]"), said="[*]", plain=BOTH, by=FORM),
    Row(
        "one output more",
        "41",
        model_new("return torch.relu(x) * 2, x.sum(1), x.sum(0)"),
        plain=BOTH,
        by=FORM,
        operator=TWO,
    ),
    Row("one output less", "41", model_new("return torch.relu(x) * 2"), plain=BOTH, by=FORM, operator=TWO),
    Row(
        "swapped outputs", "41", model_new("return x.sum(1), torch.relu(x) * 2"), by=FORM, operator=TWO, unshown=VALUES
    ),
    Row(
        "result in the input",
        "42",
        model_new("return x.relu_().mul_(2)"),
        said="shares memory with an input",
        off=("alias+untouched",),
        settings={"output_lifetime": "next-call"},
    ),
    Row(
        "input zeroed",
        "43",
        model_new("y = torch.relu(x) * 2\nx.zero_()\nreturn y"),
        said="was written to",
        off=("untouched",),
    ),
    Row(
        "one kept buffer",
        "45",
        model_new(
            "if self.b is None: self.b = torch.empty_like(x)\nself.b.copy_(torch.relu(x) * 2)\nreturn self.b",
            init="self.b = None",
        ),
        said="fresh memory",
        off=("lifetime",),
    ),
    Row(
        "a library's product into one kept buffer",
        "45b",
        KEPT,
        said="fresh memory",
        off=("lifetime",),
        operator=PRODUCT,
        settings=IEEE,
    ),
    Row(
        "all NaN",
        "68",
        model_new("return torch.full_like(x, float('nan'))"),
        said="NaN",
        by="finite masks",
        unshown=VALUES,
    ),
    Row(
        "one NaN",
        "68",
        model_new("y = torch.relu(x) * 2\ny[3, 5] = float('nan')\nreturn y"),
        said="in 1 places",
        by="finite masks",
        unshown=VALUES,
    ),
    Row(
        "low precision",
        "27",
        model_new("return (torch.relu(x.bfloat16()) * 2).float()"),
        said="relative L2",
        plain=BOTH,
        by="the tolerance",
    ),
)
