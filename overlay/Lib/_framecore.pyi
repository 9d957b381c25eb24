# The built-in module _framecore, for type checkers. framehook is the interface to use.

from collections.abc import Callable
from framehook import DISABLE as DISABLE
from framehook import Disable as Disable
from framehook import FrameEvent as FrameEvent
from framehook import FrameView as FrameView
from framehook import IncompatibleCodeError as IncompatibleCodeError
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any, Self, TypeAlias, TypedDict, final

class HookBlock:
    @property
    def _id(self) -> int | None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

@final
class Suspension:
    def __new__(cls, id: int, in_thread: bool, codes: tuple[CodeType, ...] | None, /) -> Self: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

_Hook: TypeAlias = Callable[[FrameView], CodeType | FunctionType | MethodType | Disable | None]

class _HookFacts(TypedDict):
    order: int
    id: int
    name: str
    hook: _Hook | None
    enabled: bool
    calls: int
    replacements: int
    errors: int
    nanoseconds: int

class _Info(TypedDict):
    version: str
    cpython: str
    debian_revision: str | None
    rust: list[str]
    rustc: str
    llvm: str
    cross_lto: bool
    debug_assertions: bool

class _DataStackStats(TypedDict):
    chunks_pushed: int
    chunks_popped: int
    chunks_cached: int
    cache_hits: int
    bytes_held: int
    bytes_high_water: int

def info() -> _Info: ...
def datastack_stats() -> _DataStackStats: ...
def add_frame_hook(
    hook: _Hook, name: str | None = None, position: int = 0, other: object = 0, this_thread: bool = False, visible: bool = False, /
) -> int: ...
def call_reentrant(callable: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...
def call_unhooked(callees: bool, callable: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...
def incompatibility(code: CodeType, other: CodeType, /) -> str | None: ...
def remove_frame_hook(hook: _Hook | int, /) -> None: ...
def enable_frame_hook(id: int, on: bool, /) -> None: ...
def enable_frame_hook_in_thread(id: int, on: bool, /) -> None: ...
def enable_frame_hook_for_code(id: int, code: CodeType, on: bool, /) -> None: ...
def frame_hook_id(hook: _Hook | int, /) -> int: ...
def never_dispatch(code: CodeType, /) -> None: ...
def clear_frame_hooks() -> None: ...
def frame_hooks() -> list[_HookFacts]: ...
