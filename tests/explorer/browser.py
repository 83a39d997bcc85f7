#!/usr/bin/python3
"""The explorer in a real browser, used as a person would: browser.py FOVEA [SCREENSHOTS [TEST...]]

Trains small runs, serves them, opens the page in headless Chromium (Debian's chromium,
chromium-driver and python3-selenium) and checks what is on the screen. Exit code 77: no browser.
"""
import contextlib
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
import xml.dom.minidom

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait
except ImportError:
    print("python3-selenium is not installed: nothing was checked")
    sys.exit(77)

if not shutil.which("chromium") or not shutil.which("chromedriver"):
    print("chromium or chromium-driver is not installed: nothing was checked")
    sys.exit(77)

FOVEA = os.path.abspath(sys.argv[1])
SHOTS = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
RUNS = {
    "dates": ["translate", "--examples", "8000", "--epochs", "4", "--hidden", "64"],
    "reviews": ["documents", "--examples", "300", "--epochs", "2"],
    "tales": ["lm", "--examples", "60", "--epochs", "1", "--blocks", "1", "--query-depth", "32"],
}


class Site:
    """Runs in a folder of their own, and the program that serves them."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-browser-"))
        for name, words in RUNS.items():
            subprocess.run([FOVEA, "train", words[0], "--out", str(self.folder / "runs" / name), "--seed", "1",
                            *words[1:]], check=True, capture_output=True)
        self.serve()

    def serve(self):
        self.program = subprocess.Popen([FOVEA, "serve", "--port", "0"], cwd=self.folder, text=True,
                                        stdout=subprocess.PIPE)
        self.address = self.program.stdout.readline().strip()

    def stop(self):
        self.program.send_signal(signal.SIGINT)
        code = self.program.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)
        return code


def browser(downloads, dark=False, size="1280,900"):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                 f"--window-size={size}", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"):
        options.add_argument(flag)
    if dark:
        options.add_argument("--force-dark-mode")
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    from selenium.webdriver.chrome.service import Service
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


class Page(unittest.TestCase):
    dark = False
    size = "1280,900"

    @classmethod
    def setUpClass(cls):
        cls.downloads = pathlib.Path(tempfile.mkdtemp(prefix="fovea-downloads-"))
        cls.driver = browser(cls.downloads, cls.dark, cls.size)

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        shutil.rmtree(cls.downloads, ignore_errors=True)

    def tearDown(self):
        if SHOTS:
            SHOTS.mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(SHOTS / f"{type(self).__name__}-{self._testMethodName}.png"))
        errors = [e["message"] for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(errors, [], "the console is free of errors")

    # ---- what a person does

    def wait(self, what, seconds=20):
        return WebDriverWait(self.driver, seconds, 0.05).until(what)

    def one(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css):
        return self.one(css).text

    def open(self, run, fragment=""):
        self.driver.get("about:blank")
        self.driver.get(f"{SITE.address}#run={run}{fragment}")
        self.wait(lambda d: self.all("#output .said"))

    def type(self, text):
        box = self.one("#input")
        box.clear()
        before = self.text("#output")
        box.send_keys(text)
        self.wait(lambda d: self.text("#output") != before)

    def saved(self, name):
        path = self.downloads / name
        self.wait(lambda d: path.exists() and not list(self.downloads.glob("*.crdownload")))
        data = path.read_bytes()
        path.unlink()
        return data

    def map(self):
        """What the matrix shows, from the page's own element."""
        return self.one("canvas.matrix").get_attribute("aria-label")


class Translate(Page):
    def test_typing_shows_a_translation_and_where_it_looked(self):
        self.open("dates")
        self.type("12 May 1999")
        self.assertRegex(self.text(".said"), r"^\d[\d-]+$")
        # A row for each letter that was written and for the end, a column for each that was read.
        self.assertIn(f"{len(self.text('.said')) + 1} rows by 12 columns", self.map())
        self.assertIn("input=12+May+1999", self.driver.current_url)

    def test_a_cell_under_the_pointer_is_read_out_and_a_row_is_held(self):
        self.open("dates")
        canvas = self.one("canvas.matrix")
        action = webdriver.ActionChains(self.driver)
        action.move_to_element(canvas).perform()
        self.wait(lambda d: "looks at" in self.text(".map .say"))
        self.assertIn("entropy", self.text(".detail"))
        action.click(canvas).perform()
        self.wait(lambda d: "row=" in self.driver.current_url)
        self.assertTrue(self.all(".lines path"))
        self.assertTrue(self.all(".word.on"))

    def test_the_keyboard_alone(self):
        self.open("dates")
        body = self.one("body")
        body.send_keys("/")
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("id"), "input")
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        for _ in range(60):
            active = self.driver.switch_to.active_element
            if active.tag_name == "canvas":
                break
            webdriver.ActionChains(self.driver).send_keys(Keys.TAB).perform()
        self.assertEqual(self.driver.switch_to.active_element.tag_name, "canvas")
        keys = webdriver.ActionChains(self.driver)
        keys.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT).perform()
        self.assertIn("looks at", self.text(".map .say"))
        webdriver.ActionChains(self.driver).send_keys(Keys.ENTER).perform()
        self.assertIn("row=2", self.driver.current_url)
        webdriver.ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.assertNotIn("row=", self.driver.current_url)
        webdriver.ActionChains(self.driver).send_keys("n").perform()
        self.assertIn("largest of its row", self.text(".legend"))
        webdriver.ActionChains(self.driver).send_keys("?").perform()
        self.assertTrue(self.one("#keys").is_displayed())

    def test_the_address_brings_it_all_back(self):
        self.open("dates")
        self.type("3 July 2001")
        self.one("body").send_keys(Keys.ESCAPE)
        webdriver.ActionChains(self.driver).move_to_element(self.one("canvas.matrix")).click().perform()
        self.wait(lambda d: "row=" in self.driver.current_url)
        address, said = self.driver.current_url, self.text(".said")
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda d: self.all("#output .said"))
        self.assertEqual(self.text(".said"), said)
        self.assertEqual(self.one("#input").get_attribute("value"), "3 July 2001")
        self.assertTrue(self.all(".word.on"))

    def test_pictures_are_saved_in_every_format(self):
        self.open("dates")
        expected = {"svg": lambda b: xml.dom.minidom.parseString(b).documentElement.tagName == "svg",
                    "png": lambda b: b.startswith(b"\x89PNG"),
                    "csv": lambda b: b.startswith(b"picture,row,column,weight"),
                    "json": lambda b: len(json.loads(b)[0]["weights"]) == len(json.loads(b)[0]["rows"]),
                    "html": lambda b: b.strip().endswith(b"</html>")}
        for name, holds in expected.items():
            self.one(f"button[data-format={name}]").click()
            self.assertTrue(holds(self.saved(f"fovea-dates.{name}")), name)

    def test_as_a_table_for_those_who_read(self):
        self.open("dates")
        self.one("#as-table").click()
        cells = self.all("#view tbody tr:first-child td")
        self.assertAlmostEqual(sum(float(c.text) for c in cells), 1.0, delta=0.02)

    def test_the_first_picture_is_there_within_a_second(self):
        self.open("dates")
        took = self.driver.execute_async_script("""
          const done = arguments[arguments.length - 1], box = document.getElementById('input');
          box.value = 'the first of the month of January in the year nineteen hundred and ninety nine or so it was said then';
          const began = performance.now();
          new MutationObserver((_, o) => { o.disconnect(); done(performance.now() - began); })
              .observe(document.getElementById('view'), { childList: true });
          box.dispatchEvent(new Event('input'));""")
        print(f"first picture after {took:.0f} ms")
        self.assertLess(took, 1000)

    def test_settings_of_the_search_are_taken_and_mistakes_are_said(self):
        self.open("dates")
        beam = self.one("#options input[name=beam]")
        beam.clear()
        beam.send_keys("-3", Keys.TAB)
        self.wait(lambda d: "beam" in self.text("#output"))
        self.assertTrue(self.all("#output .error"))
        self.driver.get_log("browser")  # the refusal is in the console, as it should be


class Dark(Translate):
    dark = True

    def test_it_is_dark(self):
        self.open("dates")
        self.one("#theme")
        night = self.driver.execute_script(
            "return getComputedStyle(document.documentElement).getPropertyValue('--night').trim()")
        if night != "1":
            self.one("#theme").click()
        colour = self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        self.assertEqual(colour, "rgb(18, 21, 26)")


class Inside(Page):
    def test_several_ways_of_asking_stand_side_by_side(self):
        self.open("dates")
        self.wait(lambda d: self.all("#inside summary"))
        self.one("#inside summary").click()
        for way in ("attention", "jacobian", "occlusion"):
            self.one(f"#inside input[value={way}]").click()
        self.wait(lambda d: len(self.all("#explained canvas.matrix")) == 3, 60)
        taus = [float(c.text) for c in self.all(".agreement td") if re.match(r"^[-−]?[01]\.\d+$", c.text)]
        self.assertTrue(taus)
        self.assertTrue(all(-1 <= t <= 1 for t in taus))

    def test_the_weights_are_taken_in_hand(self):
        self.open("dates")
        self.wait(lambda d: self.all("#inside summary"))
        self.one("#inside summary").click()
        self.one("button[data-weights=uniform]").click()
        self.wait(lambda d: self.all("#held tbody tr"))
        self.assertEqual(len(self.all("#held tbody tr")), len(self.text(".said")) + 1)
        self.one("button[data-weights=given]").click()
        self.wait(lambda d: "Point at a cell" in self.text("#held"))

    def test_heads_of_a_transformer_one_by_one(self):
        self.open("tales")
        self.wait(lambda d: self.all("#inside summary"))
        self.one("#inside summary").click()
        self.one("#inside input[value=attention]").click()
        self.wait(lambda d: self.all("#explained canvas"), 60)
        heads = Select(self.one("#which-head select[aria-label=Head]"))
        self.assertGreater(len(heads.options), 2)
        title = self.text("#explained figcaption")
        heads.select_by_index(1)
        self.wait(lambda d: self.text("#explained figcaption") != title, 60)

    def test_of_a_text_too(self):
        self.open("reviews")
        self.wait(lambda d: self.all("#inside summary"))
        self.one("#inside summary").click()
        self.one("#inside input[value=occlusion]").click()
        self.wait(lambda d: self.all("#explained mark"), 60)


class Documents(Page):
    def test_words_are_shaded_and_a_line_can_be_left_out(self):
        self.open("reviews")
        marks = self.all(".shaded mark")
        self.assertGreater(len(marks), 5)
        shares = [float(m.get_attribute("data-share")) for m in marks]
        self.assertAlmostEqual(max(shares), 1.0, delta=1e-3)
        lines = self.all(".shaded .weight")
        if len(lines) > 1:
            before = self.text(".predictions")
            lines[0].click()
            self.wait(lambda d: "left out" in self.text("#output"))
            self.assertNotEqual(self.text(".predictions"), before, "the classes move")
            self.assertTrue(self.all(".shaded .dropped"))

    def test_right_to_left_and_other_scripts(self):
        self.open("reviews")
        self.type("هذا الفيلم رائع. 这部电影很好。 The film is dull.")
        self.wait(lambda d: "الفيلم" in self.text(".shaded"))
        self.assertIn("这部电影很好", self.text(".shaded"))


class LanguageModel(Page):
    def test_it_writes_on(self):
        self.open("tales")
        self.assertTrue(self.text(".said"))
        self.assertTrue(self.all("canvas.matrix"))


class Phone(Page):
    size = "390,800"

    def test_nothing_is_wider_than_the_screen(self):
        for run in ("dates", "reviews"):
            self.open(run)
            wide = self.driver.execute_script(
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            self.assertLessEqual(wide, 1, run)


class Smooth(Page):
    def test_a_large_alignment_stays_smooth(self):
        self.open("dates")
        times = self.driver.execute_async_script("""
          const done = arguments[arguments.length - 1];
          import('/page/matrix.js').then(({ Matrix }) => {
            const n = 200, weights = new Float32Array(n * n).map(() => Math.random());
            const labels = Array.from({ length: n }, (_, i) => 'w' + i);
            const matrix = new Matrix({ title: 'large', rows: labels, columns: labels, weights }, {});
            document.getElementById('view').append(matrix.node);
            const began = performance.now();
            matrix.draw();
            const drawn = performance.now() - began, hovers = [];
            for (let i = 0; i < 60; ++i) {
              const at = performance.now();
              matrix.show([i, (7 * i) % n]);
              hovers.push(performance.now() - at);
            }
            done([drawn, hovers.sort((a, b) => a - b)[54]]);
          });""")
        print(f"200 × 200: drawn in {times[0]:.0f} ms, a hover {times[1]:.1f} ms (nine of ten)")
        self.assertLess(times[0], 500)
        self.assertLess(times[1], 50)


class Start(Page):
    def test_without_a_run_the_page_trains_one(self):
        empty = tempfile.mkdtemp(prefix="fovea-empty-")
        program = subprocess.Popen([FOVEA, "serve", "--port", "0"], cwd=empty, text=True, stdout=subprocess.PIPE)
        try:
            self.driver.get(program.stdout.readline().strip())
            self.wait(lambda d: "no run yet" in self.text("#begin"))
            self.one("#begin button").click()
            self.wait(lambda d: self.all("#runs .live"))
            self.wait(lambda d: self.all("#curves svg"), 60)
        finally:
            program.send_signal(signal.SIGINT)
            self.assertEqual(program.wait(30), 0)
            shutil.rmtree(empty, ignore_errors=True)
            self.driver.get("about:blank")
            self.driver.get_log("browser")


if __name__ == "__main__":
    SITE = Site()
    try:
        result = unittest.main(argv=sys.argv[:1] + sys.argv[3:], exit=False, verbosity=2).result
    finally:
        code = SITE.stop()
    sys.exit(0 if result.wasSuccessful() and code == 0 else 1)
