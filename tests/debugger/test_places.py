"""Breakpoints are where they can stop, whatever a file or a function is called; or it is said why not."""

import bdb
import functools
import os
import unittest
import zipfile

from debugger_support import DebuggerCase, pdb_session, run_python, session


class PlaceCase(DebuggerCase):
    def directory(self, **files):
        """A directory with these modules; its path."""
        directory = os.path.dirname(self.program("").path)
        for name, text in files.items():
            with open(os.path.join(directory, name + ".py"), "w", encoding="utf-8") as file:
                file.write(text)
        return directory

    def debugged(self, directory, *commands, program="main.py", cwd=None):
        """What is said where these commands are typed; each is followed by a mark."""
        return run_python(["-m", "ferrule_debugger", os.path.join(directory, program)],
                          "\n".join([*commands, "q", ""]), cwd=cwd or directory)


class Files(PlaceCase):
    MODULE = "def f():\n    x = 1\n    return x\n"

    def test_symbolic_links(self):
        directory = self.directory(module=self.MODULE, main="import linked\nlinked.f()\n")
        os.symlink(os.path.join(directory, "module.py"), os.path.join(directory, "linked.py"))
        real, link = (os.path.join(directory, name + ".py") for name in ("module", "linked"))
        for typed, other in ((real, link), (link, real)):
            with self.subTest(typed):
                said = self.debugged(directory, f"b {typed}:2", "c", "p 'stops', x if 0 else 1", "l", "p 'next'",
                                     f"cl {other}:2", "c")
                self.assertIn("('stops', 1)", said)
                self.assertIn("2 B->", said)
                self.assertIn(f"Deleted breakpoint 1 at {typed}:2", said)

    def test_a_directory_that_is_a_link(self):
        directory = self.directory()
        os.mkdir(os.path.join(directory, "real"))
        os.symlink("real", os.path.join(directory, "link"))
        with open(os.path.join(directory, "real", "module.py"), "w", encoding="utf-8") as file:
            file.write(self.MODULE)
        with open(os.path.join(directory, "main.py"), "w", encoding="utf-8") as file:
            file.write(f"import sys\nsys.path.insert(0, {directory + '/link'!r})\nimport module\nmodule.f()\n")
        for typed in ("real", "link"):
            said = self.debugged(directory, f"b {directory}/{typed}/module.py:3", "c", "p 'stops', x")
            self.assertIn("('stops', 1)", said)

    def test_both_names_have_breakpoints(self):
        directory = self.directory(module=self.MODULE, main="import linked, module\nlinked.f()\nmodule.f()\n")
        os.symlink(os.path.join(directory, "module.py"), os.path.join(directory, "linked.py"))
        said = self.debugged(directory, "b linked:2", "b module:3", *["c", "p 'at', __name__"] * 4)
        self.assertEqual([said.count(f"('at', '{name}')") for name in ("linked", "module")], [2, 2])

    def test_relative_to_the_directory(self):
        directory = self.directory()
        for name in ("tools", "programs"):
            os.mkdir(os.path.join(directory, name))
        with open(os.path.join(directory, "tools", "helper.py"), "w", encoding="utf-8") as file:
            file.write(self.MODULE)
        with open(os.path.join(directory, "programs", "main.py"), "w", encoding="utf-8") as file:
            file.write("import os, sys\nsys.path.insert(0, 'tools')\nos.chdir('/')\n"
                       f"sys.path[0] = {directory + '/tools'!r}\nimport helper\nhelper.f()\n")
        said = self.debugged(directory, "b tools/helper.py:3", "c", "p 'stops', x", program="programs/main.py")
        self.assertIn("('stops', 1)", said)

    def test_a_relative_name_after_the_directory_was_changed(self):
        directory = self.directory(main="import os\ncode = compile(open('text').read(), 'text', 'exec')\n"
                                        "os.chdir('/')\nexec(code)\nf()\n")
        with open(os.path.join(directory, "text"), "w", encoding="utf-8") as file:
            file.write(self.MODULE)
        said = self.debugged(directory, f"b {directory}/main.py:5", "c", "b f", "c", "n", "p 'stops', x")
        self.assertIn("('stops', 1)", said)

    def test_an_archive(self):
        directory = self.directory(main="import sys\nsys.path.insert(0, 'archive.zip')\nimport module\nmodule.f()\n")
        with zipfile.ZipFile(os.path.join(directory, "archive.zip"), "w") as archive:
            archive.writestr("module.py", self.MODULE)
        said = self.debugged(directory, "n", "n", "b module:3", "c", "p 'stops', x", "l")
        self.assertIn("('stops', 1)", said)
        self.assertIn("3 B->\t    return x", said)
        said = self.debugged(directory, "n", "n", "n", "b module.f", "c", "n", "p 'stops', x")
        self.assertIn("('stops', 1)", said)

    def test_generated_code(self):
        # Also where the code of the module stays, so that the file is known before its function has run.
        for kept in ("", "made := "):
            with self.subTest(kept):
                directory = self.directory(main=f"exec({kept}compile({self.MODULE!r}, '<made>', 'exec'))\nf()\nf()\n")
                said = self.debugged(directory, "b <made>:3", "n", "b <made>:3", "b f", "c", "c", "p 'stops', x")
                self.assertIn("'<made>' not found from sys.path", said)
                self.assertIn("Breakpoint 1 at <made>:3", said)
                self.assertIn("Breakpoint 2 at <made>:2", said)
                self.assertIn("('stops', 1)", said)

    def test_names_of_files_are_not_kept_for_ever(self):
        from ferrule_debugger import base

        def program():
            for number in range(base._MOST_NAMES // 100 * 101):
                debugger.canonic(f"/there/is/no/{number}")
            return len(debugger.fncache)

        debugger = base.Bdb()
        self.assertLessEqual(program(), base._MOST_NAMES)
        self.assertEqual(debugger.canonic("a\0b"), os.path.abspath("a\0b"))


class Lines(PlaceCase):
    TEXT = """
        def f(x):
            global G
            if x:
                a = 1
            else:
                a = 2           # two
            b = (a,
                 [],
                 )
            try:
                a += 1
            finally:
                c = 3           # three
            return b
        '''
        text
        '''
    """

    def typed(self, *places):
        """What is said where breakpoints are set at these lines."""
        return pdb_session(lambda: self.names["f"](1), *[f"b {self.source.path}:{place}" for place in places], "c", "c")

    def test_the_next_line_with_code(self):
        moved = {"global": 3, "else": 6, "parenthesis": 10, "finally": 13}
        lines = dict(zip(moved, (self.line_of(text) for text in ("global G", "else:", "         )", "finally:"))))
        said = self.typed(*lines.values())
        for number, (name, line) in enumerate(lines.items(), 1):
            self.assertIn(f"*** Line {line} has no code: the breakpoint is at line {line + 1}.", said)
            self.assertIn(f"Breakpoint {number} at {self.source.path}:{line + 1}", said, name)
        self.assertIn(f"({lines['global'] + 1})f()", said)

    def line_of(self, text):
        return next(number for number, line in enumerate(self.source.text.splitlines(), 1) if line.startswith(("    ", "        ")) and text in line)

    def test_none(self):
        last = len(self.source.text.splitlines())
        self.assertIn(f"*** There is no code at line {last - 1} or after it", self.typed(last - 1))

    def test_source_that_cannot_be_compiled(self):
        program = self.program("{{ template }}\nhello\n")
        said = pdb_session(lambda: 1, f"b {program.path}:2", "c")
        self.assertIn(f"Breakpoint 1 at {program.path}:2", said)
        self.assertIn("Breakpoint 1 is pending", said)

    def test_pending(self):
        other = self.program("def g():\n    return 1\n")
        said = pdb_session(lambda: self.names["f"](1), f"b {other.path}:2", f"b {self.source.path}:7", "c", "c")
        self.assertIn("*** Breakpoint 1 is pending: no code of its file has run yet.\n", said)
        self.assertEqual(said.count("pending"), 2)      # nor has code of this one, at the first stop

    def test_not_pending_any_more(self):
        names = self.names

        def program():
            names["f"](1)
            return 2

        said = pdb_session(program, "n", "n", f"b {self.source.path}:7", "c")
        self.assertNotIn("pending", said)


class Functions(PlaceCase):
    TEXT = """
        import functools

        def decorated(function):
            @functools.wraps(function)
            def wrapper(*args):
                return function(*args)      # wrapper
            return wrapper

        @decorated
        @decorated
        def wrapped(n):
            return n + 1                    # wrapped

        @functools.lru_cache
        def cached(n):
            return n + 1                    # cached

        class A:
            @decorated
            def method(self):
                return 1                    # method
            @property
            def prop(self):
                return 2                    # prop
            @functools.cached_property
            def cached_prop(self):
                return 3                    # cached_prop
            @classmethod
            @decorated
            def class_method(cls):
                return 4                    # class_method
            @staticmethod
            def static(n):
                return 5                    # static

        partial = functools.partial(functools.partial(wrapped))
        a = A()

        def circle():
            return 6                        # circle
        circle.__wrapped__ = circle

        def use():
            wrapped(1), cached(1), a.method(), a.prop, a.cached_prop, A.class_method(), A.static(1)    # use
            return 1
    """

    def test_behind_wrappers(self):
        for typed, name in (("wrapped", "wrapped"), ("cached", "cached"), ("A.method", "method"), ("a.method", "method"),
                            ("A.prop", "prop"), ("a.prop", "prop"), ("A.cached_prop", "cached_prop"),
                            ("A.class_method", "class_method"), ("a.static", "static"), ("partial", "wrapped")):
            with self.subTest(typed):
                bdb.Breakpoint.clearBreakpoints()
                names = self.source.load()
                said = pdb_session(names["use"], f"b {typed}", "c", "c", "c")
                line = self.source.line(name)
                self.assertIn(f"at {self.source.path}:{line}\n", said)
                self.assertIn(f"({line}){name}()", said)
                self.assertNotIn("wrapper()", said)

    def test_with_a_condition_and_once(self):
        said = pdb_session(self.names["use"], "tbreak wrapped, n == 1", "b A.method, False", "b A.method, )", "c", "p 'n is', n", "c")
        self.assertIn("('n is', 1)", said)
        self.assertIn("Invalid condition )", said)
        self.assertNotIn(")method()", said)

    def test_what_is_no_function(self):
        said = pdb_session(self.names["use"], "b nothing", "b a", "b 1 / 0", "b A.nothing", "c")
        self.assertEqual(said.count("is not a function"), 4, said)
        self.assertIsNone(session.owner)

    def test_a_circle_of_wrappers(self):
        from ferrule_debugger import places

        self.assertIsNone(places.function_behind(self.names["circle"]))
        self.assertIsNone(places.function_behind(functools.partial(len)))
        self.assertIsNone(places.function_behind(len))


if __name__ == "__main__":
    unittest.main()
