"""Writes golden/seq2seq.safetensors: translators written down in PyTorch, float64, with the loss and
the gradients of all weights, over sentences of several lengths.

    python3 make_golden.py golden/seq2seq.safetensors

Weights are rounded to float32, so that they reach the tests exactly.
"""

import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

V, E = 11, 4
SOURCE = [[5, 9, 4, 7, 3], [10, 4, 4, 8, 6, 9, 3], [7, 6, 3]]
TARGET = [[4, 8, 10, 5, 9, 3], [6, 7, 4, 3], [9, 3]]
GATES = {"gru": 3, "lstm": 4}
NETWORKS = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}

CASES = {
    "bahdanau_gru_additive": dict(H=6, cell="gru", layers=1, both=True, order="bahdanau",
                                  score="additive"),
    "luong_lstm_multiplicative_fed": dict(H=5, cell="lstm", layers=2, both=True, order="luong",
                                          score="multiplicative", fed=True, smoothing=0.1),
    "luong_gru_dot_local": dict(H=6, cell="gru", layers=1, both=True, order="luong", score="dot",
                                window=1),
    "fixed_gru": dict(H=5, cell="gru", layers=2, both=False, order="bahdanau", score=None),
}


def padded(sentences):
    longest = max(map(len, sentences))
    return torch.tensor([s + [0] * (longest - len(s)) for s in sentences]).T.contiguous()


def shapes_of(c):
    H, G = c["H"], GATES[c["cell"]]
    C = 2 * H if c["both"] else H
    fed = 0 if c["order"] == "luong" else C
    if c.get("fed"):
        fed = H
    shapes = {"source.weight": (V, E), "target.weight": (V, E)}
    for l in range(c["layers"]):
        for way in ["", "_reverse"][: 2 if c["both"] else 1]:
            shapes[f"encoder.weight_ih_l{l}{way}"] = (G * H, E if l == 0 else C)
            shapes[f"encoder.weight_hh_l{l}{way}"] = (G * H, H)
            shapes[f"encoder.bias_ih_l{l}{way}"] = (G * H,)
            shapes[f"encoder.bias_hh_l{l}{way}"] = (G * H,)
        states = 2 if c["cell"] == "lstm" else 1
        shapes[f"initial.{l}.weight"] = (states * H, C)
        shapes[f"initial.{l}.bias"] = (states * H,)
        shapes[f"decoder.{l}.weight_ih"] = (G * H, E + fed if l == 0 else H)
        shapes[f"decoder.{l}.weight_hh"] = (G * H, H)
        shapes[f"decoder.{l}.bias_ih"] = (G * H,)
        shapes[f"decoder.{l}.bias_hh"] = (G * H,)
    if c["score"] == "additive":
        shapes |= {"score.w_q": (H, H), "score.w_k": (H, C), "score.u": (H,), "score.b": (H,)}
    if c["score"] == "multiplicative":
        shapes["score.w"] = (H, C)
    if c["score"] == "dot" and C != H:
        shapes["keys.weight"] = (H, C)
    shapes["readout.weight"] = (H, H + C + (E if c["order"] == "bahdanau" else 0))
    shapes["readout.bias"] = (H,)
    shapes["output.weight"] = (V, H)
    shapes["output.bias"] = (V,)
    return shapes


def encoder_of(c, w):
    network = NETWORKS[c["cell"]](E, c["H"], c["layers"], bidirectional=c["both"]).double()
    given = {k.removeprefix("encoder."): v for k, v in w.items() if k.startswith("encoder.")}
    lengths = torch.tensor([len(s) for s in SOURCE])
    packed = pack_padded_sequence(w["source.weight"][padded(SOURCE)], lengths,
                                  enforce_sorted=False)
    out, last = torch.func.functional_call(network, given, (packed,))
    h = last[0] if c["cell"] == "lstm" else last
    ways = 2 if c["both"] else 1
    h = h.view(c["layers"], ways, len(SOURCE), c["H"]).transpose(1, 2).flatten(2)
    return pad_packed_sequence(out)[0].transpose(0, 1), h, lengths  # [B,S,C], [layers,B,C]


def attend(c, w, q, states, lengths, t):
    """One query for each sentence: the scores, softmax over what may be seen, the sum."""
    if c["score"] == "additive":
        scores = torch.tanh((q @ w["score.w_q"].T)[:, None] + states @ w["score.w_k"].T
                            + w["score.b"]) @ w["score.u"]
    elif c["score"] == "multiplicative":
        scores = torch.einsum("bd,de,bse->bs", q, w["score.w"], states)
    else:
        scores = torch.einsum("bd,bsd->bs", q, states @ w["keys.weight"].T)
    j = torch.arange(states.shape[1])
    seen = j[None] < lengths[:, None]
    if "window" in c:
        seen = seen & ((j - t).abs() <= c["window"])[None]
    p = torch.softmax(scores.masked_fill(~seen, -torch.inf), 1)
    p = torch.where(seen.any(1)[:, None], p, torch.zeros(()).double())
    return (p[:, :, None] * states).sum(1)


def step(c, w, l, x, state):
    layer = [w[f"decoder.{l}.{part}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    if c["cell"] == "lstm":
        return torch.lstm_cell(x, state, *layer)
    return (torch.gru_cell(x, state[0], *layer),)


def loss_of(c, w):
    states, last, lengths = encoder_of(c, w)
    target_out = padded(TARGET)
    target_in = torch.cat([torch.full((1, len(TARGET)), 2), target_out[:-1]])
    decoder = []
    for l in range(c["layers"]):
        x = last[l] @ w[f"initial.{l}.weight"].T + w[f"initial.{l}.bias"]
        if c["cell"] == "lstm":
            decoder.append((torch.tanh(x[:, : c["H"]]), x[:, c["H"]:]))
        else:
            decoder.append((torch.tanh(x),))
    fed = torch.zeros(len(TARGET), c["H"]).double()
    logits = []
    for t, y in enumerate(w["target.weight"][target_in]):
        x = [y]
        if c["score"] is None:
            context = last[-1]
            x.append(context)
        elif c["order"] == "bahdanau":
            context = attend(c, w, decoder[-1][0], states, lengths, t)
            x.append(context)
        elif c.get("fed"):
            x.append(fed)
        x = torch.cat(x, 1)
        for l in range(c["layers"]):
            decoder[l] = step(c, w, l, x, decoder[l])
            x = decoder[l][0]
        if c["order"] == "luong":
            context = attend(c, w, x, states, lengths, t)
        read = [x, context] + ([y] if c["order"] == "bahdanau" else [])
        fed = torch.tanh(torch.cat(read, 1) @ w["readout.weight"].T + w["readout.bias"])
        logits.append(fed @ w["output.weight"].T + w["output.bias"])
    return F.cross_entropy(torch.stack(logits).flatten(0, 1), target_out.flatten(), ignore_index=0,
                           label_smoothing=c.get("smoothing", 0.0))


torch.manual_seed(11)
tensors = {"source": padded(SOURCE), "target_out": padded(TARGET),
           "source_lengths": torch.tensor([len(s) for s in SOURCE])}
for name, c in CASES.items():
    w = {k: (torch.randn(*s) * 0.5).float().double().requires_grad_()
         for k, s in shapes_of(c).items()}
    loss = loss_of(c, w)
    loss.backward()
    tensors[f"{name}/loss"] = loss.detach().reshape(())
    for k, p in w.items():
        tensors[f"{name}/weights/{k}"] = p.detach()
        tensors[f"{name}/gradients/{k}"] = p.grad
save_file({k: (v if v.dtype == torch.int64 else v.float()).contiguous()
           for k, v in tensors.items()}, sys.argv[1])
