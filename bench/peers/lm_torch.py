"""The decoder-only Transformer of include/fovea/transformer.h in PyTorch: learned positions, layer
norms before each part, GELU, the output layer tied to the embedding. It answers what bench/lm.cc
answers, one JSON request a line:

  {"load": {"blocks": 6, "width": 384, "heads": 6, "context": 256, "vocabulary": V,
            "weights": FILE, "batches": FILE, "compile": false}}
  {"train": {"from": 0, "steps": 5}}                  one step for each of these batches
  {"generate": {"prompt": [1, 2, 3], "count": 64}}    one sequence, greedily
"""

import os
import time

import torch
import torch.nn.functional as F
from torch import nn

from common import ModelPeer, tensors

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class Past:
    """Keys and values of one block, room for all of them taken at the start."""

    def __init__(self, heads, context, depth, device):
        self.keys, self.values = torch.empty(2, 1, heads, context, depth, device=device)

    def extended(self, keys, values, first):
        last = first + keys.shape[2]
        self.keys[:, :, first:last] = keys
        self.values[:, :, first:last] = values
        return self.keys[:, :, :last], self.values[:, :, :last]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.self_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inside, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, past=None, first=0):  # [B,T,W]
        B, T, W = x.shape
        q, k, v = (part.view(B, T, self.heads, W // self.heads).transpose(1, 2)
                   for part in self.inside(self.self_norm(x)).split(W, 2))
        if past is not None:
            k, v = past.extended(k, v, first)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        x = x + self.out(context.transpose(1, 2).reshape(B, T, W))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Decoder(nn.Module):
    def __init__(self, blocks, width, heads, context, vocabulary):
        super().__init__()
        self.context, self.heads, self.depth = context, heads, width // heads
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.tokens.weight

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.output(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.inference_mode()
    def generate(self, prompt, count):
        device = self.tokens.weight.device
        pasts = [Past(self.heads, self.context, self.depth, device) for _ in self.blocks]
        ids, first, tokens = torch.tensor([prompt], device=device), 0, []
        for _ in range(count):
            last = first + ids.shape[1]
            x = self.tokens(ids) + self.positions.weight[first:last]
            for block, past in zip(self.blocks, pasts):
                x = block(x, past, first)
            ids = self.output(self.norm(x[:, -1])).argmax(1, keepdim=True)
            first = last
            tokens.append(ids.item())
        return tokens


def named(name):
    """Where it stands in the file, and here."""
    for ours, theirs in (("decoder.norm", "norm"), ("decoder.positions", "positions.weight"),
                         ("decoder.", "blocks."), ("target.", "tokens."), (".self.in.", ".inside."),
                         (".self.out.", ".out."), (".mlp.", ".")):
        name = name.replace(ours, theirs)
    return name


class Language(ModelPeer):
    def __init__(self):
        super().__init__()
        self.model = self.loss = self.optimizer = self.ids = self.type = None

    def load(self, options):
        self.model = Decoder(*(options[x] for x in ("blocks", "width", "heads", "context",
                                                    "vocabulary")))
        arrays = {named(name): torch.from_numpy(array.copy())
                  for name, array in tensors.load(options["weights"]).items()}
        arrays["output.weight"] = arrays["tokens.weight"]
        self.model.load_state_dict(arrays)
        device = options.get("device", "cpu")
        self.model.to(device)
        self.type = options.get("type", "f32")
        if "batches" in options:
            self.ids = torch.from_numpy(tensors.load(options["batches"])["ids"].copy()).to(device)
            self.loss = torch.compile(self.model) if options.get("compile") else self.model
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, weight_decay=0.1,
                                               fused=True)
            self.loss_of(0).backward()
            self.optimizer.zero_grad()
        return {"threads": torch.get_num_threads()}

    def loss_of(self, number):
        ids = self.ids[number]
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.type == "bf16"):
            return self.loss(ids[:, :-1], ids[:, 1:])

    def step(self, number):
        self.optimizer.zero_grad()
        loss = self.loss_of(number)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def generate(self, options):
        start = time.perf_counter_ns()
        tokens = self.model.generate(options["prompt"], options["count"])
        return {"tokens": tokens, "ns": time.perf_counter_ns() - start}


if __name__ == "__main__":
    Language.main(torch.__version__)
