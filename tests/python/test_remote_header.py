"""ferrule_remote.h: a sender in C and in C++, and what it says where it cannot send."""

import os
import subprocess

import _remoteexec

from remote_support import WAIT, Area, RemoteTestCase
from support import ROOT, STOCK_PYTHON, needs_framecore, needs_stock
from test_frame_hook_headers import COMPILERS

HEADER = os.path.join(ROOT, "overlay", "Include")
SENDER = """
#include <ferrule_remote.h>
#include <stddef.h>

#define OFFSET(name) printf("%zu ", offsetof(struct ferrule_remote_area, name))

int
main(int count, char **arguments)
{
    if (count == 1) {
        OFFSET(version); OFFSET(room); OFFSET(events); OFFSET(here); OFFSET(breaker); OFFSET(checksum); OFFSET(length); OFFSET(pending);
        printf("%zu", sizeof(struct ferrule_remote_area));
        return 0;
    }
    if (ferrule_remote_exec((pid_t)atol(arguments[1]), arguments[2]) < 0) {
        perror("sender");
        return 1;
    }
    return 0;
}
"""


@needs_framecore
class Sender(RemoteTestCase):
    def build(self, compiler=None, *flags):
        path = os.path.join(self.directory, "sender")
        compiler = compiler or next(iter(COMPILERS))
        subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-D_GNU_SOURCE", f"-I{HEADER}", *(flags or ("-x", "c")), "-",
                        "-o", path], input=SENDER, text=True, check=True)
        return path

    def sent(self, sender, pid, script):
        """What the sender writes to its standard error."""
        return subprocess.run([sender, str(pid), script], capture_output=True, text=True, check=False).stderr

    def refused(self, message, sender, pid, script):
        self.assertEqual(self.sent(sender, pid, script), f"sender: {message}\n")

    def test_each_compiler_and_language(self):
        process = self.target()
        for compiler in COMPILERS:
            for flags in ("-x", "c", "-std=c99"), ("-x", "c", "-std=c17"), ("-x", "c++", "-std=c++11"), ("-x", "c++", "-std=c++20"):
                if flags[1] == "c++" and subprocess.run([*compiler, "-fsyntax-only", "-x", "c++", "-"], input="#include <new>", text=True,
                                                        capture_output=True, check=False).returncode:
                    continue        # gcc without g++
                with self.subTest(compiler=compiler, flags=flags):
                    sender = self.build(compiler, *flags)
                    self.assertEqual(self.sent(sender, process.pid, self.script("print('script', flush=True)")), "")
                    self.assertEqual(process.stdout.readline(), "script\n")
        self.assertEqual(self.ends_well(process), "")

    def test_the_layout(self):
        head, request = _remoteexec._HEAD.size, _remoteexec._REQUEST.size
        said = subprocess.run([self.build()], capture_output=True, text=True, check=True).stdout
        self.assertEqual([int(number) for number in said.split()], [16, 20, 22, 24, 32, head, head + 8, head + request, _remoteexec._PATH])

    def test_errors(self):
        sender, script = self.build(), self.script("print('script')")
        waits = self.target(WAIT)
        sleeps = subprocess.Popen(["sleep", "100"])
        self.addCleanup(sleeps.wait)
        self.addCleanup(sleeps.kill)
        disabled = self.target(options=("-X", "disable-remote-debug"))
        self.refused(os.strerror(3), sender, 2 ** 30, script)
        self.refused("Exec format error", sender, sleeps.pid, script)
        self.refused("Operation not supported", sender, disabled.pid, script)
        self.refused("File name too long", sender, waits.pid, "/" + "x" * 4095)
        self.refused("Invalid argument", sender, waits.pid, "")
        self.assertEqual(self.sent(sender, waits.pid, script), "")
        self.refused("Device or resource busy", sender, waits.pid, script)
        self.assertEqual(self.ends_well(waits, "script\nend\n"), "")
        self.assertEqual(self.ends_well(disabled), "")

    @needs_stock
    def test_stock(self):
        process = self.target(python=STOCK_PYTHON)
        self.refused("Exec format error", self.build(), process.pid, self.script(""))
        self.assertEqual(self.ends_well(process), "")

    def test_memory_that_is_not_there(self):
        process = self.target()
        Area(self, process.pid).set_head(breaker=8)
        self.refused(os.strerror(3), self.build(), process.pid, self.script("print('no')"))
        self.assertEqual(self.ends_well(process), "")

    def test_beside_the_senders_in_python(self):
        process, sender = self.target(), self.build()
        path = self.script("print('here', flush=True)")
        accepted = 0
        for number in range(200):
            if number % 2:
                accepted += not self.sent(sender, process.pid, path)
            else:
                self.send(process.pid, path)
                accepted += 1
        output, errors = process.communicate("\n", timeout=120)
        self.assertEqual((process.returncode, errors, output.count("here\n")), (0, "", accepted))
        self.assertIn("end\n", output)
