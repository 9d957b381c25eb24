# The built-in module _framecore, for type checkers. framehook is the interface to use.

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias, TypedDict, final

@final
class SettledType: ...

SETTLED: Final[SettledType]

@final
class FrameView:
    @property
    def code(self) -> CodeType: ...
    @property
    def function(self) -> FunctionType: ...
    @property
    def globals(self) -> dict[str, Any]: ...
    @property
    def builtins(self) -> dict[str, Any]: ...
    @property
    def argument_names(self) -> tuple[str, ...]: ...
    def argument(self, key: int | str, /) -> Any: ...
    def arguments(self) -> dict[str, Any]: ...

class IncompatibleCodeError(ValueError): ...

_Hook: TypeAlias = Callable[[FrameView], CodeType | SettledType | None]

class _HookFacts(TypedDict):
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
def add_frame_hook(hook: _Hook, name: str | None = None, /) -> int: ...
def remove_frame_hook(hook: _Hook | int, /) -> None: ...
def enable_frame_hook(handle: int, on: bool, /) -> None: ...
def enable_frame_hook_in_thread(handle: int, on: bool, /) -> None: ...
def enable_frame_hook_for_code(handle: int, code: CodeType, on: bool, /) -> None: ...
def clear_frame_hooks() -> None: ...
def frame_hooks() -> list[_HookFacts]: ...
