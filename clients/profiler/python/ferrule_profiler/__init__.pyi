from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from types import CodeType, TracebackType
from typing import Any, Literal, NamedTuple, Self, TextIO, TypedDict, Unpack, overload

from . import web as web

__all__ = ["CUT", "Edge", "Function", "Line", "Node", "Profile", "ProfilerError", "Result", "Task", "Thread",
           "available", "label", "profile", "profiled", "start", "stop", "web"]

CUT: int

class _Options(TypedDict, total=False):
    count: bool
    sample: bool | float
    builtins: bool
    trace: int
    arguments: bool
    lines: Iterable[str | Callable[..., Any] | CodeType]
    lines_of: Iterable[str | PathLike[str]]
    cpu: bool

class ProfilerError(RuntimeError): ...

class Profile:
    timed: bool
    program: Iterable[str] | None
    def __init__(self, **options: Unpack[_Options]) -> None: ...
    def start(self) -> Self: ...
    def stop(self) -> Self: ...
    def leave_out_this_thread(self) -> None: ...
    @property
    def result(self) -> Result: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exception: object) -> None: ...

def available() -> str | None: ...
def profile(**options: Unpack[_Options]) -> Profile: ...
def start(**options: Unpack[_Options]) -> Profile: ...
def stop() -> Profile: ...

type _Output = str | PathLike[str] | Callable[[Result], object] | None

@overload
def profiled[**P, T](function: Callable[P, T], *, output: _Output = None, **options: Unpack[_Options]) -> Callable[P, T]: ...
@overload
def profiled[**P, T](function: None = None, *, output: _Output = None,
                     **options: Unpack[_Options]) -> Callable[[Callable[P, T]], Callable[P, T]]: ...

class label:
    name: str
    def __init__(self, name: str) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...

class Function(NamedTuple):
    file: str
    line: int
    name: str
    qualname: str
    kind: str
    calls: int
    runs: int
    recursive: int
    raised: int
    own: float
    total: float
    awaited: float
    cpu: float
    total_cpu: float
    @property
    def place(self) -> str: ...
    @property
    def has_source(self) -> bool: ...

class Line(NamedTuple):
    runs: int
    own: float

class Edge(NamedTuple):
    caller: int | None
    callee: int
    calls: int
    runs: int
    recursive: int
    raised: int
    own: float
    total: float

class Node(NamedTuple):
    parent: int | None
    function: int
    runs: int
    own: float
    again: int
    again_own: float
    cpu: float

class Thread(NamedTuple):
    name: str
    ident: int
    seconds: float
    cpu: float
    nodes: list[Node]
    events: list[tuple[int, int, str | None, str | None]]
    dropped: int
    @property
    def waiting(self) -> float: ...
    @property
    def paths(self) -> list[tuple[tuple[int, ...], int, float]]: ...
    def walk(self) -> Iterator[tuple[list[int], int]]: ...

class Task(NamedTuple):
    name: str
    coroutine: str
    tasks: int
    runs: int
    seconds: float
    awaited: float

class Result:
    def __init__(self, found: dict[str, Any]) -> None: ...
    clock: str
    timed: bool
    with_cpu: bool
    program: list[str]
    pid: int
    python: str
    interpreters: bool
    date: float
    wall: float
    cpu: float
    functions: dict[int, Function]
    edges: list[Edge]
    threads: list[Thread]
    tasks: list[Task]
    lines: dict[int, dict[int, Line]]
    missing: list[str]
    @property
    def pools(self) -> list[Thread]: ...
    @property
    def labels(self) -> list[Function]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def waiting(self) -> float: ...
    @property
    def cuts(self) -> int: ...
    def code_of(self, number: int) -> CodeType | None: ...
    def last_line_of(self, number: int) -> int | None: ...
    def callers(self, number: int) -> list[Edge]: ...
    def callees(self, number: int) -> list[Edge]: ...
    def find(self, name: str) -> list[Function]: ...
    def grouped(self, only: Iterable[str | PathLike[str]] = (), hide: Iterable[str | PathLike[str]] = ()) -> Result: ...
    def print_table(self, file: TextIO | None = None, *, sort: Literal["own", "total", "calls", "name"] = "own", limit: int = 40) -> None: ...
    def write(self, path: str | PathLike[str], format: str | None = None) -> None: ...

def load_ipython_extension(shell: Any) -> None: ...
