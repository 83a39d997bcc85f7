"""Heads and blocks of a Transformer, taken apart."""
from in_browser import *


class Heads(Page):
    def open_heads(self):
        self.open("heads")
        self.wait(lambda d: self.all("#heads summary"))
        self.one("#heads summary").click()
        self.wait(lambda d: self.all("#heads-grid .head"))

    @staticmethod
    def title_of(key):
        """decoder.0.cross 2 → Decoder layer 1, cross-attention, head 2"""
        side, number, kind, head = re.match(r"(\w+)\.(\d+)\.(\w+) (\d+)", key).groups()
        return f"{side.capitalize()} layer {int(number) + 1}, {kind}-attention, head {head}"

    def test_layers_and_heads_count_from_one_in_the_order_of_the_data(self):
        self.open_heads()
        self.assertEqual([l.text for l in self.all("#heads-grid .layer")], [
            "Encoder layer 1, self-attention", "Encoder layer 2, self-attention",
            "Decoder layer 1, self-attention", "Decoder layer 1, cross-attention",
            "Decoder layer 2, self-attention", "Decoder layer 2, cross-attention"])
        self.assertTrue(self.text("#heads-grid .head").startswith("head 1"))

    def test_all_small_one_large_some_off(self):
        self.open_heads()
        self.assertEqual(len(self.all("#heads-grid .head")), 6 * 4)
        Select(self.one("#heads-order")).select_by_value("entropy")
        entropies = [float(re.search(r"entropy ([\d.e-]+)", h.get_attribute("title")).group(1))
                     for h in self.all("#heads-grid .head")]
        self.assertEqual(entropies, sorted(entropies))
        first = self.one("#heads-grid .head")
        name = first.get_attribute("data-head")
        first.click()
        self.wait(lambda d: self.all("#head canvas.matrix"))
        self.assertIn(self.title_of(name), self.text("#head"))
        self.assertEqual(self.text("#switch-off"), "Switch this head off")
        self.one("#switch-off").click()
        self.wait(lambda d: self.all("#without tbody tr"))
        self.assertRegex(self.text("#without"), "Without them (the output is the same|\\d+ of \\d+ outputs are different)")
        self.assertEqual(self.text("#switch-off"), "Switch this head on")
        self.assertEqual(len(self.all("#heads-grid .head.off")), 1)
        self.one("#pin").click()
        self.assertEqual(len(self.all("#pinned canvas.matrix")), 1)
        self.all("#heads-grid .head")[3].click()
        self.wait(lambda d: self.title_of(name) not in self.text("#head figcaption"))
        self.assertEqual(len(self.all("#pinned canvas.matrix")), 1, "the pinned one stays")

    def test_blocks_are_taken_apart(self):
        self.open("heads", "&open=lens,ranking,patching")
        self.wait(lambda d: self.all("#lens-result .word-map tbody tr"))
        self.assertEqual([h.text for h in self.all("#lens-result tbody th")], ["embedding", "block 1", "block 2"])
        self.one("#lens-result .scroll").send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        self.assertRegex(self.text("#lens-result .say"), r"^block 1: .* has p [\d.]+ and rank \d+$")
        paper = lambda: self.one("#lens-result td[data-cell]").value_of_css_property("background-color")
        light = paper()
        self.one("#theme").click()
        self.wait(lambda d: paper() != light)
        self.one("#theme").click()
        self.wait(lambda d: paper() == light)
        self.one("#ranking-begin").click()
        self.wait(lambda d: self.all("#ranking-result .ranked tbody tr"), 60)
        lost = [float(r.find_element(By.TAG_NAME, "td").text) for r in self.all("#ranking-result .ranked tbody tr")]
        self.assertEqual(lost, sorted(lost, reverse=True))
        self.assertEqual(self.one("#ranking-result .word-map thead th").text, "head 1")
        self.assertEqual(self.one("#ranking-result .word-map tbody th").text, "Encoder layer 1, self-attention")
        other = self.one("#input").get_attribute("value")
        self.assertEqual(self.one("#patching-beside").get_attribute("value"), other, "a word of it is to be changed")
        self.one("#patching-beside").send_keys(Keys.END, Keys.BACKSPACE, "2" if other[-1] == "1" else "1", Keys.ENTER)
        self.wait(lambda d: len(self.all("#patching-result canvas.matrix")) == 2, 60)  # what reads, what writes
        self.one("#patching-beside").send_keys("1")
        self.one("#patching-begin").click()
        self.wait(lambda d: "as many" in self.text("#patching-result"), 60)
        self.driver.get_log("browser")  # the refusal is in the console, as it should be
        self.type("12 May 1999")
        self.wait(lambda d: not self.all("#ranking-result *"))
        self.assertEqual(self.one("#patching-beside").get_attribute("value"), "12 May 1999")

    def test_rows_become_one_or_not(self):
        self.open("heads")
        self.wait(lambda d: self.all("#rank summary"))
        self.one("#rank summary").click()
        self.one("#rank-begin").click()
        self.wait(lambda d: self.all("#rank svg path.line"), 60)
        self.assertIn("skip", self.text("#rank"))
