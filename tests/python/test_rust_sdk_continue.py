"""The crate framehook: frames that continue from records, and variables by index."""

from rust_sdk_support import HookTestCase, load

rust_hook = cases = None


def setUpModule():
    global rust_hook, cases
    rust_hook, cases = load()


def triple(x):
    return x * 3


def waits(x):
    return triple(x) + 1


class Continued(HookTestCase):
    def setUp(self):
        super().setUp()
        from continuing_support import after, index_of
        self.multiplies = index_of(triple, "BINARY_OP")
        self.begins = after(triple, "RESUME")
        self.waits = index_of(waits, "CALL")

    def test_one_frame(self):
        self.assertEqual(cases.continue_all([(triple, self.multiplies, [2], [5, 3])], None), 15)

    def test_a_value_on_the_stack(self):
        self.assertEqual(cases.continue_all([(triple, self.multiplies, [2], [5])], [4]), 20)

    def test_a_chain_and_an_exception(self):
        chain = [(waits, self.waits, [2], []), (triple, self.begins, [2], [])]
        self.assertEqual(cases.continue_all(chain, None), 7)
        with self.assertRaises(KeyError):
            cases.continue_all(chain, KeyError("thrown"))

    def test_refusals(self):
        with self.assertRaisesRegex(ValueError, "no frame to continue"):
            cases.continue_all([], None)
        with self.assertRaisesRegex(ValueError, "at an instruction of its code"):
            cases.continue_all([(triple, 2**40, [2], [])], [1])
