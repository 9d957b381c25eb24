"""Frame hooks and threads: switches of their own, changes at the same time, forks."""

import collections
import os
import subprocess
import sys
import threading
import unittest

from support import HookTestCase, code_named, framecore, in_new_thread, in_threads, needs_hooks, use_extensions

use_extensions()
import framehooks


@needs_hooks
class Threads(HookTestCase):
    CALLS = 3_000

    def test_two_threads_with_their_own_switches_while_a_third_adds_and_removes(self):
        def target():
            return "ran"

        seen = collections.Counter()

        def hook(view):
            if view.code is target.__code__:
                seen[threading.get_ident()] += 1

        handle = framecore.add_frame_hook(hook)
        idents = {}
        stop = threading.Event()
        problems = []

        def calls(kind):
            idents[kind] = threading.get_ident()
            if kind == "without":
                framecore.enable_frame_hook_in_thread(handle, False)
            for _ in range(self.CALLS):
                if target() != "ran":
                    problems.append(kind)

        def churn():
            while not stop.is_set():
                handles = [framecore.add_frame_hook(lambda view: None) for _ in range(5)]
                for one in handles:
                    framecore.remove_frame_hook(one)

        workers = [threading.Thread(target=calls, args=(kind,)) for kind in ("with", "without")]
        churner = threading.Thread(target=churn)
        for thread in (churner, *workers):
            thread.start()
        for thread in workers:
            thread.join()
        stop.set()
        churner.join()
        self.assertEqual(problems, [])
        self.assertEqual(seen[idents["with"]], self.CALLS)
        self.assertEqual(seen[idents["without"]], 0)
        self.assertEqual([info["id"] for info in framecore.frame_hooks()], [handle])

    def test_many_threads_add_replace_and_remove(self):
        def target(a):
            return a

        failures = []

        def work(number):
            new = code_named("target", f"def target(a):\n b{number} = a\n return b{number}")

            def hook(view):
                return new if view.code is target.__code__ else None
            for n in range(200):
                handle = framecore.add_frame_hook(hook)
                if target(n) != n or [target(m) for m in range(5)] != list(range(5)):
                    failures.append(n)
                framecore.remove_frame_hook(handle)

        in_threads(work, range(4))
        self.assertEqual((failures, framecore.frame_hooks()), ([], []))

    def test_a_hook_removed_while_it_runs_elsewhere(self):
        def target():
            return "original"

        new = code_named("target", "def target(): return 'replaced'")
        runs, may_continue = threading.Event(), threading.Event()
        before = framehooks.freed()

        def hook():
            if framehooks.get_code() is target.__code__:
                runs.set()
                may_continue.wait(60)
                return new

        handle = framehooks.add_extended(hook, "slow")
        results = []
        thread = threading.Thread(target=lambda: results.append(target()))
        thread.start()
        self.assertTrue(runs.wait(60))
        framehooks.remove(handle)
        freed_early = framehooks.freed() - before
        may_continue.set()
        thread.join()
        self.assertEqual(freed_early, 0)
        self.assertEqual(framehooks.freed() - before, 1)
        # The hook was removed while it was running. Its answer may count or not.
        self.assertIn(results, (["replaced"], ["original"]))
        self.assertEqual(target(), "original")

    def test_a_thread_that_ends_leaves_no_switch(self):
        def target():
            pass

        hook = self.recorder(target)
        handle = framecore.add_frame_hook(hook)
        for _ in range(20):
            in_new_thread(framecore.enable_frame_hook_in_thread, handle, False)
            in_new_thread(target)
        self.assertEqual(len(hook.seen), 20)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_forked_child(self):
        program = """
import os, framehook
seen = []
def target(): pass
def hook(view):
    seen.append(view.code.co_name)
    if view.code is target.__code__ and forks:
        forks.pop()
        pids.append(os.fork())
forks, pids = [1], []
framehook.add(hook)
target()
target()
assert seen.count("target") == 2, seen
framehook.remove(hook)
if pids[0]:
    assert os.waitpid(pids[0], 0)[1] == 0
else:
    os._exit(0)
print("parent")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "parent\n", ""))
