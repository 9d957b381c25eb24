"""Values on code objects where there are several interpreters."""

from code_extra_support import IN_INTERPRETERS, KINDS, mended
from support import ProgramTestCase, needs_framecore, run_program


class Interpreters(ProgramTestCase):
    """Interpreters with a GIL of their own ("isolated"), and with the main one's ("legacy")."""

    def run_for_each_kind(self, source, **options):
        for kind in KINDS:
            with self.subTest(kind):
                self.assert_program_succeeds(IN_INTERPRETERS + "    kind = %r\n" % kind + source,
                                             **options)

    def test_indices_of_one_interpreter_are_none_in_another(self):
        self.run_for_each_kind("""
    other = _interpreters.create(kind)
    index = codeextra.request()
    run(other, f'''if True:
        code = compile("1", "x", "eval")
        try:
            codeextra.set(code, {index}, 1)
        except SystemError:
            pass
        else:
            raise AssertionError("another interpreter's index")
        assert codeextra.get(code, {index}) is None
        ''')
    run(other, "for _ in range(200): codeextra.request()")
    assert len(codeextra.request_many(100)) == 100
    _interpreters.destroy(other)
    """)

    @needs_framecore
    def test_the_same_place_of_two_interpreters_is_distinguished(self):
        # On stock both indices are 0, and each is taken for the other.
        self.run_for_each_kind("""
    other = _interpreters.create(kind)
    index = codeextra.request()
    run(other, f'''if True:
        own = codeextra.request()
        assert own != {index}
        code = compile("1", "x", "eval")
        codeextra.set(code, own, 7)
        assert codeextra.get(code, {index}) is None
        for call in (lambda: codeextra.set(code, {index}, 1), lambda: codeextra.release({index})):
            try:
                call()
            except SystemError as error:
                assert "this interpreter did not hand out" in str(error), error
            else:
                raise AssertionError("another interpreter's index")
        assert codeextra.get(code, own) == 7
        del code
        codeextra.release(own)
        ''')
    freed = codeextra.freed()
    assert freed == [(7, other)], freed
    _interpreters.destroy(other)
    codeextra.release(index)
    """)

    def test_values_are_freed_in_their_own_interpreter_when_it_ends(self):
        self.run_for_each_kind("""
    other = _interpreters.create(kind)
    run(other, '''if True:
        index = codeextra.request()
        def function(): pass
        codeextra.set(function.__code__, index, 7)
        ''')
    assert codeextra.freed() == []
    _interpreters.destroy(other)
    assert codeextra.freed() == [(7, other)]
    """)

    def test_a_value_of_a_code_object_that_outlives_its_interpreter_is_freed(self):
        # Stock never frees it.
        self.run_for_each_kind("""
    other = _interpreters.create(kind)
    run(other, '''if True:
        index = codeextra.request()
        code = compile("1", "x", "eval")
        codeextra.set(code, index, 7)
        codeextra.remember(code)
        codeextra.keep_remembered()
        ''')
    _interpreters.destroy(other)
    freed = codeextra.freed()
    assert freed == %s, freed
    """ % mended(stock="[]", ferrule="[(7, other)]"))

    @needs_framecore
    def test_what_two_interpreters_do_with_one_code_object_is_apart(self):
        # A code object belongs to one interpreter. Others that share its GIL can still get it.
        self.assert_program_succeeds(IN_INTERPRETERS + """
    other = _interpreters.create("legacy")
    index = codeextra.request()
    code = compile("1", "x", "eval")
    codeextra.set(code, index, 7)
    codeextra.remember(code)
    run(other, f'''if True:
        own = codeextra.request()
        assert codeextra.get_remembered(own) is None
        try:
            codeextra.set_remembered(own, 8)
        except RuntimeError as error:
            assert "values of another interpreter" in str(error), error
        else:
            raise AssertionError("one table for two interpreters")
        ''')
    # The code object dies in the other interpreter. Its value waits for the one that set it.
    codeextra.keep_remembered()
    del code
    run(other, "codeextra.drop_remembered()")
    assert codeextra.freed() == []
    codeextra.release(index)
    assert codeextra.freed() == [(7, main)]
    _interpreters.destroy(other)
    """)

    def test_many_interpreters_come_and_go(self):
        self.run_for_each_kind("""
    for _ in range(30):
        other = _interpreters.create(kind)
        run(other, '''if True:
            index = codeextra.request()
            def function(): pass
            codeextra.set(function.__code__, index, 7)
            assert codeextra.get(function.__code__, index) == 7
            ''')
        _interpreters.destroy(other)
        assert codeextra.freed() == [(7, other)]
    """)

    def test_the_main_interpreter_frees_its_values_at_exit(self):
        self.assert_program_succeeds("""if True:
            import codeextra, os
            index = codeextra.request()
            def function(): pass
            codeextra.set(function.__code__, index, 7)
            def report(value, write=os.write):
                write(1, b"freed %d" % value)
            codeextra.set_hook(report)
            """)
        done = run_program("""if True:
            import codeextra, os
            index = codeextra.request()
            code = compile("1", "x", "eval")
            codeextra.set(code, index, 7)
            codeextra.set_hook(lambda value, write=os.write: write(1, b"freed %d" % value))
            codeextra.remember(code)
            codeextra.keep_remembered()
            """)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, mended(stock="", ferrule="freed 7"))
