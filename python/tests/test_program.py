"""The program, runs and pictures."""

import subprocess
import sys
import xml.etree.ElementTree

import pytest

np = pytest.importorskip("numpy")

import fovea


def program(*arguments):
    return subprocess.run([sys.executable, "-m", "fovea", *arguments], capture_output=True, text=True, timeout=600)


def test_python_m_fovea_is_the_program():
    assert program("--version").stdout.strip() == fovea.__version__
    assert "sparsemax" in program("info").stdout
    wrong = program("attend", "nowhere.safetensors")
    assert wrong.returncode == 2 and "nowhere.safetensors" in wrong.stderr and wrong.stderr.count("\n") == 1
    shown = program("attend", "--words", "the cat saw the dog", "--show")
    assert shown.returncode == 0 and "cat" in shown.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A date translator that saw little: it looks, and is mostly wrong."""
    folder = tmp_path_factory.mktemp("runs") / "dates"
    done = program("train", "translate", "--out", str(folder), "--examples", "200", "--hidden", "12", "--embedding",
                   "8", "--batch-tokens", "512", "--rate", "0.01", "--valid-sentences", "5", "--epochs", "2")
    if done.returncode != 0:
        pytest.fail(done.stderr)
    return folder


def test_a_run_predicts_and_explains(run):
    opened = fovea.load(run)
    assert opened.task == "translate" and opened.parameters > 0 and "hidden" in str(opened.config)
    texts = ["3 May 1999", "12 June 2004"]
    found = opened.predict(texts, pictures=True)
    assert len(found) == 2 and all(isinstance(p.text, str) for p in found)
    assert found[0].pictures and "<svg" in found[0]._repr_html_()
    one = opened.predict(texts[0])
    assert one.text == found[0].text and not one.pictures
    why = opened.explain(texts[0], by=["attention", "jacobian"])
    assert [e.by for e in why] == ["attention", "jacobian"]
    assert why[0].weights.shape == (len(why[0].outputs), len(why[0].inputs))
    assert "<svg" in opened.explain(texts[0])._repr_html_()
    printed = program("predict", str(run), texts[0]).stdout.strip()
    assert printed == one.text.strip()
    with pytest.raises(ValueError, match="nearest|there is no|attention"):
        opened.explain(texts[0], by="atention")
    with pytest.raises(ValueError):
        opened.predict(texts, no_such_setting=1)


def test_no_run_is_said_in_a_line(tmp_path):
    with pytest.raises(ValueError) as error:
        fovea.load(tmp_path / "nowhere")
    assert "nowhere" in str(error.value) and "\n" not in str(error.value)


def drawn(html):
    """Well-formed, without a script, and nothing is fetched."""
    for svg in html.split("<svg")[1:]:
        xml.etree.ElementTree.fromstring("<svg" + svg[:svg.index("</svg>") + 6])
    for word in ("<script", "href=\"http", "src=", "@import", "url(http", "onload"):
        assert word not in html
    return html.count("<svg")


def test_a_result_draws_itself():
    x = np.random.default_rng(1).standard_normal((2, 3, 5, 8), dtype=np.float32)
    found = fovea.attend(x, x, x, mask="causal")
    assert drawn(found._repr_html_()) == 3
    picture = found.picture(rows=["<b>&", "the", "cat", "sat", "down"], columns=list("abcde"), head=2, batch=1)
    html = picture._repr_html_()
    assert drawn(html) == 1 and "<b>&" not in html and "cat" in html
    assert "cat" in picture.text()
    with pytest.raises(ValueError, match="2 labels of rows, expected 5"):
        found.picture(rows=["a", "b"])


def test_large_ones_are_cut():
    x = np.random.default_rng(1).standard_normal((1, 9, 300, 4), dtype=np.float32)
    found = fovea.attend(x, x, x)
    html = found._repr_html_()
    assert drawn(html) == 4 and "4 of 9 heads" in html and "240 of 300 rows" in html
    assert len(html) < 40e6


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_other_ranks_draw_too(shape):
    x = np.ones(shape, np.float32)
    assert drawn(fovea.attend(x, x, x)._repr_html_()) == 1


def test_nothing_to_draw():
    x = np.ones((1, 1, 0, 3), np.float32)
    assert "context [1, 1, 0, 3]" in fovea.attend(x, x, x)._repr_html_()


def test_pictures_are_saved(tmp_path):
    x = np.ones((1, 1, 3, 3), np.float32)
    picture = fovea.attend(x, x, x).picture()
    for name in ("a.svg", "a.json"):
        picture.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    with pytest.raises(ValueError, match="expected .svg, .png or .json"):
        picture.save(tmp_path / "a.gif")
    try:
        assert picture.png.startswith(b"\x89PNG")
    except ValueError as error:
        assert "librsvg" in str(error)


def test_torch_draws_too():
    torch = pytest.importorskip("torch")
    q = torch.randn(1, 2, 5, 4, requires_grad=True)
    assert drawn(fovea.attend(q, q, q)._repr_html_()) == 2
