"""tools/sbom.py: a bill of materials that is wrong is not written."""

import json
import tarfile
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from tools import sbom
from tools.errors import BuildError

LOCK = """
[[package]]
name = "framehook"
version = "0.2.0"

[[package]]
name = "libc"
version = "0.2.1"
checksum = "aa"

[[package]]
name = "other"
version = "1.0.0"
checksum = "bb"
"""


def component(name, version, digest=None):
    hashes = [{"alg": "SHA-256", "content": digest}] if digest else []
    return {"name": name, "version": version, "hashes": hashes}


class Bills(unittest.TestCase):
    def setUp(self):
        self.tree = Path(self.enterContext(tempfile.TemporaryDirectory())) / "tree"
        self.tree.mkdir()
        (self.tree / "Cargo.lock").write_text(LOCK)

    def cargo(self, tree, command, *words, epoch=None):
        if command == "tree":
            # The crate that was requested comes first.
            return f"{words[words.index('--package') + 1]} v0.2.0 ({tree})\nlibc v0.2.1\n"
        self.assertEqual((command, epoch), ("cyclonedx", 17))
        for place in sbom.MEMBERS.values():
            (tree / place).mkdir(parents=True, exist_ok=True)
            (tree / place / "a.cdx.json").write_text(json.dumps(
                {"components": [component("libc", "0.2.1", "aa")], "place": f"path+{tree.as_uri()}/x"}))
        return ""

    def check(self, *components):
        with unittest.mock.patch.object(sbom, "cargo", self.cargo):
            sbom.check({"components": components}, "framehook", self.tree)

    def test_one_with_all_that_is_needed_is_right(self):
        self.check(component("libc", "0.2.1", "aa"))
        self.check(component("libc", "0.2.1", "aa"), component("other", "1.0.0", "bb"))

    def test_one_that_leaves_a_crate_out_or_names_another_is_refused(self):
        for components, what in (([], "leaves out"),
                                 ([component("libc", "0.2.2", "aa")], "not in Cargo.lock"),
                                 ([component("libc", "0.2.1", "bb")], "another digest"),
                                 ([component("libc", "0.2.1")], "another digest")):
            with self.subTest(what), self.assertRaisesRegex(BuildError, what):
                self.check(*components)

    def tarball(self, text):
        (self.tree / "sbom").write_text(text)
        with tarfile.open(self.tree / "cpython.tar.xz", "w:xz") as tar:
            tar.add(self.tree / "sbom", f"Python-1/{sbom.OF_CPYTHON}")
        return self.tree / "cpython.tar.xz"

    def write(self, text):
        out = self.tree.parent / "out"
        with unittest.mock.patch.object(sbom, "cargo", self.cargo):
            return sbom.write(self.tree, self.tarball(text), out, "ferrule-1", 17)

    def test_they_are_written_without_the_place_where_they_were_made(self):
        made = self.write('{"packages": [1]}')
        self.assertEqual(len(made), len(sbom.MEMBERS) + 1)
        self.assertEqual(json.loads(made[0].read_text())["place"], "path+file:///ferrule-1/x")
        self.assertEqual(json.loads(made[-1].read_text()), {"packages": [1]})
        self.assertEqual(list(self.tree.rglob("*.cdx.json")), [])

    def test_one_of_cpython_that_names_nothing_is_refused(self):
        with self.assertRaisesRegex(BuildError, "names no packages"):
            self.write("{}")
