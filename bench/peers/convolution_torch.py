"""PyTorch's convolution, eager, its planes as they come or with channels last. It answers what
bench/convolution.cc answers."""

import os
import sys

import torch
import torch.nn.functional as F

from common import Peer

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
LAYOUTS = {"planes": torch.contiguous_format, "channels last": torch.channels_last}


def prepare(path, case, both, inputs):
    x, w, d_y = (torch.from_numpy(inputs[name]).contiguous(memory_format=LAYOUTS[path])
                 for name in ("x", "w", "d_y"))
    how = {"stride": case["stride"], "padding": case["pad"], "groups": case["groups"]}

    def forward():
        with torch.no_grad():
            return {"y": F.conv2d(x, w, **how)}

    def forward_and_backward():
        xs, ws = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = F.conv2d(xs, ws, **how)
        y.backward(d_y)
        return {"y": y.detach(), "d_x": xs.grad, "d_w": ws.grad}

    return (forward_and_backward if both else forward,
            lambda result: {name: t.contiguous().numpy() for name, t in result.items()})


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__)
    else:
        Peer(prepare).serve()
