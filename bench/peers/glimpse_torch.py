"""The recurrent attention model of include/fovea/glimpse.h in PyTorch, eager. All patches of a scale
are gathered at once. It answers what bench/glimpse.cc answers, one JSON request a line:

  {"load": {"canvas": 60, "glimpses": 8, "sensor": 12, …, "weights": FILE, "batches": FILE}}
  {"train": {"from": 0, "steps": 5}}       one step for each of these batches
"""

import math
import os

import torch
import torch.nn.functional as F
from torch import nn

from common import ModelPeer, tensors

RATE, CLIP, REWARD, SIGMA = 1e-3, 5.0, 0.1, 0.1
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class Glimpses(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.size, self.scales, self.count = o["sensor"], o["scales"], o["glimpses"]
        self.hidden, self.is_lstm = o["hidden"], o["cell"] == "lstm"
        self.see = nn.Linear(self.scales * self.size ** 2, o["parts"])
        self.where = nn.Linear(2, o["parts"])
        self.join_seen = nn.Linear(o["parts"], o["hidden"])
        self.join_where = nn.Linear(o["parts"], o["hidden"], bias=False)
        self.core = CELLS[o["cell"]](o["hidden"], o["hidden"])
        self.locate, self.aim = nn.Linear(o["hidden"], o["locator"]), nn.Linear(o["locator"], 2)
        self.baseline = nn.Linear(o["hidden"], 1)
        self.output = nn.Linear(o["hidden"], 10)
        self.margin = self.size << (self.scales - 1)

    def sense(self, padded, places):  # [B,Y+2m,X+2m], [B,2] → [B,scales·size²]
        side = padded.shape[1] - 2 * self.margin
        rows, seen = torch.arange(len(places)).view(-1, 1, 1), []
        for scale in range(self.scales):
            wide = self.size << scale
            corner = torch.round((places + 1) / 2 * side - wide / 2).long() + self.margin
            reach = torch.arange(wide)
            y = (corner[:, 1:] + reach).unsqueeze(2)
            x = (corner[:, :1] + reach).unsqueeze(1)
            patch = padded[rows, y, x]
            seen.append(F.avg_pool2d(patch.unsqueeze(1), 1 << scale) if scale else patch)
        return torch.cat([s.flatten(1) for s in seen], 1)

    def forward(self, images, classes, noise):
        padded = F.pad(images, (self.margin,) * 4)
        state = torch.zeros(len(images), self.hidden)
        state = (state, torch.zeros_like(state)) if self.is_lstm else state
        place = torch.zeros(len(images), 2)
        log_probs, guesses = [], []
        for t in range(self.count):
            seen = F.relu(self.see(self.sense(padded, place)))
            glimpse = F.relu(self.join_seen(seen) + self.join_where(F.relu(self.where(place))))
            state = self.core(glimpse, state)
            h = state[0] if self.is_lstm else state
            if t + 1 < self.count:
                mean = torch.tanh(self.aim(F.relu(self.locate(h.detach()))))
                drawn = (mean + SIGMA * noise[t]).detach()
                log_probs.append((-0.5 * ((drawn - mean) / SIGMA) ** 2).sum(1)
                                 - math.log(2 * math.pi * SIGMA ** 2))
                guesses.append(self.baseline(h.detach()).squeeze(1))
                place = drawn.clamp(-1, 1)
        logits = self.output(h)
        right = (logits.detach().argmax(1) == classes).float()
        off = right - torch.stack(guesses)
        terms = (off ** 2).sum() - REWARD * (off.detach() * torch.stack(log_probs)).sum()
        return F.cross_entropy(logits, classes) + terms / len(images)


class Viewing(ModelPeer):
    def __init__(self):
        super().__init__()
        self.model = self.optimizer = self.batches = None

    def load(self, options):
        self.model = Glimpses(options)
        self.model.load_state_dict({name.replace("join.", "join_"): torch.from_numpy(array.copy())
                                    for name, array in tensors.load(options["weights"]).items()})
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE, fused=True)
        self.batches = {name: torch.from_numpy(array.copy())
                        for name, array in tensors.load(options["batches"]).items()}
        self.loss_of(0).backward()
        self.optimizer.zero_grad()
        return {"threads": torch.get_num_threads()}

    def loss_of(self, number):
        return self.model(*(self.batches[x][number] for x in ("images", "classes", "noise")))

    def step(self, number):
        self.optimizer.zero_grad()
        loss = self.loss_of(number)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    Viewing.main(torch.__version__)
