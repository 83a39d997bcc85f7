"""Writes captum.safetensors: saliency, input times gradient, integrated gradients and Grad-CAM as
Captum computes them, in float64, of a convolutional network and of a recurrent one.

    python3 make.py captum.safetensors      # torch, captum, safetensors

Weights and inputs are rounded to float32, so that they reach the tests exactly.
"""

import sys

import torch
from captum.attr import (InputXGradient, IntegratedGradients, LayerGradCam,
                         LayerGradientXActivation, Saliency)
from safetensors.torch import save_file

torch.manual_seed(3)


class Pictures(torch.nn.Module):
    """conv, relu, conv, relu, linear, log-softmax: [N,2,8,8] to 3 classes."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(2, 4, 3, padding=1)
        self.second = torch.nn.Conv2d(4, 5, 3, stride=2, padding=1)
        self.maps = torch.nn.ReLU()
        self.output = torch.nn.Linear(5 * 16, 3)

    def forward(self, x):
        maps = self.maps(self.second(torch.relu(self.first(x))))
        return torch.log_softmax(self.output(maps.flatten(1)), 1)


class Words(torch.nn.Module):
    """A recurrent network both ways, its mean, linear, log-softmax: [N,S,E] to 4 classes."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.GRU(5, 7, bidirectional=True, batch_first=True)
        self.output = torch.nn.Linear(14, 4)

    def forward(self, x):
        return torch.log_softmax(self.output(torch.tanh(self.net(x)[0]).mean(1)), 1)


def rounded(network):
    network.double()
    for p in network.parameters():
        p.data = (torch.randn_like(p) * 0.5).float().double()
    return network


def case(name, network, shape, target):
    x = torch.randn(1, *shape).float().double()
    blank = (torch.randn(1, *shape) * 0.1).float().double()
    out = {f"{name}/weights/{k}": p.data for k, p in network.named_parameters()}
    out |= {f"{name}/x": x[0], f"{name}/blank": blank[0], f"{name}/y": network(x)[0].detach()}
    x.requires_grad_()
    out[f"{name}/plain"] = Saliency(network).attribute(x, target=target, abs=False)[0]
    out[f"{name}/times_input"] = InputXGradient(network).attribute(x, target=target)[0]
    out[f"{name}/integrated"] = IntegratedGradients(network).attribute(
        x, baselines=blank, target=target, n_steps=400)[0]
    if name == "pictures":
        cam = LayerGradCam(network, network.maps)
        out[f"{name}/gradcam"] = cam.attribute(x, target=target, relu_attributions=True)[0, 0]
        own = LayerGradientXActivation(network, network.maps)
        out[f"{name}/gradcam_places"] = own.attribute(x, target=target)[0].sum(0).relu()
    return out


tensors = case("pictures", rounded(Pictures()), (2, 8, 8), 1)
tensors |= case("words", rounded(Words()), (9, 5), 2)
save_file({k: v.detach().float().contiguous() for k, v in tensors.items()}, sys.argv[1])
