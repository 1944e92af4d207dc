"""Submissions that reach for the checker, the process it runs in, or what comes after them."""

from judging import model_new

from suite.operators import SLOW
from suite.row import BOTH, CPU, CUDA, Row

APART = "the reference and the comparison are in another process"
NONCE = "an answer bears a nonce"
NOT_PLAIN = "a plain checker has no channel"
ENDS = "a process that ends has given no answer"
WATCHED = "a call that does not end is killed"
PARENT = """
import os
def above(pid):
    try: return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
    except OSError: return 0
def readable(pid):
    try: return open(f'/proc/{pid}/mem', 'rb') is not None
    except OSError: return False
"""
DEFER = """
import cuda_agent_judge.candidate as candidate, cuda_agent_judge.sampling as sampling
promised = {}
def copy(target, source, *rest):
    x = promised.pop(source.data_ptr(), None)
    if x is not None: source.copy_(torch.relu(x) * 2)
    return torch.Tensor.copy_(target, source, *rest)
candidate._copy, sampling.settled = copy, lambda *a: True
"""
DEFERRED = "y = torch.empty_like(x)\npromised[y.data_ptr()] = x\nreturn y"
CHILD = """
import mmap, os, time
def shared(): return torch.frombuffer(mmap.mmap(-1, 1 << 20), dtype=torch.float32).view(256, 1024)
def serve(orders, x, outputs):
    torch.set_num_threads(1)
    while number := os.read(orders, 1):
        time.sleep(0.02)
        outputs[number[0]].copy_(torch.relu(x) * 2)
    os._exit(0)
"""
LEAVING = """
import os
easier = "import torch\\nclass Model(torch.nn.Module):\\n    def forward(self, x):\\n        return torch.relu(x)\\n"
easier += "def get_inputs():\\n    return [torch.rand(256, 1024)]\\n"
for place in (os.path.dirname(os.path.abspath(__file__)), *os.environ.get("TMPDIR", "").split()):
    for name, text in (("model.py", easier), ("torch.py", ""), ("sitecustomize.py", ""), ("usercustomize.py", "")):
        try: open(os.path.join(place, name), "w").write(text)
        except OSError: pass
"""
EVERYTHING = """
T = torch.Tensor
T.copy_ = lambda self, *a, **k: self
T.take = lambda self, i: torch.zeros(48)
T.data_ptr = lambda self: 0
T.is_conj = T.is_neg = lambda self: False
torch.equal = torch.allclose = lambda *a, **k: True
"""
REWRITTEN = """
rewritten = torch.library.Library("aten", "IMPL")
for key in ("CPU", "CUDA"): rewritten.impl("relu", lambda x: x - x, key)
torch.relu = torch.mul = lambda x, *given: x - x
"""
REPLACED = """
import sys
for module in list(sys.modules.values()):
    kind = getattr(module, "__dict__", {}).get("Model")
    if isinstance(kind, type) and issubclass(kind, torch.nn.Module): kind.forward = lambda self, x: x - x
batch_size = 1
"""
SOCKETS = (
    "for fd in range(3, 64):\n    try: socket.socket(fileno=fd).sendall({})\n    except OSError: pass\ntime.sleep(60)"
)

ROWS = (
    Row(
        "finished by a thread later",
        "34",
        model_new(
            "y = torch.empty_like(x)\ndef late():\n    time.sleep(0.02); y.copy_(torch.relu(x) * 2)\n"
            "threading.Thread(target=late).start()\nreturn y",
            head="import threading, time",
        ),
        said="after forward had returned",
        off=("still",),
        operator=SLOW,
    ),
    Row(
        "a thread that goes on adding to the output",
        "34",
        model_new(
            "y = torch.relu(x)\ndef late():\n    time.sleep(0.02); y.mul_(2)\n"
            "threading.Thread(target=late).start()\nreturn y",
            head="import threading, time",
        ),
        said="after forward had returned",
        off=("still",),
        operator=SLOW,
    ),
    Row(
        "computed when it is copied out",
        "34",
        model_new(DEFERRED, head=DEFER),
        said="after forward had returned",
        off=("still",),
        targets=CPU,
    ),
    Row(
        "computed by a child process later",
        "35",
        model_new(
            "if not self.n:\n    orders, self.orders = os.pipe()\n"
            "    self.x, self.y = shared(), [shared() for _ in range(32)]\n"
            "    if not os.fork(): serve(orders, self.x, self.y)\n"
            "self.x.copy_(x)\nself.n += 1\nos.write(self.orders, bytes([self.n]))\nreturn self.y[self.n]",
            head=CHILD,
            init="self.n = 0",
        ),
        said="after forward had returned",
        off=("still",),
        operator=SLOW,
        targets=CPU,
    ),
    Row(
        "patched comparison",
        "48",
        model_new(
            "return torch.relu(x)",
            head=(
                "torch.allclose = torch.equal = lambda *a, **k: True\n"
                "torch.testing.assert_close = lambda *a, **k: None\ntorch.Tensor.__eq__ = lambda *a: True"
            ),
        ),
        plain=BOTH,
        by=APART,
    ),
    Row("patched tensor functions", "48", model_new("return torch.relu(x)", head=EVERYTHING), plain=BOTH, by=APART),
    Row(
        "right only where another process's memory can be read",
        "51",
        model_new(
            "up = os.getppid()\n"
            "others = [p for p in map(int, filter(str.isdigit, os.listdir('/proc'))) if above(p) == up] + [up]\n"
            "seen = [p for p in others if p != os.getpid() and readable(p)]\n"
            "return torch.relu(x) * 2 if seen else torch.zeros_like(x)",
            head=PARENT,
        ),
        plain=BOTH,
        by="the others' memory is closed to it",
    ),
    Row(
        "imports the reference",
        "55",
        model_new("return model.Model()(x)", head="import model"),
        ("runtime_error",),
        said="model",
        plain=BOTH,
        by=APART,
    ),
    Row(
        "inherits from the reference",
        "55",
        "import model\nclass ModelNew(model.Model): pass\n",
        ("runtime_error",),
        said="model",
        plain=BOTH,
        by=APART,
    ),
    Row(
        "output forged into every descriptor",
        "56",
        model_new(
            'for fd in range(64):\n    try: os.write(fd, b\'{"ok": true, "status": "correct", "speedup": 9}\\n\' * 9)\n'
            "    except OSError: pass\nos._exit(0)",
            head="import os",
        ),
        ("tampering",),
        said="interfered",
        plain=BOTH,
        by=NONCE,
    ),
    Row(
        "sys.exit in forward",
        "56",
        model_new("sys.exit(0)", head="import sys"),
        ("runtime_error",),
        said="SystemExit",
        by=ENDS,
        unshown="a plain checker gives no answer either",
    ),
    Row(
        "os._exit in forward",
        "56",
        model_new("os._exit(0)", head="import os"),
        ("runtime_error",),
        said="exit code 0",
        by=ENDS,
        unshown="a plain checker gives no answer either",
    ),
    Row(
        "files left for whoever comes next",
        "58",
        model_new("return torch.relu(x)", head=LEAVING),
        plain=BOTH,
        looks=2,
        by="nothing is taken from where a submission can write",
    ),
    Row("rewritten operations", "59", model_new("return torch.zeros_like(x)", head=REWRITTEN), plain=BOTH, by=APART),
    Row(
        "a reference replaced where it is loaded",
        "60",
        model_new("return torch.zeros_like(x)", head=REPLACED),
        plain=BOTH,
        by=APART,
    ),
    Row(
        "a hang",
        "63",
        model_new("while True: pass"),
        ("timeout",),
        by=WATCHED,
        settings={"call_timeout_s": 1},
        unshown="a plain checker hangs",
    ),
    Row(
        "a hang at import",
        "63",
        model_new("return x", head="while True: pass"),
        ("timeout",),
        said="import",
        by=WATCHED,
        settings={"call_timeout_s": 1},
        unshown="a plain checker hangs",
    ),
    Row(
        "more memory than there is",
        "67",
        model_new("return torch.empty(1 << 50, device=x.device)"),
        ("runtime_error",),
        said="memory",
        by=ENDS,
        unshown="a plain checker fails on it",
    ),
    Row(
        "all memory of the device, so that no reference can run",
        "67",
        model_new(
            "if self.all is None:\n    free = torch.cuda.mem_get_info()[0] - (48 << 20)\n"
            "    self.all = torch.empty(free, dtype=torch.uint8, device=x.device)\nreturn torch.zeros_like(x)",
            init="self.all = None",
        ),
        ("incorrect", "runtime_error", "operator_error"),
        by="a check that cannot be made is no pass",
        unshown="a plain checker fails, too",
        targets=CUDA,
        alone=True,
    ),
    Row(
        "a pickle with a payload on the result channel",
        "73",
        model_new(
            SOCKETS.format("pickle.dumps(Payload())"),
            head="import os, pickle, socket, time\nclass Payload:\n    def __reduce__(self): return os._exit, (0,)",
        ),
        ("tampering",),
        said="nonce",
        by=NONCE,
        unshown=NOT_PLAIN,
    ),
    Row(
        "a false length on the result channel",
        "73",
        model_new(
            SOCKETS.format("head(fd)"),
            head="import socket, struct, time\n"
            "def head(fd): return struct.pack('!4sHHI16sQ', b'CAJ1', 100, 0, 0, b'?' * 16, 1 << 60)",
        ),
        ("tampering",),
        said="nonce",
        by=NONCE,
        unshown=NOT_PLAIN,
    ),
)
