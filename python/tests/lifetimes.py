"""Objects dropped in random order, and some alive when the interpreter ends.

    python lifetimes.py [OBJECTS]      10,000 unless said

What is left in memory afterwards is an error; under AddressSanitizer (`./dev check python`) so is
memory that is read when it is gone, and at the end whatever of the engine's nobody can reach."""

import gc
import random
import sys

import numpy as np

import fovea

try:
    import torch

    import fovea.torch
except ImportError:
    torch = None


def array(rng, *shape):
    return np.asarray([rng.gauss(0, 1) for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)


def numpy_call(rng):
    length = rng.randrange(1, 9)
    x = array(rng, 1, 2, length, 8)
    masks = {"": {}, "causal": {}, "lengths": {"lengths": [max(1, length - 1)]}}
    mask = rng.choice(list(masks))
    return fovea.attend(x[:, :, ::-1], x, x.copy(), mask=mask, weighting=rng.choice(["softmax", "sparsemax"]),
                        **masks[mask])


def looks(found):
    """What outlives the result it came from."""
    yield found.context
    yield found.context[0, :, :1]
    yield found.weights(heads=0)
    yield found.top(1)
    yield found.lse
    yield found.entropy()


def torch_call(rng):
    x = torch.from_numpy(array(rng, 1, 2, rng.randrange(1, 9), 8)).requires_grad_(rng.random() < 0.7)
    return fovea.attend(x, x * 0.5, x, score=rng.choice(["scaled_dot", "cosine"]))


def backward(found):
    if found.context.requires_grad:
        found.context.square().sum().backward()


def refused(rng):
    """A call that fails keeps nothing."""
    x = array(rng, 1, 1, 3, 8)
    try:
        fovea.attend(x, x[..., :5], x)
    except ValueError as error:
        return str(error)
    raise AssertionError("q of width 8 and k of width 5 went through")


def objects(rng):
    """One call's, in the order they were made."""
    kind = rng.random()
    if kind < 0.05:
        yield refused(rng)
    elif torch is None or kind < 0.5:
        found = numpy_call(rng)
        yield found
        yield from looks(found)
    else:
        found = torch_call(rng)
        yield found
        if rng.random() < 0.5:
            backward(found)
        yield from looks(found)


def total(x):
    """Reads all of it: memory that is gone shows."""
    if isinstance(x, fovea.Top):
        return total(x.weights) + total(x.keys)
    if isinstance(x, fovea.Attended):
        return total(x.context)
    if torch is not None and isinstance(x, torch.Tensor):
        x = x.detach()
    return 0.0 if isinstance(x, str) else float(x.sum())


def churn(rng, count):
    """Makes `count` objects, with some hundreds alive at a time; each is read before it goes."""
    alive, made = [], 0
    while made < count:
        for one in objects(rng):
            alive.append(one)
            made += 1
        while len(alive) > 300:
            i = rng.randrange(len(alive))
            alive[i], alive[-1] = alive[-1], alive[i]
            assert np.isfinite(total(alive.pop()))
    rng.shuffle(alive)
    while alive:
        total(alive.pop())
    return made


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rng = random.Random(1)
    churn(rng, 200)  # what is made once, is
    gc.collect()
    before = fovea.memory_in_use()
    made = churn(rng, count)
    gc.collect()
    left = fovea.memory_in_use() - before
    if left != 0:
        sys.exit(f"lifetimes: {left} bytes of {made} objects are left")
    global at_the_end
    at_the_end = [one for _ in range(20) for one in objects(rng)]
    at_the_end.append(at_the_end)  # in a cycle, so that they go with the interpreter
    print(f"{made} objects, nothing left; {len(at_the_end) - 1} alive at the end"
          + ("" if torch else "; without torch"))


main()
