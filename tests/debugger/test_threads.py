"""Threads: each can stop, and steps for itself; the others keep running."""

import os
import signal
import sys
import threading
import unittest

from debugger_support import DebuggerCase, Scripted, at, run_python

TEXT = """
    import threading

    def work(n):
        total = 0               # first
        for i in range(n):      # for
            total += i          # add
        return total            # last

    def both():
        threads = [threading.Thread(target=work, args=(3,)) for _ in range(2)]   # begin
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return "done"           # end
"""


class Threads(DebuggerCase):
    TEXT = TEXT

    def test_each_stops(self):
        class Where(Scripted):
            def user_line(self, frame):
                where.append((threading.get_ident(), self.program.name_of(frame.f_lineno)))
                super().user_line(frame)

        where = []
        debugger = Where(self.source, at("last"))
        self.assertEqual(debugger.runcall(self.names["both"]), "done")
        self.assertEqual([name for _, name in where], ["begin", "last", "last"])
        self.assertNotIn(threading.get_ident(), [thread for thread, _ in where[1:]])

    def test_one_at_a_time(self):
        inside, most = [0], [0]

        class Slow(Scripted):
            def user_line(self, frame):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                threading.Event().wait(0.02)
                inside[0] -= 1
                super().user_line(frame)

        debugger = Slow(self.source, at("add"))
        debugger.runcall(self.names["both"])
        self.assertEqual((len(debugger.stops), most[0]), (7, 1))

    def test_others_run_while_one_stops(self):
        continued = threading.Event()

        def stop(debugger, frame):
            worker = threading.Thread(target=lambda: continued.set())
            worker.start()
            worker.join(60)

        self.debug(self.source, self.names["work"], at("last"), "continue", stop, arguments=(1,))
        self.assertTrue(continued.is_set())

    def test_each_steps_for_itself(self):
        by_thread = {}

        class Own(Scripted):
            def user_line(self, frame):
                mine = by_thread.setdefault(threading.get_ident(), [])
                name = self.program.name_of(frame.f_lineno)
                mine.append(name)
                if name == "begin":
                    self.set("first", temporary=False)
                    self.set_continue()
                elif name == "last":
                    self.set_continue()
                else:
                    self.set_next(frame)

        Own(self.source).runcall(self.names["both"])
        del by_thread[threading.get_ident()]
        self.assertEqual(
            list(by_thread.values()), [["first", *["for", "add"] * 3, "for", "last"]] * 2
        )

    def test_step_in_a_thread_leaves_the_others_untraced(self):
        traced = []

        def look():
            traced.append(sys.gettrace())

        self.names["look"] = look
        program = self.program("""
            import threading

            def worker(look):
                other = threading.Thread(target=look)   # first
                other.start()
                other.join()

            def run(look):
                thread = threading.Thread(target=worker, args=(look,))  # run
                thread.start()
                thread.join()
        """)
        done = self.debug(
            program,
            program.load()["run"],
            at("first"),
            "continue",
            "step",
            "continue",
            arguments=(look,),
        )
        self.assertEqual(traced, [None])
        self.assertEqual(done.stops[1], ("line", "first"))

    @unittest.skipUnless(
        getattr(sys, "_is_gil_enabled", lambda: True)(),
        "without the GIL the stacks of other threads are not read",
    )
    def test_function_that_runs_in_another_thread(self):
        program = self.program("""
            def waiting(started, go):
                started.set()
                go.wait()
                return 1        # woken
        """)
        started, go = threading.Event(), threading.Event()
        thread = threading.Thread(target=program.load()["waiting"], args=(started, go))
        thread.start()
        started.wait()

        def release():
            go.set()
            thread.join()

        done = self.debug(program, release, at("woken"))
        self.assertEqual(done.stops[1:], [("line", "woken")])

    def test_breakpoints_are_set_and_cleared_while_threads_run(self):
        program = self.program("""
            def spin(stop):
                n = 0
                while not stop.is_set():
                    n += 1          # spin
                return n
        """)
        spin, stop = program.load()["spin"], threading.Event()
        threads = [threading.Thread(target=spin, args=(stop,)) for _ in range(3)]

        def play():
            for thread in threads:
                thread.start()
            for _ in range(50):
                debugger.set("spin", cond="False")
                debugger.clear_all_breaks()
            debugger.set("spin", temporary=True)
            reached.wait(60)
            stop.set()
            for thread in threads:
                thread.join()

        reached = threading.Event()

        class Reaching(Scripted):
            def user_line(self, frame):
                super().user_line(frame)
                if frame.f_code is spin.__code__:
                    reached.set()

        debugger = Reaching(program, at("spin", cond="False"))
        debugger.runcall(play)
        self.assertTrue(reached.is_set())


class Processes(DebuggerCase):
    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_fork(self):
        program = self.program("""
            import os

            def child():
                return 7                # child

            def run():
                read, write = os.pipe()
                if os.fork() == 0:
                    os.write(write, bytes([child()]))
                    os._exit(0)
                os.wait()
                return os.read(read, 1)[0], child()
        """)
        names = program.load()
        done = self.debug(program, names["run"], at("child"))
        self.assertEqual(done.value, (7, 7))
        self.assertEqual(done.stops[1:], [("line", "child")])

    def test_fork_while_another_thread_has_the_debugger(self):
        said = run_python(
            [
                "-c",
                """if True:
            import os, threading
            import ferrule_debugger
            from ferrule_debugger import turns
            held, go = threading.Event(), threading.Event()

            def hold():
                with turns.mine():
                    held.set()
                    go.wait()

            thread = threading.Thread(target=hold)
            thread.start()
            held.wait()
            if os.fork() == 0:
                with turns.mine():
                    print("the child has it", flush=True)
                os._exit(0)
            os.wait()
            go.set()
            thread.join()
        """,
            ],
            PYTHONWARNINGS="ignore",
        )
        self.assertEqual(said, "the child has it\n")

    @unittest.skipUnless(hasattr(signal, "SIGINT"), "no SIGINT")
    def test_ctrl_c_stops_where_the_program_is(self):
        program = self.program("""
            import os, signal, time

            def long():
                for n in range(10):
                    if n == 3:
                        os.kill(os.getpid(), signal.SIGINT)     # interrupted
                return n

            long()
            print("over")
        """)
        said = run_python(
            ["-m", "ferrule_debugger", program.path],
            "break long\ncontinue\nclear 1\ncontinue\np n\ncontinue\nquit\n",
        )
        self.assertIn("Program interrupted", said)
        self.assertIn("(Pdb) 3\n", said)
        self.assertIn("over", said)

    def test_subinterpreter(self):
        try:
            import _interpreters  # noqa: F401
        except ImportError:
            self.skipTest("no _interpreters")
        said = run_python(
            [
                "-c",
                f"""if True:
            import _interpreters as interpreters, sys
            sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
            one = interpreters.create()
            problem = interpreters.run_string(one, '''if True:
                import sys
                sys.path[:0] = {sys.path[:1]!r}
                import ferrule_debugger, io, linecache
                out = io.StringIO()
                def function():
                    return 5
                debugger = ferrule_debugger.Pdb(stdout=out,
                                                stdin=io.StringIO("threads\\\\np 40 + 2\\\\ncontinue\\\\n"),
                                                nosigint=True, readrc=False)
                debugger.runcall(function)
                print("42" in out.getvalue())
            ''')
            print(problem)
        """,
            ]
        )
        self.assertEqual(said, "True\nNone\n")


class Exceptions(DebuggerCase):
    def test_a_step_over_a_call_that_raises_shows_its_caller(self):
        program = self.program("""
            import threading
            def fails():
                raise ValueError
            def work():
                try:
                    fails()             # calls
                except ValueError:
                    pass
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        """)
        line = program.line("calls")
        said = run_python(["-m", "ferrule_debugger", program.path], f"b {line}\nc\nn\nc\nq\n")
        self.assertRegex(said, rf"\(Pdb\) ValueError\n> \S+program\.py\({line}\)work\(\)\n")


if __name__ == "__main__":
    unittest.main()
