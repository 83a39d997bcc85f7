"""What the tests of the explorer in a browser share: runs, the program that serves them, Chromium, a page."""
import base64
import concurrent.futures
import functools
import hashlib
from csv import reader as csv_reader
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom
import zlib

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.chrome.service import Service
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
    "dates": ["translate", "--examples", "5000", "--epochs", "5", "--hidden", "48", "--rate", "0.004"],
    "dates-2": ["translate", "--examples", "5000", "--epochs", "3", "--hidden", "48", "--seed", "2"],
    "heads": ["translate", "--examples", "3000", "--epochs", "1", "--model", "transformer", "--blocks", "2",
              "--query-depth", "32", "--heads", "4"],
    "reviews": ["documents", "--examples", "600", "--epochs", "4"],
    "reviews-2": ["documents", "--examples", "200", "--epochs", "1", "--seed", "2"],
    "scenes": ["caption", "--examples", "400", "--epochs", "3", "--hidden", "32", "--features", "24", "--stride", "8"],
    "digits": ["glimpse", "--examples", "1500", "--epochs", "2", "--hidden", "64", "--scales", "2"],
    "pairs": ["image", "--examples", "200", "--epochs", "1", "--features", "8", "--blocks", "1"],
    "tales": ["lm", "--examples", "60", "--epochs", "1", "--blocks", "1", "--query-depth", "32"],
    "plain": ["translate", "--examples", "1000", "--epochs", "1", "--hidden", "24", "--context", "fixed"],
    "phrases": ["translate", "--builtin", "phrases", "--examples", "300", "--epochs", "1", "--hidden", "16"],
}
if sys.argv[3:] == ["AnotherKind"]:  # of a program with a task and a kind of picture more (tests/one_task)
    RUNS = {"numbers": ["largest"]}


class Site:
    """Runs in a folder of their own, and the program that serves them."""

    def start(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-browser-"))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(self.train, RUNS.items()))
        self.serve()

    def train(self, run):
        """Trained once by a program, whichever test comes first: the others copy the run."""
        name, words = run
        words = words if "--seed" in words else [*words, "--seed", "1"]
        kept = self.kept() / hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
        if not kept.exists():
            made = pathlib.Path(tempfile.mkdtemp(prefix="made-", dir=kept.parent))
            subprocess.run([FOVEA, "train", words[0], "--out", str(made / "run"), *words[1:]], check=True, capture_output=True,
                           env={**os.environ, "FOVEA_THREADS": "1"})  # two of them side by side
            try:
                (made / "run").rename(kept)
            except OSError:
                pass  # another test was quicker
            shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(kept, self.folder / "runs" / name)

    @staticmethod
    @functools.cache
    def kept():
        """Beside the program, of this very program; what former ones made goes."""
        program = hashlib.sha256(pathlib.Path(FOVEA).read_bytes()).hexdigest()[:16]
        folder = pathlib.Path(FOVEA).parent / "browser-runs"
        for old in folder.glob("*"):
            if old.name != program:
                shutil.rmtree(old, ignore_errors=True)
        (folder / program).mkdir(parents=True, exist_ok=True)
        return folder / program

    def serve(self):
        self.program = subprocess.Popen([FOVEA, "serve", "--port", "0"], cwd=self.folder, text=True,
                                        stdout=subprocess.PIPE)
        self.address = self.program.stdout.readline().strip()

    def stop(self):
        self.program.send_signal(signal.SIGINT)
        code = self.program.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)
        return code


SITE = Site()
TOOK = []  # seconds of each test


def browser(downloads, dark=False, phone=False):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                 "--window-size=1280,900", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    if dark:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    if phone:  # narrower than a window can be
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True})
    return driver


class Page(unittest.TestCase):
    dark = phone = False

    browsers = {}  # one for each kind of screen

    @classmethod
    def setUpClass(cls):
        kind = (cls.dark, cls.phone)
        if kind not in cls.browsers:
            downloads = pathlib.Path(tempfile.mkdtemp(prefix="fovea-downloads-"))
            cls.browsers[kind] = browser(downloads, *kind), downloads
        cls.driver, cls.downloads = cls.browsers[kind]

    @classmethod
    def close_all(cls):
        for driver, downloads in cls.browsers.values():
            driver.quit()
            shutil.rmtree(downloads, ignore_errors=True)

    def picture(self):
        """All of the page, as the test left it."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True, "clip": {**size, "height": min(size["height"], 4000), "scale": 1}})
        (SHOTS / f"{type(self).__name__}-{self._testMethodName}.png").write_bytes(base64.b64decode(shot["data"]))

    def failed(self):
        return any(error and test is self for test, error in self._outcome.result.failures + self._outcome.result.errors)

    def tearDown(self):
        if SHOTS and ("FOVEA_SHOTS" in os.environ or self.failed()):
            self.picture()
        errors = [e["message"] for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(errors, [], "the console is free of errors")

    # ---- what a person does

    def run(self, result=None):
        began = time.monotonic()
        made = super().run(result)
        TOOK.append((time.monotonic() - began, self.id()))
        return made

    def wait(self, what, seconds=20):
        return WebDriverWait(self.driver, seconds, 0.05, [StaleElementReferenceException]).until(what)

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

    def sums(self, css):
        """Of a canvas: its colours, how opaque it is, and how many pixels it has."""
        return self.driver.execute_script("""
          const c = document.querySelector(arguments[0]), pen = Object.assign(document.createElement('canvas'),
              { width: c.width, height: c.height }).getContext('2d', { willReadFrequently: true });
          pen.drawImage(c, 0, 0);
          const d = pen.getImageData(0, 0, c.width, c.height).data;
          let colours = 0, opaque = 0;
          for (let i = 0; i < d.length; i += 4) { colours += d[i] + d[i + 1] + d[i + 2]; opaque += d[i + 3]; }
          return [colours, opaque, d.length / 4];""", css)

    def map(self):
        """What the matrix shows, from the page's own element."""
        return self.one("canvas.matrix").get_attribute("aria-label")


def png(width=40, height=30):
    """A red square on a grey ground."""
    rows = b"".join(b"\0" + b"".join(bytes([220, 30, 30]) if 8 < x < 22 and 6 < y < 20 else bytes([200, 200, 205])
                                     for x in range(width)) for y in range(height))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Seeing(Page):
    """What the views of runs that see share."""

    def ready(self, run, fragment=""):
        self.open(run, fragment)
        self.wait(lambda d: self.all(".frame-of"))
        self.wait(lambda d: self.driver.execute_script(
            "const c = document.querySelector('canvas.stage'); return !c || c.width != 300"))

    def keys(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def point(self, css, said, x=0, y=0):
        """Moves the pointer there, a little to and fro, until that is on the screen."""
        def moved(_):
            for by in (1, 0):
                node = self.one(css)
                self.driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", node)
                webdriver.ActionChains(self.driver).move_to_element_with_offset(node, x + by, y).perform()
            return said()
        self.wait(moved)

    def tab_to(self, css):
        for _ in range(80):
            if self.driver.switch_to.active_element == self.one(css):
                return
            self.keys(Keys.TAB)
        self.fail(f"Tab does not lead to {css}")

    def light(self):
        """How bright the picture is, from its pixels."""
        colours, _, pixels = self.sums("canvas.stage")
        return colours / pixels / 3

    def drop(self, name, data):
        self.driver.execute_script("""
          const bytes = Uint8Array.from(atob(arguments[1]), c => c.charCodeAt(0)), moved = new DataTransfer();
          moved.items.add(new File([bytes], arguments[0]));
          for (const kind of ['dragover', 'drop']) {
            document.querySelector('#drop').dispatchEvent(new DragEvent(kind, { dataTransfer: moved, bubbles: true, cancelable: true }));
          }""", name, base64.b64encode(data).decode())

    def export(self, run, expected):
        for name, holds in expected.items():
            self.one(f"button[data-format={name}]").click()
            self.assertTrue(holds(self.saved(f"fovea-{run}.{name}")), name)

    def images_in(self, svg):
        return len(xml.dom.minidom.parseString(svg).getElementsByTagName("image"))


def run_all():
    """Trains, serves, runs the tests that are named, or all, and says where the time went."""
    began = time.monotonic()
    SITE.start()
    print(f"runs are there after {time.monotonic() - began:.0f} s", file=sys.stderr)
    try:
        result = unittest.main(module="__main__", argv=sys.argv[:1] + sys.argv[3:], exit=False, verbosity=2, warnings="ignore").result
    finally:
        Page.close_all()
        code = SITE.stop()
    print("slowest: " + ", ".join(f"{name.split('.', 1)[1]} {took:.1f} s" for took, name in sorted(TOOK, reverse=True)[:8]))
    sys.exit(0 if result.wasSuccessful() and code == 0 else 1)
