"""The flame graphs in the profiler's page, looked at and clicked in a real browser, as wide as a phone and as a desktop."""

from clients import Case
from pages import DESKTOP, PHONE

PROGRAM = """
import json, threading
from concurrent.futures import ThreadPoolExecutor

def leaf(n): return sum(range(n))
def light(n): return leaf(n)
def heavy(n): return leaf(10 * n)
def packed(n): return json.dumps([leaf(n)], indent=1)
class Called(list):
    def __iter__(self): return iter([leaf(1_000_000)])
def work():
    light(500_000)
    heavy(250_000)
    packed(500_000)
    json.dumps(Called([1]), indent=1)
def down(n): return up(n - 1) if n else leaf(30_000_000)
def up(n): return down(n - 1) if n else leaf(30_000_000)

for _ in range(3): work()
with ThreadPoolExecutor(3) as pool:
    barrier = threading.Barrier(3)
    list(pool.map(lambda n: (barrier.wait(), leaf(n)), [1_000_000] * 3))
down(60)
"""


class FlameGraph(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        program, cls.page = cls.directory / "shown.py", cls.directory / "shown.html"
        program.write_text(PROGRAM)
        cls.run_python("-m", "ferrule_profiler", "--quiet", "-o", cls.page, program)

    def open(self, size, file, **options):
        shown = super().open(size, file, **options)
        self.addCleanup(lambda: self.assertEqual(shown.complaints, []))
        return shown

    def bar(self, shown, name, graph="flame"):
        """The bar of a function, the widest where there are several."""
        bars = shown.locator(f"#{graph} div[aria-label^='{name}, ']")
        widths = bars.evaluate_all("all => all.map(bar => bar.offsetWidth)")
        self.assertTrue(widths, name)
        return bars.nth(widths.index(max(widths)))

    def path(self, shown, graph):
        """The names on a graph's widest path, from above."""
        return [label.split(", ")[0] for label in shown.locator(f"#{graph} div").evaluate_all(
            "all => all.sort((a, b) => a.offsetTop - b.offsetTop || b.offsetWidth - a.offsetWidth).filter((bar, at) => !at"
            " || bar.offsetTop !== all[at - 1].offsetTop).map(bar => bar.ariaLabel)")]

    def names(self, shown):
        return shown.locator("#functions tbody td:last-child button").all_inner_texts()

    def height(self, shown, name):
        return self.bar(shown, name).evaluate("bar => bar.offsetTop")

    def test_paths_are_where_they_were(self):
        for size in (PHONE, DESKTOP):
            shown = self.open(size, self.page)
            self.bar(shown, "heavy").click()
            self.assertEqual(self.path(shown, "flame")[:6], ["all", "MainThread", "<module>", "work", "heavy", "leaf"])
            self.assertEqual(self.overflow(shown), 0)

    def test_a_click_zooms_and_all_follow(self):
        for size in (PHONE, DESKTOP):
            shown = self.open(size, self.page)
            narrow = self.bar(shown, "heavy").bounding_box()["width"]
            self.bar(shown, "heavy").click()
            self.assertGreater(self.bar(shown, "heavy").bounding_box()["width"], narrow * 1.5)
            self.assertEqual(shown.locator("#name").inner_text(), "heavy")
            self.assertIn("def heavy(n)", shown.locator("#source").inner_text())
            self.assertEqual(shown.locator("#functions tr.chosen button").inner_text(), "heavy")
            self.assertEqual(shown.locator("#functions tr[aria-current=true]").count(), 1)
            self.assertIn("100.0 % of what is shown", shown.locator("#pointed").inner_text())
            self.bar(shown, "work").click()         # one that is above zooms out
            self.assertEqual(shown.locator("#name").inner_text(), "work")
            shown.locator("#reset").click()
            self.assertEqual(round(self.bar(shown, "heavy").bounding_box()["width"]), round(narrow))
            # The other way: a row, and a name in the tables below.
            shown.locator("#functions tbody tr").filter(has_text="packed").click()
            self.assertEqual(self.bar(shown, "packed").get_attribute("aria-selected"), "true")
            shown.locator("#callees tr").filter(has_text="leaf").click()
            self.assertEqual(shown.locator("#name").inner_text(), "leaf")
            self.assertEqual(self.bar(shown, "packed").get_attribute("aria-selected"), "false")
            self.assertGreater(shown.locator("#flame div.chosen").count(), 1)

    def test_callers_above_and_callees_below(self):
        for size in (PHONE, DESKTOP):
            shown = self.open(size, self.page)
            shown.locator("#functions tbody tr").filter(has_text="heavy").click()
            self.assertEqual(self.path(shown, "callers-graph"), ["MainThread", "<module>", "work", "heavy"])
            self.assertEqual(self.path(shown, "callees-graph"), ["heavy", "leaf"])
            self.bar(shown, "leaf", "callees-graph").click()
            self.assertEqual(shown.locator("#name").inner_text(), "leaf")
            self.assertEqual(self.path(shown, "callees-graph"), ["leaf"])
            self.assertEqual(shown.locator("#callers-graph div[aria-level='2']").count(), 6)
            # A call within another one counts once.
            shown.locator("#functions tbody tr").filter(has_text="down").click()
            self.assertEqual(self.path(shown, "callers-graph"), ["MainThread", "<module>", "down"])
            self.assertEqual(self.path(shown, "callees-graph"), ["down", "up"] * 30 + ["down", "leaf"])
            self.assertEqual(self.overflow(shown), 0)

    def test_my_code(self):
        for size in (PHONE, DESKTOP):
            shown = self.open(size, self.page)
            self.assertTrue(shown.locator("#mine").is_checked())
            self.assertNotIn("dumps", self.names(shown))
            self.assertIn("Called.__iter__", self.names(shown))
            self.assertRegex(shown.locator("#more").inner_text(), r"^\d+ of libraries are not shown")
            self.bar(shown, "work").click()
            # What libraries call is a part of them, but for what is mine.
            self.assertEqual(shown.locator("#flame div[aria-label^='JSONEncoder']").count(), 0)
            self.assertGreater(self.height(shown, "Called.__iter__"), self.height(shown, "dumps"))
            shown.locator("#mine").uncheck()
            self.assertIn("dumps", self.names(shown))
            self.assertNotIn("libraries", shown.locator("#more").inner_text())
            self.bar(shown, "work").click()
            self.assertEqual(self.path(shown, "flame")[-2:], ["Called.__iter__", "leaf"])
            self.assertGreater(shown.locator("#flame div[aria-label^='JSONEncoder']").count(), 1)
            shown.locator("#functions tbody tr").filter(has_text="JSONEncoder.encode").click()
            shown.locator("#mine").check()
            self.assertEqual(self.path(shown, "callers-graph")[-2:], ["dumps", "JSONEncoder.encode"])

    def test_a_pool_is_one_thread(self):
        shown = self.open(DESKTOP, self.page)
        threads = shown.locator("#threads td:last-child").all_inner_texts()
        self.assertEqual(sorted(threads), ["MainThread", "ThreadPoolExecutor-0 (3 threads)"])
        shown.locator("#functions tbody tr").filter(has_text="<lambda>").click()
        self.assertEqual(self.path(shown, "callers-graph")[0], "ThreadPoolExecutor-0 (3 threads)")

    def test_the_search_highlights(self):
        shown = self.open(DESKTOP, self.page)
        shown.keyboard.press("/")
        shown.keyboard.type("HEAV")
        self.assertEqual(self.names(shown), ["heavy"])
        self.assertEqual([label.split(",")[0] for label in shown.locator("#flame div.found").evaluate_all("all => all.map(bar => bar.ariaLabel)")],
                         ["heavy"])
        self.assertEqual(shown.locator("#pointed").inner_text(), "Found: " + self.bar(shown, "heavy").get_attribute("aria-label").split(", ")[2])
        self.assertLess(float(self.bar(shown, "work").evaluate("bar => getComputedStyle(bar).opacity")), 0.5)
        shown.locator("#search").fill("")
        self.assertEqual(shown.locator("#flame div.found").count(), 0)
        self.assertEqual(float(self.bar(shown, "work").evaluate("bar => getComputedStyle(bar).opacity")), 1)

    def test_icicle_and_flame(self):
        shown = self.open(DESKTOP, self.page)
        self.assertLess(self.height(shown, "work"), self.height(shown, "heavy"))
        shown.locator("#shape").select_option("flame")
        self.assertGreater(self.height(shown, "work"), self.height(shown, "heavy"))
        # The root of a graph that is higher than its frame is seen first.
        frame = shown.locator("#flame").bounding_box()
        self.assertLess(frame["height"], shown.locator("#flame").evaluate("box => box.scrollHeight"))
        for name in ("all", "MainThread", "work"):
            bar = self.bar(shown, name).bounding_box()
            self.assertTrue(frame["y"] <= bar["y"] and bar["y"] + bar["height"] <= frame["y"] + frame["height"] + 1, name)

    def test_the_order_of_calls(self):
        shown = self.open(DESKTOP, self.page)

        def left(name):
            return self.bar(shown, name).evaluate("bar => bar.offsetLeft")
        self.assertLess(left("heavy"), left("light"))
        shown.locator("#order").select_option("first")
        self.assertLess(left("light"), left("heavy"))

    def test_keys(self):
        for shape, into, out in (("icicle", "ArrowDown", "ArrowUp"), ("flame", "ArrowUp", "ArrowDown")):
            shown = self.open(DESKTOP, self.page)
            shown.locator("#shape").select_option(shape)
            self.assertEqual(shown.locator("#flame [tabindex='0']").count(), 1)
            shown.locator("#reset").focus()
            shown.keyboard.press("Tab")

            def focused():
                return shown.evaluate("document.activeElement.ariaLabel").split(",")[0]
            self.assertEqual(focused(), "all")
            for key, name in ((into, "MainThread"), (into, "<module>"), (into, "down"), (out, "<module>"), (into, "down"),
                              ("ArrowRight", "work"), ("ArrowLeft", "down"), ("ArrowRight", "work"), (into, "heavy"), ("Home", "all"), (out, "all")):
                shown.keyboard.press(key)
                self.assertEqual(focused(), name, key)
                self.assertTrue(shown.locator("#pointed").inner_text().startswith(name), key)
            for key in (into, into, into, "ArrowRight", "Enter"):
                shown.keyboard.press(key)
            self.assertEqual((focused(), shown.locator("#name").inner_text()), ("work", "work"))
            whole = shown.locator("#flame").evaluate("box => box.clientWidth")
            self.assertEqual(self.bar(shown, "work").evaluate("bar => bar.offsetWidth"), whole)
            shown.keyboard.press(into)
            for key, name in (("+", "heavy"), ("Escape", "work"), ("-", "<module>"), ("0", "all")):
                shown.keyboard.press(key)
                self.assertEqual(focused(), name, key)
                self.assertEqual(self.bar(shown, name).evaluate("bar => bar.offsetWidth"), whole, key)

    def test_touch(self):
        shown = self.open(PHONE, self.page, has_touch=True)
        whole = shown.locator("#flame").evaluate("box => box.clientWidth")
        for name in ("work", "heavy", "all"):
            self.bar(shown, name).tap()
            self.assertEqual(self.bar(shown, name).evaluate("bar => bar.offsetWidth"), whole)
            self.assertTrue(shown.locator("#pointed").inner_text().startswith(name))
        shown.locator("#functions tbody tr").filter(has_text="packed").tap()
        self.assertEqual(shown.locator("#name").inner_text(), "packed")
        self.bar(shown, "leaf", "callees-graph").tap()
        self.assertEqual(shown.locator("#name").inner_text(), "leaf")

    def test_rows_by_keyboard(self):
        shown = self.open(DESKTOP, self.page)
        shown.locator("#functions tbody button", has_text="packed").focus()
        shown.keyboard.press("Enter")
        self.assertEqual(shown.locator("#name").inner_text(), "packed")
        self.assertEqual(shown.evaluate("document.activeElement.id"), "name")

    def test_an_address_shows_the_same_again(self):
        shown = self.open(DESKTOP, self.page)
        shown.locator("#mine").uncheck()
        self.bar(shown, "heavy").click()
        shown.locator("#shape").select_option("flame")
        shown.locator("#search").fill("leaf")
        again = self.open(DESKTOP, self.page)
        again.goto(shown.url)
        for page in (shown, again):
            self.assertEqual(page.locator("#name").inner_text(), "heavy")
            self.assertEqual(self.names(page), ["leaf"])
            self.assertEqual((page.locator("#shape").input_value(), page.locator("#mine").is_checked()), ("flame", False))
            self.assertEqual(self.bar(page, "heavy").evaluate("bar => bar.offsetWidth"), page.locator("#flame").evaluate("box => box.clientWidth"))
        for wrong in ("function=99999", "zoom=99999&mine=1", "zoom=-1&function=x", "shape=__proto__&order=", "%", "search=%00%ff"):
            again.goto(self.page.as_uri() + "#" + wrong)
            self.assertEqual(again.locator("#flame div").first.inner_text(), "all")

    def test_what_is_there_can_be_read(self):
        """The colors of texts differ enough from what is behind them (WCAG 2: 4.5 times)."""
        contrast = """([bar, box]) => {
            const light = (color) => { const parts = color.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
                .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]; };
            const [one, other] = [getComputedStyle(bar).color, getComputedStyle(box).backgroundColor].map(light);
            return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05); }"""
        for scheme in ("light", "dark"):
            shown = self.open(DESKTOP, self.page, color_scheme=scheme)
            ratios = shown.locator("#flame div").evaluate_all(f"all => all.map((bar) => ({contrast})([bar, bar]))")
            # A hue that no function here has may be worse.
            ratios += self.bar(shown, "work").evaluate(
                f"bar => [...Array(360).keys()].map((hue) => {{ bar.style.setProperty('--hue', hue); return ({contrast})([bar, bar]); }})")
            ratios.append(shown.evaluate(f"({contrast})([document.body, document.body])"))
            shown.locator("#functions tbody tr").filter(has_text="work").first.click()
            self.assertGreater(min(ratios), 4.5, scheme)


class Extremes(Case):
    """Pages of programs that are unlike others."""

    def shown(self, size, source, *options):
        page = self.directory / "extreme.html"
        self.run_python("-c", f"import ferrule_profiler\nwith ferrule_profiler.profile({', '.join(options)}) as profile:\n pass\n {source}\n"
                        f"profile.result.write({str(page)!r})")
        return self.open(size, page)

    def test_nothing(self):
        for options in ((), ("count=True",)):
            shown = self.shown(PHONE, "", *options)
            self.assertEqual(shown.locator("#functions tbody tr").count(), 0)
            self.assertEqual(shown.locator("#flame div").first.inner_text(), "all")
            shown.locator("#flame div").first.click()
            self.assertEqual(shown.complaints, [])

    def test_one_function(self):
        shown = self.shown(PHONE, "eval(compile('1', 'x.py', 'eval'))")
        shown.locator("#functions tbody tr").first.click()
        self.assertEqual(shown.locator("#callees-graph div").count(), 1)
        self.assertFalse(shown.locator("#mine").is_visible())
        self.assertEqual(shown.complaints, [])

    def test_odd_names(self):
        names = ["\x1b[31m\n\0", "\u202eleft", "\u05e9\u05dc\u05d5\u05dd", "x" * 10_000, "<img src=x onerror=alert(1)>",
                 "</script><script>alert(1)</script>", "__proto__", "", "'\"&;"]
        source = (f"[eval((lambda: sum(range(9_000))).__code__.replace(co_name=name, co_qualname=name, co_filename=name + '.py')) for name in {names!r}]")
        for size in (PHONE, DESKTOP):
            shown = self.shown(size, source)
            rows = shown.locator("#functions tbody tr")
            for at in range(rows.count()):
                rows.nth(at).click()
            texts = shown.locator("#functions tbody button").all_inner_texts()
            self.assertLessEqual({"\\x1b[31m\\n\\x00", "\\u202eleft", names[2], *names[4:7], names[8], "x" * 500 + "..."}, set(texts))
            self.assertEqual(shown.locator("img, script").count(), 2)
            self.assertEqual(self.overflow(shown), 0)
            self.assertEqual(shown.complaints, [])

    def test_100_000_functions(self):
        text = "''.join(f'def f{n}(): pass\\nf{n}()\\n' for n in range(100_000))"
        for options in ((), ("count=True",)):
            shown = self.shown(PHONE, f"exec(compile({text}, 'many.py', 'exec'), {{}})", *options)
            self.assertEqual(shown.locator("#functions tbody tr").count(), 300)
            self.assertLess(shown.locator(".graph div").count(), 3001)
            shown.locator("#search").fill("f7777")
            self.assertEqual(shown.locator("#functions tbody tr").count(), 11)
            shown.locator("#functions tbody tr").filter(has_text="f77771").click()
            self.assertEqual(shown.locator("#name").inner_text(), "f77771")
            self.assertEqual(shown.complaints, [])
