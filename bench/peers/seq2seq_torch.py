"""The translator of include/fovea/seq2seq.h in PyTorch, eager: Bahdanau's order, GRU cells,
additive attention. It answers what bench/translate.cc answers, one JSON request a line:

  {"load": {"vocabulary": V, "embedding": E, "hidden": H, "weights": FILE, "batches": FILE}}
  {"train": {"from": 0, "steps": 5}}       one step for each of these batches
  {"decode": {"from": 0, "count": 5, "longest": 30}}    sentences of the first batch, one at a time
"""

import os
import time

import torch
import torch.nn.functional as F
from torch import nn

from common import ModelPeer, tensors

BEGIN, END = 2, 3

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class Attention(nn.Module):
    """u·tanh(W_q s + b + W_k h_j); the keys W_k h_j are projected once a sentence."""

    def __init__(self, query, key, width):
        super().__init__()
        self.w_q = nn.Linear(query, width)
        self.w_k = nn.Linear(key, width, bias=False)
        self.u = nn.Linear(width, 1, bias=False)

    def forward(self, state, keys, values):  # [B,H], [B,S,A], [B,S,2H] → [B,2H]
        scores = self.u(torch.tanh(self.w_q(state).unsqueeze(1) + keys)).squeeze(2)  # [B,S]
        return torch.bmm(torch.softmax(scores, 1).unsqueeze(1), values).squeeze(1)


class Translator(nn.Module):
    def __init__(self, vocabulary, embedding, hidden):
        super().__init__()
        self.source = nn.Embedding(vocabulary, embedding)
        self.target = nn.Embedding(vocabulary, embedding)
        self.encoder = nn.GRU(embedding, hidden, bidirectional=True)
        self.initial = nn.Linear(2 * hidden, hidden)
        self.attention = Attention(hidden, 2 * hidden, hidden)
        self.decoder = nn.GRUCell(embedding + 2 * hidden, hidden)
        self.readout = nn.Linear(hidden + 2 * hidden + embedding, hidden)
        self.output = nn.Linear(hidden, vocabulary)

    def encode(self, source):  # i64 [S,B]
        sequence, last = self.encoder(self.source(source))  # [S,B,2H], [2,B,H]
        state = torch.tanh(self.initial(torch.cat((last[0], last[1]), 1)))
        values = sequence.transpose(0, 1).contiguous()  # [B,S,2H]
        return state, self.attention.w_k(values), values

    def forward(self, source, target_in):  # i64 [S,B], [T,B] → [T,B,V]
        state, keys, values = self.encode(source)
        words = self.target(target_in)  # [T,B,E]
        states, contexts = [], []
        for word in words:
            context = self.attention(state, keys, values)
            state = self.decoder(torch.cat((word, context), 1), state)
            states.append(state)
            contexts.append(context)
        read = torch.cat((torch.stack(states), torch.stack(contexts), words), 2)
        return self.output(torch.tanh(self.readout(read)))

    @torch.no_grad()
    def greedy(self, source, longest):  # i64 [S,1]
        state, keys, values = self.encode(source)
        token, tokens = torch.tensor([BEGIN], device=source.device), []
        for _ in range(longest):
            word = self.target(token)
            context = self.attention(state, keys, values)
            state = self.decoder(torch.cat((word, context), 1), state)
            read = torch.cat((state, context, word), 1)
            token = self.output(torch.tanh(self.readout(read))).argmax(1)
            if token.item() == END:
                break
            tokens.append(token.item())
        return tokens


# Where it stands in the file, and here.
NAMES = {"initial.0.weight": "initial.weight", "initial.0.bias": "initial.bias",
         "score.w_q": "attention.w_q.weight", "score.b": "attention.w_q.bias",
         "score.w_k": "attention.w_k.weight", "score.u": "attention.u.weight",
         "decoder.0.weight_ih": "decoder.weight_ih", "decoder.0.weight_hh": "decoder.weight_hh",
         "decoder.0.bias_ih": "decoder.bias_ih", "decoder.0.bias_hh": "decoder.bias_hh"}


class Translation(ModelPeer):
    def __init__(self):
        super().__init__()
        self.model = self.batches = self.optimizer = None
        self.graph = self.inputs = self.loss = None

    def load(self, options):
        model = Translator(options["vocabulary"], options["embedding"], options["hidden"])
        arrays = {NAMES.get(name, name): torch.from_numpy(array.copy())
                  for name, array in tensors.load(options["weights"]).items()}
        arrays["attention.u.weight"] = arrays["attention.u.weight"].unsqueeze(0)
        model.load_state_dict(arrays)
        device = options.get("device", "cpu")
        model.to(device)
        self.model, self.optimizer = model, torch.optim.Adam(
            model.parameters(), lr=1e-3, fused=options.get("fused", True),
            capturable=options.get("graph", False))
        self.batches = {name: torch.from_numpy(array.copy()).to(device)
                        for name, array in tensors.load(options["batches"]).items()}
        if options.get("graph", False):
            self.capture()
        return {"threads": torch.get_num_threads()}

    def compute(self, source, target_in, target_out):
        self.optimizer.zero_grad()
        logits = self.model(source, target_in)
        loss = F.cross_entropy(logits.flatten(0, 1), target_out.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def batch(self, number):
        return [self.batches[name][number] for name in ("source", "target_in", "target_out")]

    def capture(self):
        """A whole step as a CUDA graph. What the steps before it change is put back."""
        self.inputs = [x.clone() for x in self.batch(0)]
        before = [p.detach().clone() for p in self.model.parameters()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.compute(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.compute(*self.inputs)
        with torch.no_grad():
            for weight, value in zip(self.model.parameters(), before):
                weight.copy_(value)
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()

    def step(self, number):
        if self.graph is None:
            return self.compute(*self.batch(number)).item()
        for to, value in zip(self.inputs, self.batch(number)):
            to.copy_(value)
        self.graph.replay()
        return self.loss.item()

    def decode(self, options):
        tokens, ns = [], []
        for row in range(options["from"], options["from"] + options["count"]):
            source = self.batches["source"][0][:, row:row + 1].contiguous()
            start = time.perf_counter_ns()
            tokens.append(self.model.greedy(source, options["longest"]))
            ns.append(time.perf_counter_ns() - start)
        return {"tokens": tokens, "ns": ns}


if __name__ == "__main__":
    Translation.main(torch.__version__)
