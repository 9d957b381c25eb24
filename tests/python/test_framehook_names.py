"""What tools see of framehook: completion, pydoc, names of classes, and the stubs for type checkers."""

import ast
import inspect
import os
import pickle
import pydoc
import unittest

import support

_framecore, framehook = support.framecore, support.framehook


def stub(module):
    """The definitions of a module's stub by name."""
    path = os.path.join(support.ROOT, "overlay", "Lib", f"{module.__name__}.pyi")
    with open(path, encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    found = {}
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = node
            case ast.ImportFrom(names=names):
                found.update({alias.asname: node for alias in names if alias.asname})
    return found


def parameters(node):
    """(name, kind, has a default) of each parameter of a stub's function."""
    arguments = node.args
    kinds = inspect.Parameter
    positional = [*((a, kinds.POSITIONAL_ONLY) for a in arguments.posonlyargs),
                  *((a, kinds.POSITIONAL_OR_KEYWORD) for a in arguments.args)]
    without = len(positional) - len(arguments.defaults)
    found = [(a.arg, kind, number >= without) for number, (a, kind) in enumerate(positional)]
    if arguments.vararg:
        found.append((arguments.vararg.arg, kinds.VAR_POSITIONAL, False))
    found += [(a.arg, kinds.KEYWORD_ONLY, default is not None)
              for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, kinds.VAR_KEYWORD, False))
    return found


@support.needs_hooks
class Stubs(unittest.TestCase):
    def assert_signature(self, function, node, whose):
        self.assertEqual([(p.name, p.kind, p.default is not p.empty) for p in inspect.signature(function).parameters.values()],
                         parameters(node), whose)

    def test_the_stub_of_framehook_has_the_modules_public_names_and_no_others(self):
        public = {name for name in stub(framehook) if not name.startswith("_")}
        self.assertEqual(public, set(framehook.__all__))

    def test_the_stub_of_framecore_has_the_modules_names(self):
        public = {name for name, node in stub(_framecore).items() if not name.startswith("_")}
        self.assertEqual(public, {name for name in vars(_framecore) if not name.startswith("_")})
        self.assertEqual(type(_framecore.DISABLE).__name__, "Disable")

    def assert_signatures(self, module):
        for name, node in stub(module).items():
            if isinstance(node, ast.FunctionDef):
                self.assert_signature(getattr(module, name), node, name)

    def test_functions_in_the_stub_of_framehook_take_what_they_take(self):
        self.assert_signatures(framehook)

    def test_functions_in_the_stub_of_framecore_take_what_they_take(self):
        self.assert_signatures(_framecore)

    def test_classes_in_the_stubs_have_what_they_have(self):
        for name in ("hook", "FrameView"):
            real = getattr(framehook, name)
            for node in stub(framehook)[name].body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
                    self.assertTrue(hasattr(real, node.name), node.name)
                    if not node.decorator_list:
                        self.assert_signature(getattr(real, node.name), node, node.name)
        public = {name for name in dir(framehook.FrameView) if not name.startswith("_")}
        self.assertEqual(public, {node.name for node in stub(framehook)["FrameView"].body})

    def test_a_hooks_facts_are_those_of_the_stub(self):
        fields = [node.target.id for node in stub(framehook)["HookInfo"].body]
        self.assertEqual(tuple(fields), framehook.HookInfo._fields)

    def test_the_facts_of_the_build_are_those_of_the_stub(self):
        for function, name in ((_framecore.info, "_Info"), (_framecore.datastack_stats, "_DataStackStats")):
            self.assertEqual([node.target.id for node in stub(_framecore)[name].body], list(function()))


@support.needs_hooks
class Names(unittest.TestCase):
    def test_completion_offers_what_is_public(self):
        offered = [name for name in dir(framehook) if not name.startswith("__")]
        self.assertEqual(sorted(offered), sorted(framehook.__all__))
        self.assertIn("__doc__", dir(framehook))

    def test_classes_say_where_they_are_imported_from(self):
        for name in ("CodeMap", "FrameEvent", "FrameView", "IncompatibleCodeError", "HookInfo", "hook"):
            found = getattr(framehook, name)
            self.assertEqual((found.__module__, found.__qualname__), ("framehook", name))
        self.assertIs(pickle.loads(pickle.dumps(framehook.FrameView)), framehook.FrameView)

    def test_pydoc_names_no_page_that_does_not_exist(self):
        library = os.path.dirname(os.__file__)     # of the source tree, where the build runs from it
        # Releases spell the address of a page differently.
        self.assertRegex(pydoc.TextDoc().getdocloc(os, library), r"/os(\.html|#module-os)$")
        self.assertIsNone(pydoc.TextDoc().getdocloc(framehook, library))
