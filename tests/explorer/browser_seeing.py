"""Runs that see: captions, glimpses and the places of an image."""
from in_browser import *


class Caption(Seeing):
    def test_a_word_shows_its_places_and_a_place_its_words(self):
        self.ready("scenes")
        words = self.all(".spoken .word")
        self.assertEqual(" ".join(w.text for w in words), self.text(".said"))
        self.assertEqual(len(self.all(".films .film")), len(words), "a picture for each word")
        plain = self.light()
        self.point(".spoken .word", lambda: "looked at" in self.text(".detail"))
        self.assertLess(self.light(), plain - 5, "dark where it was not looked at")
        self.assertIn("equal weights would be 0.0156 each", self.text(".legend"))
        self.assertRegex(self.text(".legend"), r"entropy [\d.]+ of 4\.16 nats")
        self.assertEqual(len(self.all(".film.on")), 1)
        self.point("canvas.stage", lambda: "looked at by" in self.text(".seen .say"), -60, 40)
        shades = self.driver.execute_script(
            "return [...document.querySelectorAll('.spoken .word')].map(w => +w.style.getPropertyValue('--w'))")
        self.assertEqual(max(shades), 1)
        self.assertLess(min(shades), 1, "words that looked there less are lighter")
        self.assertAlmostEqual(self.light(), plain, delta=2)

    def test_time_goes_by_the_arrows_and_the_keyboard_is_enough(self):
        self.ready("scenes")
        plain, n = self.light(), len(self.all(".spoken .word"))
        self.keys(Keys.ARROW_RIGHT)
        self.wait(lambda d: f"1 of {n}" in self.text(".seen .say"))
        self.assertIn("row=0", self.driver.current_url)
        self.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.assertIn("row=2", self.driver.current_url)
        self.assertLess(self.light(), plain - 5)
        self.keys("b")
        self.wait(lambda d: self.one("#blur").get_attribute("aria-pressed") == "true")
        self.keys("n")
        self.wait(lambda d: "one scale" in self.text("#light"))
        self.keys("n")
        self.wait(lambda d: "minus the mean" in self.text(".legend"))
        self.keys("t")
        self.wait(lambda d: len(self.all("#view tbody tr")) == n)
        address, said = self.driver.current_url, self.text(".detail")
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda d: self.all(".film.on"))
        self.assertEqual(self.text(".detail"), said, "the address brings it back")
        self.keys(Keys.ESCAPE)
        self.assertNotIn("row=", self.driver.current_url)
        self.tab_to("canvas.stage")
        self.keys(Keys.ARROW_DOWN, Keys.ARROW_LEFT)
        self.wait(lambda d: re.match(r"Place 5, 4: looked at by", self.text(".seen .say")))
        self.tab_to(".spoken .word")
        self.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.assertIn("row=2", self.driver.current_url)
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("data-look"), "2")

    def test_an_image_is_chosen_dropped_or_taken_from_the_run(self):
        self.ready("scenes")
        self.all("#gallery button")[2].click()
        self.wait(lambda d: "input=scene" in self.driver.current_url and "expected" in self.text("#output"))
        photo = self.downloads / "a photo.png"
        photo.write_bytes(png())
        self.one("#file").send_keys(str(photo))
        self.wait(lambda d: "a photo.png is shown. It is not in the address" in self.text("#drop"))
        self.wait(lambda d: "expected" not in self.text("#output") and self.all(".said"))
        self.assertFalse(self.all("#gallery [aria-pressed=true]"))
        photo.unlink()
        self.drop("broken.png", png()[:70])
        self.wait(lambda d: self.all("#output .error"))
        self.wait(lambda d: "broken.png cannot be shown: " in self.text("#output .error"))
        self.assertIn("Choose a PNG or JPEG file", self.text("#output .problem"))
        self.assertFalse(self.all(".frame-of"))
        self.wait(lambda d: "is shown" not in self.text("#drop"))
        self.drop("fine.png", png(64, 64))
        self.wait(lambda d: self.all(".frame-of canvas"))
        self.driver.execute_script("""
          const moved = new DataTransfer();
          moved.items.add(new File([new Uint8Array(11100000)], 'huge.png'));
          document.querySelector('#drop').dispatchEvent(new DragEvent('drop', { dataTransfer: moved, bubbles: true, cancelable: true }));""")
        self.wait(lambda d: "at most 11 are taken" in self.text("#output"))
        self.driver.get_log("browser")  # the refusal is in the console, as it should be

    def test_other_ways_of_asking_stand_beside_each_other(self):
        self.ready("scenes", "&row=1")
        self.wait(lambda d: self.all("#inside summary"))
        self.one("#inside summary").click()
        for way in ("attention", "occlusion", "gradcam"):
            self.one(f"#inside input[value={way}]").click()
        self.wait(lambda d: len(self.all("#explained .sheet")) == 3, 60)
        self.assertGreaterEqual(len(self.all("#explained .sheet canvas")), 3 * len(self.all(".spoken .word")))
        self.assertTrue(self.all(".agreement td"))
        self.one("canvas.stage").click()
        self.one("button[data-weights=given]").click()
        self.wait(lambda d: self.all("#held tbody tr"))

    def test_it_is_saved_as_the_command_draws_it(self):
        self.ready("scenes")
        n = len(self.all(".spoken .word"))
        self.export("scenes", {
            "svg": lambda b: self.images_in(b) == n + 1 and b"scenes: scene:" in b and b"equal weights" in b,
            "png": lambda b: b.startswith(b"\x89PNG"),
            "csv": lambda b: len(b.splitlines()) == 64 * n + 1,
            "json": lambda b: len(json.loads(b)[0]["looks"]) == n,
            "html": lambda b: b.count(b"<image") == n + 1 and b.strip().endswith(b"</html>")})


class Glimpses(Seeing):
    def shown(self):
        return self.one("#glimpse").get_attribute("value")

    def test_glimpse_by_glimpse(self):
        self.ready("digits")
        films = self.all(".films .film")
        self.assertEqual(len(films), 6)
        self.assertEqual(len(self.all(".film img")), 12, "two patches each")
        self.assertEqual(self.shown(), "6")
        self.assertEqual(len(self.all(".over circle")), 6)
        self.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        self.assertEqual(self.shown(), "4")
        self.assertIn("row=3", self.driver.current_url)
        self.assertEqual(len(self.all(".over .later circle")), 2)
        self.assertEqual(len(self.all(".over .sensor")), 2, "the squares of the sensor")
        films[0].click()
        self.assertIn("Glimpse 1 of 6, at 24, 24", self.text(".seen .say"))
        shares = [float(v.text) for v in self.all(".bars li > :last-child")]
        self.assertAlmostEqual(sum(shares), 1, delta=0.06)
        self.tab_to("#glimpse")
        self.keys(Keys.ARROW_RIGHT)
        self.assertIn("Glimpse 2 of 6", self.text(".seen .say"))

    def test_it_plays_unless_motion_is_unwelcome(self):
        self.ready("digits", "&row=3")
        self.one("#play").click()
        self.assertIn("Pause", self.text("#play"))
        self.wait(lambda d: self.shown() == "6")
        self.wait(lambda d: "Play" in self.text("#play"))
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-reduced-motion", "value": "reduce"}]})
        try:
            self.ready("digits", "&row=0")
            self.assertFalse(self.one("#play").is_enabled())
            self.keys("p")
            self.assertEqual(self.shown(), "1")
            self.keys(Keys.ARROW_RIGHT)
            self.assertEqual(self.shown(), "2")
        finally:
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_many_ways_as_density_and_all_of_it_saved(self):
        self.ready("digits")
        self.assertFalse(self.all(".density rect"))
        self.one("#ways").click()
        self.wait(lambda d: self.all(".density rect"))
        self.assertIn("50 sampled paths", self.text(".legend"))
        self.assertEqual(self.one("#options input[name=ways]").get_attribute("value"), "50")
        self.export("digits", {
            "svg": lambda b: xml.dom.minidom.parseString(b) and b'class="density"' in b and b"digits: test:" in b,
            "png": lambda b: b.startswith(b"\x89PNG"),
            "csv": lambda b: b.startswith(b"picture,glimpse,x,y") and len(b.splitlines()) == 7,
            "json": lambda b: len(json.loads(b)[0]["others"]) == 50,
            "html": lambda b: b'class="scan"' in b})
        self.keys("d")
        self.wait(lambda d: not self.all(".density rect"))
        self.drop("mine.png", png(28, 28))
        self.wait(lambda d: "mine.png" in self.text("#drop") and self.all(".over circle"))


class Places(Seeing):
    def test_a_place_shows_what_it_attends_to(self):
        self.ready("pairs")
        self.assertEqual(len(self.all(".predictions .meter")), 2, "a bar for each class")
        n = len(self.all(".film"))
        self.point("canvas.stage", lambda: "attends most to" in self.text(".seen .say"), 100, -100)
        at = re.match(r"Place (\d+), (\d+)", self.text(".seen .say"))
        self.one("canvas.stage").click()
        self.wait(lambda d: "row=p" in self.driver.current_url)
        self.point(".legend", lambda: re.match(r"from \d+, \d+\s+looked at", self.text(".detail")))
        self.assertNotIn(f"from {at[1]}, {at[2]}", self.text(".detail"))
        self.export("pairs", {"svg": lambda b: self.images_in(b) == n + 2})
        self.assertTrue(self.all("#inside summary"))
        self.keys(Keys.ESCAPE)
        self.tab_to("canvas.stage")
        self.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
        self.assertIn("row=p", self.driver.current_url)


class SeeingDark(Seeing):
    dark = True

    def test_words(self):
        self.ready("scenes", "&row=1")
        self.assertIn("looked at", self.text(".detail"))

    def test_glimpses(self):
        self.ready("digits", "&row=2")
        colour = self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        self.assertEqual(colour, "rgb(18, 21, 26)")
