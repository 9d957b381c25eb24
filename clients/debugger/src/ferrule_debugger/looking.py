"""What the prompt shows: stacks without the frames of libraries, and all local variables."""

import itertools
import pdb
import types

from .catching import is_others

_LONGEST = 200
# What a module has beside its variables.
_NOT_SHOWN = types.ModuleType, types.FunctionType, type


class Looking:
    """The commands of Pdb that show the stack and variables."""

    _shows_locals = [False]     # of all debuggers: each breakpoint() makes one

    def do_where(self, arg):
        """w(here) [all]

        Print the stack, with the most recent frame at the bottom; an arrow is at the current frame.
        Two and more frames in succession of the standard library or of installed packages are one
        line; with `all`, each is printed.
        """
        if arg and arg != "all":
            self._print_invalid_arg(arg)
            return
        if arg:
            super().do_where("")
            return
        places = enumerate(self.stack)
        try:
            for folds, group in itertools.groupby(places, lambda place: place[0] != self.curindex and is_others(place[1][0].f_code)):
                entries = [entry for _, entry in group]
                if folds and len(entries) > 1:
                    names = dict.fromkeys(str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in entries)
                    self.message(f"  [{len(entries)} frames of {', '.join(names)}]")
                    continue
                for entry in entries:
                    self.print_stack_entry(entry)
        except KeyboardInterrupt:
            pass

    do_w = do_bt = do_where

    def do_display(self, arg):
        if arg != "locals" or self._has_variable(arg):
            super().do_display(arg)
            return
        self._shows_locals[0] = True
        self._print_locals()

    do_display.__doc__ = f"{pdb.Pdb.do_display.__doc__}\n        display locals: all local variables, at each stop in whatever function.\n"

    def do_undisplay(self, arg):
        if arg == "locals" and self._shows_locals[0]:
            self._shows_locals[0] = False
        else:
            super().do_undisplay(arg)

    do_undisplay.__doc__ = pdb.Pdb.do_undisplay.__doc__

    def _has_variable(self, name):
        return name in self.curframe_locals or name in self.curframe.f_globals

    def _show_display(self):
        super()._show_display()
        if self._shows_locals[0]:
            self._print_locals()

    def _print_locals(self):
        is_module = self.curframe.f_locals is self.curframe.f_globals
        for name, value in list(self.curframe_locals.items()):
            if is_module and (name.startswith("__") or isinstance(value, _NOT_SHOWN)):
                continue
            text = self._safe_repr(value, name)
            self.message(f"  {name} = {text if len(text) <= _LONGEST else text[:_LONGEST - 3] + '...'}")
