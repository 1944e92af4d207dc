"""What the suite's submissions are held against; tensors of at most 4 MB on `cpu` and 16 MB on `cuda`."""

from collections.abc import Mapping

from judging import SCALE

from suite.row import Target

PRODUCT_SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x @ x
def get_inputs():
    return [torch.randn(SIZE, SIZE)]
"""
PRODUCT: Mapping[Target, str] = {
    "cpu": PRODUCT_SOURCE.replace("SIZE", "512"),
    "cuda": PRODUCT_SOURCE.replace("SIZE", "2048"),
}
IEEE = {"precision": "ieee"}
"""With a product on `cuda`: TF32 would make it too short for what is shown."""
PRODUCT_BESIDE_RELU = PRODUCT_SOURCE.replace("x @ x", "torch.relu(x) + 0 * (x @ x)").replace("SIZE", "2048")
SLOW = SCALE.replace("        return", "        time.sleep(0.1)\n        return").replace(
    "import torch", "import time, torch"
)
"""Its answer is there a tenth of a second after that of a submission."""
SOFTMAX = SCALE.replace("torch.relu(x) * 2", "torch.softmax(x, 1)")
TWO = SCALE.replace("torch.relu(x) * 2", "(torch.relu(x) * 2, x.sum(1))")
SIGNED_RELU = SCALE.replace("torch.relu(x) * 2", "torch.relu(x)").replace("torch.rand(256", "torch.randn(1024")
IMAGES = SCALE.replace("(256, 1024)", "(4, 8, 16, 32)")
SILU = SIGNED_RELU.replace("torch.relu(x)", "torch.nn.functional.silu(x)")
ROOT = SCALE.replace("torch.relu(x) * 2", "torch.sqrt(x)").replace("torch.rand(256", "torch.randn(64")
TRIANGLE = PRODUCT_SOURCE.replace("x @ x", "torch.tril(x) @ x").replace("SIZE", "256")
SORTED = SCALE.replace("torch.relu(x) * 2", "torch.sort(x).values").replace("256, 1024", "1 << 17")
"""On `cpu` of one thread, so that other load disturbs it less, and long beside what torch.compile adds to a call."""
DIAGONAL = """
import torch
class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.diag(a) @ b
def get_inputs():
    return [torch.randn(256), torch.randn(256, 256)]
"""
DROPOUT = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(x)
def get_inputs():
    return [torch.randn(256, 1024)]
"""
HANDED_ON = SCALE.replace("return torch.relu(x) * 2", "return x, torch.relu(x) * 2")
