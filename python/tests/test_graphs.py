"""torch.compile, export, checkpointing, vmap and autocast."""

import copy
import shutil

import pytest

torch = pytest.importorskip("torch")

import fovea
import fovea.torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads, score, dropout=0.0):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads = fovea.torch.MultiheadAttention(width, heads, batch_first=True, score=score, mask="causal",
                                                    dropout=dropout)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        y = self.one(x)
        x = x + self.heads(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.two(x))


class Model(nn.Module):
    def __init__(self, layers=4, width=32, heads=4, score="additive", symbols=11, dropout=0.0):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.places = nn.Parameter(torch.randn(64, width) * 0.1)
        self.blocks = nn.Sequential(*(Block(width, heads, score, dropout) for _ in range(layers)))
        self.out = nn.Linear(width, symbols)

    def forward(self, ids):
        return self.out(self.blocks(self.embed(ids) + self.places[:ids.shape[1]]))


def losses(model, forward, steps):
    """A sequence, then the same sequence: what comes is read off what was."""
    g = torch.Generator().manual_seed(4)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    found = []
    for _ in range(steps):
        half = torch.randint(0, 11, (8, 8), generator=g)
        ids = torch.cat([half, half], 1)
        loss = nn.functional.cross_entropy(forward(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss))
    return found


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")
def test_four_layers_compiled_learn_as_eager_ones():
    torch.manual_seed(0)
    eager = Model()
    compiled = copy.deepcopy(eager)
    torch._dynamo.reset()
    forward = torch.compile(compiled, fullgraph=True)
    right = losses(eager, eager, 50)
    found = losses(compiled, forward, 50)
    assert max(abs(a - b) for a, b in zip(found, right)) < 1e-4, list(zip(found, right))
    assert right[-1] < right[0]


def test_no_graph_breaks_and_dynamic_lengths():
    torch._dynamo.reset()
    model = Model(layers=1)
    explained = torch._dynamo.explain(model)(torch.randint(0, 11, (2, 9)))
    assert explained.graph_break_count == 0 and explained.graph_count == 1
    torch._dynamo.reset()
    forward = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (5, 9, 13):
        ids = torch.randint(0, 11, (2, length))
        torch.testing.assert_close(forward(ids), model(ids), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("named", [dict(score="cosine", weighting="sparsemax"), dict(mask="causal+window:2,0"),
                                   dict(weighting="sample", seed=3)])
def test_attend_itself_is_compiled(named):
    torch._dynamo.reset()
    q = torch.randn(2, 3, 5, 8, requires_grad=True)

    def f(q):
        found = fovea.attend(q, q, q, **named)
        return found.context.sum() + found.weights(rows=0).square().sum() + found.lse.sum()

    forward = torch.compile(f, fullgraph=True, backend="aot_eager")
    right = f(q)
    d, = torch.autograd.grad(right, q)
    found = forward(q)
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(torch.autograd.grad(found, q)[0], d, atol=1e-5, rtol=1e-5)


def test_dropout_in_a_graph_is_drawn_anew():
    torch._dynamo.reset()
    model = fovea.torch.MultiheadAttention(16, 2, dropout=0.5, batch_first=True)
    forward = torch.compile(lambda x: model(x, x, x, need_weights=False)[0], fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 6, 16)
    a, b = forward(x), forward(x)
    assert not torch.equal(a, b)
    model.eval()
    torch.testing.assert_close(model(x, x, x)[0], model(x, x, x)[0])


def test_export():
    model = Model(layers=2).eval()
    ids = torch.randint(0, 11, (2, 9))
    length = torch.export.Dim("length", min=2, max=64)
    exported = torch.export.export(model, (ids,), dynamic_shapes=({1: length},))
    assert any("fovea.attend" in str(node.target) for node in exported.graph.nodes)
    other = torch.randint(0, 11, (2, 5))
    torch.testing.assert_close(exported.module()(other), model(other), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_checkpointing(dropout):
    from torch.utils.checkpoint import checkpoint

    model = Model(layers=2, dropout=dropout)
    ids = torch.randint(0, 11, (2, 9))
    x = model.embed(ids).detach().requires_grad_()

    def gradient(run):
        torch.manual_seed(3)
        return torch.autograd.grad(run(x).square().sum(), x)[0]

    torch.testing.assert_close(gradient(lambda x: checkpoint(model.blocks, x, use_reentrant=False)),
                               gradient(model.blocks), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("dims", [(0, 0, 0), (1, None, None), (0, 0, None)])
def test_vmap(rank, dims):
    shape = {2: (5, 8), 3: (2, 5, 8), 4: (2, 3, 5, 8)}[rank]
    qkv = [torch.randn(shape) if d is None else torch.randn(*shape[:d], 4, *shape[d:]) for d in dims]

    def f(q, k, v):
        return fovea.attend(q, k, v, mask="causal").context

    found = torch.vmap(f, in_dims=dims)(*qkv)
    right = torch.stack([f(*(x if d is None else x.select(d, i) for x, d in zip(qkv, dims))) for i in range(4)])
    torch.testing.assert_close(found, right)


def test_autocast():
    layer = nn.Linear(16, 48)
    x = torch.randn(2, 5, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        q, k, v = layer(x).chunk(3, -1)
        assert q.dtype == torch.bfloat16
        context = fovea.attend(q, k, v).context
    assert context.dtype == torch.float32
    torch.testing.assert_close(context, fovea.attend(q.float(), k.float(), v.float()).context)
    context.sum().backward()
    assert layer.weight.grad.abs().sum() > 0
