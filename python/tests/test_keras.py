"""fovea.keras, beside Keras's own layer."""

import os

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")

if keras.backend.backend() != "torch":
    pytest.skip("Keras has another backend here", allow_module_level=True)

from fovea.keras import AdditiveAttention


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_additive_attention_is_that_of_keras(scale, causal, masked):
    q, v, k = torch.randn(2, 5, 8), torch.randn(2, 7, 8), torch.randn(2, 7, 8)
    theirs, ours = keras.layers.AdditiveAttention(use_scale=scale), AdditiveAttention(use_scale=scale)
    mask = None
    if masked:
        mask = [torch.arange(5)[None] < torch.tensor([[5], [3]]), torch.arange(7)[None] < torch.tensor([[7], [4]])]
    for inputs in ([q, v], [q, v, k]):
        theirs(inputs), ours(inputs)
        ours.set_weights(theirs.get_weights())
        named = dict(mask=mask, use_causal_mask=causal, return_attention_scores=True)
        for a, b in zip(ours(inputs, **named), theirs(inputs, **named)):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert ours.get_config().keys() == theirs.get_config().keys()


def test_it_learns():
    q = keras.Input((5, 8))
    model = keras.Model(q, keras.layers.Dense(1)(AdditiveAttention()([q, q])))
    model.compile("adam", "mse")
    x = keras.random.normal((32, 5, 8))
    y = keras.ops.mean(x, -1, keepdims=True)
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, epochs=20, verbose=0)
    assert model.evaluate(x, y, verbose=0) < before
