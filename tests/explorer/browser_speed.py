#!/usr/bin/python3
"""How fast the page is: browser_speed.py FOVEA [SCREENSHOTS [TEST...]]

Runs by itself, as times are measured; each figure is printed. What is held against a limit is the best of several,
which other programs of the machine touch least.
"""
import sys

sys.dont_write_bytecode = True
import in_browser
from in_browser import Page, run_all

in_browser.RUNS = {"dates": in_browser.RUNS["dates"]}


class Smooth(Page):
    """How long frames take."""

    def times(self, script):
        self.open("dates")
        return self.driver.execute_async_script("""
          const done = arguments[arguments.length - 1];
          const frame = act => { const at = performance.now(); act(); return performance.now() - at; };
          const most = (n, act) => Array.from({ length: n }, (_, i) => frame(() => act(i))).sort((a, b) => a - b)[Math.floor(0.9 * n)];
          const place = document.getElementById('view');
          const square = n => {
            const labels = Array.from({ length: n }, (_, i) => 'w' + i);
            return { title: 'large', rows: labels, columns: labels, weights: new Float32Array(n * n).map(() => Math.random()) };
          };
          (async () => { """ + script + "})().catch(e => done([String(e)]));")

    def test_an_alignment_of_200_by_200(self):
        drawn, hover = self.times("""
          const { Matrix } = await import('/page/matrix.js');
          const matrix = new Matrix(square(200), {});
          place.append(matrix.node);
          const drawn = frame(() => matrix.draw());
          done([drawn, most(60, i => matrix.show([i, (7 * i) % 200]))]);""")
        print(f"200 × 200: drawn in {drawn:.0f} ms, a hover {hover:.1f} ms (nine of ten)")
        self.assertLess(drawn, 500)
        self.assertLess(hover, 50)

    def test_twelve_layers_of_twelve_heads(self):
        drawn, sorted_ = self.times("""
          const { grid_of } = await import('/page/heads.js');
          const bytes = btoa(String.fromCharCode(...new Uint8Array(64 * 64).map((_, i) => i % 256)));
          const head = () => ({ thumb: { rows: 64, columns: 64, bytes }, entropy: Math.random(), distance: 3, largest: 1, pattern: '' });
          const layers = Array.from({ length: 12 }, (_, l) => ({ name: 'decoder.' + l, heads: Array.from({ length: 12 }, head) }));
          const draw = sort => { place.replaceChildren(grid_of(layers, { sort })); place.getBoundingClientRect(); };
          const drawn = frame(() => draw('layer'));
          done([drawn, most(10, () => draw('entropy'))]);""")
        print(f"12 × 12 heads: drawn in {drawn:.0f} ms, put in another order in {sorted_:.0f} ms (nine of ten)")
        self.assertLess(drawn, 500)
        self.assertLess(sorted_, 500)

    def test_lines_of_twelve_heads(self):
        first, least, most = self.times("""
          const { Lines } = await import('/page/lines.js');
          const n = 50, heads = 12, labels = Array.from({ length: n }, (_, i) => 'w' + i), weights = new Float32Array(heads * n * n);
          for (let i = 0; i < heads * n; ++i) {  // softmax of numbers by chance
            const row = weights.subarray(i * n, (i + 1) * n).map(() => Math.exp(2 * Math.random()));
            const sum = row.reduce((a, b) => a + b);
            weights.set(row.map(w => w / sum), i * n);
          }
          const lines = new Lines({ heads, rows: labels, columns: labels, weights }, { on: new Set(Array(heads).keys()) });
          place.append(lines.node);
          const first = frame(() => lines.draw()), each = Array.from({ length: 40 }, () => frame(() => lines.draw()));
          done([first, Math.min(...each), Math.max(...each)]);""")
        print(f"50 × 50 × 12 lines: first drawn in {first:.0f} ms, then in {least:.0f} to {most:.0f} ms")
        self.assertLess(least, 100)  # what other programs take of the machine does not count

    def test_a_thousand_tokens(self):
        drawn, moved, hover = self.times("""
          const { map_of } = await import('/page/big_map.js');
          const map = map_of(square(1000), {});
          place.append(map.node);
          const drawn = frame(() => map.draw());
          const moved = most(30, i => map.move(30 * i, 11 * i));
          done([drawn, moved, most(30, i => map.matrix.show([i, i]))]);""")
        print(f"1,000 × 1,000: drawn in {drawn:.0f} ms, another part in {moved:.1f} ms, a hover {hover:.1f} ms "
              "(nine of ten)")
        self.assertLess(drawn, 500)
        self.assertLess(moved, 100)
        self.assertLess(hover, 50)

    def test_from_a_key_to_the_answer_in_four_tenths_of_a_second(self):
        self.open("dates")
        took = sorted(self.driver.execute_async_script("""
          const done = arguments[arguments.length - 1], box = document.getElementById('input');
          box.value = 'the first of the month of January in the year nineteen hundred and ninety nine or so it was said then';
          const began = performance.now();
          new MutationObserver((_, o) => { o.disconnect(); requestAnimationFrame(() => done(performance.now() - began)); })
              .observe(document.getElementById('view'), { childList: true });
          box.value += arguments[0];
          box.dispatchEvent(new Event('input'));""", key) for key in "abcde")
        print(f"from a key to the answer and its picture: {took[2]:.0f} ms, at best {took[0]:.0f} (a fifth of a second of it waits for the next key)")
        self.assertLess(took[0], 400)  # what other programs take of the machine does not count
        self.assertLess(took[-1], 2000)

    def test_ten_thousand_rows_scroll_at_60_frames_a_second(self):
        self.open("dates")
        figures = self.driver.execute_async_script("""
          const done = arguments[arguments.length - 1];
          (async () => {
            const { table_of } = await import('/page/table.js');
            const text = i => `the ${i % 97}th letter of ${i % 31} to somebody who never answered, number ${i}`;
            const rows = Array.from({ length: 10000 }, (_, i) => [text(i), text(i + 1), text(i + 2), (i * 7919 % 10007) / 10007, 0.5, i % 3 === 0, 12, false]);
            const columns = ['input', 'output', 'expected', 'error', 'score', 'right', 'length', 'cut'];
            const table = table_of({ columns, rows, measured: '', of: 'a test', about: 'answers' }, () => {});
            document.getElementById('view').replaceChildren(table.node);
            const began = performance.now();
            table.draw();
            const drawn = performance.now() - began, box = table.rows.node, work = [], gaps = [];
            box.scrollIntoView({ block: 'center' });
            let last = 0;
            const step = now => {
              if (last) gaps.push(now - last);
              last = now;
              if (gaps.length === 180) return done([drawn, work, gaps, box.scrollTop, document.querySelectorAll('.strip .data-row').length]);
              const at = performance.now();
              box.scrollTop += 211;  // seven rows and a bit: hard scrolling
              table.rows.draw();
              box.getBoundingClientRect();  // with its layout
              work.push(performance.now() - at);
              requestAnimationFrame(step);
            };
            requestAnimationFrame(step);
          })().catch(e => done([String(e)]));""")
        drawn, work, gaps, top, nodes = figures
        work.sort()
        gaps.sort()
        print(f"10,000 rows: drawn in {drawn:.0f} ms; a frame's work {work[len(work) // 2]:.1f} ms, nine of ten below "
              f"{work[int(0.9 * len(work))]:.1f}; a frame each {gaps[len(gaps) // 2]:.1f} ms; {nodes} rows on the page")
        self.assertGreater(top, 30000)
        self.assertLess(nodes, 60)
        self.assertLess(drawn, 500)
        self.assertLess(work[int(0.9 * len(work))], 12, "there is room for painting in 16.7 ms")
        self.assertLess(gaps[len(gaps) // 2], 17.5, "60 frames a second")


if __name__ == "__main__":
    run_all()
