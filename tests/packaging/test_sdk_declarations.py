"""The crate `framehook` declares constants, structs and functions of the C interface as the frame core defines them.

The crate is published by itself, so it has them a second time (framehook-sdk/src/raw.rs).
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "rust-core" / "src" / "frame_hook"
RAW = (ROOT / "rust-core" / "framehook-sdk" / "src" / "raw.rs").read_text()
TYPES = (CORE / "c_types.rs").read_text()
FUNCTIONS = "".join(path.read_text() for path in sorted((CORE / "c_api").glob("*.rs")))
ELSEWHERE = "".join(path.read_text() for path in sorted((ROOT / "rust-core" / "src").rglob("*.rs")) if path.parent.name != "c_api")
# What has another name in the crate.
OTHER_NAMES = {"_PyInterpreterFrame": "Frame", "PyCodeObject": "PyObject", "FrameHookId": "i64", "c_longlong": "i64", "Py_ssize_t": "isize",
               "FrameHookAnswer": "Answer", "FrameHookEvent": "Event", "FrameHookDefinition": "Definition",
               "FrameLoop": "Loop", "FrameRecord": "Record",
               "visitproc": "unsafe extern C fn(*mut PyObject,*mut c_void)->c_int"}
CONSTANT = re.compile(r"pub const (?:FRAMEHOOK_|FRAME(?=LOOP_))?(\w+): (\w+) = (-?\w+);")


def without_comments(source):
    return re.sub(r"//.*", "", source)


def aliases(source):
    found = re.findall(r"type (\w+) = ([^;]+);", without_comments(source))
    return {re.sub("^FrameHook", "", name): meaning for name, meaning in found if "fn" in meaning or name == "Args"}


def plain(type_, known):
    """A type without the names of parameters, with the crate's names, and with aliases written out."""
    type_ = re.sub(r"\b[a-z]\w*: |\bc::", "", type_.replace('"C"', "C"))
    for name, meaning in known.items():
        type_ = re.sub(rf"\b(FrameHook)?{name}\b", lambda match, meaning=meaning: plain(meaning, {}), type_)
    for name, other in OTHER_NAMES.items():
        type_ = re.sub(rf"\b{name}\b", other, type_)
    return re.sub(r",(?=[>)])", "", re.sub(r"\s+(?=\W)|(?<=[^\w\s])\s+", "", " ".join(type_.split())))


def structs(source, known):
    """Each struct of C, as a list of its fields."""
    found = {}
    for name, body in re.findall(r"#\[repr\(C\)\]\s*pub struct (\w+) \{(.*?)\n\}", without_comments(source), re.DOTALL):
        fields = re.split(r"\bpub (\w+):", body)[1:]
        found[OTHER_NAMES.get(name, name)] = [(field, plain(type_.strip().rstrip(","), known)) for field, type_ in zip(fields[::2], fields[1::2])]
    return found


def functions(source, pattern, known):
    # C has no function pointer that is never NULL.
    return {name: (re.sub(r"Option<(.*)>", r"\1", plain(parameters, known)).strip(","), plain(result, known))
            for name, parameters, result in re.findall(pattern, without_comments(source), re.DOTALL)}


class Declarations(unittest.TestCase):
    def constants(self, source):
        return {name: (type_, value) for name, type_, value in CONSTANT.findall(without_comments(source))}

    def test_constants(self):
        defined = self.constants(TYPES)
        # The running version is queried.
        del defined["VERSION"]
        self.assertGreater(len(defined), 20)
        self.assertEqual(self.constants(RAW), defined)

    def test_structs(self):
        defined, declared = structs(TYPES, aliases(TYPES)), structs(RAW, aliases(RAW))
        self.assertEqual(set(defined), {"Answer", "Event", "Definition", "Loop"})
        self.assertEqual(len(defined["Definition"]), 12)
        for name, fields in defined.items():
            self.assertEqual(declared[name], fields)

    def test_functions(self):
        known = {**aliases(TYPES), **aliases(FUNCTIONS)}
        pattern = r'pub (?:unsafe )?extern "C" fn (PyUnstable_\w+)\((.*?)\)\s*->\s*([^{)>]+?)\s*\{'
        defined = functions(FUNCTIONS, pattern, known)
        declared = functions(RAW, r"(PyUnstable_\w+): fn\((.*?)\) -> ([^;]+);", aliases(RAW))
        self.assertGreater(len(defined), 20)
        # Frames that continue are no part of frame hooks.
        others = functions(ELSEWHERE, pattern, known)
        self.assertEqual(declared, {**{name: others[name] for name in declared if name in others}, **defined})

    def test_a_difference_is_seen(self):
        self.assertNotEqual(structs(TYPES.replace("pub flags: c_uint", "pub flags: c_int"), aliases(TYPES)), structs(TYPES, aliases(TYPES)))
        self.assertNotEqual(self.constants(RAW.replace("RAISED: c_int = 1", "RAISED: c_int = 2")), self.constants(RAW))
        self.assertNotEqual(plain("fn(*mut Frame) -> c_int", {}), plain("fn(*const Frame) -> c_int", {}))
        written = 'unsafe extern "C" fn(\n    frame: *mut _PyInterpreterFrame,\n) -> c_int'
        self.assertEqual(plain(written, {}), plain('unsafe extern "C" fn(*mut Frame) -> c_int', {}))
