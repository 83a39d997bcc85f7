"""jax: jax.nn.dot_product_attention, compiled by XLA."""

import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from common import Peer  # noqa: E402


def dot(case):
    def context(q, k, v):
        heads_last = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]  # [B,L,H,D] is what it takes
        return jnp.swapaxes(jax.nn.dot_product_attention(
            *heads_last, is_causal=case["mask"] == "causal"), 1, 2)
    return context


def prepare(path, case, both, inputs):
    call = dot(case)
    q, k, v, d_context = (jnp.asarray(inputs[x]) for x in ("q", "k", "v", "d_context"))

    def with_gradients(q, k, v, d_context):
        context, backward = jax.vjp(call, q, k, v)
        return context, *backward(d_context)

    if both:
        compiled, arguments = jax.jit(with_gradients), (q, k, v, d_context)
    else:
        compiled, arguments = jax.jit(lambda q, k, v: (call(q, k, v),)), (q, k, v)

    def step():
        return jax.block_until_ready(compiled(*arguments))

    def outputs_of(result):
        return dict(zip(("context", "d_q", "d_k", "d_v"), map(np.asarray, result)))

    return step, outputs_of


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(jax.__version__)
    else:
        Peer(prepare, jax.clear_caches).serve()
