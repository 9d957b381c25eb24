"""The session at the start of docs/debugger.md prints what is written there."""

import os
import re
import tempfile
import unittest

from debugger_support import ROOT, run_python, without_notice


class Session(unittest.TestCase):
    def test_two_minutes(self):
        with open(os.path.join(ROOT, "docs", "debugger.md"), encoding="utf-8") as page:
            section = re.search(r"^## Two minutes\n(.*?)^## ", page.read(), re.DOTALL | re.MULTILINE)[1]
        program = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
        session = re.search(r"```text\n\$ (.*?)\n(.*?)```", section, re.DOTALL)
        self.assertEqual(session[1], "python -m ferrule_debugger shop.py")
        typed = re.findall(r"^\(Pdb\) (.*\n)", session[2], re.MULTILINE)
        with tempfile.TemporaryDirectory() as directory:
            directory = os.path.realpath(directory)
            with open(os.path.join(directory, "shop.py"), "w", encoding="utf-8") as file:
                file.write(program)
            said = run_python(["-m", "ferrule_debugger", "shop.py"], "".join(typed), cwd=directory)
        self.assertEqual(without_notice(said).replace(directory, "/tmp"), re.sub(r"^\(Pdb\) .*\n", "(Pdb) ", session[2], flags=re.MULTILINE))


if __name__ == "__main__":
    unittest.main()
