#!/usr/bin/python3
"""docs/tutorial.md in a real browser: tutorial.py FOVEA SCREENS

Does what the tutorial does, checks what it says, and takes its pictures: `./dev screens` puts them into docs/screens.
"""
import re
import sys
import unittest

from browser_board import Board, Select, Served, TICKETS



LETTER = "I was charged twice for the lamp. Please answer soon."


class Tutorial(Board):
    size = (1280, 800)

    def prefix(self):
        return ""

    def tearDown(self):
        pass  # no other pictures; what the console says is told by the other tests

    def shot(self, name, css=None):
        """What is on the screen, of a part of the page where that is said."""
        if css:
            self.driver.execute_script("arguments[0].scrollIntoView({ block: 'start' })", self.one(css))
        super().shot(name)

    def test_half_an_hour(self):
        with Served() as site:
            self.driver.get(site.address)
            self.wait(lambda d: self.all(".card"))
            self.train()
            self.look()
            self.worst()
            self.trap()
            self.measure()
        self.driver.get("about:blank")
        self.driver.get_log("browser")  # the program has ended

    def train(self):
        self.click(".card[data-task=documents] .train-set")
        self.wait(lambda d: self.all("#train-form form"))
        self.one("#own-file").send_keys(str(TICKETS))
        self.wait(lambda d: "is kept for this training" in self.text("#sent"))
        self.shot("form")
        self.click("#train-begin")
        self.wait(lambda d: "Report of this run" in self.text("#about"), 240)
        self.wait(lambda d: self.all("#charts .word-mark"))
        accuracy = re.search(r"accuracy, % ([\d.]+)", self.text("#runs"))
        self.assertGreater(float(accuracy[1]), 88)
        self.assertLess(float(accuracy[1]), 99, "some are wrong")
        self.shot("curves", "#curves")

    def look(self):
        self.give(LETTER)
        self.assertEqual(self.text(".said"), "billing")
        self.driver.execute_script("scrollTo(0, 0)")
        self.shot("page")

    def give(self, text):
        self.type(text)
        self.wait(lambda d: self.all(".shaded mark"))

    def worst(self):
        self.unfold("#data")
        self.click("#data-begin")
        self.wait(lambda d: self.all("#data .strip .data-row:not([hidden])"), 60)
        self.shot("data", "#data")
        worst = [r.get_attribute("title") for r in self.all("#data .strip .data-row.wrong")]
        self.assertTrue(worst)
        self.assertTrue(all(w.endswith("Sent from my phone.") for w in worst), worst)
        Select(self.one("select[name=data-expected]")).select_by_value("billing")
        self.fill("input[name=data-word]", "phone")
        self.wait(lambda d: re.search(r"this slice \d+ 0\.0 %", self.text("#data .slice")))

    def trap(self):
        self.give(LETTER)
        self.unfold("#edit-word")
        self.wait(lambda d: self.all("#edit-word .word"))
        self.all("#edit-word .word")[-1].click()
        self.wait(lambda d: len(self.all("#both .predictions")) == 2)
        self.fill("#edit-word input", "soon. Sent from my phone.")
        said = lambda: [p.text.split("\n")[0].split(" ")[0] for p in self.all("#both .predictions li:first-child .said")]
        self.wait(lambda d: said() == ["billing", "delivery"])
        self.shot("edit", "#edit-word")

    def measure(self):
        self.unfold("#faithful")
        self.fill("input[name=faithful-inputs]", "20")
        self.click("#faithful-begin")
        self.wait(lambda d: self.all("#faithful .verdict"), 90)
        self.assertGreater(len(self.text("#faithful .verdict")), 40)
        self.shot("faithful", "#faithful")


if __name__ == "__main__":
    try:
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    finally:
        Board.close_all()
    sys.exit(0 if result.wasSuccessful() else 1)
