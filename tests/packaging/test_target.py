"""Machines that the frame core cannot be built for: said before anything is fetched."""

import platform

from building import Case
from tools import target
from tools.errors import BuildError  # building.py has the way to the tools


class Target(Case):
    def refused(self, flags=(), variables=(), **machine):
        with self.assertRaises(BuildError) as caught:
            target.check(list(flags), dict(variables), **machine)
        return str(caught.exception)

    def test_what_is_missing_is_named(self):
        self.assertIn("Mach-O", self.refused(system="darwin"))
        self.assertIn("Mach-O", self.refused(["--host=arm64-apple-darwin"]))
        self.assertIn("Windows", self.refused(system="cygwin"))
        self.assertIn("Windows", self.refused(["--host=x86_64-w64-mingw32"]))
        for said in (self.refused(system="linux", pointer=4),
                     self.refused(["--host=i686-linux-gnu"]), self.refused(["--host=arm-linux-gnueabihf"]),
                     self.refused(["--host=armv7l-unknown-linux-gnueabihf"]), self.refused(["--host=x86_64-linux-gnux32"]),
                     self.refused(variables={"CC": "gcc -m32"}), self.refused(variables={"CFLAGS": "-O2 -m32"})):
            self.assertIn("32-bit", said)
            self.assertIn("--without-rust-core", said)

    def test_the_last_host_counts(self):
        target.check(["--host=i686-linux-gnu", "--host=aarch64-linux-gnu"], {"CC": "cross-gcc"}, system="linux", pointer=8)

    def test_others_are_let_through(self):
        for host in ("aarch64-linux-gnu", "x86_64-linux-gnu", "riscv64-linux-gnu", "powerpc64le-linux-gnu", "s390x-linux-gnu",
                     "x86_64-unknown-freebsd14"):
            # The machine that builds does not matter then.
            target.check([f"--host={host}"], {"CC": "cross-gcc", "CFLAGS": "-march=x86-64-v3 -m64"}, system="darwin", pointer=4)
        target.check([], {}, system="linux", pointer=8)

    def test_another_machine_wants_its_own_compiler(self):
        other = "riscv64-linux-gnu"
        self.assertIn(f"--host={other} is another machine: name the C compiler for it", self.refused([f"--host={other}"]))
        for own in (platform.machine(), {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())):
            target.check([f"--host={own}-linux-gnu"], {}, system="linux", pointer=8)

    def test_configure_says_it_before_it_does_anything(self):
        with self.assertRaisesRegex(BuildError, "^32-bit: "):
            self.configure("CFLAGS=-m32")
        self.assertEqual(self.fetched, [])
        self.configure("CFLAGS=-m32", "--without-rust-core")
        self.assertEqual(len(self.fetched), 1)
