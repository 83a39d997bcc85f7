#!/usr/bin/python3
"""Training, data and the model in a real browser: browser_board.py FOVEA [SHOTS] [TEST...]

What is shared with the other views is in in_browser.py; pictures of each test go to SHOTS.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import in_browser as browser
import browser_accessible
from in_browser import By, FOVEA, Keys, Page, SITE, Select, run_all, webdriver

browser.RUNS = {
    **{name: browser.RUNS[name] for name in ("dates", "dates-2", "heads", "reviews", "scenes", "tales")},
    "once": ["documents", "--examples", "60", "--steps", "1"],
}
# What reaches beyond the screen.
WIDE = """
const beyond = e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
const named = e => `${e.tagName} #${e.id} .${e.getAttribute('class')}`
return [...document.querySelectorAll('body *')].filter(beyond).map(named).slice(0, 12).join(', ')
"""
TICKETS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "tickets.csv"


class Board(Page):
    """On a large screen, 1440 × 900."""
    size = (1440, 900)

    def setUp(self):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": self.size[0], "height": self.size[1], "deviceScaleFactor": 1, "mobile": self.phone})

    def click(self, css):
        node = self.one(css)
        self.driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", node)
        node.click()

    def fill(self, css, text):
        node = self.one(css)
        node.clear()
        node.send_keys(text)

    def unfold(self, css):
        self.wait(lambda d: self.all(f"{css} > summary"))
        if not self.one(css).get_attribute("open"):
            self.click(f"{css} > summary")

    def prefix(self):
        return f"{type(self).__name__}-"

    def shot(self, name):
        """A picture of what is on the screen."""
        if browser.SHOTS:
            browser.SHOTS.mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(browser.SHOTS / f"{self.prefix()}{name}.png"))

    def wide(self):
        return self.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth")


class Served:
    """The program over a folder of its own, which has no run."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-board-"))
        self.program = subprocess.Popen([FOVEA, "serve", "--port", "0"], cwd=self.folder, text=True,
                                        stdout=subprocess.PIPE)
        self.address = self.program.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        self.program.send_signal(signal.SIGINT)
        self.code = self.program.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


class Training(Board):
    def begin_own(self, epochs):
        """The form of documents, with a file of one's own."""
        self.wait(lambda d: self.all(".card"))
        self.click(".card[data-task=documents] .train-set")
        self.wait(lambda d: self.all("#train-form form"))
        self.one("#own-file").send_keys(str(TICKETS))
        self.wait(lambda d: "is kept for this training" in self.text("#sent"))
        self.fill("#set-epochs", epochs)
        self.wait(lambda d: "1 changed: epochs" in self.text("#time-expected"))
        self.shot("form")
        self.click("#train-begin")
        self.wait(lambda d: not self.all("#train-form"))
        self.wait(lambda d: self.all("#curves .chart"), 60)

    def test_an_own_file_is_trained_with_stopped_and_gone_on_with(self):
        with Served() as site:
            self.driver.get(site.address)
            self.begin_own("300")
            self.wait(lambda d: "left" in self.text("#training-now"), 60)
            self.assertIn("a second", self.text("#queue"))
            self.shot("training")
            self.click("#training-now .stop")
            self.wait(lambda d: "Stopped early" in self.text("#training-now"), 30)
            run = site.folder / "runs" / "documents-own-1"
            self.assertEqual((site.folder / "runs" / "uploads" / "own-1.csv").read_bytes(), TICKETS.read_bytes())
            self.assertFalse((run / "results.json").exists())
            steps = lambda: int(json.loads((run / "log.jsonl").read_text().splitlines()[-1])["step"])
            before = steps()
            self.click("#go-on")
            self.wait(lambda d: steps() > before, 30)
            self.wait(lambda d: self.all("#training-now .stop"), 30)
            self.click("#training-now .stop")
            self.wait(lambda d: self.all("#go-on-to"), 30)
            # An end that is near.
            self.click("#go-on-to")
            # One that is past already is refused, and the page says so.
            self.fill("#limits-form input[name=epochs]", "1")
            self.click("#limits-begin")
            self.wait(lambda d: "has done" in self.text("body"), 30)
            self.shot("past")
            self.assertFalse((run / "results.json").exists())
            if not self.all("#limits-begin"):
                self.click("#go-on-to")
            # A line with an epoch comes every 50 steps, which are three epochs and more.
            lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
            self.fill("#limits-form input[name=epochs]", str(9 + max(x["epoch"] for x in lines if "epoch" in x)))
            self.click("#limits-begin")
            self.wait(lambda d: (run / "results.json").exists(), 90)
            self.wait(lambda d: "Report of this run" in self.text("#about"), 30)
            self.wait(lambda d: "Train further" in self.text("#training-now"), 30)
            self.wait(lambda d: self.all("#output .said"), 30)
        self.assertEqual(site.code, 0)
        self.driver.get("about:blank")
        self.driver.get_log("browser")  # the program has ended, and the page says so

    def test_several_wait_for_their_turn(self):
        with Served() as site:
            self.driver.get(site.address)
            self.wait(lambda d: self.all(".card"))
            self.click(".card[data-task=translate] .train-now")
            self.wait(lambda d: self.all("#queue li"))
            self.unfold("#cards")
            self.click(".card[data-task=documents] .train-now")
            self.wait(lambda d: len(self.all("#queue li")) == 2)
            self.assertIn("waits for its turn", self.text("#queue"))
            self.assertIn("1 more after that", self.text("#queue"))
            self.click("#queue li[data-state=waiting] .stop")
            self.wait(lambda d: len(self.all("#queue li")) == 1)
            self.click("#queue li[data-state=running] .stop")
            self.wait(lambda d: not self.all("#queue li"), 30)
        self.driver.get("about:blank")
        self.driver.get_log("browser")

    def test_settings_are_the_tasks_own_and_mistakes_are_said(self):
        self.open("reviews")
        self.unfold("#cards")
        for task in ("documents", "translate", "lm", "caption", "glimpse", "image"):
            card = self.one(f".card[data-task={task}]")
            self.assertGreater(len(card.text), 80, "what it does")
            self.assertRegex(card.text, r"(about|took) .*(s|min)\b")
        self.click(".card[data-task=documents] .train-set")
        self.wait(lambda d: self.all("#train-form form"))
        asked = subprocess.run([FOVEA, "train", "documents", "--help"], capture_output=True, text=True).stdout
        for field in self.all("#train-form .field label"):
            name = field.get_attribute("textContent")
            self.assertRegex(asked, rf"--(\[no-\])?{name}\b", "an option of the command line")
        self.assertIn("learning rate", self.one("#help-rate").get_attribute("textContent"))
        self.fill("#set-epochs", "-4")
        self.click("#train-begin")
        self.wait(lambda d: "epochs must be in" in self.text("#train-form .error"))
        self.driver.get_log("browser")  # the refusal is in the console, as it should be
        with tempfile.NamedTemporaryFile(suffix=".exe") as wrong:
            wrong.write(b"x")
            wrong.flush()
            self.one("#own-file").send_keys(wrong.name)
            self.wait(lambda d: "ends in .tsv" in self.text("#train-form .error"))
        self.driver.get_log("browser")
        webdriver.ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.wait(lambda d: not self.all("#train-form"))


class Curves(Board):
    def test_two_runs_in_one_chart(self):
        self.open("dates")
        self.wait(lambda d: self.all("#charts .chart"))
        titles = [c.text for c in self.all("#charts figcaption")]
        self.assertEqual(titles[:3], ["loss", "validation score", "learning rate"])
        self.assertIn("tokens a second", titles)
        self.assertGreaterEqual(len(self.all("#charts .chart:first-child .grid")), 6)
        words = [t.text for t in self.all("#charts .word-mark")]
        self.assertTrue(any(w.startswith("best") for w in words), words)
        self.assertTrue(any("last" in w for w in words), words)
        Select(self.one("#add-run")).select_by_value("dates-2")
        self.wait(lambda d: len(self.all("#charts .chart:first-child [role=img] .line")) == 4)
        self.assertIn("with=dates-2", self.driver.current_url)
        self.assertIn("dates-2: validation", self.text("#charts .chart:first-child .keys"))
        colours = {l.get_attribute("class").split()[1] for l in self.all("#charts .chart:first-child [role=img] .line")}
        self.assertEqual(colours, {"s0", "s1"}, "a colour for each run")
        self.assertIn("dates-2: validation loss", self.text(".came-to"))
        self.shot("two-runs")
        plain = self.one("#charts [role=img] .line").get_attribute("d")
        self.click("#log-scale")
        self.wait(lambda d: self.one("#charts [role=img] .line").get_attribute("d") != plain)
        self.driver.execute_script("""const s = document.getElementById('smooth'); s.value = 0.8;
                                      s.dispatchEvent(new Event('input', { bubbles: true }));""")
        self.wait(lambda d: self.all("#charts .line.raw"))
        address = self.driver.current_url
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda d: self.all("#charts .line.raw"))
        self.assertTrue(self.one("#log-scale").is_selected())
        self.one("#charts [role=img]").send_keys(Keys.HOME)
        self.assertIn("dates-2: training", self.text("#charts .chart:first-child .say"))
        self.click(".with-runs .chip")
        self.wait(lambda d: "with=" not in self.driver.current_url)

    def test_a_single_point_is_drawn(self):
        self.open("once")
        self.wait(lambda d: self.all("#charts .chart"))
        self.assertTrue(self.all("#charts .chart:first-child circle.point"))


class Data(Board):
    def ready(self, run):
        self.open(run)
        self.unfold("#data")
        self.click("#data-begin")
        self.wait(lambda d: self.all("#data .strip .data-row:not([hidden])"), 60)

    def errors(self):
        rows = sorted((int(r.get_attribute("data-at")), r.find_element(By.CSS_SELECTOR, ".error").text)
                      for r in self.all("#data .strip .data-row:not([hidden])"))
        return [float(e) for _, e in rows]

    def test_the_worst_first_filtered_and_opened(self):
        self.ready("reviews")
        errors = self.errors()
        self.assertEqual(errors, sorted(errors, reverse=True))
        self.assertIn("inputs", self.text("#data .slice"))
        self.click(".data-heads .error")
        self.wait(lambda d: self.errors() == sorted(self.errors()))
        self.click(".data-heads .error")
        self.shot("data")
        Select(self.one("select[name=data-expected]")).select_by_index(1)
        chosen = Select(self.one("select[name=data-expected]")).first_selected_option.text
        self.wait(lambda d: {r.text for r in self.all("#data .strip .data-row:not([hidden]) .expected")} == {chosen})
        self.assertIn("this slice", self.text("#data .slice"))
        self.fill("input[name=data-word]", "film")
        self.wait(lambda d: all("film" in r.text.lower() for r in self.all("#data .strip .data-row:not([hidden]) .input")))
        self.fill("input[name=data-high]", "12")
        self.wait(lambda d: all(int(r.text) <= 12 for r in self.all("#data .strip .data-row:not([hidden]) .length")))
        if not self.all("#data .strip .data-row:not([hidden])"):
            self.fill("input[name=data-high]", "100")
        first = [r for r in self.all("#data .strip .data-row") if r.get_attribute("data-at") == "0"][0]
        whole = first.get_attribute("title")
        first.click()
        self.wait(lambda d: self.one("#input").get_attribute("value").startswith(whole))
        self.wait(lambda d: "expected" in self.text("#output") or self.all("#output .said"))

    def test_by_the_keyboard(self):
        self.ready("dates")
        rows = self.one("#data .rows")
        rows.send_keys(Keys.END)
        self.wait(lambda d: self.driver.execute_script("return document.querySelector('#data .rows').scrollTop") > 1000)
        rows.send_keys(Keys.HOME)
        rows.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
        chosen = self.one("#data .data-row[aria-selected=true]").get_attribute("title")
        self.wait(lambda d: self.one("#input").get_attribute("value") == chosen)

    def test_a_language_model_has_pieces_of_its_text(self):
        self.ready("tales")
        losses = self.errors()
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertEqual([b.text.split(" ")[0] for b in self.all("#data .data-heads button")],
                         ["loss", "text", "guessed", "hardest", "accuracy", "tokens"])
        rows = self.all("#data .strip .data-row:not([hidden])")
        self.assertTrue(all(0 <= float(r.find_element(By.CSS_SELECTOR, ".score").text) <= 1 for r in rows))
        self.assertIn("accuracy", self.text("#data .slice"))
        self.assertFalse(self.all("input[name=data-wrong], select[name=data-expected]"), "no text is right or wrong")
        self.shot("texts")
        whole = rows[0].get_attribute("title")
        rows[0].click()
        self.wait(lambda d: self.one("#input").get_attribute("value").startswith(whole))

    def test_of_images_too(self):
        self.ready("scenes")
        row = self.one("#data .strip .data-row")
        name = row.get_attribute("title")
        self.assertRegex(name, r"^scene:\d+$")
        row.click()
        self.wait(lambda d: self.one("#input").get_attribute("value") == name)

    def test_one_word_changed_and_both_answers(self):
        self.open("reviews")
        self.unfold("#edit-word")
        self.wait(lambda d: self.all("#edit-word .word"))
        self.all("#edit-word .word")[1].click()
        self.wait(lambda d: len(self.all("#both .predictions")) == 2)
        before = self.text("#both > :last-child .predictions")
        self.fill("#edit-word input", "dreadful")
        self.wait(lambda d: "with dreadful" in self.text("#both"))
        self.wait(lambda d: self.text("#both > :last-child .predictions") != before)
        self.shot("edit-word")
        self.click("#take-edited")
        self.wait(lambda d: "dreadful" in self.one("#input").get_attribute("value"))


class Model(Board):
    def test_the_parts_of_a_transformer(self):
        self.open("heads")
        self.unfold("#model")
        self.wait(lambda d: self.all("#model .part"))
        names = [p.get_attribute("data-part") for p in self.all("#model .part")]
        self.assertEqual(set(names), {"source", "encoder.0", "encoder.1", "encoder.norm", "target", "decoder.0", "decoder.1",
                                      "decoder.norm", "output"})
        self.assertGreaterEqual(len(self.all("#model .edge")), len(names) - 2)
        self.click("#model .part[data-part='decoder.1']")
        self.wait(lambda d: self.all("#part .tensors"))
        self.shot("model")
        self.click("#part button[data-tensor='decoder.1.cross.out.weight']")
        self.wait(lambda d: self.all("#weights canvas.matrix"))
        self.assertIn("32 × 32", self.text("#weights"))
        self.click("#part button[data-layer='decoder.1.cross']")
        self.wait(lambda d: self.all("#head canvas.matrix"))
        self.assertIn("Decoder layer 2, cross-attention, head 1", self.text("#head"))

    def test_every_kind_of_model_has_a_graph(self):
        for run in ("dates", "reviews", "scenes"):
            self.open(run)
            self.unfold("#model")
            self.wait(lambda d: self.all("#model .part.looks"))
            self.click("#model .part.looks")
            self.wait(lambda d: self.all("#part .open-look"))
            self.assertLessEqual(self.wide(), 1)


class AccessibleBoard(Board):
    """What a screen reader is given of tables, charts and forms."""
    findings, axe = browser_accessible.Accessible.findings, browser_accessible.Accessible.axe

    def test_no_serious_finding_in_tables_charts_and_the_form(self):
        self.open("reviews", "&open=data,model,edit-word&with=once")
        self.click("#data-begin")
        self.wait(lambda d: self.all("#data .strip .data-row:not([hidden])"), 60)
        self.all("#edit-word .word")[1].click()
        self.wait(lambda d: len(self.all("#both .predictions")) == 2 and self.all("#model .part"))
        self.click("#model .part")
        self.wait(lambda d: self.all("#charts .chart"))
        self.assertEqual(self.findings(), [])
        self.unfold("#cards")
        self.click(".card[data-task=documents] .train-set")
        self.wait(lambda d: self.all("#train-form form"))
        self.assertEqual(self.findings(), [])

    def test_the_form_by_keys_alone(self):
        self.open("reviews")
        self.unfold("#cards")
        button = self.one(".card[data-task=documents] .train-set")
        button.send_keys(Keys.ENTER)
        self.wait(lambda d: self.all("#train-form form"))
        within = "return document.querySelector('#train-form').contains(document.activeElement)"
        for _ in range(60):
            self.assertTrue(self.driver.execute_script(within + " || document.activeElement === document.body"), "Tab stays in the form")
            if self.driver.execute_script("return document.activeElement.id") == "train-begin":
                break
            webdriver.ActionChains(self.driver).send_keys(Keys.TAB).perform()
        self.assertEqual(self.driver.execute_script("return document.activeElement.id"), "train-begin")
        webdriver.ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.wait(lambda d: not self.all("#train-form"))
        self.assertEqual(self.driver.switch_to.active_element, button, "back to where it was opened")


class DarkBoard(Board):
    """What is drawn in colours; the rest is the same page."""
    dark = True
    test_two_runs_in_one_chart = Curves.test_two_runs_in_one_chart
    test_the_parts_of_a_transformer = Model.test_the_parts_of_a_transformer


class PhoneBoard(Training):
    phone = True
    size = (390, 844)
    test_an_own_file_is_trained_with_stopped_and_gone_on_with = test_several_wait_for_their_turn = None
    test_settings_are_the_tasks_own_and_mistakes_are_said = None

    def test_nothing_is_wider_than_the_screen(self):
        self.open("reviews", "&with=once")
        self.unfold("#data")
        self.click("#data-begin")
        self.wait(lambda d: self.all("#data .strip .data-row:not([hidden])"), 60)
        self.unfold("#edit-word")
        self.unfold("#model")
        self.wait(lambda d: self.all("#model .part"))
        self.assertLessEqual(self.wide(), 1, self.driver.execute_script(WIDE))

    def test_the_form(self):
        self.open("reviews")
        self.click("#list > summary")
        self.unfold("#cards")
        self.click(".card[data-task=documents] .train-set")
        self.wait(lambda d: self.all("#train-form form"))
        self.assertLessEqual(self.wide(), 1, self.driver.execute_script(WIDE))
        within = self.driver.execute_script(
            "const d = document.querySelector('#train-form'); return d.scrollWidth - d.clientWidth")
        self.assertLessEqual(within, 1)


if __name__ == "__main__":
    run_all()
