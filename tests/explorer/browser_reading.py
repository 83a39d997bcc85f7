"""What is read off the page: signs, words that are not known, what is offered, what is in the address, what went
wrong; and lines."""
from in_browser import *


class Signs(Page):
    """A text whose words speak for and against: page, file and terminal show the same."""

    TEXT = "The film is superb. The story was dull, and it rained."

    def explained(self, *ways):
        self.open("reviews", f"&input={self.TEXT.replace(' ', '+')}&open=inside&ways={','.join(ways)}")
        self.wait(lambda d: len(self.all("#explained .shaded")) == len(ways), 60)

    def test_colours_signs_and_a_legend_agree_everywhere(self):
        self.explained("occlusion")
        marks = {kind: [m.text.lstrip("+−") for m in self.all(f"#explained mark.{kind}") if m.text[0] in "+−"]
                 for kind in ("more", "less")}
        self.assertTrue(marks["more"] and marks["less"], marks)
        ground = lambda kind: self.driver.execute_script(
            "const m = [...document.querySelectorAll(arguments[0])].sort((a, b) => b.dataset.share - a.dataset.share)[0];"
            "return getComputedStyle(m).backgroundColor.match(/[\\d.]+/g).map(Number)", f"#explained mark.{kind}")
        more, less = ground("more"), ground("less")
        self.assertGreater(more[0], more[2], "orange is for the output")
        self.assertGreater(less[2], less[0], "blue is against it")
        self.assertRegex(self.text("#explained .legend"), r"against the output −[\d.]+\s+\+[\d.]+ for it")
        run = str(SITE.folder / "runs" / "reviews")
        svg = SITE.folder / "signs.svg"
        said = subprocess.run([FOVEA, "explain", run, self.TEXT, "--by", "occlusion", "--picture", str(svg)],
                              check=True, capture_output=True, text=True).stdout
        drawn = re.findall(r">(⁺|⁻)([^<]+)</text>", svg.read_text())
        self.assertEqual([w for sign, w in drawn if sign == "⁺"], marks["more"])
        self.assertEqual([w for sign, w in drawn if sign == "⁻"], marks["less"])
        self.assertIn("blue: against it", svg.read_text())
        body = said[:said.index("for the output")]  # the legend is below
        self.assertEqual(re.findall(r"(?<!_)_{1,3}([^_\s]+)_{1,3}", body)[:len(marks["less"])], marks["less"])
        self.assertIn("against it; the fullest is", said)

    def test_attention_has_a_legend_too(self):
        self.open("reviews")
        self.assertRegex(self.text("#view .legend"), r"^0\s+[\d.e-]+\s+· a word’s share of all weight")

    def test_agreement_knows_signs(self):
        self.explained("occlusion", "integrated-gradients", "saliency")
        numbers = lambda css: [float(c.text) for c in self.all(css)]
        sizes, values = numbers(".agreement.sizes td"), numbers(".agreement.values td")
        self.assertEqual((len(sizes), len(values)), (9, 4), "saliency has no sign to compare")
        self.assertTrue(all(-1 <= t <= 1 for t in sizes + values))


class Typing(Page):
    def test_an_emptied_input_clears_the_answer(self):
        for run in ("dates", "reviews", "tales"):
            self.open(run)
            box = self.one("#input")
            box.send_keys(Keys.CONTROL, "a")
            box.send_keys(Keys.BACKSPACE)
            self.wait(lambda d: "Type something" in self.text("#output"))
            self.assertFalse(self.all("#output .said") or self.all("#view *"))
            self.assertFalse(self.one("#panels").is_displayed())
            box.send_keys("1 May" if run == "dates" else "The film is good.")
            self.wait(lambda d: self.all("#output .said") and self.all("#view figure"))
            self.assertTrue(self.one("#panels").is_displayed())

    def test_what_is_unknown_is_underlined_with_what_was_read_instead(self):
        self.open("dates")
        self.type("12 漢 May")
        self.wait(lambda d: self.all("#typed u"))
        self.assertEqual(self.driver.execute_script("return [...document.querySelectorAll('#typed u')].map(u => u.textContent)"), ["漢"])
        self.assertIn("‹漢›", self.text("#unknown"))
        self.assertIn("The model read ⁇", self.text("#unknown"))
        where = self.driver.execute_script("""
          const u = document.querySelector('#typed u').getBoundingClientRect(), box = document.querySelector('#input').getBoundingClientRect();
          return [u.left - box.left, u.top - box.top, u.width, box.height]""")
        self.assertTrue(5 < where[0] < 80 and 0 < where[1] < where[3], f"below the letter, at {where}")
        self.type("12 May 1999")
        self.wait(lambda d: not self.all("#typed u"))
        self.assertFalse(self.one("#unknown").is_displayed())
        self.open("reviews")
        self.type("The zyxw is superb.")
        self.wait(lambda d: self.all("#view mark.strange"))
        self.assertEqual([m.text for m in self.all("#view mark.strange")], ["zyxw"])
        self.assertIn("the model read ⁇", self.one("#view mark.strange").get_attribute("title"))

    def test_spaces_are_the_same_sign_everywhere(self):
        self.open("dates")
        self.type("12 May 1999")
        words = [w.text for w in self.all(".links .word")]
        self.assertIn("␣", words)
        self.assertNotIn("␠", "".join(words))


class Beam(Page):
    def test_every_candidate_can_be_opened(self):
        self.open("dates", "&input=12+May+1999&o.n-best=4&o.beam=4")
        self.wait(lambda d: len(self.all("#output .candidate")) == 4)
        said = [c.text for c in self.all("#output .candidate")]
        rows = lambda: "".join(w.text for w in self.all(".links [aria-label='What was written'] .word"))
        self.assertTrue(rows().startswith(said[0]))
        self.all("#output .candidate")[2].click()
        self.wait(lambda d: rows().startswith(said[2]))
        self.assertIn("pick=2", self.driver.current_url)
        self.assertEqual([c.get_attribute("aria-pressed") for c in self.all("#output .candidate")],
                         ["false", "false", "true", "false"])
        self.driver.refresh()
        self.wait(lambda d: self.all("#output .candidate") and rows().startswith(said[2]))


class Offered(Page):
    """Nothing is offered that can only refuse."""

    def methods(self, run):
        self.open(run, "&open=inside")
        self.wait(lambda d: self.all("#inside .ways input"))
        return {i.get_attribute("value") for i in self.all("#inside .ways input")}

    def panels(self):
        of_the_model = ("inside", "heads", "lines", "faithful", "rank")
        return [i for i in (p.get_attribute("id") for p in self.all("#panels > details")) if i in of_the_model]

    def test_methods_and_panels_ask_the_run(self):
        dates = self.methods("dates")
        self.assertTrue({"attention", "integrated-gradients"} <= dates)
        self.assertFalse({"rollout", "gradcam", "hirescam"} & dates)
        self.assertEqual(self.panels(), ["inside", "faithful"])
        self.assertTrue(self.all("[data-weights]"))
        self.assertNotIn("attention", self.methods("plain"))
        self.assertEqual(self.panels(), ["inside"])
        self.assertFalse(self.all("[data-weights]"))
        self.assertIn("rollout", self.methods("tales"))
        self.assertEqual(self.panels(), ["inside", "heads", "lines", "rank"], "an lm has no look to test for faithfulness")
        self.assertTrue({"gradcam", "hirescam"} <= self.methods("scenes"))
        names = [l.text for l in self.all("#inside .ways label")]
        self.assertIn("Integrated Gradients", names)
        self.assertIn("HiResCAM", names)


class Beside(Page):
    """Runs that differ in more than a seed."""

    def test_a_run_without_attention_shows_its_jacobian(self):
        self.open("dates", "&input=12+May+1999&beside=plain")
        self.wait(lambda d: len(self.all("#view .pair canvas.matrix")) == 2, 60)
        titles = [c.text for c in self.all("#view .pair figcaption")]
        self.assertEqual(titles, ["dates: attention", "plain: Jacobian"])
        self.assertIn("different measures", self.text("#difference"))
        legends = [l.text for l in self.all("#view .map .legend")]
        self.assertNotEqual(legends[0], legends[1], "each has its own scale")
        self.open("plain", "&input=12+May+1999&beside=dates")
        self.wait(lambda d: len(self.all("#view .pair canvas.matrix")) == 2, 60)

    def test_runs_of_other_data_and_tasks_are_offered(self):
        self.open("dates")
        groups = {g.get_attribute("label"): [o.text for o in g.find_elements(By.TAG_NAME, "option")]
                  for g in self.all("#beside optgroup")}
        self.assertEqual(groups, {"Same data": ["dates-2", "heads", "plain"], "Other data": ["phrases"],
                                  "Other tasks": ["reviews", "reviews-2", "tales"]})
        for other in ("phrases", "reviews"):
            Select(self.one("#beside")).select_by_value(other)
            self.wait(lambda d: other in [h.text for h in self.all("#output h3")])
            self.wait(lambda d: len(self.all("#output .predictions")) == 2)
        self.wait(lambda d: self.all("#view .pair .shaded"))

    def test_two_that_are_named_stand_side_by_side_in_their_order(self):
        runs = SITE.folder / "runs"
        program = subprocess.Popen([FOVEA, "serve", str(runs / "phrases"), str(runs / "dates"), "--port", "0"], text=True,
                                   stdout=subprocess.PIPE)
        try:
            self.driver.get("about:blank")
            self.driver.get(program.stdout.readline().strip())
            self.wait(lambda d: len(self.all("#output .predictions")) == 2)
            self.assertEqual([h.text for h in self.all("#output h3")], ["phrases", "dates"])
            self.assertEqual([b.text for b in self.all("#runs b")], ["phrases", "dates"])
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(30)
            self.driver.get("about:blank")
            self.driver.get_log("browser")


class Trouble(Page):
    """What went wrong, what to do, and going on by itself."""

    def test_the_program_stops_and_comes_back(self):
        empty = pathlib.Path(tempfile.mkdtemp(prefix="fovea-stop-"))
        shutil.copytree(SITE.folder / "runs" / "dates", empty / "runs" / "dates")
        serve = lambda port: subprocess.Popen([FOVEA, "serve", "--port", port], cwd=empty, text=True, stdout=subprocess.PIPE)
        program = serve("0")
        try:
            address = program.stdout.readline().strip()
            self.driver.get("about:blank")
            self.driver.get(address + "#run=dates&input=12+May+1999")
            self.wait(lambda d: self.all("#output .said"))
            program.send_signal(signal.SIGINT)
            program.wait(30)
            self.wait(lambda d: "does not answer" in self.text("#status"))
            self.one("#input").send_keys("8")
            self.wait(lambda d: self.all("#output .problem"))
            self.assertIn("Start it where it ran before: fovea serve", self.text("#output .problem"))
            self.assertNotIn("Failed to fetch", self.one("body").text)
            program = serve(re.search(r":(\d+)/", address).group(1))
            program.stdout.readline()
            self.wait(lambda d: self.all("#output .said") and not self.all(".problem"), 30)
            self.assertEqual(self.one("#input").get_attribute("value"), "12 May 19998")
            self.assertNotIn("does not answer", self.text("#status"))
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(30)
            shutil.rmtree(empty, ignore_errors=True)
            self.driver.get("about:blank")
            self.driver.get_log("browser")

    def test_a_training_that_no_longer_moves_is_told_of(self):
        self.open("dates")
        told = self.driver.execute_async_script("""
          const done = arguments[arguments.length - 1];
          import('/page/trained.js').then(({ told }) => {
            const at = { run: 'x', running: true, done: 0.12 }, began = Date.now();
            done([told(at, false, began), told(at, false, began + 200000), told({ ...at, done: 0.2 }, false, began + 201000),
              told(at, true, began), told({ ...at, running: false }, false, began)]);
          });""")
        self.assertEqual(told, ["training, 12 %", "training, 12 %, no progress for 3 min", "training, 20 %",
                                "stopped at 12 %: the program has ended", "not finished"])

    def test_what_is_refused_says_what_to_do(self):
        self.open("dates")
        beam = self.one("#options input[name=beam]")
        beam.clear()
        beam.send_keys("-3", Keys.TAB)
        self.wait(lambda d: self.all("#output .problem"))
        self.assertIn("beam width must be in", self.text("#output .error"))
        self.assertIn("the page asks again by itself", self.text("#output .problem"))
        self.assertFalse(self.all("#output .retry"), "asked again, the answer would be the same")
        beam.clear()
        beam.send_keys("2", Keys.TAB)
        self.wait(lambda d: self.all("#output .said"))
        self.driver.get_log("browser")  # the refusal is in the console, as it should be


    def test_panels_ask_where_the_answer_is_refused(self):
        self.driver.get("about:blank")
        self.driver.get(f"{SITE.address}#run=heads&input=12+May+1999&o.beam=-3&open=lens,heads&off=nothing+1")
        self.wait(lambda d: self.all("#output .problem") and self.all("#lens-result .word-map") and self.all("#heads-grid .head"))
        self.assertFalse(self.all("#view *") or self.all("#without *"))
        self.driver.get_log("browser")  # the refusal is in the console, as it should be

    def test_a_run_that_is_read_slowly_is_waited_for(self):
        self.open("dates")
        conditions = lambda latency: self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
            "offline": False, "latency": latency, "downloadThroughput": -1, "uploadThroughput": -1})
        self.driver.execute_cdp_cmd("Network.enable", {})
        conditions(1500)
        [b for b in self.all("#runs button") if b.find_element(By.TAG_NAME, "b").text == "reviews"][0].click()
        self.wait(lambda d: self.text("#about") == "reviews\nThis run is being opened …")
        self.assertFalse(self.one("#ask").is_displayed() or self.all("#output .said") or self.all("#view *") or self.all("#panels *"))
        conditions(0)
        self.wait(lambda d: self.all("#view .shaded"))
        self.assertTrue(self.one("#ask").is_displayed() and self.one("#curves").is_displayed())

    def test_a_run_that_is_not_there_is_missed_and_an_empty_field_is_no_zero(self):
        self.open("nowhere")
        self.assertIn("There is no run nowhere here. This is ", self.text("#status"))
        self.open("dates", "&input=12+May+1999")
        beam = self.one("#options input[name=beam]")
        beam.send_keys("\b", Keys.TAB)
        self.type("3 July 2001")
        self.assertFalse(self.all("#output .problem"), "emptied, it is as it was")
        penalty = self.one("#options input[name=length-power]")
        penalty.send_keys("\b-3", Keys.TAB)
        self.wait(lambda d: self.all("#output .problem"))
        self.assertTrue(self.text("#output .problem").startswith("length penalty must be in"), self.text("#output .problem"))
        self.driver.get_log("browser")  # the refusal is in the console, as it should be


class Room(Page):
    def test_a_map_fills_its_width_with_upright_characters_and_named_axes(self):
        self.open("dates", "&input=12+May+1999")
        self.wait(lambda d: self.all("canvas.matrix"))
        wide, room = self.driver.execute_script(
            "return [document.querySelector('canvas.matrix').getBoundingClientRect().width, document.querySelector('#view').clientWidth]")
        self.assertGreater(wide, 0.85 * room)
        self.assertIn("written by read", self.map())
        self.assertEqual(self.text("#view figcaption"), "Attention", "the input is no title")

    def test_methods_stand_side_by_side(self):
        self.open("dates", "&input=12+May+1999&open=inside&ways=attention,jacobian")
        self.wait(lambda d: len(self.all("#explained canvas.matrix")) == 2, 60)
        self.driver.set_window_size(1440, 900)
        tops = [m.location["y"] for m in self.all("#explained .map")]
        self.driver.set_window_size(1280, 900)
        self.assertEqual(len(set(tops)), 1, tops)

    def test_a_long_text_stands_beside_its_map_in_its_own_lines(self):
        text = "Ada sells hats.%0ABela mends boats.%0A" + "Cleo bakes bread. " * 14
        self.open("tales", f"&input={text.replace(' ', '+')}")
        self.wait(lambda d: self.all(".with-text .layout .running"))
        shown = self.driver.execute_script("return document.querySelector('.running').textContent")
        self.assertIn("\n", shown)
        self.assertLessEqual(max(len(c.text) for c in self.all("#view figcaption")), 80)


class HeadLines(Page):
    """All weights of a layer as lines, and one query times one key."""

    def open_lines(self, more=""):
        self.open("heads", "&input=12+May+1999&open=lines" + more)
        self.wait(lambda d: self.all("#lines canvas.lines-of-heads"))

    def ink(self):
        return self.sums("canvas.lines-of-heads")[1]

    def test_heads_are_coloured_lines_that_can_be_hidden(self):
        self.open_lines()
        self.assertEqual(len(self.all("#lines .head-keys button")), 4)
        every = self.ink()
        self.one("[data-line-head='2']").click()
        self.assertLess(self.ink(), every)
        self.assertIn("hidden=2", self.driver.current_url)
        self.one("[data-line-head='2']").click()
        canvas = self.one("canvas.lines-of-heads")
        canvas.send_keys(Keys.ARROW_DOWN)
        self.assertRegex(self.text("#lines .say"), r"looks most at ‹.+› [\d.e-]+ \(head 1\), ")
        self.assertLess(self.ink(), every)
        canvas.send_keys(Keys.ARROW_RIGHT)
        self.assertRegex(self.text("#lines .say"), r"looks at ‹.+›: head 1 [\d.e-]+, head 2")
        canvas.send_keys(Keys.ENTER)
        self.wait(lambda d: self.all("#products canvas.matrix"))
        self.assertIn("query=0&key=0", self.driver.current_url)
        address = self.driver.current_url
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda d: self.all("#products canvas.matrix"))

    def test_they_are_saved_as_they_are_drawn(self):
        self.open_lines("&lines=encoder.0.self&hidden=2")
        strokes = lambda svg: [re.match(r'stroke="(#\w+)"', part)[1] for part in svg.split('<g class="head" ')[1:]]

        def save(name):
            self.one(f"#lines button[data-format={name}]").click()
            return self.saved(f"fovea-heads-lines.{name}").decode("utf-8", "replace")

        svg = save("svg")
        xml.dom.minidom.parseString(svg)
        self.assertEqual(len(set(strokes(svg))), 3, "a colour for each head that is drawn")
        self.assertIn("heads: Encoder layer 1, self-attention", svg)
        n = len("12 May 1999") + 1
        self.assertEqual(len(save("csv").splitlines()), 3 * n * n + 1)
        self.assertEqual([h["head"] for h in json.loads(save("json"))[0]["heads"]], [1, 3, 4])
        # Of a query that is shown alone, its lines: in the colours of the page.
        self.one("canvas.lines-of-heads").send_keys(Keys.ARROW_DOWN)
        one = save("svg")
        self.assertEqual({float(y) for y in re.findall(r'<path d="M[\d.]+ ([\d.]+)L', one)}, {30.0})
        self.assertEqual(strokes(one), strokes(svg))
        shown = self.driver.execute_script("""
          return [...document.querySelectorAll('#lines .head-keys i')].map(i => getComputedStyle(i).backgroundColor.match(/\\d+/g).map(Number))""")
        for head, stroke in zip((0, 2, 3), strokes(svg)):
            drawn = [int(stroke[i:i + 2], 16) for i in (1, 3, 5)]
            self.assertLess(max(abs(a - b) for a, b in zip(drawn, shown[head])), 6, (head, drawn, shown[head]))

    def test_a_query_times_a_key(self):
        self.open_lines("&lines=encoder.1.self")
        Select(self.one("#qk-head")).select_by_value("3")
        Select(self.one("#qk-query")).select_by_value("2")
        Select(self.one("#qk-key")).select_by_value("5")
        self.wait(lambda d: self.all("#products canvas.matrix"))
        self.assertIn("3 rows by 8 columns", self.one("#products canvas.matrix").get_attribute("aria-label"))
        told = self.text("#products")
        self.assertRegex(told, r"The products sum up to [-−]?[\d.e-]+, the score\. Softmax over all keys makes it a weight of [\d.e-]+")
