"""The profiler's page in a real browser, as wide as a phone and as a desktop; and the pictures of the clients' documentation.

Run by the harness's Python, which has what drives a browser; FERRULE_PYTHON names the interpreter that the clients are
built for. With PICTURES=1 the pictures go to docs/clients, else to build/logs.
"""

import html
import itertools
import re
import shutil

from clients import ROOT, Case
from pages import DESKTOP, PHONE

PROGRAM = ROOT / "examples" / "anagrams.py"
# What is typed into the debugger for the picture.
TYPED = ("break are_anagrams, one == 'tones' and other == 'stone'", "continue", "p letters(one)", "up", "down", "return", "retval",
         "next", "p group", "list 18, 23", "clear 1", "tbreak largest", "continue", "p len(groups)", "quit")


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
            self.assertEqual(shown.requested, [self.page.as_uri()])
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
        inner.locator("#flame div", has_text="work").last.click()
        self.assertEqual(inner.locator("#callees-graph div").first.inner_text(), "work")
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

    def test_time_awaited_and_the_processors(self):
        program, page = self.directory / "awaits.py", self.directory / "awaits.html"
        program.write_text("import asyncio\nasync def job(): await asyncio.sleep(0.01)\n"
                           "async def main(): await asyncio.gather(*(asyncio.create_task(job(), name='a job') for _ in range(3)))\nasyncio.run(main())\n")
        self.run_python("-m", "ferrule_profiler", "--quiet", "--cpu", "-o", page, program)
        for size in (PHONE, DESKTOP):
            shown = self.open(size, page)
            shown.locator("#functions tbody tr").filter(has_text="job").click()
            self.assertRegex(shown.locator("#facts").inner_text(), r", own CPU [\d.]+ .?s, total CPU [\d.]+ .?s, awaited [\d.]+ ms$")
            tasks = [text.split("\t") for text in shown.locator("#tasks tr").all_inner_texts()]
            self.assertEqual(tasks[0], ["Tasks", "Runs", "Time", "Awaited", "Name and coroutine"])
            row, = (row for row in tasks if row[4] == "a job job")
            self.assertEqual(row[:2], ["3", "6"])
            self.assertRegex(row[3], r"^[\d.]+ ms$")
            if size == DESKTOP:
                heads = shown.locator("#functions th")
                heads.get_by_text("Awaited").click()
                self.assertEqual(self.names(shown)[0].split("awaits.py")[0][:3], "job")
                self.assertIn("Own CPU", heads.all_inner_texts())
            self.assertEqual(self.overflow(shown), 0)
            self.assertEqual(shown.complaints, [])

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
        for name, size, scheme in (("profiler", DESKTOP, "light"), ("profiler-dark", DESKTOP, "dark"), ("profiler-phone", PHONE, "light"),
                                   ("profiler-phone-dark", PHONE, "dark")):
            shown = self.open(size, self.page, color_scheme=scheme)
            if size == DESKTOP:
                shown.locator("#functions tbody tr").filter(has_text="are_anagrams").click()
            # Where the clone is means nothing to a reader.
            shown.locator("#facts").evaluate("(facts, path) => facts.textContent = facts.textContent.replace(path, '')", f"{ROOT}/")
            shown.locator("#tools").evaluate("tools => tools.style.position = 'static'")
            shown.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
            taken = self.picture(name, shown, full_page=size == DESKTOP)
            dark = sum(count for count, color in taken.getcolors(1 << 24) if max(color) < 80)
            self.assertEqual(dark > taken.width * taken.height / 2, scheme == "dark")


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
