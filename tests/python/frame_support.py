"""What the tests of frames share."""

import gc
import unittest


class Probe:
    """Writes its name to a log when it dies, and does something else if there is an action."""

    def __init__(self, name, log, action=None):
        self.name, self.log, self.action = name, log, action

    def __del__(self):
        self.log.append(self.name)
        if self.action is not None:
            self.action(self)


class FrameTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        gc.collect()
        self.log = []

    def probe(self, name, action=None):
        return Probe(name, self.log, action)
