"""tools/clients: a client is built for the machine of the interpreter."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools import clients

CROSS = {"CARGO_BUILD_TARGET": "riscv64gc-unknown-linux-gnu", "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER": "cross-gcc",
         "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUSTFLAGS": "-Cstrip=symbols", "CARGO_BUILD_RUSTFLAGS": "-Cdebuginfo=0"}


class Machine(unittest.TestCase):
    def setUp(self):
        self.base = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def interpreter(self, host):
        """A program that answers as an interpreter for this machine does."""
        path = self.base / "python"
        path.write_text(f'#!/bin/sh\nexec python3 -c "import sysconfig; sysconfig.get_config_vars().update(HOST_GNU_TYPE=\'{host}\', '
                        f'BUILD_GNU_TYPE=\'here\')\nexec(r\'\'\'$4\'\'\')"\n')
        path.chmod(0o755)
        return str(path)

    def asked(self, host):
        with mock.patch.dict(os.environ, CROSS), mock.patch("tools.pyo3.environment", lambda python, below: {}):
            python = self.interpreter(host)
            return clients.machine_of(python), clients.for_cargo(python)

    def test_that_of_a_cross_built_interpreter(self):
        machine, variables = self.asked("there")
        self.assertEqual(machine, CROSS["CARGO_BUILD_TARGET"])
        self.assertEqual(set(CROSS) & set(variables), {"CARGO_BUILD_TARGET", "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER"})

    def test_this_one_whatever_target_the_environment_names(self):
        machine, variables = self.asked("here")
        self.assertNotEqual(machine, CROSS["CARGO_BUILD_TARGET"])
        self.assertEqual(set(CROSS) & set(variables), set())


if __name__ == "__main__":
    unittest.main()
