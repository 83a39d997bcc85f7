"""attend() on NumPy's arrays and on anything with DLPack."""

import gc
import random
import subprocess
import sys
import textwrap
import threading

import pytest

import fovea
from fovea import _engine

np = pytest.importorskip("numpy")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def qkv(B=2, H=4, L=9, D=8, Hk=None):
    return normal(B, H, L, D, seed=1), normal(B, Hk or H, L, D, seed=2), normal(B, Hk or H, L, D, seed=3)


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def expected(q, k, v, causal=False):
    s = q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    w = softmax(s)
    return w @ v, w, s


def test_context_weights_lse_entropy_top():
    q, k, v = qkv()
    found = fovea.attend(q, k, v, mask="causal")
    context, w, s = expected(q, k, v, causal=True)
    np.testing.assert_allclose(found.context, context, atol=1e-5)
    np.testing.assert_allclose(found.weights(), w, atol=1e-5)
    np.testing.assert_allclose(found.weights(heads=1, rows=[2, 5]), w[:, 1:2][:, :, [2, 5]], atol=1e-5)
    np.testing.assert_allclose(found.weights(rows=slice(-2, None)), w[:, :, -2:], atol=1e-5)
    np.testing.assert_allclose(found.lse, np.log(np.exp(s).sum(-1)), atol=1e-5)
    with np.errstate(all="ignore"):
        entropy = -np.nansum(np.where(w > 0, w * np.log(w), 0), -1)
    np.testing.assert_allclose(found.entropy(), entropy, atol=1e-5)
    top = found.top(3, heads=[0, 3])
    assert top.keys.dtype == np.int64 and top.keys.shape == (2, 2, 9, 3)
    np.testing.assert_allclose(top.weights, -np.sort(-w[:, [0, 3]])[..., :3], atol=1e-5)
    assert found.plan == "fused"
    assert type(found.context) is np.ndarray and found.context.flags.writeable


def test_ranks_two_and_three():
    q, k, v = (x[:, 0] for x in qkv())
    context, w, _ = expected(q, k, v)
    np.testing.assert_allclose(fovea.attend(q, k, v).context, context, atol=1e-5)
    found = fovea.attend(q[0], k[0], v[0])
    np.testing.assert_allclose(found.context, context[0], atol=1e-5)
    np.testing.assert_allclose(found.weights(rows=4), w[0][4:5], atol=1e-5)


@pytest.mark.parametrize("score", [one["name"] for one in fovea.scores()])
def test_strides_of_any_kind(score):
    q, k, v = qkv(L=6)
    sizes = {"A": 5, "A2": 4, "Dq": 8, "Dk": 8, "D": 8, "Dq+Dk": 16, "H?": 4, "Lmax": 11}
    named = {}
    for one in fovea.scores():
        for p in one["parameters"] if one["name"] == score else ():
            name, _, letters = p.partition(" ")
            named[name.rstrip("?")] = normal(*(sizes[x] for x in letters.strip("[]").split(",")), seed=7)
    plain = fovea.attend(q, k, v, score=score, **named).context
    split = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (q, k, v)]
    backwards = [np.ascontiguousarray(x[..., ::-1])[..., ::-1] for x in (q, k, v)]
    read_only = [x.copy() for x in (q, k, v)]
    for x in read_only:
        x.flags.writeable = False
    for other in (split, backwards, read_only):
        np.testing.assert_allclose(fovea.attend(*other, score=score, **named).context, plain, atol=2e-6)
    same = np.broadcast_to(k[:1, :1], k.shape)  # stride 0
    np.testing.assert_allclose(fovea.attend(q, same, v, score=score, **named).context,
                               fovea.attend(q, same.copy(), v, score=score, **named).context, atol=2e-6)


def test_masks_and_parameters():
    q, k, v = qkv()
    allowed = np.random.default_rng(5).random((2, 1, 9, 9)) < 0.6
    allowed[..., 0] = True
    context, _, s = expected(q, k, v)
    w = softmax(np.where(allowed, s, -np.inf))
    np.testing.assert_allclose(fovea.attend(q, k, v, mask=allowed).context, w @ v, atol=1e-5)
    by_name = fovea.attend(q, k, v, mask="matrix", parameters={"mask": allowed})
    np.testing.assert_array_equal(by_name.context, fovea.attend(q, k, v, mask=allowed).context)
    lengths = fovea.attend(q, k, v, mask="lengths", lengths=[3, 9])
    assert np.all(lengths.weights()[0, :, :, 3:] == 0)
    np.testing.assert_array_equal(
        lengths.context, fovea.attend(q, k, v, mask="lengths", lengths=np.int32([3, 9])).context)
    bias = normal(4, 9, 9, seed=8)
    np.testing.assert_allclose(fovea.attend(q, k, v, bias=bias).context, softmax(s + bias) @ v, atol=1e-5)


def test_hard_weightings():
    q, k, v = qkv()
    one = fovea.attend(q, k, v, weighting="sample", seed=3)
    np.testing.assert_array_equal(one.chosen, fovea.attend(q, k, v, weighting="sample", seed=3).chosen)
    assert np.any(one.chosen != fovea.attend(q, k, v, weighting="sample", seed=4).chosen)
    _, w, _ = expected(q, k, v)
    np.testing.assert_allclose(one.log_prob, np.log(np.take_along_axis(w, one.chosen[..., None], -1))[..., 0],
                               atol=1e-4)
    with pytest.raises(ValueError, match="chooses no key"):
        fovea.attend(q, k, v).chosen


def test_nothing_is_copied():
    B, H, L, D = 1, 8, 512, 512
    q, k, v = (normal(B, H, L, D, seed=i) for i in range(3))
    assert _engine.address_of(q) == q.ctypes.data
    fovea.attend(q, k, v)  # the kernels' scratch
    before = fovea.memory_in_use()
    fovea.reset_memory_peak()
    found = fovea.attend(q, k, v)
    context = found.context
    taken = fovea.memory_peak() - before
    assert taken < 2.3 * context.nbytes, (taken, context.nbytes)  # the context, and the kernels' panels of keys
    held = fovea.memory_in_use() - before
    assert held < 1.1 * context.nbytes, (held, context.nbytes)
    assert found.context is context
    q[:] = 0  # the array that went in is the one that is read
    assert np.all(np.isfinite(found.weights(rows=0)))


def test_an_array_outlives_everything_else():
    context = fovea.attend(*qkv()).context
    expected_context = context.copy()
    gc.collect()
    for _ in range(100):
        fovea.attend(*qkv())
    np.testing.assert_array_equal(context, expected_context)


def test_many_objects_dropped_in_any_order():
    dropped = random.Random(3)
    before = fovea.memory_in_use()
    alive = []
    q, k, v = qkv(B=1, H=1, L=4, D=4)
    for i in range(10000):
        found = fovea.attend(q.copy(), k, v)
        alive.append(found if i % 3 else found.context)
        if len(alive) > 200:
            alive.pop(dropped.randrange(len(alive)))
    alive.clear()
    del found
    gc.collect()
    assert fovea.memory_in_use() == before


class Elsewhere:
    """An array of another library, which knows DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_anything_with_dlpack():
    q, k, v = qkv()
    found = fovea.attend(Elsewhere(q), Elsewhere(k), Elsewhere(v))
    np.testing.assert_array_equal(found.context, fovea.attend(q, k, v).context)


@pytest.mark.parametrize("change, line", [
    (dict(q=[[1.0]]), r"\[attend\] q is a list, expected an array of float32"),
    (dict(k=None), r"\[attend\] k is a NoneType, expected"),
    (dict(q=np.zeros((2, 4, 9, 8))), r"q is a numpy.ndarray of float64, expected an array of float32"),
    (dict(v=np.zeros((2, 4, 9, 8), np.float16)), r"v is a numpy.ndarray of float16, expected"),
    (dict(k=np.zeros((2, 4, 9, 7), np.float32)), r"\[attend\] k has D=7, q has D=8"),
    (dict(v=np.zeros((2, 4, 8, 8), np.float32)), r"\[attend\] v has Lk=8, k has Lk=9"),
    (dict(score="aditive"), r'there is no score "aditive".*additive'),
    (dict(score="additive"), r"additive's w_q \[A,Dq\] is missing"),
    (dict(mask="window"), r'"window" needs a number'),
    (dict(weighting="softmax", temperature=0.0), r"temperature is 0"),
    (dict(softcap=-1.0), r"softcap is -1"),
    (dict(spam=np.zeros(3, np.float32)), r"takes no parameter spam; it takes"),
    (dict(dropout=1.5), r"dropout is 1.5"),
    (dict(plan="fast"), r'there is no plan "fast"'),
])
def test_bad_use_is_said_in_one_line(change, line):
    named = dict(zip("qkv", qkv()))
    named.update(change)
    with pytest.raises(ValueError, match=line) as error:
        fovea.attend(named.pop("q"), named.pop("k"), named.pop("v"), **named)
    assert "\n" not in str(error.value)


def test_unaligned_memory_is_refused():
    x = np.frombuffer(bytearray(4 * 16 + 1), np.float32, 16, offset=1).reshape(4, 4)
    with pytest.raises(ValueError, match="multiples of their size"):
        fovea.attend(x, x, x)


def test_other_picks_are_refused():
    found = fovea.attend(*qkv())
    with pytest.raises(ValueError, match="there is no head 4"):
        found.weights(heads=4)
    with pytest.raises(ValueError, match="nothing is picked"):
        found.weights(rows=[])
    with pytest.raises(ValueError, match="expected 0 to Lk=9"):
        found.top(10)


def test_threads_of_python_give_equal_bits():
    q, k, v = qkv(L=70, D=32)
    right = fovea.attend(q, k, v, mask="causal").context.tobytes()
    wrong = []

    def work():
        for _ in range(20):
            if fovea.attend(q, k, v, mask="causal").context.tobytes() != right:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def run_python(text):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_import_is_quick_and_loads_nobody():
    found = run_python("""
        import sys, time
        begun = time.perf_counter()
        import fovea
        took = time.perf_counter() - begun
        assert not {"torch", "numpy", "jax"} & set(sys.modules), set(sys.modules)
        print(took)
    """)
    assert float(found) < 0.5  # 0.02 s on a quiet machine


def test_interpreter_exit_while_arrays_live():
    run_python("""
        import atexit, fovea, numpy
        x = numpy.ones((1, 1, 4, 4), numpy.float32)
        alive = [fovea.attend(x, x, x) for _ in range(100)]
        arrays = [a.context for a in alive]
        cycle = [arrays]; cycle.append(cycle)
        atexit.register(lambda: arrays[3].sum())
    """)


def test_a_missing_package_is_said_in_a_line():
    found = run_python("""
        import sys
        sys.modules["torch"] = None
        import fovea
        try:
            fovea.torch
        except ImportError as error:
            print(error)
    """)
    assert found.strip() == "fovea.torch needs PyTorch 2.6 or newer: pip install torch"


def test_what_there_is():
    assert {"additive", "scaled_dot"} <= {one["name"] for one in fovea.scores()}
    assert {"causal", "window"} <= {one["name"] for one in fovea.masks()}
    assert {"softmax", "sparsemax"} <= {one["name"] for one in fovea.weightings()}
    assert fovea.__version__.count(".") == 2


def test_set_threads():
    before = fovea.threads()
    try:
        fovea.set_threads(1)
        assert fovea.threads() == 1
        with pytest.raises(ValueError, match="from 1 to 4096"):
            fovea.set_threads(0)
    finally:
        fovea.set_threads(before)


def test_answers_are_arrays_that_own_their_memory():
    q, k, v = (normal(2, 9, 3, 8, seed=i).transpose(0, 2, 1, 3) for i in range(3))
    found = fovea.attend(q, k, v)
    context, top = found.context, found.top(2)
    for array, dtype in ((context, np.float32), (top.weights, np.float32), (top.keys, np.int64)):
        assert type(array) is np.ndarray and array.dtype == dtype and array.dtype.isnative
        assert array.flags.writeable and array.flags.aligned and not array.flags.owndata
    assert context.strides == q.strides  # heads lie as the queries' do
    kept = context.copy()
    del found, top
    gc.collect()
    fovea.attend(k, q, v)  # may take memory that was given back
    assert (context == kept).all()
    context += 1
    assert (context == kept + 1).all()
    assert fovea.attend(np.ones((0, 2, 3, 4), np.float32), np.ones((0, 2, 3, 4), np.float32),
                        np.ones((0, 2, 3, 4), np.float32)).context.shape == (0, 2, 3, 4)
