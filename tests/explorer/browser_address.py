"""What is shown is in the address, and comes back from it."""
from in_browser import *


class Address(Page):
    def again(self):
        address = self.driver.current_url
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda d: self.all("#output .said"))

    def test_methods_and_the_layer(self):
        self.open("heads")
        self.wait(lambda d: self.all("#inside summary"))
        self.one("#inside summary").click()
        for way in ("attention", "smoothgrad"):
            self.one(f"#inside input[value={way}]").click()
        self.wait(lambda d: len(self.all("#explained figure")) == 2, 60)
        Select(self.one("#which-head select[aria-label=Layer]")).select_by_value("encoder.0.self")
        self.wait(lambda d: "Encoder layer 1" in self.text("#explained"), 60)
        Select(self.one("#which-head select[aria-label=Head]")).select_by_value("2")
        self.wait(lambda d: "head 2" in self.text("#explained"), 60)
        self.assertIn("ways=attention%2Csmoothgrad", self.driver.current_url)
        self.again()
        self.wait(lambda d: len(self.all("#explained figure")) == 2, 60)
        self.assertIn("Encoder layer 1, self-attention, head 2", self.text("#explained"))
        self.assertEqual(len(self.all("#inside input:checked")), 2)

    def test_an_opened_head_and_one_that_is_off(self):
        self.open("heads", "&open=heads")
        self.wait(lambda d: self.all("#heads-grid .head"))
        self.all("#heads-grid .head")[5].click()
        self.wait(lambda d: self.all("#head canvas.matrix"))
        self.one("#switch-off").click()
        self.wait(lambda d: self.all("#without tbody tr"))
        title = self.text("#head b")
        Select(self.one("#heads-order")).select_by_value("distance")
        first = self.one("#heads-grid .head").get_attribute("data-head")
        self.again()
        self.wait(lambda d: self.all("#head canvas.matrix") and self.all("#without tbody tr"))
        self.assertEqual(self.text("#head b"), title)
        self.assertEqual(self.one("#heads-order").get_attribute("value"), "distance")
        self.assertEqual(self.one("#heads-grid .head").get_attribute("data-head"), first)
        self.assertEqual(len(self.all("#heads-grid .head.off")), 1)

    def test_a_line_that_is_left_out(self):
        self.open("reviews", "&input=The+film+is+superb.+The+story+was+dull.")
        self.wait(lambda d: len(self.all("#view .shaded .weight")) == 2)
        self.all("#view .shaded .weight")[1].click()
        self.wait(lambda d: "left out" in self.text("#output"))
        self.assertIn("without=1", self.driver.current_url)
        said = self.text("#output .predictions")
        self.again()
        self.wait(lambda d: self.all(".shaded .dropped"))
        self.assertEqual(self.text("#output .predictions"), said)
        self.type("Another text.")
        self.assertNotIn("without", self.driver.current_url)

    def rows(self):
        rows = self.all("#data .strip .data-row:not([hidden])")
        return [r.get_attribute("title") for r in sorted(rows, key=lambda r: int(r.get_attribute("data-at")))]

    def test_what_is_left_of_the_table_and_its_order(self):
        self.open("reviews", "&open=data")
        self.wait(lambda d: self.all("#data-begin"))
        self.one("#data-begin").click()
        self.wait(lambda d: self.rows(), 60)
        everything = self.text("#data .slice")
        Select(self.one("select[name=data-expected]")).select_by_index(1)
        for name, value in {"word": "the", "low": "2", "high": "400"}.items():
            self.one(f"input[name=data-{name}]").send_keys(value)
        self.one("input[name=data-wrong]").click()
        self.one(".data-heads .length").click()
        self.wait(lambda d: self.text(".data-heads .length") == "words ↓")
        shown = lambda: (self.rows(), self.text("#data .slice"), *[self.one(f"[name=data-{n}]").get_attribute("value") for n in ("word", "expected", "low", "high")])
        before = shown()
        self.assertNotEqual(before[1], everything)
        for part in ("find=the", "class=", "from=2", "to=400", "wrong=yes", "sort=-length"):
            self.assertIn(part, self.driver.current_url)
        self.again()
        self.one("#data-begin").click()
        self.wait(lambda d: self.rows(), 60)
        self.assertEqual(shown(), before)
        self.assertTrue(self.one("input[name=data-wrong]").is_selected())
        self.open("reviews", "&open=data&class=nothing&sort=-nothing&from=zzz")
        self.wait(lambda d: self.all("#data-begin"))
        self.one("#data-begin").click()
        self.wait(lambda d: self.rows(), 60)
        self.assertEqual(self.text("#data .slice"), everything, "what means nothing leaves nothing out")

    def test_the_opened_part_of_the_model(self):
        self.open("heads", "&open=model")
        self.wait(lambda d: self.all("#model .part[data-part='decoder.1']"))
        self.one("#model .part[data-part='decoder.1']").click()
        self.wait(lambda d: self.all("#part .tensors"))
        self.one("#part button[data-tensor='decoder.1.cross.out.weight']").click()
        self.wait(lambda d: self.all("#weights canvas.matrix"))
        said = self.text("#weights")
        self.again()
        self.wait(lambda d: self.all("#weights canvas.matrix"))
        self.assertEqual(self.text("#weights"), said)
        self.assertEqual(self.one("#model .part[aria-pressed=true]").get_attribute("data-part"), "decoder.1")
        self.one("#model .part[data-part='encoder.0']").click()
        self.wait(lambda d: not self.all("#weights *"))
        self.assertNotIn("weights=", self.driver.current_url)

    def test_back_goes_to_the_run_before(self):
        self.open("dates", "&input=12+May+1999&row=2")
        self.wait(lambda d: self.all("#runs button"))
        [b for b in self.all("#runs button") if b.find_element(By.TAG_NAME, "b").text == "reviews"][0].click()
        self.wait(lambda d: self.text("#about h2") == "reviews" and self.all("#view .shaded"))
        self.driver.back()
        self.wait(lambda d: self.text("#about h2") == "dates" and self.all("#view canvas.matrix"))
        self.assertEqual(self.one("#input").get_attribute("value"), "12 May 1999")
        self.assertIn("row=2", self.driver.current_url)
        self.driver.forward()
        self.wait(lambda d: self.text("#about h2") == "reviews")

    def test_a_long_input_outlives_a_reload(self):
        self.open("reviews")
        long = "The film is superb. " * 80
        self.driver.execute_script("const b = document.getElementById('input'); b.value = arguments[0]; b.dispatchEvent(new Event('input'))", long)
        self.wait(lambda d: "too long for the address" in self.text("#output"))
        self.assertLess(len(self.driver.current_url), 200)
        said = self.text("#output .predictions")
        self.driver.refresh()
        self.wait(lambda d: self.all("#output .said"))
        self.assertEqual(self.one("#input").get_attribute("value"), long)
        self.assertEqual(self.text("#output .predictions"), said)
