"""Arguments that are not where they were, and parameters that no compiler makes.

A hook may empty a cell that holds an argument. Two parameters may have one name, and one may be a
cell by name only.
"""

import gc
import sys
import types
import weakref

from hook_variants import ALL, KINDS, VariantTestCase, finish, in_a_child, installed, varied
from support import PythonApi, framecore, needs_hooks


class Secret:
    pass


def empty_cells(secret):
    """Empty each cell that contains this, and return how many there were."""
    cells = [thing for thing in gc.get_referrers(secret) if type(thing) is types.CellType]
    for cell in cells:
        del cell.cell_contents
    return len(cells)


WITH_CELLS = tuple(name for name in ALL if KINDS[name].has_cell)


@needs_hooks
class EmptiedCells(VariantTestCase):
    def setUp(self):
        super().setUp()
        # With fewer objects to look through, gc.get_referrers() is faster.
        gc.freeze()
        self.addCleanup(gc.unfreeze)

    def empty_and(self, api, kind, act, answer=None):
        """Call a function whose argument a hook takes out of its cell.

        Returns how many cells were emptied, what act(view) returned, and the result of the call.
        """
        secrets = [Secret()]
        reference = weakref.ref(secrets[0])
        offered = kind.make("{give} [a, b]", parameters="a, b")
        stand_in = kind.make("{give} ['replaced', a, b]", name="stand_in",
                             parameters="a, b").__code__
        other = Secret()
        count = sys.getrefcount(other)
        found = []

        def hook(view):
            if view.code is offered.__code__:
                found.append(empty_cells(secrets[0]))
                found.append(act(view))
                return stand_in if answer else None

        with installed(api, hook):
            try:
                # No reference of the caller's keeps the argument alive.
                result = finish(offered(secrets[0], other))
            except NameError as error:
                result = type(error)
        if result is UnboundLocalError:
            del secrets[:]
            self.assertIsNone(reference())
            if found[1] is None:
                self.assertEqual(sys.getrefcount(other), count)
        return *found, result

    def read(self, api, kind):
        def act(view):
            outcomes = []
            for key in (0, "a", 1):
                try:
                    outcomes.append(view.argument(key))
                except UnboundLocalError:
                    outcomes.append(UnboundLocalError)
            return outcomes

        cells, outcomes, result = self.empty_and(api, kind, act)
        if cells:
            self.assertEqual(outcomes[:2], [UnboundLocalError] * 2)
            self.assertIs(result, UnboundLocalError)
        else:
            self.assertEqual(list(map(type, outcomes[:2])), [Secret] * 2)
        self.assertIsInstance(outcomes[2], Secret)
        return cells

    def test_reading_an_argument_whose_cell_is_empty_raises_unbound_local_error(self):
        self.in_every_variant(self.read, kinds=WITH_CELLS)

    def test_there_is_a_cell_to_empty_during_a_dispatch(self):
        for kind in WITH_CELLS:
            with self.subTest(kind):
                self.assertEqual(self.read(PythonApi(), KINDS[kind]), 1)

    @varied(kinds=WITH_CELLS, apis=("Python",))
    def test_arguments_leaves_out_one_whose_cell_is_empty(self, api, kind):
        def act(view):
            return view.argument_names, view.arguments()

        cells, arguments, _ = self.empty_and(api, kind, act)
        self.assertEqual(arguments[0], ("a", "b"))
        self.assertEqual(list(arguments[1]), ["b"] if cells else ["a", "b"])

    def replace(self, api, kind):
        cells, _, result = self.empty_and(api, kind, lambda view: None, "replace")
        if cells:
            self.assertIs(result, UnboundLocalError)
        else:
            self.assertEqual(result[0], "replaced")

    @in_a_child
    def test_replacing_where_an_arguments_cell_is_empty_raises_unbound_local_error(self):
        self.in_every_variant(self.replace, kinds=WITH_CELLS)


def changed(function, **changes):
    function.__code__ = function.__code__.replace(**changes)
    return function


@needs_hooks
class OddParameters(VariantTestCase):
    """Parameters of code that code.replace() can make, and the compiler does not."""

    def two_of_one_name(self, api, kind, odd):
        offered = kind.make("{give} a", parameters="a, b")
        stand_in = kind.make("{give} b", name="stand_in", parameters="a, b")
        changed(offered if odd == "original" else stand_in,
                co_varnames=("a", "a", *offered.__code__.co_varnames[2:]))
        arguments = Secret(), Secret()
        expected = finish(offered(*arguments))
        before = list(map(sys.getrefcount, arguments))
        with installed(api, self.replacer((offered, stand_in))):
            for _ in range(20):
                with self.assertRaises(framecore.IncompatibleCodeError):
                    offered(*arguments)
        self.assertEqual(list(map(sys.getrefcount, arguments)), before)
        self.assertIs(finish(offered(*arguments)), expected)

    NO_CELL = tuple(name for name in ALL if not KINDS[name].has_cell)

    @in_a_child
    def test_two_parameters_of_one_name_cannot_be_mapped(self):
        for odd in ("original", "replacement"):
            self.in_every_variant(self.two_of_one_name, odd, kinds=self.NO_CELL)

    def cell_that_is_not_made(self, api, kind, odd, what):
        """A parameter in co_cellvars for which no instruction MAKE_CELL makes a cell."""
        offered = kind.make("{give} a")
        stand_in = kind.make("{give} ['replaced', a]", name="stand_in")
        changed(offered if odd == "original" else stand_in, co_cellvars=("a",))
        if odd == "replacement":
            # The compiler of stock CPython makes no such code, but its interpreter runs it.
            self.assertEqual(finish(stand_in("argument")), ["replaced", "argument"])
        expected = finish(offered("argument")) if what == "read" else ["replaced", "argument"]
        read = []

        def hook(view):
            if view.code is offered.__code__:
                read.append(
                    (view.argument_names, view.argument(0), view.argument("a"), view.arguments()))
                return stand_in.__code__ if what == "replace" else None

        argument = Secret()
        count = sys.getrefcount(argument)
        with installed(api, hook):
            self.assertEqual(finish(offered("argument")), expected)
            finish(offered(argument))
        self.assertEqual(read[0], (("a",), "argument", "argument", {"a": "argument"}))
        del read[:]
        self.assertEqual(sys.getrefcount(argument), count)

    @in_a_child
    def test_a_parameter_that_is_a_cell_by_name_only_is_read_like_any_other(self):
        self.in_every_variant(self.cell_that_is_not_made, "original", "read", kinds=self.NO_CELL)

    @in_a_child
    def test_a_parameter_that_is_a_cell_by_name_only_is_handed_over_like_any_other(self):
        for odd in ("original", "replacement"):
            self.in_every_variant(self.cell_that_is_not_made, odd, "replace", kinds=self.NO_CELL)
