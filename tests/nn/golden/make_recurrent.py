"""Writes recurrent.safetensors: two-layer bidirectional networks by PyTorch in float64, over
sequences of several lengths, with all gradients.

    python3 make_recurrent.py recurrent.safetensors

Inputs are rounded to float32, so that they reach the tests exactly.
"""

import sys

import torch
from safetensors.torch import save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

T, B, I, H, LAYERS = 6, 4, 5, 11, 2
LENGTHS = [4, 6, 1, 3]


def draw(*shape):
    return torch.randn(*shape).double()


def case(name, network):
    out = {}
    for p in network.parameters():
        p.data = draw(*p.shape) * 0.4
    for key, p in network.named_parameters():
        p.data = p.data.float().double()
        out[f"{name}/weights/{key}"] = p.data.clone()
    x = draw(T, B, I).requires_grad_()
    packed = pack_padded_sequence(x, torch.tensor(LENGTHS), enforce_sorted=False)
    sequence, last = network(packed)
    sequence, _ = pad_packed_sequence(sequence, total_length=T)
    states = dict(zip("hc", last)) if name == "lstm" else {"h": last}
    # by layer, the two directions side by side
    states = {k: v.view(LAYERS, 2, B, H).transpose(1, 2).reshape(LAYERS, B, 2 * H)
              for k, v in states.items()}
    results = {"sequence": sequence, **states}
    starts = {k: draw(*v.shape) for k, v in results.items()}
    torch.autograd.backward(list(results.values()), [starts[k] for k in results])
    out[f"{name}/x"] = x.detach()
    out[f"{name}/gradients/x"] = x.grad
    for k, v in results.items():
        out[f"{name}/{k}"] = v.detach()
        out[f"{name}/d_{k}"] = starts[k]
    for key, p in network.named_parameters():
        out[f"{name}/gradients/{key}"] = p.grad
    return out


torch.manual_seed(7)
tensors = {"lengths": torch.tensor(LENGTHS)}
for kind in (torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM):
    network = kind(I, H, num_layers=LAYERS, bidirectional=True).double()
    tensors |= case(kind.__name__.lower(), network)
save_file({k: v.contiguous() if v.dtype == torch.int64 else v.float().contiguous()
           for k, v in tensors.items()}, sys.argv[1])
