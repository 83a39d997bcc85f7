"""fovea.torch's modules, beside PyTorch's own and the formulas."""

import pytest

torch = pytest.importorskip("torch")

import fovea
import fovea.torch
from torch import nn


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("dims", [dict(), dict(kdim=12, vdim=10)])
@pytest.mark.parametrize("average", [False, True])
def test_multihead_attention_is_that_of_torch(batch_first, dims, average):
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(32, 4, batch_first=batch_first, **dims)
    ours = fovea.torch.MultiheadAttention(32, 4, batch_first=batch_first, **dims)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    shape = (3, 7) if batch_first else (7, 3)
    q, k, v = (torch.randn(*shape, n) for n in (32, dims.get("kdim", 32), dims.get("vdim", 32)))
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = True
    causal = nn.Transformer.generate_square_subsequent_mask(7)
    for named in (dict(), dict(key_padding_mask=padding), dict(attn_mask=causal), dict(attn_mask=causal.isinf()),
                  dict(attn_mask=causal, is_causal=True), dict(attn_mask=causal.isinf(), key_padding_mask=padding),
                  dict(attn_mask=torch.rand(12, 7, 7) < 0.3)):
        right, w = theirs(q, k, v, average_attn_weights=average, **named)
        found, x = ours(q, k, v, average_attn_weights=average, **named)
        torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(x, w, atol=1e-5, rtol=1e-5)
    assert ours(q, k, v, need_weights=False)[1] is None


def test_without_a_batch():
    theirs = nn.MultiheadAttention(16, 2)
    ours = fovea.torch.MultiheadAttention(16, 2)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 16)
    for a, b in zip(ours(x, x, x), theirs(x, x, x)):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("score", sorted(one["name"] for one in fovea.scores()))
@pytest.mark.parametrize("weighting", ["softmax", "entmax15"])
def test_any_score_and_weighting_learns(score, weighting):
    model = fovea.torch.MultiheadAttention(16, 2, batch_first=True, score=score, weighting=weighting, mask="causal")
    x = torch.randn(2, 6, 16)
    y, w = model(x, x, x)
    assert y.shape == x.shape and w.shape == (2, 6, 6) and w.triu(1).abs().max() == 0
    y.square().sum().backward()
    used = [name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0]
    assert {n for n, _ in model.named_parameters() if n.startswith("score_")} <= set(used) | {
        "score_b"} if score != "additive" else "score_u" in used
    assert torch.isfinite(y).all()


def test_additive_attention():
    torch.manual_seed(2)
    model = fovea.torch.AdditiveAttention(6, 8, 10, mask="lengths")
    q, k, v = torch.randn(2, 3, 6), torch.randn(2, 5, 8), torch.randn(2, 5, 4)
    lengths = torch.tensor([5, 2])
    found = model(q, k, v, lengths=lengths)
    s = torch.tanh(model.query(q).unsqueeze(2) + model.key(k).unsqueeze(1)) @ model.u
    s = s.masked_fill(torch.arange(5) >= lengths.view(2, 1, 1), float("-inf"))
    right = s.softmax(-1) @ v
    torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-5)
    a = torch.autograd.grad(found.sum(), list(model.parameters()))
    b = torch.autograd.grad(right.sum(), list(model.parameters()))
    for x, y in zip(a, b):
        torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)
    assert model.attend(q, k, v, lengths=lengths).weights().shape == (2, 3, 5)


def test_hard_attention_learns_where_to_look():
    """One of eight keys is marked; the reward is to have chosen it."""
    torch.manual_seed(3)
    hard = fovea.torch.HardAttention()
    project = nn.Linear(8, 8)
    query = nn.Parameter(torch.randn(1, 1, 8) * 0.1)
    optimizer = torch.optim.Adam([*project.parameters(), query], 0.02)
    rewards = []
    for step in range(150):
        marked = torch.randint(0, 8, (64,))
        keys = torch.randn(64, 8, 8) * 0.3
        keys[torch.arange(64), marked, 0] += 2
        found = hard(query.expand(64, 1, 8), project(keys), keys)
        reward = (found.chosen[:, 0] == marked).float()
        loss = hard.loss(found, reward, entropy=0.01)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rewards.append(float(reward.mean()))
    assert sum(rewards[:10]) / 10 < 0.4 and sum(rewards[-10:]) / 10 > 0.8, rewards[::10]
    hard.eval()
    assert torch.equal(hard(query, keys[:1], keys[:1]).chosen, hard(query, keys[:1], keys[:1]).chosen)


def test_bad_numbers_are_said():
    with pytest.raises(ValueError, match="does not divide"):
        fovea.torch.MultiheadAttention(10, 3)
    with pytest.raises(ValueError, match="there is no score"):
        fovea.torch.MultiheadAttention(8, 2, score="dott")
