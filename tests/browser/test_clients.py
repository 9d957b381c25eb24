"""The profiler's page in a real browser, as wide as a phone and as a desktop; and the pictures of the clients' documentation.

Run by the harness's Python, which has what drives a browser; FERRULE_PYTHON names the interpreter that the clients are
built for. With PICTURES=1 the pictures go to docs/clients, else to build/logs.
"""

import html
import io
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from PIL import Image

from pages import DESKTOP, PHONE, PageCase
from tests.clients.profiler_support import build

ROOT = Path(__file__).resolve().parents[2]

PYTHON = os.environ.get("FERRULE_PYTHON")
PICTURES = ROOT / ("docs/clients" if os.environ.get("PICTURES") else "build/logs")
MOST_BYTES = 150_000
PROGRAM = ROOT / "examples" / "anagrams.py"
# What is typed into the debugger for the picture.
TYPED = ("break are_anagrams, one == 'tones' and other == 'stone'", "continue", "p letters(one)", "up", "down", "return", "retval",
         "next", "p group", "list 18, 23", "clear 1", "tbreak largest", "continue", "p len(groups)", "quit")


class Case(PageCase):
    @classmethod
    def setUpClass(cls):
        if not PYTHON:
            raise unittest.SkipTest("FERRULE_PYTHON names no interpreter")
        super().setUpClass()
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.packages = build(PYTHON, str(cls.directory / "packages"), "extension")

    @classmethod
    def run_python(cls, *arguments, typed=""):
        done = subprocess.run([PYTHON, *map(str, arguments)], input=typed, capture_output=True, text=True, cwd=ROOT / "examples",
                              env={**os.environ, "PYTHONPATH": cls.packages, "HOME": str(cls.directory)})
        if done.returncode:
            raise AssertionError(done.stderr)
        return done.stdout

    def picture(self, name, shown, **options):
        """Keep a picture, with few colors, so that it is small."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        taken = Image.open(io.BytesIO(shown.screenshot(**options))).convert("RGB")
        path = PICTURES / f"{name}.png"
        taken.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
        self.assertLess(path.stat().st_size, MOST_BYTES)
        return taken


class ProfilersPage(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = cls.directory / "found.html"
        cls.run_python("-m", "ferrule_profiler", "--quiet", "-o", cls.page, PROGRAM.name)

    def names(self, shown):
        return [re.split(r"examples/|\n", cell)[0] for cell in shown.locator("#functions tbody td:last-child").all_inner_texts()]

    def calls(self, shown):
        return [int(text.replace(",", "")) for text in shown.locator("#functions tbody td:first-child").all_inner_texts()]

    def test_it_loads_without_errors_and_loads_nothing_but_itself(self):
        for scheme in ("light", "dark"):
            shown = self.open(DESKTOP, self.page, color_scheme=scheme)
            self.assertEqual(shown.complaints, [])
            self.assertEqual([url for url in shown.requested if not url.startswith("data:")], [self.page.as_uri()])
            self.assertIn("are_anagrams", self.names(shown))

    def test_the_table_sorts(self):
        shown = self.open(DESKTOP, self.page)
        head = shown.locator("#functions th")
        head.get_by_text("Calls").click()
        falling = self.calls(shown)
        self.assertEqual(falling, sorted(falling, reverse=True))
        self.assertGreater(len(set(falling)), 3)
        self.assertEqual(head.first.get_attribute("aria-sort"), "descending")
        head.get_by_text("Calls").click()
        self.assertEqual(self.calls(shown), falling[::-1])
        head.get_by_text("Function").click()
        rising = self.names(shown)
        letters = [name for name in rising if name[0].isalpha()]
        self.assertEqual(letters, sorted(letters))
        head.get_by_text("Function").click()
        self.assertEqual(self.names(shown), rising[::-1])
        self.assertEqual(shown.complaints, [])

    def test_the_search_finds_names_and_files(self):
        shown = self.open(DESKTOP, self.page)
        everything = len(self.names(shown))
        shown.locator("#search").fill("ANAGRAMS")       # of the name, and of the file, which all have
        self.assertEqual(len(self.names(shown)), everything)
        shown.locator("#search").fill("are_an")
        self.assertEqual(len(self.names(shown)), 1)
        shown.locator("#search").fill("no such thing")
        self.assertEqual(self.names(shown), [])
        shown.locator("#search").fill("")
        self.assertEqual(len(self.names(shown)), everything)

    def test_a_function_has_its_callers_and_its_source_beside_its_times(self):
        shown = self.open(DESKTOP, self.page)
        shown.locator("#functions tbody tr").filter(has_text="are_anagrams").click()
        self.assertEqual(shown.locator("#name").inner_text(), "are_anagrams")
        self.assertIn("group_of", shown.locator("#callers").inner_text())
        self.assertIn("letters", shown.locator("#callees").inner_text())
        source = shown.locator("#source").inner_text()
        self.assertIn("def are_anagrams(one, other):", source)
        self.assertRegex(shown.locator("#source .time").first.inner_text(), r"\d (s|ms|µs)$")
        shown.locator("#callees tr").first.click()
        self.assertEqual(shown.locator("#name").inner_text(), "letters")

    def test_lines_have_their_times_beside_the_source(self):
        page = self.directory / "lines.html"
        self.run_python("-m", "ferrule_profiler", "--quiet", "--lines", "group_of", "-o", page, PROGRAM.name)
        for size in (PHONE, DESKTOP):
            shown = self.open(size, page)
            shown.locator("#functions tbody tr").filter(has_text="group_of").click()
            begun = shown.locator("#source .begun").all_inner_texts()
            self.assertEqual(begun, ["0", "59,000", "53,000", "10,000", "6,000", "6,000"])
            for text in shown.locator("#source .time").all_inner_texts():
                self.assertRegex(text, r"\d (s|ms|µs|ns)$")
            self.assertIn("how often it has begun", shown.locator("#legend").inner_text())
            self.assertEqual(self.overflow(shown), 0)
            shown.locator("#functions tbody tr").filter(has_text="are_anagrams").click()
            self.assertEqual(shown.locator("#source .begun").count(), 0)
            self.assertEqual(shown.locator("#legend").inner_text(), "")
            self.assertEqual(shown.complaints, [])

    def test_a_notebook_shows_the_page(self):
        page = self.directory / "notebook.html"
        page.write_text("<!DOCTYPE html><title>notebook</title>" + self.run_python("-c", "import ferrule_profiler\n"
                        "def work(): return sum(range(100_000))\nwith ferrule_profiler.profile() as profile: work()\n"
                        "print(profile.result._repr_html_())"))
        shown = self.open(DESKTOP, page)
        inner = shown.frame_locator("iframe")
        self.assertIn("work", inner.locator("#functions tbody").inner_text())
        inner.locator("#functions tbody tr").filter(has_text="work").first.click()
        self.assertEqual(inner.locator("#name").inner_text(), "work")
        inner.frame_locator("#flame").locator("#frames g").first.wait_for()
        self.assertEqual(shown.complaints, [])

    def test_labels_have_a_table_and_their_callees(self):
        program, page = self.directory / "labelled.py", self.directory / "labels.html"
        program.write_text("import ferrule_profiler\ndef work(): return sum(range(100_000))\n"
                           "for n in range(6):\n    with ferrule_profiler.label(f'GET /<{n % 2}>'): work()\n")
        self.run_python("-m", "ferrule_profiler", "--quiet", "-o", page, program)
        for size in (PHONE, DESKTOP):
            shown = self.open(size, page)
            labels = shown.locator("#labels tbody tr")
            self.assertEqual(sorted(text.split("\t")[0] + text.split("\t")[-1] for text in labels.all_inner_texts()), ["3GET /<0>", "3GET /<1>"])
            self.assertNotIn("GET /<0>", self.names(shown))
            labels.filter(has_text="GET /<1>").click()
            self.assertEqual(shown.locator("#name").inner_text(), "GET /<1>")
            self.assertIn("label: 3 calls", shown.locator("#facts").inner_text())
            self.assertIn("<module>", shown.locator("#callers").inner_text())
            self.assertIn("<module>", shown.locator("#callees").inner_text())
            self.assertEqual(self.overflow(shown), 0)
            self.assertEqual(shown.complaints, [])

    def test_the_flame_graph_is_drawn(self):
        for size in (PHONE, DESKTOP):
            shown = self.open(size, self.page)
            frame = next(frame for frame in shown.frames if frame.url.startswith("data:"))
            frame.wait_for_selector("#frames g")
            titles = frame.locator("#frames title").all_text_contents()
            self.assertTrue(any("letters" in title for title in titles), titles)
            picture = Image.open(io.BytesIO(shown.locator("#flame").screenshot())).convert("RGB")
            colored = sum(count for count, color in picture.getcolors(1 << 24) if max(color) - min(color) > 60)
            self.assertGreater(colored / (picture.width * picture.height), 0.1)

    def flame(self, shown):
        frame = next(frame for frame in shown.frames if frame.url.startswith("data:"))
        frame.wait_for_selector("#frames g")
        return frame

    def test_the_flame_graph_searches_and_zooms(self):
        shown = self.open(DESKTOP, self.page)
        shown.on("dialog", lambda dialog: dialog.accept("letters"))
        frame = self.flame(shown)
        frame.locator("#search").click()
        self.assertRegex(frame.locator("#matched").text_content(), r"^Matched: [\d.]+%$")
        self.assertEqual(frame.locator("#search").text_content(), "Reset Search")
        frame.locator("#search").click()
        self.assertEqual(frame.locator("#search").text_content(), "Search")
        frame.locator("#frames g", has=frame.locator("title", has_text="letters")).first.click()
        self.assertNotIn("hide", frame.locator("#unzoom").get_attribute("class"))
        frame.locator("#unzoom").click()
        self.assertIn("hide", frame.locator("#unzoom").get_attribute("class"))
        self.assertEqual(shown.complaints, [])

    def test_a_deep_stack_is_shown_from_its_root(self):
        program, page = self.directory / "deep.py", self.directory / "deep.html"
        program.write_text("".join(f"def call_{n}(): return {f'call_{n + 1}()' if n < 89 else 'sum(range(9_000_000))'}\n" for n in range(90))
                           + "call_0()\n")
        self.run_python("-m", "ferrule_profiler", "--quiet", "-o", page, program)
        shown = self.open(DESKTOP, page)
        frame = self.flame(shown)
        frame.wait_for_function("scrollY > 0")
        window = shown.locator("#flame").bounding_box()
        for name in ("MainThread", "<module>", "call_3 "):
            bar = frame.locator("#frames g", has=frame.locator("title", has_text=name)).first.bounding_box()
            self.assertGreaterEqual(bar["y"], window["y"], name)
            self.assertLessEqual(bar["y"] + bar["height"], window["y"] + window["height"], name)

    def test_it_does_not_scroll_sideways(self):
        far = self.directory / "a_directory_with_a_long_name" / ("without_a_space" * 8)
        far.mkdir(parents=True)
        shutil.copy(ROOT / "examples" / PROGRAM.name, far)
        self.run_python("-m", "ferrule_profiler", "--quiet", "-o", far / "found.html", far / PROGRAM.name)
        for size, page in itertools.product((PHONE, DESKTOP), (self.page, far / "found.html")):
            shown = self.open(size, page)
            self.assertEqual(self.overflow(shown), 0)
            shown.locator("#functions tbody tr").first.click()      # with source below
            self.assertEqual(self.overflow(shown), 0)
            if page != self.page:
                continue
            # Nor has one to scroll for the names.
            boxes = shown.locator(".scroll").evaluate_all("all => all.map(box => box.scrollWidth - box.clientWidth)")
            self.assertEqual(max(boxes), 0, boxes)
        wide = self.directory / "wide.html"
        wide.write_text(self.page.read_text().replace("<h1>", '<div style="width: 900px">wide</div><h1>', 1))
        self.assertGreater(self.overflow(self.open(PHONE, wide)), 0, "the check sees nothing")

    def test_pictures(self):
        shown = self.open(DESKTOP, self.page)
        shown.locator("#functions tbody tr").filter(has_text="are_anagrams").click()
        # Where the clone is means nothing to a reader.
        shown.locator("#facts").evaluate("(facts, path) => facts.textContent = facts.textContent.replace(path, '')", f"{ROOT}/")
        shown.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
        self.picture("profiler", shown, full_page=True)
        self.picture("profiler-phone", self.open(PHONE, self.page))


class DebuggersSession(Case):
    def test_picture(self):
        """A session as it is seen in a terminal: what was typed follows the prompts."""
        printed = self.run_python("-m", "ferrule_debugger", PROGRAM.name, typed="\n".join(TYPED) + "\n")
        self.assertIn("'enost'\n", printed)
        typed, lines = iter(TYPED), []
        for part in html.escape(printed.replace(str(ROOT) + "/", ""), quote=False).split("(Pdb) "):
            lines.append(part)
            lines.append(f"(Pdb) <b>{html.escape(next(typed, ''), quote=False)}</b>\n")
        page = self.directory / "session.html"
        page.write_text("<!DOCTYPE html><meta charset=utf-8><style>body { margin: 0; background: #1e1e2e; color: #cdd6f4 } "
                        "pre { margin: 16px; font: 14px/1.4 monospace } b { color: #a6e3a1 }</style>"
                        f"<pre>$ <b>python -m ferrule_debugger {PROGRAM.name}</b>\n{''.join(lines[:-1])}</pre>")
        shown = self.open((1000, 200), page)
        self.assertIn("p len(groups)\n6\n", shown.locator("pre").inner_text())
        self.picture("debugger", shown, full_page=True)
