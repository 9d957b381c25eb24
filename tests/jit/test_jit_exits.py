"""Leaving compiled code: exceptions where they belong, recursion, signals, other threads, tools."""

import sys
import textwrap
import threading

import jit_support
from jit_support import Case, define, run_alone

setUpModule = jit_support.load


class Exceptions(Case):
    def test_line_and_column(self):
        source = """
            def f(a, b):
                x = a
                for i in range(3):
                    x = (x + i) * 2 + 10 // (b -
                                             i)
                return x
        """
        self.check(source, "f", [(1, 5), (1, 0), (1, 2), (2.5, 1.0)])

    def test_it_is_handled_in_the_function(self):
        source = """
            def f(a, b):
                x = failed = 0
                for i in range(6):
                    try:
                        x += a // (b - i)
                    except ZeroDivisionError:
                        failed += 1
                return x, failed
        """
        self.check(source, "f", [(100, 3), (100, 9), (100, 0), (10**18, 5), (1.5, 2)])

    def test_overflow_goes_on_in_the_interpreter(self):
        source = "def f(n):\n    r = 1\n    for i in range(1, n + 1):\n        r = r * i\n    return r\n"
        self.assertGreater(self.check(source, "f", [(n,) for n in range(0, 40, 3)]), 0)

    def test_unbound_variables(self):
        source = """
            def f(a):
                if a > 2:
                    x = 1
                for i in range(a):
                    y = i
                z = (x +
                     y)
                del x
                return z, x
        """
        self.check(source, "f", [(0,), (1,), (3,), (5,)])

    def test_variables_that_get_their_values_one_by_one(self):
        # Which of them have one is not known where code is compiled, and not compiled for each combination.
        names = "abcdefghk"
        lines = ["def f(n, m, x):", "    t = 0", "    for i in range(n):"]
        for bit, name in enumerate(names):
            lines += [f"        if m >> {bit} & 1 and i > {bit % 3}: {name} = {['i', 'x', 'i * 0.5'][bit % 3]}"]
        lines += ["        if i == 4 and m & 1: t += a; del a"]
        lines += [f"    if n & {1 << bit}: t = t * 2 + {name}" for bit, name in enumerate(names)] + ["    return t, x"]
        calls = [(n, m, 2.5) for n in (0, 3, 5, 6, 7, 32) for m in (0, 1, 2, 7, 31, 0b101010101, 511)]
        self.check("\n".join(lines) + "\n", "f", calls)

    def test_raise(self):
        source = """
            def f(a):
                for i in range(a):
                    if i == 3:
                        raise ValueError(f"at {i}")
                return i
        """
        self.check(source, "f", [(2,), (3,), (4,), (9,)])

    def test_through_calls(self):
        source = """
            def inner(a, b):
                c = a + 1
                return c // b
            def middle(a, b):
                d = a * 2
                return inner(d, b) + 1
            def f(a, b):
                total = 0
                for i in range(3):
                    total += middle(a + i, b - i)
                return total
        """
        self.check(source, "f", [(1, 5), (1, 0), (1, 2), (2**62, 7), (2**61, 1), (1.5, 2.0)])

    def test_a_callee_returns_something_else_now_and_then(self):
        source = """
            def inner(a):
                if a == 2:
                    return 0.5
                if a == 3:
                    return None
                if a == 4:
                    return a, a
                return a
            def f(a):
                total = 0
                for i in range(a):
                    x = inner(i)
                    total += 1
                return x, total
        """
        self.check(source, "f", [(n,) for n in range(1, 7)])

    def test_comprehensions_leave_variables_alone(self):
        source = """
            def f(a):
                i = 7
                for j in range(a):
                    i += j
                return i
        """
        self.check(source, "f", [(0,), (3,)])


class Recursion(Case):
    def test_a_result_that_grows(self):
        source = "def f(n): return 1 if n < 1 else f(n - 1) * 3 + n\n"
        self.check(source, "f", [(n,) for n in (0, 1, 5, 39, 40, 41, 80)])

    def test_the_recursion_limit(self):
        program = """
            import sys
            def down(n): return 0 if n == 0 else down(n - 1) + 1
            {ask}
            down(5); down(5)
            low, high = 1, 5000
            while high - low > 1:
                middle = (low + high) // 2
                try:
                    down(middle)
                    low = middle
                except RecursionError:
                    high = middle
            print(low, {entered})
        """
        ask = "down(3); ferrule_jit.compile_at_next_call(down)"
        entered = 'ferrule_jit.stats(down)["entered"] > 0'
        made = run_alone(program.format(ask=ask, entered=entered)).split()
        plain = run_alone(program.format(ask="ferrule_jit.disable()", entered="True")).split()
        self.assertEqual(made, plain)

    def test_a_limit_that_the_c_stack_would_not_bear(self):
        output = run_alone("""
            import sys
            sys.setrecursionlimit(10**6)
            def down(n): return 0 if n == 0 else down(n - 1) + 1
            down(3); ferrule_jit.compile_at_next_call(down); down(3); down(3)
            assert ferrule_jit.stats(down)["entered"] > 0
            print(down(50_000), down(50_000), down(100))
        """)
        self.assertEqual(output, "50000 50000 100\n")

    def test_a_thread_with_a_small_stack(self):
        output = run_alone("""
            import threading
            def down(n): return 0 if n == 0 else down(n - 1) + 1
            down(3); ferrule_jit.compile_at_next_call(down); down(3); down(3)
            threading.stack_size(256 * 1024)
            results = []
            thread = threading.Thread(target=lambda: results.append(down(900)))
            thread.start(); thread.join()
            print(results)
        """)
        self.assertEqual(output, "[900]\n")

    def test_threads_whose_stacks_are_too_small_to_compile(self):
        output = run_alone("""
            import os, threading
            least = os.sysconf("SC_THREAD_STACK_MIN")  # 16 KiB, but 128 KiB on arm64
            def loop(a, n):
                total = 0
                for i in range(n):
                    for j in range(3):
                        total += a[i % 3] * j - (i // 3) % 5
                return total
            def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
            def work(): results.append((loop([1, 2, 3], 5000), fib(15)))
            results, entered = [], []
            for size in (32, 64, 128, 1024):
                threading.stack_size(max(size * 1024, least))
                thread = threading.Thread(target=work)
                thread.start(); thread.join()
                entered.append(any(ferrule_jit.stats(function)["entered"] for function in (loop, fib)))
            print(set(results) == {(loop([1, 2, 3], 5000), fib(15))}, entered)
        """)
        self.assertEqual(output, "True [False, False, False, True]\n")

    def test_recursion_in_a_thread_with_a_tiny_stack(self):
        output = run_alone("""
            import os, sys, threading
            least = os.sysconf("SC_THREAD_STACK_MIN")
            sys.setrecursionlimit(10**6)
            def down(n, x): return 0 if n == 0 else down(n - 1, x) + 1
            down(3, 1); ferrule_jit.compile_at_next_call(down); down(3, 1); down(3, 1)
            results = []
            for size in (32, 64, 512):
                for x in (1, 2**80):
                    threading.stack_size(max(size * 1024, least))
                    thread = threading.Thread(target=lambda: results.append(down(20_000, x)))
                    thread.start(); thread.join()
            print(set(results), len(results))
        """)
        self.assertEqual(output, "{20000} 6\n")

    def test_arguments_that_are_never_taken_do_not_use_up_the_c_stack(self):
        output = run_alone("""
            import sys
            sys.setrecursionlimit(10**6)
            def down(n, x): return 0 if n == 0 else down(n - 1, x) + 1
            down(3, 1); ferrule_jit.compile_at_next_call(down); down(3, 1); down(3, 1)
            assert ferrule_jit.stats(down)["entered"] > 0
            print(down(50_000, 2**80), down(50_000, "text"))
        """)
        self.assertEqual(output, "50000 50000\n")


class Greenlets(Case):
    def test_calls_that_end_in_another_order_than_they_began(self):
        try:
            import greenlet
        except ImportError:
            self.skipTest("greenlet is not installed here")
        main = greenlet.getcurrent()

        class Switching:
            def __radd__(self, other):
                main.switch()
                return other

        def add(x, y, large):
            return x + y

        def switch():
            add(1, Switching(), 2**80)  # is interpreted
            main.switch()
        self.compiled(add, 1, 2, 3)
        for _ in range(200):
            pair = [greenlet.greenlet(switch) for _ in range(2)]
            for _ in range(3):
                for one in pair:
                    one.switch()
        entered = self.jit.stats(add)["entered"]
        add(1, 2, 3)
        self.assertEqual(self.jit.stats(add)["entered"], entered + 1, self.jit.explain(add))


ENDLESS = """
    import signal, threading, time, os
    def endless(n):
        while n > 0:
            n = n ^ 1 ^ 1
        return n
    endless(0); ferrule_jit.compile_at_next_call(endless); endless(0)
"""


class Observers(Case):
    def test_an_endless_loop_is_interrupted(self):
        output = run_alone(ENDLESS + """
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        endless(5)
    except KeyboardInterrupt as error:
        print(error.__traceback__.tb_next.tb_lineno in (4, 5), error.__traceback__.tb_next.tb_frame.f_locals)
    print(ferrule_jit.stats(endless)["polled"] > 0)
""")
        self.assertEqual(output, "True {'n': 5}\nTrue\n")

    def test_endless_recursion_is_interrupted(self):
        output = run_alone("""
            import signal, threading, os
            def work(n): return 1 if n == 0 else work(n - 1) + work(n - 1)
            work(3); ferrule_jit.compile_at_next_call(work); work(3)
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                work(200)
            except KeyboardInterrupt as error:
                print(ferrule_jit.stats(work)["polled"] > 0)
        """)
        self.assertEqual(output, "True\n")

    def test_other_threads_get_their_turn(self):
        output = run_alone(ENDLESS + """
    turns, begun = [], threading.Event()
    def other():
        begun.wait()
        while len(turns) < 5:
            turns.append(1)
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=other).start()
    try:
        begun.set()
        endless(5)
    except KeyboardInterrupt:
        print(len(turns))
""")
        self.assertEqual(output, "5\n")

    def test_a_handler_that_goes_on_sees_the_frame(self):
        output = run_alone("""
            import signal, sys
            def count(n):
                total = 0
                for i in range(n):
                    total += i & 3
                return total
            count(3); ferrule_jit.compile_at_next_call(count); count(3)
            seen = []
            def handler(number, frame):
                seen.append((frame.f_code.co_name, sorted(frame.f_locals), frame.f_back.f_code.co_name))
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            n, total = 1 << 20, 0
            while not seen:
                n *= 2
                total = count(n)
            print(total == n // 4 * 6, seen)
        """)
        self.assertEqual(output, "True [('count', ['i', 'n', 'total'], '<module>')]\n")

    def events(self, made, *arguments):
        """What a tracer sees of a call."""
        seen = []

        def trace(frame, event, argument):
            if frame.f_code is made.__code__:
                seen.append((event, frame.f_lineno, sorted(frame.f_locals.items())))
            return trace
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            made(*arguments)
        finally:
            sys.settrace(before)
        return seen

    SOURCE = "def f(n):\n    x = 1\n    for i in range(n):\n        x = x * 3\n    return x\n"

    def test_a_tracer_sees_all_of_it(self):
        plain, made = define(self.SOURCE).f, define(self.SOURCE).f
        expected = self.events(plain, 3)
        self.compiled(made, 3)
        self.assertEqual(self.events(made, 3), expected)
        self.assertGreater(len(expected), 8)
        self.assertEqual(made(50), 3**50)

    def test_a_profiler_sees_calls(self):
        made = self.compiled(define(self.SOURCE).f, 3)
        seen = []
        sys.setprofile(lambda frame, event, argument: seen.append(event) if frame.f_code is made.__code__ else None)
        try:
            made(3)
        finally:
            sys.setprofile(None)
        self.assertEqual(seen, ["call", "return"])

    def test_monitoring_of_all_code_and_of_one(self):
        monitoring = sys.monitoring
        made = self.compiled(define(self.SOURCE).f, 3)
        lines = []
        monitoring.use_tool_id(4, "test")
        self.addCleanup(monitoring.free_tool_id, 4)
        monitoring.register_callback(4, monitoring.events.LINE, lambda code, line: lines.append(line) if code is made.__code__ else None)
        for switch in (lambda on: monitoring.set_events(4, monitoring.events.LINE if on else 0),
                       lambda on: monitoring.set_local_events(4, made.__code__, monitoring.events.LINE if on else 0)):
            entered = self.jit.stats(made)["entered"]
            switch(True)
            made(2)
            made(2)
            switch(False)
            self.assertEqual(lines, [2, 3, 4, 3, 4, 3, 5] * 2)
            self.assertEqual(self.jit.stats(made)["entered"], entered)
            lines.clear()
            for _ in range(3):
                made(2)
            self.assertGreater(self.jit.stats(made)["entered"], entered)
            self.assertEqual(lines, [])

    def test_a_breakpoint_that_is_set_while_a_loop_runs(self):
        output = run_alone("""
            import signal, sys
            def count(n):
                total = 0
                while n > 0:
                    total += 1
                return total
            count(0); ferrule_jit.compile_at_next_call(count); count(0)
            class Stop(Exception): pass
            def line(code, number):
                if number == 6: raise Stop
            def handler(number, frame):
                sys.monitoring.use_tool_id(4, "test")
                sys.monitoring.register_callback(4, sys.monitoring.events.LINE, line)
                sys.monitoring.set_local_events(4, count.__code__, sys.monitoring.events.LINE)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                count(1)
            except Stop as stop:
                print("stopped", ferrule_jit.stats(count)["polled"] > 0)
        """)
        self.assertEqual(output, "stopped True\n")

    def test_short_loops_in_each_other_are_interrupted(self):
        heads = ["for {0} in range(1, 40)", "for {0} in range(1, 80, 2)", "for {0} in reversed(range(1, 40))", "for {0} in xs", "for {0} in reversed(xs)",
                 "for {0}, y in enumerate(xs, 1)", "for {0}, y in zip(xs, xs)"]
        for head in heads:
            loops = "".join(f"{'    ' * depth}{head.format('abcde'[depth - 1])}:\n" for depth in range(1, 6))
            output = run_alone(f"def f(xs, done):\n    s = 0\n{loops}{'    ' * 6}s += 1\n    done[0] = 1\n    return s\n" + textwrap.dedent("""
                import signal
                f([1], bytearray(1)); ferrule_jit.compile_at_next_call(f); f([1], bytearray(1))
                class Stop(Exception): pass
                def handler(number, frame): raise Stop
                signal.signal(signal.SIGALRM, handler)
                done, xs = bytearray(1), [1] * 40
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.02)
                    f(xs, done)
                except Stop:
                    print(done[0], ferrule_jit.stats(f)["polled"] > 0)
            """))
            self.assertEqual(output, "0 True\n", head)

    def test_a_hook_of_another_tool_sees_calls(self):
        import framehook
        made = self.compiled(define(self.SOURCE).f, 3)
        self.assertEqual(made(3), 27)
        calls = []
        hook = framehook.add(lambda view: calls.append(1) if view.code is made.__code__ else None)
        try:
            made(3)
            made(3)
        finally:
            framehook.remove(hook)
        self.assertEqual(calls, [1, 1])
        self.assertEqual(made(3), 27)

    def test_a_hook_of_another_tool_sees_callees(self):
        import framehook
        source = """
            def inner(x): return x + 1
            def f(n):
                total = 0
                for i in range(n): total += inner(i)
                return total
        """
        space = define(source)
        self.compiled(space.f, 3)
        calls = []

        def watch(view):
            if view.code is space.inner.__code__:
                calls.append(1)
                return None
            return framehook.DISABLE
        hook = framehook.add(watch)
        try:
            for _ in range(4):
                space.f(3)
        finally:
            framehook.remove(hook)
        self.assertEqual(len(calls), 12)

    def test_a_running_loop_is_entered_and_left(self):
        source = """
            def f(n, at):
                total = 0
                for i in range(0, n, 3):
                    for j in range(10, 0, -2):
                        total += i * j
                        if i == at:
                            total *= 2**40
                return total, i, j
        """
        for arguments in ((6000, 5400), (6000, -1), (3 * 2**10, 3000)):
            made = self.running(source, *arguments).f
            self.assertTrue(self.jit.stats(made)["loops"], self.jit.explain(made))

    def test_a_shared_iterator_is_not_taken(self):
        made = define("def f(iterator):\n    for i in iterator:\n        if i > 3000: break\n    return i, next(iterator)\n").f
        self.assertEqual(made(iter(range(10**6))), (3001, 3002))

    def test_a_running_loop_within_a_handler(self):
        source = """
            def f(n):
                total = 0
                try:
                    raise ValueError
                except ValueError:
                    for i in range(n):
                        total += i
                    return total
        """
        made = define(source).f
        self.assertEqual(made(5000), 5000 * 4999 // 2)

    def test_threads_compile_and_run_at_once(self):
        space = define("def f(n):\n    t = 0\n    for i in range(n): t += i * i\n    return t\n")
        results = []

        def work():
            for n in range(200):
                results.append(space.f(n) == sum(i * i for i in range(n)))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * 800)
        self.assertGreater(self.jit.stats(space.f)["entered"], 0)
