"""Forks beside busy threads, workers of a DataLoader, and what lives until the end."""

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

np = pytest.importorskip("numpy")

import fovea

FORKS = int(os.environ.get("FOVEA_FORKS", "200"))  # 1000 for the whole test


def work():
    x = np.random.default_rng(1).standard_normal((2, 4, 40, 16), dtype=np.float32)
    return hashlib.sha256(fovea.attend(x, x, x, mask="causal").context.tobytes()).digest()


def test_forks_beside_busy_threads():
    """A child has none of the threads that held a lock when it was made."""
    right = work()
    stop = threading.Event()
    busy = [threading.Thread(target=lambda: [work() for _ in iter(stop.is_set, True)]) for _ in range(3)]
    for t in busy:
        t.start()
    try:
        wrong = 0
        for _ in range(FORKS):
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # a child that hangs dies of it
                try:
                    os._exit(7 if work() == right else 1)
                finally:
                    os._exit(2)
            _, status = os.waitpid(child, 0)
            wrong += not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7)
        assert wrong == 0
    finally:
        stop.set()
        for t in busy:
            t.join()


def test_workers_of_a_data_loader():
    torch = pytest.importorskip("torch")
    import fovea.torch

    class Attending(torch.utils.data.Dataset):
        def __len__(self):
            return 32

        def __getitem__(self, i):
            x = torch.full((1, 2, 30, 8), float(i)) + torch.arange(30.0).view(1, 1, 30, 1)
            return fovea.attend(x, x, x, mask="causal").context

    here = [Attending()[i] for i in range(32)]  # threads and scratch, before the workers are forked
    loader = torch.utils.data.DataLoader(Attending(), batch_size=None, num_workers=4, timeout=60,
                                         multiprocessing_context="fork")  # not the usual from 3.14 on
    for one, right in zip(loader, here):
        assert torch.equal(one, right)


def test_threads_that_train_at_once():
    torch = pytest.importorskip("torch")
    import fovea.torch

    def gradient():
        q = torch.linspace(-1, 1, 2 * 4 * 33 * 16).view(2, 4, 33, 16).requires_grad_()
        fovea.attend(q, q * 0.5, q.sin(), mask="causal").context.square().sum().backward()
        return q.grad

    right = gradient()
    wrong = []
    threads = [threading.Thread(target=lambda: [wrong.append(1) for _ in range(10)
                                                if not torch.equal(gradient(), right)]) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_exit_with_tensors_alive():
    pytest.importorskip("torch")
    script = """
        import fovea, torch
        x = torch.ones(1, 1, 4, 4, requires_grad=True)
        alive = [fovea.attend(x, x, x) for _ in range(100)]
        contexts = [a.context for a in alive]
        keep = contexts[0].sum()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr
