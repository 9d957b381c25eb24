"""thread, task, and commands that run the program in one of several threads and tasks."""

import re
import unittest

from debugger_support import TypedCase
from ferrule_debugger.turns import WITHOUT_GIL

THREADS = """
    import threading, time
    end, counts, go = threading.Event(), {}, []
    def work(name):
        counts[name] = 0
        while not end.is_set():         # test
            counts[name] += 1           # count
            time.sleep(0.001)           # sleep
        return name                     # worked
    def wait():
        end.wait()                      # waits
        return "waited"                 # waited
    threads = [threading.Thread(target=work, args=(name,), name=name) for name in "ab"]
    threads.append(threading.Thread(target=wait, name="waiter", daemon=True))
    for thread in threads:
        thread.start()
    while len(counts) < 2 or not end._cond._waiters:
        time.sleep(0.001)
    main = 1                            # main
    while not go:
        time.sleep(0.001)               # loop
    end.set()                           # end
    for thread in threads:
        thread.join()
    print("joined")
"""

TASKS = """
    import asyncio
    async def child(n):
        inner = n * 10
        await asyncio.sleep(0.01 * (3 - n))     # sleeps
        found = n + 1                           # found
        return found                            # child
    async def main():
        tasks = [asyncio.create_task(child(n), name=f"child {n}") for n in range(3)]
        print(await asyncio.gather(*tasks))     # gather
    asyncio.run(main()EAGER)
"""
EAGER = ", loop_factory=lambda: (loop := asyncio.new_event_loop(), loop.set_task_factory(asyncio.eager_task_factory))[0]"


class OthersCase(TypedCase):
    def typed(self, text, *commands):
        self.source = self.program(text)
        return super().typed(*commands)

    def at(self, name, function):
        return f"> {self.source.path}({self.source.line(name)}){function}()"


class Threads(OthersCase):
    def test_look(self):
        for waits in ((), ("threads wait",)):
            with self.subTest(waits):
                said = self.typed(THREADS, "b {main}", "c", *waits, "thread b", "p ('name', name)", "up", "thread waiter", "w", "thread",
                                  "p ('main', main_is := 1)", "thread 1", "thread Absent", "thread MainThread", "help thread", "q")
                self.assertIn("('name', 'b')", said)
                self.assertIn("threading.py", said)
                if waits or not WITHOUT_GIL:
                    self.assertNotIn("*** Oldest frame", said)
                    self.assertRegex(said, r"\(Pdb\)   \[\d+ frames of threading\]\n> \S*program\.py\(%d\)wait\(\)\n-> .*\n"
                                           r"  \[\d+ frames of threading\]\n" % self.source.line("waits"))
                else:       # the innermost frame is all that is shown
                    self.assertIn("*** Oldest frame", said)
                    self.assertRegex(said, r"(\(Pdb\) > \S*threading\.py\(\d+\)wait\(\)\n-> .*\n){2}\(Pdb\) ")
                self.assertEqual(said.count(self.at("main", "<module>")), 4)      # the stop, and three ways back
                self.assertIn("*** There is no thread Absent", said)
                self.assertIn("Look at another thread", said)

    def test_steps_in_one(self):
        said = self.typed(THREADS, "b {main}", "c", "cl 1", "thread b", "n", "p ('first', name)", "n", "n", "n", "p ('fourth', name)",
                          "thread a", "s", "p ('other', name)", "thread 1", "n", "p 'stopped'", "!go.append(1)", "c", "q")
        for text in ("('first', 'b')", "('fourth', 'b')", "('other', 'a')", "'stopped'", "[b]\n", "[a]\n", "[MainThread]\n", "joined"):
            self.assertIn(text, said)
        self.assertRegex(said, r"\[MainThread\]\n> \S+program.py\(\d+\)<module>\(\)\n.*\n\(Pdb\) 'stopped'")

    def test_until_and_return(self):
        # The threads would go on to their ends while the next command is read.
        said = self.typed(THREADS, "b {main}", "c", "cl 1", "thread b", "threads wait", "!end.set()", "return", "retval",
                          "threads go", "!go.append(1)", "thread 1", "return", "c", "q")
        self.assertIn(f"--Return--\n[b]\n{self.at('worked', 'work')}->'b'\n", said)
        self.assertIn("(Pdb) 'b'\n", said)
        said = self.typed(THREADS, "b {main}", "c", "cl 1", "threads wait", "thread waiter", "!end.set()", "until", "p 'until'",
                          "threads go", "thread MainThread", "n", "!go.append(1)", "c", "q")
        self.assertRegex(said, r"wait\(\)\n-> return \S+ +# waited\n\(Pdb\) 'until'")
        said = self.typed(THREADS, "b {main}", "c", "cl 1", "thread b", "threads wait", "!end.set()", "until {worked}", "p 'until'",
                          "threads go", "!go.append(1)", "c", "q")
        self.assertRegex(said, r"work\(\)\n-> return name +# worked\n\(Pdb\) 'until'")

    def test_wrong_arguments(self):
        said = self.typed(THREADS, "b {main}", "c", "thread b", "n 3", "until x", "threads x", "task 1", "q")
        self.assertEqual(said.count("*** Invalid argument: "), 3)
        self.assertIn("*** There is no task 1", said)

    def test_others_wait(self):
        count = "p ('count', dict(counts))"
        moves = "!before = dict(counts)\n!while before == counts: time.sleep(0.001)"
        said = self.typed(THREADS, "b {main}", "c", moves, "threads wait", "!time.sleep(0.2)", count, "!time.sleep(0.2)", count,
                          "thread b", "n", "n", "n", "n", count, "threads go", moves, "p 'they move'", "!go.append(1)", "c", "q")
        counts = [eval(found)[1] for found in re.findall(r"\('count'.*", said)]
        self.assertEqual(counts[0], counts[1])
        self.assertEqual(counts[2]["a"], counts[0]["a"])
        self.assertGreater(counts[2]["b"], counts[0]["b"])
        self.assertIn("'they move'", said)
        self.assertIn("joined", said)

    def test_others_that_have_a_lock_of_the_library(self):
        # A thread that logs has the lock of a handler, and one that begins is what start() waits for.
        said = self.typed("""
            import logging, os, threading
            logging.basicConfig(stream=open(os.devnull, "w"), level=logging.INFO)
            end = False
            def work():
                while not end:
                    logging.info("work")
            breakpoint()
            thread = threading.Thread(target=work)
            thread.start()
            for n in range(30): logging.info("main")
            end = True                              # main
            thread.join()
            print("joined")
        """, "c", "threads wait", "n", "n", "n", *["n"] * 30, "p ('n', n)", "c", "q")
        self.assertIn("('n', 29)", said)
        self.assertIn("joined", said)

    def test_a_fork_while_others_wait(self):
        said = self.typed("""
            import os, sys
            def events():
                return [sys.monitoring.get_events(tool) & sys.monitoring.events.LINE for tool in range(6) if sys.monitoring.get_tool(tool)]
            pid = os.fork()                 # main
            if not pid:
                print("child", events(), flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
        """, "b {main}", "c", "threads wait", "cl 1", "b 1", "u", "n", "c", "q")
        self.assertIn("child [0]", said)

    def test_jump(self):
        said = self.typed(THREADS, "b {main}", "c", "n", "thread waiter", "u", "d", "j {waits}", "thread", "j {main}", "!go.append(1)", "c", "c", "q")
        self.assertIn("*** Only the frame in which this thread has stopped can jump", said)
        self.assertEqual(said.count(self.at("main", "<module>")), 3)

    def test_nothing_holds_the_frames_that_were_shown(self):
        for commands in (("thread waiter",), ("thread waiter", "thread"), ("thread waiter", "thread 2", "thread"), ()):
            with self.subTest(commands):
                said = self.typed("""
                    import gc, threading, weakref
                    class C: pass
                    def f():
                        c = C()
                        breakpoint()
                        return weakref.ref(c)       # main
                    end = threading.Event()
                    thread = threading.Thread(target=end.wait, name="waiter")
                    thread.start()
                    dead = f()
                    end.set()
                    gc.collect()
                    print("dead", dead() is None, "__pdb_convenience_variables" in vars(threading))
                """, "c", *commands, "c", "q")
                self.assertIn("dead True False", said)

    def test_the_thread_that_others_wait_for_ends(self):
        for command in ("n", "r\nn\nn\nn\nn\nn", "q"):
            with self.subTest(command):
                said = self.typed(THREADS.replace("{}, []", "{}, [1]"), "b {worked}", "b {main}", "c", "threads wait", "cl 2", "!end.set()", "thread b", "n",
                                  *[command] * 3, "c", "c", "c", "q")
                self.assertNotIn("Traceback", said)


class Tasks(OthersCase):
    def test_look(self):
        for eager in ("", EAGER):
            with self.subTest(eager):
                said = self.typed(TASKS.replace("EAGER", eager), "b {found}, n == 2", "c", "task child 0", "p ('inner', inner)", "w",
                                  "task", "p ('inner', inner)", "task nothing", "task Task-1", "help task", "c", "q")
                self.assertIn("('inner', 0)", said)
                self.assertIn("('inner', 20)", said)
                self.assertIn(self.at("sleeps", "child"), said)
                self.assertEqual(bool(eager), self.at("gather", "main") not in said)     # it has another name there
                self.assertIn("*** There is no task nothing", said)
                self.assertIn("Look at another asyncio task", said)
                self.assertIn("[1, 2, 3]", said)

    def test_steps_in_one(self):
        for command, stops in (("n", "found"), ("s", "found"), ("unt", "found"), ("r", "child")):
            with self.subTest(command):
                said = self.typed(TASKS.replace("EAGER", ""), "b {found}, n == 2", "c", "cl 1", "task child 0", command, "p ('stopped', n)", "c", "q")
                self.assertIn(self.at(stops, "child"), said)
                self.assertIn("('stopped', 0)", said)
                self.assertIn("[1, 2, 3]", said)

    def test_next_stays_in_its_task_whatever_others_stop_for(self):
        for eager in ("", EAGER):
            with self.subTest(eager):
                said = self.typed(TASKS.replace("EAGER", eager), "b {sleeps}", "c", "cl 1", "b {found}, n > 0", "n", "p ('first', n)", "c", "p ('second', n)",
                                  "n", "p ('second', n)", "c", "p ('third', n)", "n", "p ('third', n)", "c", "q")
                self.assertEqual([line[6:] for line in said.splitlines() if line.startswith("(Pdb) ('")],
                                 ["('first', 2)", "('second', 1)", "('second', 1)", "('third', 0)", "('third', 0)"])
                self.assertIn("[1, 2, 3]", said)

    def test_nothing_holds_a_task_that_has_ended(self):
        said = self.typed("""
            import asyncio, gc, weakref
            async def child():
                for n in range(2):
                    n + 1                           # body
            async def main():
                task = asyncio.create_task(child())
                await task
                return weakref.ref(task)
            dead = asyncio.run(main())
            gc.collect()
            print("dead", dead() is None)
        """, "b {body}", "c", "n", "c", "c", "q")
        self.assertIn("dead True", said)

    def test_a_task_that_is_cancelled_meanwhile(self):
        said = self.typed(TASKS.replace("EAGER", ""), "b {sleeps}", "c", "cl 1", "b {found}, n == 2", "n",
                          "![task.cancel() for task in asyncio.all_tasks() if task.get_name() == 'child 0'] and None", "cl 2", "c", "p ('at', n)", "c", "q")
        self.assertIn("('at', 0)", said)        # the exception stops it
        self.assertIn("CancelledError", said)


if __name__ == "__main__":
    unittest.main()
