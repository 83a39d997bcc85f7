#!/usr/bin/python3
"""The explorer in a real browser, used as a person would: browser.py FOVEA [SCREENSHOTS [TEST...]]

Trains small runs, serves them, opens the page in headless Chromium (Debian's chromium,
chromium-driver and python3-selenium) and checks what is on the screen. Exit code 77: no browser.
"""
import sys

sys.dont_write_bytecode = True
from in_browser import *
from browser_accessible import *
from browser_address import *
from browser_heads import *
from browser_reading import *
from browser_seeing import *


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
        webdriver.ActionChains(self.driver).send_keys("n").perform()
        most = re.search(r"0\s+([\d.]+)\s+· maximum here ([\d.]+)", self.text(".legend"))
        self.assertEqual(most[1], most[2], "full colour is the largest")
        self.assertIn("scale=map", self.driver.current_url)
        webdriver.ActionChains(self.driver).send_keys("n", "?").perform()
        self.assertNotIn("scale", self.driver.current_url)
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
        expected = {"svg": lambda b: xml.dom.minidom.parseString(b).documentElement.tagName == "svg" and
                    all(axis in b.decode() for axis in (">read →<", ">← written<")),
                    "png": lambda b: b.startswith(b"\x89PNG"),
                    "csv": lambda b: self.cells_of(b) == self.positions(),
                    "json": lambda b: len(json.loads(b)[0]["weights"]) == len(json.loads(b)[0]["rows"]) and
                    json.loads(b)[0]["axes"] == ["written", "read"],
                    "html": lambda b: b.strip().endswith(b"</html>")}
        for name, holds in expected.items():
            self.one(f"button[data-format={name}]").click()
            self.assertTrue(holds(self.saved(f"fovea-dates.{name}")), name)

    def cells_of(self, csv):
        """(row_number, column_number) of each line: labels repeat, positions do not."""
        lines = list(csv_reader(csv.decode().splitlines()))
        self.assertEqual(lines[0], ["picture", "row", "column", "weight", "row_number", "column_number"])
        return [(int(l[4]), int(l[5])) for l in lines[1:]]

    def positions(self):
        rows, columns = map(int, re.match(r"(\d+) rows by (\d+) columns", self.map()).groups())
        return [(i, j) for i in range(1, rows + 1) for j in range(1, columns + 1)]

    def test_as_a_table_for_those_who_read(self):
        self.open("dates")
        self.one("#as-table").click()
        cells = self.all("#view tbody tr:first-child td")
        self.assertAlmostEqual(sum(float(c.text) for c in cells), 1.0, delta=0.02)

    def test_settings_of_the_search_are_taken_and_mistakes_are_said(self):
        self.open("dates")
        beam = self.one("#options input[name=beam]")
        beam.clear()
        beam.send_keys("-3", Keys.TAB)
        self.wait(lambda d: "beam" in self.text("#output"))
        self.assertTrue(self.all("#output .error"))
        self.driver.get_log("browser")  # the refusal is in the console, as it should be


class Prefix(Page):
    def test_another_beginning_is_gone_on_from(self):
        self.open("dates")
        self.type("12 May 1999")
        before = self.text(".said")
        field = self.one("#options input[name=prefix]")
        field.send_keys("2005-1")
        self.wait(lambda d: self.text(".said").startswith("2005-1"))
        self.assertNotEqual(self.text(".said"), before)
        self.assertIn(f"{len(self.text('.said')) + 1} rows by 12 columns", self.map())
        self.assertIn("o.prefix=2005-1", self.driver.current_url)
        address = self.driver.current_url
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda d: self.all(".said"))
        self.assertTrue(self.text(".said").startswith("2005-1"))
        self.one("#options input[name=prefix]").send_keys("漢")
        self.wait(lambda d: "no token to write" in self.text("#output"))
        self.driver.get_log("browser")  # the refusal is in the console, as it should be


class Compare(Page):
    def test_two_runs_in_step(self):
        self.open("dates")
        self.type("12 May 1999")
        webdriver.ActionChains(self.driver).send_keys(Keys.ESCAPE).send_keys("x").perform()
        self.wait(lambda d: len(self.all("#view .pair canvas.matrix")) == 2)
        self.assertIn("beside=dates-2", self.driver.current_url)
        self.assertEqual(len(self.all("#output .predictions")), 2)
        says = lambda: [s.text for s in self.all("#view .map .say")]
        difference = self.one("#difference canvas.matrix")
        webdriver.ActionChains(self.driver).move_to_element(difference).perform()
        self.wait(lambda d: says()[2])
        # The same cell of both is read out too.
        cell = says()[0].split(":")[0]
        self.assertEqual([s.split(":")[0] for s in says()], [cell] * 3)
        webdriver.ActionChains(self.driver).click(difference).perform()
        self.wait(lambda d: "row=" in self.driver.current_url)
        held = [d.text for d in self.all("#view .map .detail b")]
        self.assertEqual(len(held), 3)
        self.assertEqual(len(set(held)), 1, held)
        # One scale for both, a scale with two signs for the difference.
        legends = [l.text for l in self.all("#view .map .legend")]
        self.assertEqual(legends[0].split("·")[0], legends[1].split("·")[0])
        self.assertRegex(legends[2], r"(?s)^− .*\+ ")
        values = [float(s.split(": ")[-1]) for s in says()]
        self.assertAlmostEqual(values[0] - values[1], values[2], delta=0.01)
        self.one("button[data-format=svg]").click()
        saved = xml.dom.minidom.parseString(self.saved("fovea-dates.svg"))
        self.assertIn("dates minus dates-2", saved.toxml())

    def test_by_the_keyboard_and_back_from_the_address(self):
        self.open("dates", "&beside=dates-2&input=3+July+2001")
        self.wait(lambda d: len(self.all("#view canvas.matrix")) == 3)
        for _ in range(60):  # to the difference, whose rows both runs have written
            if self.driver.execute_script("return document.activeElement.matches('#difference canvas')"):
                break
            webdriver.ActionChains(self.driver).send_keys(Keys.TAB).perform()
        webdriver.ActionChains(self.driver).send_keys(Keys.ARROW_RIGHT, Keys.ENTER).perform()
        self.wait(lambda d: "row=" in self.driver.current_url)
        address = self.driver.current_url
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda d: len(self.all("#view canvas.matrix")) == 3)
        self.assertEqual(len(self.all("#view .map .detail b")), 3, "a row is held in all")
        self.one("#difference canvas").send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        self.assertTrue(all("looks at" in s.text for s in self.all("#view .map .say")), [s.text for s in self.all("#view .map .say")])
        webdriver.ActionChains(self.driver).send_keys("n").perform()
        self.assertTrue(all("largest of its row" in l.text for l in self.all("#view .map .legend")))
        for _ in RUNS:  # the next run, and the next, and none
            webdriver.ActionChains(self.driver).send_keys("x").perform()
            if "beside" not in self.driver.current_url:
                break
        self.wait(lambda d: len(self.all("#view canvas.matrix")) == 1)

    def test_texts_too(self):
        self.open("reviews")
        Select(self.one("#beside")).select_by_visible_text("reviews-2")
        self.wait(lambda d: len(self.all("#view .shaded")) == 3)
        signs = {s.text for s in self.all("#difference mark sup")}
        self.assertEqual(signs, {"+", "−"})
        self.assertEqual(len(self.all("#output .predictions")), 2)


class Faithful(Page):
    def test_a_verdict_first_and_dots_that_open_their_examples(self):
        self.open("dates")
        self.wait(lambda d: self.all("#faithful summary"))
        self.one("#faithful summary").click()
        inputs = self.one("input[name=faithful-inputs]")
        inputs.clear()
        inputs.send_keys("3")
        self.one("#faithful-begin").click()
        self.wait(lambda d: self.all("#faithful .verdict"), 60)
        self.assertIn("ttention", self.text(".verdict"))
        self.assertEqual(len(self.all("#faithful .scatter")), 3)
        self.assertGreater(len(self.all("#faithful .dot")), 20)
        before = self.one("#input").get_attribute("value")
        # By the keyboard: a dot is read out, and opened.
        plot = self.one("#faithful .scatter")
        plot.send_keys(Keys.ARROW_RIGHT)
        plot.send_keys(Keys.ARROW_RIGHT)
        told = self.text("#faithful .chart .say")
        self.assertIn("τ of weights and gradient", told)
        plot.send_keys(Keys.ENTER)
        self.wait(lambda d: self.one("#input").get_attribute("value") in told)
        self.wait(lambda d: self.all("#view .detail b"))
        self.assertIn("row=", self.driver.current_url)
        self.assertIn(self.text("#view .detail b"), told)
        self.assertTrue(self.all("#faithful .verdict"), "what was measured stays")
        self.assertNotEqual(before, "")

    def test_it_can_be_cancelled(self):
        self.open("dates")
        self.wait(lambda d: self.all("#faithful summary"))
        self.one("#faithful summary").click()
        inputs = self.one("input[name=faithful-inputs]")
        inputs.clear()
        inputs.send_keys("500")
        self.one("#faithful-begin").click()
        self.wait(lambda d: "%" in self.text("#faithful .measuring"))
        self.one("#faithful-cancel").click()
        self.wait(lambda d: "cancelled" in self.text("#faithful .measuring"))
        self.assertTrue(self.one("#faithful-begin").is_enabled())


class Learned(Page):
    def test_an_example_over_the_steps_of_training(self):
        self.open("dates")
        self.wait(lambda d: self.one("#learned").is_displayed())
        last = self.text("#step")
        slider = self.one("#steps")
        self.assertGreaterEqual(int(slider.get_attribute("max")), 2)
        said = self.text("#learned figcaption")
        slider.send_keys(Keys.HOME)
        self.assertNotEqual(self.text("#step"), last)
        self.assertNotEqual(self.text("#learned figcaption"), said, "it learned to write something else")
        self.assertIn("step=", self.driver.current_url)
        step = self.text("#step")
        self.assertTrue(self.one("#curves .cursor").get_attribute("d"))
        address = self.driver.current_url
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda d: self.all("#learned canvas"))
        self.assertEqual(self.text("#step"), step)

    def test_of_a_text_too(self):
        self.open("reviews")
        self.wait(lambda d: self.all("#learned .shaded"))


class Dark(Page):
    """The tests of the light page that draw, once more."""
    dark = True
    test_the_keyboard_alone = Translate.test_the_keyboard_alone
    test_two_runs_in_step = Compare.test_two_runs_in_step
    open_heads = Heads.open_heads
    title_of = staticmethod(Heads.title_of)
    test_heads = Heads.test_all_small_one_large_some_off
    test_faithful = Faithful.test_a_verdict_first_and_dots_that_open_their_examples

    def test_it_is_dark(self):
        self.open("dates")
        colour = lambda: self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        self.assertEqual(colour(), "rgb(18, 21, 26)")
        self.one("#theme").click()
        self.assertEqual(colour(), "rgb(255, 255, 255)")
        self.one("#theme").click()
        self.assertEqual(colour(), "rgb(18, 21, 26)")


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


# What reaches beyond the screen.
WIDE = """
const beyond = e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
const named = e => `${e.tagName} #${e.id} .${e.getAttribute('class')}`
return [...document.querySelectorAll('body *')].filter(beyond).map(named).slice(0, 12).join(', ')
"""


class Phone(Page):
    phone = True

    def test_nothing_is_wider_than_the_screen(self):
        for run in ("dates", "reviews", "heads", "tales", "scenes", "digits", "pairs"):
            self.open(run)
            self.assertEqual(self.driver.execute_script("return document.documentElement.clientWidth"), 390)
            if run == "heads":
                self.wait(lambda d: self.all("#heads summary"))
                self.one("#heads summary").click()
                self.wait(lambda d: self.all("#heads-grid .head"))
            self.fits(run)

    def fits(self, what):
        wide = self.driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        self.assertLessEqual(wide, 1, f"{what}: {self.driver.execute_script(WIDE)}")

    def test_nor_what_is_opened_on_it(self):
        for run, more, shown in (("reviews", "&open=inside&ways=occlusion,attention", "#explained .shaded"),
                                 ("dates", "&input=12+漢+May&o.n-best=3&o.beam=3&open=inside&ways=jacobian,occlusion", "#explained canvas"),
                                 ("heads", "&open=heads,lines&head=decoder.0.cross+1&query=1&key=1", "#products canvas"),
                                 ("tales", "&input=" + "Ada+sells+hats.+" * 30, ".with-text"),
                                 ("dates", "&beside=plain", "#view .pair canvas"),
                                 ("dates", "&o.beam=-3", "#output .problem")):
            self.driver.get("about:blank")
            self.driver.get(f"{SITE.address}#run={run}{more}")
            self.wait(lambda d: self.all(shown), 60)
            self.fits(run + more)
        self.driver.get_log("browser")  # the refusal is in the console, as it should be

    def test_the_list_of_runs_opens_to_choose_from(self):
        self.open("dates")
        self.assertFalse(self.one("#runs").is_displayed())
        self.assertIn("dates", self.text("#list summary"))
        self.one("#list summary").click()
        [b for b in self.all("#runs button") if b.text.startswith("reviews\n")][0].click()
        self.wait(lambda d: self.all(".shaded mark"))
        self.assertFalse(self.one("#runs").is_displayed())

    def test_two_runs_one_below_the_other(self):
        self.open("dates", "&beside=dates-2")
        self.wait(lambda d: len(self.all("#view canvas.matrix")) == 3)
        wide = self.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        self.assertLessEqual(wide, 1)


class Start(Page):
    def test_without_a_run_the_page_trains_one(self):
        empty = tempfile.mkdtemp(prefix="fovea-empty-")
        program = subprocess.Popen([FOVEA, "serve", "--port", "0"], cwd=empty, text=True, stdout=subprocess.PIPE)
        try:
            self.driver.get(program.stdout.readline().strip())
            self.wait(lambda d: "no run yet" in self.text("#begin"))
            self.wait(lambda d: self.all(".card[data-task=translate] .train-now"))
            self.one(".card[data-task=translate] .train-now").click()
            self.wait(lambda d: self.all("#runs .live"))
            self.wait(lambda d: self.all("#curves svg"), 60)
        finally:
            program.send_signal(signal.SIGINT)
            self.assertEqual(program.wait(30), 0)
            shutil.rmtree(empty, ignore_errors=True)
            self.driver.get("about:blank")
            self.driver.get_log("browser")


@unittest.skipUnless("numbers" in RUNS, "the program has no other kind of picture")
class AnotherKind(Page):
    """Pictures of a kind that the page's script has no view for, as the program draws them."""

    def test_is_shown_by_its_svg_and_saved(self):
        self.open("numbers")
        self.type("3 14 95")
        self.assertEqual(self.text("#output .said"), "95")
        self.wait(lambda d: self.driver.execute_script(
            "const i = document.querySelector('#view .drawn img'); return i && i.complete && i.naturalWidth > 100"))
        self.assertEqual(self.one("#view .drawn img").get_attribute("alt"), "3 14 95")
        title = b"3 14 95"
        for name, holds in {
            "svg": lambda b: title in b and b">95</text>" in b,
            "png": lambda b: b.startswith(b"\x89PNG"),
            "csv": lambda b: b.startswith(b'picture,label,weight\r\n"3 14 95","3",'),
            "json": lambda b: json.loads(b)[0]["labels"] == ["3", "14", "95"],
            "html": lambda b: b'<figure class="ranking"><figcaption>3 14 95</figcaption>' in b,
        }.items():
            self.one(f"button[data-format={name}]").click()
            self.assertTrue(holds(self.saved(f"fovea-numbers.{name}")), name)


if __name__ == "__main__":
    run_all()
