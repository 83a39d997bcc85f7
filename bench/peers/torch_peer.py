"""PyTorch: its fused kernel (sdpa), the formula written out (eager), and that compiled."""

import math
import os
import sys

import torch
import torch._dynamo
import torch.nn.functional as F

from common import Peer

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch._dynamo.config.recompile_limit = 64


def sdpa(case):
    causal, grouped = case["mask"] == "causal", case["H"] != case["Hk"]

    def context(t):
        return {"context": F.scaled_dot_product_attention(t["q"], t["k"], t["v"], is_causal=causal,
                                                          enable_gqa=grouped)}
    return context


def probabilities(q, k, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return torch.softmax(scores, -1)


def dot(case):
    B, H, Hk, Lq, Lk = (case[x] for x in ("B", "H", "Hk", "Lq", "Lk"))
    mask = None
    if case["mask"] == "causal":
        mask = torch.ones(Lq, Lk, dtype=torch.bool).triu(1 + Lk - Lq)

    def context(t):
        # Queries that share a key head become rows of one product: far faster than repeating keys.
        q = t["q"].reshape(B, Hk, (H // Hk) * Lq, -1)
        weights = probabilities(q, t["k"], mask)
        result = {"context": torch.matmul(weights, t["v"]).reshape(B, H, Lq, -1)}
        if case["weights"]:
            result["weights"] = weights.reshape(B, H, Lq, Lk)
        return result
    return context


def additive(case):
    def context(t):
        a, kappa = t["q"], t["k"]
        if case["score"] == "additive":
            a, kappa = F.linear(a, t["w_q"], t["b"]), F.linear(kappa, t["w_k"])
        scores = torch.matmul(torch.tanh(a.unsqueeze(3) + kappa.unsqueeze(2)), t["u"])
        return {"context": torch.matmul(torch.softmax(scores, -1), t["v"])}
    return context


def sample(case):
    def context(t):
        scores = torch.matmul(t["q"], t["k"].transpose(-1, -2)) * (1 / math.sqrt(case["D"]))
        log_p = torch.log_softmax(scores, -1)
        p = log_p.detach().exp().flatten(0, 2)
        chosen = torch.multinomial(p, 1).view(*log_p.shape[:3], 1)
        picked = torch.gather(t["v"], 2, chosen.expand(-1, -1, -1, case["Dv"]))
        return {"context": picked, "log_prob": torch.gather(log_p, -1, chosen).squeeze(-1),
                "chosen": chosen.squeeze(-1)}
    return context


def function(path, case):
    if path == "sdpa":
        return sdpa(case)
    if case["weighting"] == "sample":
        made = sample(case)
    elif case["A"]:
        made = additive(case)
    else:
        made = dot(case)
    return torch.compile(made, dynamic=False, fullgraph=True) if path == "compiled" else made


def prepare(path, case, both, inputs, kind="f32"):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
    tensors = {name: torch.from_numpy(array).to(dtype) for name, array in inputs.items()}
    d_context, d_log_prob = tensors.pop("d_context"), tensors.pop("d_log_prob", None)
    call = function(path, case)
    if both:
        for t in tensors.values():
            t.requires_grad_()

    def forward():
        with torch.inference_mode():
            return call(tensors)

    def forward_backward():
        for t in tensors.values():
            t.grad = None
        result = call(tensors)
        if d_log_prob is None:
            result["context"].backward(d_context)
        else:
            torch.autograd.backward([result["context"], result["log_prob"]],
                                    [d_context, d_log_prob])
        return result

    def outputs_of(result):
        def plain(t):
            t = t.detach().contiguous()
            return (t.float() if t.dtype == torch.bfloat16 else t).numpy()
        outputs = {k: plain(v) for k, v in result.items()
                   if k != "log_prob"}
        if both:
            outputs |= {"d_" + k: plain(t.grad) for k, t in tensors.items()}
        return outputs

    return (forward_backward if both else forward), outputs_of


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__)
    else:
        Peer(prepare, torch._dynamo.reset).serve()
