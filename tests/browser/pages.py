"""Pages in a real browser, as wide as a phone and as a desktop."""

import os
import shutil
import unittest

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
PHONE, DESKTOP = (360, 740), (1280, 900)


class PageCase(unittest.TestCase):
    """Has a browser, or is skipped; in CI there must be one."""

    @classmethod
    def setUpClass(cls):
        if not BROWSER and not os.environ.get("CI"):
            raise unittest.SkipTest("no Chromium here (make deps installs one)")
        from playwright.sync_api import sync_playwright
        playwright = cls.enterClassContext(sync_playwright())
        # Sandboxed processes cannot be made by root in a container; what is shown is our own.
        cls.browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        cls.addClassCleanup(cls.browser.close)

    def open(self, size, file, **options):
        """The page of a file, with its requests and its errors."""
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]},
                                           device_scale_factor=2 if size == PHONE else 1, is_mobile=size == PHONE, **options)
        self.addCleanup(context.close)
        shown = context.new_page()
        shown.requested, shown.complaints = [], []
        shown.on("request", lambda request: shown.requested.append(request.url))
        shown.on("console", lambda message: shown.complaints.append(message.text))
        shown.on("pageerror", lambda error: shown.complaints.append(str(error)))
        shown.goto(file.as_uri())
        return shown

    def overflow(self, shown):
        """By how much it is wider than the window."""
        return shown.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
