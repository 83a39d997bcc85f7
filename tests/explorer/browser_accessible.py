"""What a screen reader is given, and whether the keyboard is enough."""
from in_browser import *


# What a screen reader is given: every control has a name, none is hidden and reachable, nothing is said twice.
UNNAMED = {"button", "link", "textbox", "combobox", "checkbox", "slider", "spinbutton", "application", "img", "image", "listbox", "searchbox", "radio"}
FLAWS = """
const flaws = [], seen = new Set();
for (const e of document.querySelectorAll('[id]')) { if (seen.has(e.id)) flaws.push('two #' + e.id); seen.add(e.id); }
for (const e of document.querySelectorAll('[aria-hidden=true] button, [aria-hidden=true] a, [aria-hidden=true] [tabindex="0"]')) flaws.push('hidden and reachable: ' + e.outerHTML.slice(0, 80));
for (const e of document.querySelectorAll('img:not([alt])')) flaws.push('no alt: ' + e.outerHTML.slice(0, 80));
for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) flaws.push('tabindex ' + e.tabIndex);
for (const e of document.querySelectorAll('[aria-controls], [aria-describedby]')) {
  for (const a of ['aria-controls', 'aria-describedby']) {
    for (const id of (e.getAttribute(a) || '').split(' ').filter(Boolean)) if (!document.getElementById(id)) flaws.push(a + ' to nothing: ' + id);
  }
}
const levels = [...document.querySelectorAll('h1, h2, h3, h4')].filter(h => h.offsetParent).map(h => Number(h.tagName[1]));
levels.forEach((l, i) => { if (i && l > levels[i - 1] + 1) flaws.push('heading ' + l + ' below ' + levels[i - 1]); });
if (document.querySelectorAll('main').length !== 1 || !document.documentElement.lang || !document.title) flaws.push('main, lang or title');

// Text against what it stands on, as WCAG counts it: 4.5, or 3 where it is large.
const channel = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = css => { const m = css.match(/[\d.]+/g).map(Number); return css.startsWith('color(srgb') ? [m[0] * 255, m[1] * 255, m[2] * 255, m[3] ?? 1] : [m[0], m[1], m[2], m[3] ?? 1]; };
const ground = e => {
  const layers = [];
  for (let at = e; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((under, [r, g, b, a]) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a)), [255, 255, 255]);
};
for (const e of document.querySelectorAll('body *')) {
  if (!e.offsetParent || e.closest('[aria-hidden=true], svg, [disabled], .dropped, .head.off') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
  let faded = 1;
  for (let at = e; at; at = at.parentElement) faded *= Number(getComputedStyle(at).opacity);
  const style = getComputedStyle(e), under = ground(e), [r, g, b, a] = parse(style.color);
  const over = [r, g, b].map((c, i) => c * a * faded + under[i] * (1 - a * faded));
  const [x, y] = [light(over), light(under)].sort((p, q) => q - p), contrast = (x + 0.05) / (y + 0.05);
  const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
  if (contrast < (large ? 3 : 4.5)) flaws.push(`contrast ${contrast.toFixed(2)}: ${e.tagName} .${e.className} ${e.textContent.slice(0, 30)}`);
}
return flaws;
"""


class Accessible(Page):
    PANELS = "inside,heads,lines,faithful,rank,edit-word,data,model"

    def findings(self):
        """Serious ones, of Chromium's accessibility tree and of the page."""
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        value = lambda node, key: node.get(key, {}).get("value", "")
        unnamed = [f"{value(n, 'role')} without a name ({n.get('backendDOMNodeId')})" for n in nodes
                   if not n.get("ignored") and value(n, "role") in UNNAMED and not str(value(n, "name")).strip()]
        return unnamed + self.driver.execute_script(FLAWS) + self.axe()

    def axe(self):
        """What axe-core finds, where FOVEA_AXE names its axe.min.js: of any weight but the least."""
        if "FOVEA_AXE" not in os.environ:
            return []
        self.driver.execute_script(pathlib.Path(os.environ["FOVEA_AXE"]).read_text())
        found = self.driver.execute_async_script("axe.run(document, { resultTypes: ['violations'] }).then(r => arguments[0](r.violations))")
        return [f"{v['id']}: {v['nodes'][0]['target']}" for v in found if v["impact"] != "minor"]

    def test_no_serious_finding_in_any_view(self):
        for run, ways in (("dates", "attention,occlusion"), ("reviews", "occlusion"), ("heads", "attention"), ("tales", "jacobian"),
                          ("scenes", "gradcam"), ("digits", ""), ("pairs", "attention")):
            self.open(run, f"&open={self.PANELS}&ways={ways}")
            self.wait(lambda d: self.all("#view figure, #view .seen"))
            if ways:
                self.wait(lambda d: self.all("#explained figure"), 60)
            self.assertEqual(self.findings(), [], run)

    def test_nor_where_blocks_are_taken_apart(self):
        self.open("heads", "&open=lens,ranking,patching&input=12+May+1999&patch=13+May+1999")
        self.wait(lambda d: self.all("#lens-result .word-map") and self.all("#patching-begin"))
        self.one("#ranking-begin").click()
        self.wait(lambda d: self.all("#ranking-result .ranked"), 60)
        self.one("#patching-begin").click()
        self.wait(lambda d: self.all("#patching-result canvas.matrix"), 60)
        self.assertEqual(self.findings(), [])

    def test_nor_where_two_runs_are_compared_or_something_is_wrong(self):
        self.open("dates", "&input=12+漢+May&beside=plain")
        self.wait(lambda d: len(self.all("#view canvas.matrix")) == 2 and self.all("#typed u"), 60)
        self.assertEqual(self.findings(), [])
        self.one("#options input[name=beam]").send_keys("\b-3", Keys.TAB)
        self.wait(lambda d: self.all("#output .problem"))
        self.assertEqual(self.findings(), [])
        self.driver.get_log("browser")

    def test_a_sentence_and_everything_about_it_by_keys_alone(self):
        self.open("heads")
        keys = lambda *k: webdriver.ActionChains(self.driver).send_keys(*k).perform()
        active = lambda: self.driver.switch_to.active_element

        def tab_to(css, most=150):
            for _ in range(most):
                if self.driver.execute_script("return document.activeElement.matches(arguments[0])", css):
                    return
                keys(Keys.TAB)
            self.fail(f"Tab does not lead to {css}")

        keys("/")
        self.assertEqual(active().get_attribute("id"), "input")
        webdriver.ActionChains(self.driver).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys("7 June 2003").perform()
        self.wait(lambda d: "input=7+June+2003" in self.driver.current_url)
        self.wait(lambda d: "answered" in self.text("#output") and "expected" not in self.text("#output"))  # no longer the example's
        tab_to("canvas.matrix")
        keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)
        self.wait(lambda d: "row=" in self.driver.current_url)
        tab_to("#inside summary")
        keys(Keys.ENTER)
        self.wait(lambda d: self.one("#inside .ways").is_displayed())
        tab_to("#inside input[value=jacobian]")
        keys(Keys.SPACE)
        self.wait(lambda d: self.all("#explained canvas.matrix"), 60)
        tab_to("[data-weights=uniform]")
        keys(Keys.ENTER)
        self.wait(lambda d: self.all("#held tbody tr"))
        tab_to("#heads summary")
        keys(Keys.ENTER)
        self.wait(lambda d: self.all("#heads-grid .head"))
        tab_to("#heads-grid .head")
        keys(Keys.ENTER)
        self.wait(lambda d: self.all("#head canvas.matrix"))
        tab_to("#switch-off")
        keys(Keys.ENTER)
        self.wait(lambda d: self.all("#without tbody tr"))
        tab_to("#lines summary")
        keys(Keys.ENTER)
        self.wait(lambda d: self.all("canvas.lines-of-heads"))
        tab_to("canvas.lines-of-heads")
        keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)
        self.wait(lambda d: self.all("#products canvas.matrix"))
        for panel in ("faithful", "rank"):
            tab_to(f"#{panel} summary")
            keys(Keys.ENTER)
            tab_to(f"#{panel}-begin")
        keys("e")
        self.assertEqual(active().get_attribute("data-format"), "svg")
        self.assertEqual(self.findings(), [])


class AccessibleDark(Accessible):
    dark = True
    test_a_sentence_and_everything_about_it_by_keys_alone = None


class AccessiblePhone(Accessible):
    phone = True
    test_a_sentence_and_everything_about_it_by_keys_alone = test_no_serious_finding_in_any_view = None
    test_nor_where_two_runs_are_compared_or_something_is_wrong = None
