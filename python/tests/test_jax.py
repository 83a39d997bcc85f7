"""fovea.jax, beside the same formulas in JAX."""

import pytest

np = pytest.importorskip("numpy")
jax = pytest.importorskip("jax")

import fovea
import fovea.jax as fj
import jax.numpy as jnp


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def theirs(q, k, v, u=None):
    s = jnp.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5 if u is None else jnp.tanh(
        q[:, :, :, None] + k[:, :, None]) @ u
    s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
    return jax.nn.softmax(s, -1) @ v


@pytest.mark.parametrize("jit", [False, True])
def test_values_and_gradients(jit):
    q, k, v, u, d = (*(normal(2, 3, 6, 8, seed=i) for i in range(3)), normal(8, seed=4), normal(2, 3, 6, 8, seed=5))

    def ours(q, k, v, u):
        return fj.attend(q, k, v, score="additive_keras", mask="causal", u=u)

    run = jax.jit if jit else lambda f: f
    np.testing.assert_allclose(run(ours)(q, k, v, u), theirs(q, k, v, u), atol=1e-5)
    for f in (ours, lambda q, k, v, u: fj.attend(q, k, v, mask="causal")):
        right = theirs if f is ours else lambda q, k, v, u: theirs(q, k, v)
        found = run(jax.grad(lambda *x: (f(*x) * d).sum(), (0, 1, 2)))(q, k, v, u)
        wanted = jax.grad(lambda *x: (right(*x) * d).sum(), (0, 1, 2))(q, k, v, u)
        for a, b in zip(found, wanted):
            np.testing.assert_allclose(a, b, atol=1e-4)


def test_lengths_and_hard_weightings():
    q = normal(2, 1, 5, 4)
    lengths = jnp.asarray([2, 5])
    found = fj.attend(q, q, q, mask="lengths", lengths=lengths)
    right = fovea.attend(*(np.asarray(q),) * 3, mask="lengths", lengths=[2, 5])
    np.testing.assert_allclose(found, right.context, atol=1e-6)
    drawn = jax.grad(lambda v: fj.attend(q, q, v, weighting="sample", seed=3).sum())(q)
    assert np.isclose(drawn.sum(), q.size)


def test_arrays_of_jax_by_dlpack():
    q = normal(2, 1, 5, 4)
    found = fovea.attend(q, q, q)
    assert isinstance(found.context, jax.Array)
    np.testing.assert_allclose(found.context, fj.attend(q, q, q), atol=1e-6)


def test_bad_use_is_said():
    with pytest.raises(Exception, match="k has D=5, q has D=4"):
        fj.attend(normal(1, 1, 3, 4), normal(1, 1, 3, 5), normal(1, 1, 3, 4)).block_until_ready()


def test_vmap():
    q = normal(3, 2, 5, 4)
    found = jax.vmap(lambda x: fj.attend(x, x, x))(q)
    np.testing.assert_allclose(found, jnp.stack([fj.attend(x, x, x) for x in q]), atol=1e-6)
