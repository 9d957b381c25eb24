# Types of framehook.py, which imports no typing at run time.

from _framecore import (
    DISABLE as DISABLE,
    Disable as Disable,
    FrameEvent as FrameEvent,
    FrameView as FrameView,
    IncompatibleCodeError as IncompatibleCodeError,
)
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, ContextDecorator
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

__all__ = [
    "DISABLE", "CodeMap", "Disable", "FrameEvent", "FrameView", "HookInfo", "IncompatibleCodeError",
    "add", "clear", "disable", "disable_for_code", "disable_in_thread", "disabled", "disabled_for_code",
    "disabled_in_thread", "enable", "enable_for_code", "enable_in_thread", "hook", "hooks",
    "incompatibility", "reentrant", "remove", "unhooked", "version",
]

version: int

_Value = TypeVar("_Value")
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_HasCode: TypeAlias = CodeType | FunctionType | MethodType | Callable[..., object]
# A hook returns None, DISABLE, or what runs instead.
_Callable: TypeAlias = Callable[[FrameView], CodeType | FunctionType | MethodType | Disable | None]
_AnyHook: TypeAlias = _Callable | int | hook

class HookInfo(NamedTuple):
    order: int
    name: str
    id: int
    hook: _Callable | None
    enabled: bool
    calls: int
    replacements: int
    errors: int
    seconds: float

def add(
    callable: _Callable | hook,
    name: str | None = None,
    *,
    first: bool = False,
    before: _AnyHook | None = None,
    after: _AnyHook | None = None,
    this_thread: bool = False,
    visible: bool = False,
) -> int: ...
def remove(hook: _AnyHook) -> None: ...
def clear() -> None: ...
def hooks() -> list[HookInfo]: ...

class hook(ContextDecorator):
    callable: _Callable
    name: str | None
    def __init__(
        self,
        callable: _Callable,
        name: str | None = None,
        *,
        first: bool = False,
        before: _AnyHook | None = None,
        after: _AnyHook | None = None,
        this_thread: bool = False,
        visible: bool = False,
    ) -> None: ...
    @property
    def id(self) -> int: ...
    @property
    def info(self) -> HookInfo | None: ...
    def __enter__(self) -> hook: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

def enable(hook: _AnyHook) -> None: ...
def disable(hook: _AnyHook) -> None: ...
def enable_in_thread(hook: _AnyHook) -> None: ...
def disable_in_thread(hook: _AnyHook) -> None: ...
def enable_for_code(hook: _AnyHook, code: _HasCode) -> None: ...
def disable_for_code(hook: _AnyHook, code: _HasCode) -> None: ...
def disabled(hook: _AnyHook) -> AbstractContextManager[None, None]: ...
def disabled_in_thread(hook: _AnyHook) -> AbstractContextManager[None, None]: ...
def disabled_for_code(hook: _AnyHook, *codes: _HasCode) -> AbstractContextManager[None, None]: ...
def incompatibility(code: _HasCode, other: _HasCode) -> str | None: ...
def unhooked(function: Callable[_Parameters, _Result], *, callees: bool = False) -> Callable[_Parameters, _Result]: ...
def reentrant(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]: ...

class CodeMap(MutableMapping[CodeType, _Value]):
    def __init__(self, entries: Mapping[CodeType, _Value] | Iterable[tuple[CodeType, _Value]] = ()) -> None: ...
    def __getitem__(self, code: _HasCode) -> _Value: ...
    def __setitem__(self, code: _HasCode, value: _Value) -> None: ...
    def __delitem__(self, code: _HasCode) -> None: ...
    def __iter__(self) -> Iterator[CodeType]: ...
    def __len__(self) -> int: ...
    def __copy__(self) -> CodeMap[_Value]: ...
