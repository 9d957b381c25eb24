"""What torch 2.6, which Debian 13 has, does in another way than later ones. In Rust: `torch_2_6.rs`.

To serve it no more, delete both and what names them.
"""

from ferrule_dynamo import _core, _handover


def is_served(torch):
    """Whether this is such a torch, by what its extension has."""
    return "skip_code" in torch


class Reader(_handover.Reader):
    """A mark takes the entries of a code object away, and is one of two: the frame is skipped, or the frames below as well."""

    def mark(self, code, current, below):
        self.torch["skip_code"](code)

    def refuse(self, code):
        pass

    def looked_at(self, seen):
        seen.append("callback")
        raise _core.Stopped(self.looked_at)

    def strategy(self, code):
        # What has entries is not marked; it may have reached its limit.
        if self.torch["_debug_get_cache_entry_list"](code):
            return _handover.DEFAULT, _handover.DEFAULT
        return super().strategy(code)


def read_marks(torch):
    """Gives the hook the marks that torch's code objects have."""
    _handover.read_marks(torch, Reader)


def give_marks_back(torch, marks):
    """Gives torch the marks that code objects have got meanwhile."""
    _handover.give_marks_back(torch, marks, Reader)
