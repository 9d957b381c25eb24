"""The benchmarks' page in a real browser, as wide as a phone and as a desktop."""

import io
import tempfile
from pathlib import Path

from PIL import Image

from made_up import make_run
from suite import page
from suite.results import Results
from tests.browser.pages import DESKTOP, PHONE, PageCase

SHOTS = Path(__file__).resolve().parents[2] / "build" / "logs"     # for a person to look at


class InBrowser(PageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        make_run(cls.directory)
        cls.file = page.write(Results(cls.directory))

    def open(self, size, file=None):
        return super().open(size, file or self.file)

    def test_it_does_not_scroll_sideways(self):
        for size in (PHONE, DESKTOP):
            with self.subTest(size):
                shown = self.open(size)
                self.assertEqual(self.overflow(shown), 0)
                SHOTS.mkdir(parents=True, exist_ok=True)
                shown.screenshot(path=SHOTS / f"benchmarks-page-{size[0]}.png", full_page=True)

    def test_the_check_would_see_a_page_that_does(self):
        wide = Path(self.directory, "wide.html")
        wide.write_text(self.file.read_text().replace("<h1>", '<div style="width: 900px">wide</div><h1>', 1))
        self.assertGreater(self.overflow(self.open(PHONE, wide)), 0)

    def test_every_plot_has_drawn_something_and_is_readable(self):
        for size in (PHONE, DESKTOP):
            shown = self.open(size)
            figures = shown.locator("figure").all()
            self.assertGreaterEqual(len(figures), 7)
            for figure in figures:
                name = figure.get_attribute("id")
                with self.subTest(size=size, plot=name):
                    box = figure.locator("svg").bounding_box()
                    self.assertGreater(box["width"], 0.8 * min(size[0], 576))
                    # Text is 8 points high in the plot's own measure.
                    points = float(figure.locator("svg").get_attribute("viewBox").split()[2])
                    self.assertGreater(8 * box["width"] / points, 7)
                    self.assertGreater(box["height"], 60)
                    picture = Image.open(io.BytesIO(figure.screenshot())).convert("RGB")
                    colors = dict((color, count) for count, color in picture.getcolors(1 << 24))
                    drawn = sum(colors.values()) - colors.get((255, 255, 255), 0)
                    self.assertGreater(drawn / sum(colors.values()), 0.01)
                    colored = sum(count for color, count in colors.items() if max(color) - min(color) > 40)
                    self.assertGreater(colored, 50, "axes alone, and no figures")

    def test_it_loads_nothing_but_itself(self):
        shown = self.open(DESKTOP)
        self.assertEqual(shown.requested, [self.file.as_uri()])
        self.assertEqual(shown.complaints, [])

    def test_details_open(self):
        shown = self.open(PHONE)
        shown.locator("summary", has_text="Show the table").click()
        self.assertTrue(shown.get_by_text("recursion").last.is_visible())
        self.assertEqual(self.overflow(shown), 0)
