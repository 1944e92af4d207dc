"""Submissions that compute on another GPU than the one that they were given, or have another process compute on one."""

from judging import model_new

from suite.row import CUDA, Row

HELPER = """
import ctypes, os, subprocess, sys
import torch
work = '''
import ctypes, os, sys
import torch
place = sys.argv[1] or f"cuda:{torch.cuda.device_count() - 1}"
if place != "cpu": print("helped by", torch.cuda.get_device_properties(place).uuid, file=sys.stderr, flush=True)
while True:
    data = bytearray()
    while len(data) < 1 << 20:
        part = os.read(0, 1 << 20)
        if not part: sys.exit()
        data += part
    y = (torch.relu(torch.frombuffer(data, dtype=torch.float32).to(place)) * 2).cpu()
    left = ctypes.string_at(y.data_ptr(), 1 << 20)
    while left: left = left[os.write(1, left):]
'''
outside = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
helper = subprocess.Popen([sys.executable, "-c", work, PLACE], stdin=-1, stdout=-1, bufsize=0, env=outside)
def helped(x):
    there, data = x.cpu(), bytearray()
    left = ctypes.string_at(there.data_ptr(), 1 << 20)
    while left: left = left[helper.stdin.write(left):]
    while len(data) < 1 << 20: data += helper.stdout.read(1 << 20)
    return torch.frombuffer(data, dtype=torch.float32).view(256, 1024).to(x.device)
"""


def helped(place: str = "") -> str:
    """A submission whose child computes for it at this place, else on the last GPU of the machine."""
    return model_new("return helped(x)", head=HELPER.replace("PLACE", repr(place)))


ROWS = (
    Row(
        "another GPU",
        "75",
        model_new("return (torch.relu(x.to('cuda:1')) * 2).to(x.device)"),
        ("runtime_error",),
        said="device",
        by="one device is visible",
        unshown="a machine with two GPUs is needed",
        targets=CUDA,
    ),
    Row(
        "another GPU, by a process of its own",
        "75",
        helped(),
        ("tampering",),
        said="has a GPU open",
        by="what a submission starts may have no GPU open while it is timed",
        unshown="a plain checker times nothing",
        command="verdict",
        settings={"call_timeout_s": 120},
        targets=CUDA,
    ),
)
