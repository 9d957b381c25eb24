"""What a program may use, and what is noted of it."""

import re
import warnings

import torch
import torch._dynamo
from torch._dynamo.utils import counters, guard_failures

ADDRESS = re.compile(r"0x[0-9a-f]+|\b\d{9,}\b")
# Names that torch numbers within a process.
NUMBERED = re.compile(r"(___dict_version_|__compiled_fn_|_lambda)\d+(_[0-9a-f_]{36})?")


def plain(text):
    """Text without what differs from process to process."""
    return NUMBERED.sub(r"\1N", ADDRESS.sub("ADDRESS", text))


def shown(value):
    """A value as text: of tensors all that a program can see."""
    if isinstance(value, torch.Tensor):
        numbers = value.detach().to(torch.float64).flatten().tolist()
        return f"{type(value).__name__}{tuple(value.shape)} {value.dtype} {value.requires_grad} " + " ".join(
            f"{number:.5g}" for number in numbers)
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {plain(str(value)).splitlines()[:1]}"
    return plain(repr(value))


class Tools:
    """Handed to each program."""

    def __init__(self):
        self.graphs = []

    def backend(self, module, inputs):
        """Notes a graph, and runs it as it is."""
        self.graphs.append([f"{node.op} {plain(str(node.target))}" for node in module.graph.nodes])
        return module.forward

    def compile(self, function=None, **options):
        """torch.compile with the backend that notes graphs."""
        options.setdefault("backend", self.backend)
        return torch.compile(function, **options)

    @staticmethod
    def raised(function, *arguments, **keywords):
        """The exception of a call, or its value."""
        try:
            return function(*arguments, **keywords)
        except Exception as error:
            return error


def failures():
    """Why guards did not hold, by function."""
    return sorted(f"{code.co_name}: {plain(str(reason))}"
                  for code, reasons in guard_failures.items() for reason in reasons)


def counted():
    """torch's counters."""
    return {name: {plain(key).splitlines()[0] if key else key: count for key, count in counter.items()}
            for name, counter in sorted(counters.items()) if counter}


def record(program, reset=True):
    """Runs one program, and returns all that is compared. Without a reset, what was compiled before is still there."""
    if reset:
        torch._dynamo.reset()
    counters.clear()
    guard_failures.clear()
    torch.manual_seed(0)
    torch.set_grad_enabled(True)
    tools = Tools()
    noted = {}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            noted["result"] = shown(program(tools))
        except BaseException as error:
            noted["error"] = shown(error)
    noted["graphs"] = tools.graphs
    noted["failures"] = failures()
    noted["counters"] = counted()
    noted["warnings"] = [shown(warning.message) for warning in warned]
    callback = torch._C._dynamo.eval_frame.get_eval_frame_callback()
    noted["callback"] = callback if callback is None else repr(callback)
    return noted
