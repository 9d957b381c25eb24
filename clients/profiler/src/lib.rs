//! The part of the profiler that runs at each call.
//!
//! `ExactProfile` and `CountProfile` are profiles that are being made. What they have found comes
//! as lists of numbers; the package in Python writes the reports.

mod arguments;
mod attached;
mod builtins;
mod clock;
mod codes;
mod count;
mod cpu;
mod entered;
mod exact;
mod flame;
mod graph;
mod monitoring;
mod offsets;
mod place;
mod program;
mod result;
mod ring;
mod running;
mod session;
mod signals;
mod stacks;
mod tasks;

use pyo3::prelude::*;

/// The profiler's machinery, written in Rust.
#[pymodule(gil_used = false)]
mod _core {
    use super::*;
    use crate::codes::{Named, Text};
    use crate::count::{Count, Counts};
    use crate::exact::Exact;
    use crate::graph::Graph;
    use crate::monitoring::{definition, Call, Callback, Event, Monitored, Reply, Reported, Tool};
    use crate::running::Running;
    use crate::session::lock;
    use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
    use std::ffi::c_int;

    type MaybeText<'py> = Option<Bound<'py, PyString>>;

    /// A profile with exact times.
    #[pyclass(frozen)]
    struct ExactProfile {
        running: Running<Graph>,
        arguments: bool,
        monitored: Monitored,
    }

    #[pymethods]
    impl ExactProfile {
        /// Functions of files that begin with `ignored` are not profiled. The last `room` events of
        /// each thread are kept, with the `arguments` of calls. The lines of `lined` have times: of
        /// functions, (name or None, file or None) each. With `cpu` functions have CPU time.
        #[new]
        #[pyo3(signature = (ignored=None, room=0, arguments=false, lined=Vec::new(), cpu=false))]
        fn new(
            ignored: Option<String>,
            room: usize,
            arguments: bool,
            lined: Vec<(MaybeText<'_>, MaybeText<'_>)>,
            cpu: bool,
        ) -> Self {
            let text = |string: MaybeText<'_>| string.as_ref().and_then(Text::of);
            let named = |(name, file)| Named { name: text(name), file: text(file), found: false };
            let lined = lined.into_iter().map(named).collect();
            let running = Running::new(ignored, room, cpu, lined, &exact::HERE);
            Self { running, arguments, monitored: Monitored::default() }
        }

        /// Begins. RuntimeError: it has begun, or nothing here reports calls.
        fn start(slf: &Bound<'_, Self>) -> PyResult<()> {
            let (py, this) = (slf.py(), slf.get());
            let tool = || Tool::install(slf);
            let has_lines = !lock(&this.running.session.codes).found().is_empty();
            let lines = || {
                let made = || Tool::with_callbacks(slf, Self::LINES, "lines");
                has_lines.then(made).transpose()
            };
            if this.arguments {
                this.running.start(py, Exact::<true>, tool, lines)
            } else {
                this.running.start(py, Exact::<false>, tool, lines)
            }
        }

        /// Counts nothing that the calling thread begins from now on.
        fn leave_out_this_thread(&self, py: Python<'_>) {
            self.running.leave_out_this_thread(py);
        }

        /// Ends. What is still under way counts until now.
        fn stop(&self, py: Python<'_>) {
            self.running.stop(py);
        }

        /// What was found until now, or until the end.
        fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
            let rate = self.running.session.clock.nanoseconds_per_tick();
            let began = self.running.session.began;
            self.running.result(py, true, |graph, now, cpu| {
                let graph = graph.ended(now, cpu);
                let thread = result::thread(py, &graph, rate)?;
                thread.set_item("events", result::events(py, &graph, began, rate)?)?;
                thread.set_item("dropped", graph.ring.dropped)?;
                Ok(thread)
            })
        }

        /// For `sys.monitoring`: a call begins.
        fn call(
            &self,
            code: &Bound<'_, PyAny>,
            _offset: &Bound<'_, PyAny>,
            callable: &Bound<'_, PyAny>,
            _argument: &Bound<'_, PyAny>,
        ) {
            builtins::called(&self.running.session, code, callable);
        }

        /// For `sys.monitoring`: a C function has returned.
        fn c_return(
            &self,
            _code: &Bound<'_, PyAny>,
            _offset: &Bound<'_, PyAny>,
            callable: &Bound<'_, PyAny>,
            _argument: &Bound<'_, PyAny>,
        ) {
            builtins::left(&self.running.session, callable, false);
        }

        /// For `sys.monitoring`: a C function has raised.
        fn c_raise(
            &self,
            _code: &Bound<'_, PyAny>,
            _offset: &Bound<'_, PyAny>,
            callable: &Bound<'_, PyAny>,
            _argument: &Bound<'_, PyAny>,
        ) {
            builtins::left(&self.running.session, callable, true);
        }

        /// A label is entered in this thread. With `again` it is one that was entered before.
        fn enter_label(&self, name: &Bound<'_, PyString>, again: bool) {
            let (py, session) = (name.py(), &*self.running.session);
            let Some(name) = Text::of(name) else { return };
            session.register(py, self.running.place, None);
            let (key, number) = lock(&session.codes).label(name);
            let now = session.clock.now();
            session.with(py, self.running.place, |graph| {
                graph.enter_label(key, number, again, now);
            });
        }

        /// The innermost label of this name in this thread is left.
        fn leave_label(&self, name: &Bound<'_, PyString>, again: bool, raised: bool) {
            let (py, session) = (name.py(), &*self.running.session);
            let Some(name) = Text::of(name) else { return };
            let now = session.clock.now();
            let (_, number) = lock(&session.codes).label(name);
            session.with(py, self.running.place, |graph| {
                graph.leave_label(number, again, now, raised);
            });
        }

        /// In the child of a fork: forgets what the parent has counted.
        fn after_fork(&self, py: Python<'_>) {
            let now = self.running.session.clock.now();
            self.running.after_fork(py, |graph| graph.restart(now));
        }

        /// One greenlet of this thread is suspended and another one is resumed.
        fn switch(&self, py: Python<'_>, from: usize, to: usize) {
            let session = &*self.running.session;
            session
                .with(py, self.running.place, |graph| graph.switch(from, to, session.clock.now()));
        }
    }

    impl ExactProfile {
        const LINES: &'static [Callback] = &[definition::<Self, 6>()];
    }

    impl Reported for ExactProfile {
        const CALLBACKS: &'static [Callback] = &[
            definition::<Self, 0>(),
            definition::<Self, 1>(),
            definition::<Self, 2>(),
            definition::<Self, 3>(),
            definition::<Self, 4>(),
            definition::<Self, 5>(),
        ];

        #[inline(always)]
        fn report(&self, call: &Call<'_, '_>, event: Event) -> Reply {
            self.monitored.report(&self.running.session, self.arguments, call, event)
        }
    }

    /// A profile of counts alone.
    #[pyclass(frozen)]
    struct CountProfile(Running<Counts>);

    #[pymethods]
    impl CountProfile {
        /// Functions of files that begin with `ignored` are not profiled.
        #[new]
        #[pyo3(signature = (ignored=None))]
        fn new(ignored: Option<String>) -> Self {
            Self(Running::new(ignored, 0, false, Vec::new(), &count::HERE))
        }

        /// Begins. RuntimeError: it has begun, or nothing here reports calls.
        fn start(slf: &Bound<'_, Self>) -> PyResult<()> {
            slf.get().0.start(slf.py(), Count, || Tool::install(slf), || Ok(None))
        }

        /// Counts nothing that the calling thread begins from now on.
        fn leave_out_this_thread(&self, py: Python<'_>) {
            self.0.leave_out_this_thread(py);
        }

        /// Ends.
        fn stop(&self, py: Python<'_>) {
            self.0.stop(py);
        }

        /// What was found until now, or until the end.
        fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
            self.0.result(py, false, |counts, _, _| result::counts(py, counts))
        }

        /// A label is entered in this thread. With `again` it is one that was entered before.
        fn enter_label(&self, name: &Bound<'_, PyString>, again: bool) {
            let (py, session) = (name.py(), &*self.0.session);
            let Some(name) = Text::of(name).filter(|_| !again) else { return };
            session.register(py, self.0.place, None);
            let (key, number) = lock(&session.codes).label(name);
            session.with(py, self.0.place, |counts| counts.add(key, number, 1));
        }

        /// Where a label ends is not counted.
        #[pyo3(signature = (_name, _again, _raised))]
        fn leave_label(&self, _name: &Bound<'_, PyString>, _again: bool, _raised: bool) {}

        /// In the child of a fork: forgets what the parent has counted.
        fn after_fork(&self, py: Python<'_>) {
            self.0.after_fork(py, Counts::restart);
        }
    }

    impl Reported for CountProfile {
        const CALLBACKS: &'static [Callback] = &[definition::<Self, 0>(), definition::<Self, 2>()];

        #[inline(always)]
        fn report(&self, call: &Call<'_, '_>, event: Event) -> Reply {
            monitoring::count(&self.0.session, call, event)
        }
    }

    /// A flame graph as SVG, made of lines with a path and a number each.
    #[pyfunction]
    fn flame_graph<'py>(
        py: Python<'py>,
        lines: &str,
        title: &str,
        unit: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let picture = py.detach(|| flame::svg(lines, title, unit))?;
        Ok(PyBytes::new(py, &picture))
    }

    /// The identity of each other thread, and the code objects of its frames, the innermost first.
    #[pyfunction]
    fn stacks(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
        crate::stacks::of_others(py)
    }

    /// Runs an open file in `__main__`, as Python does: source, or another one. False: it has raised,
    /// which was printed.
    #[pyfunction]
    fn run_file(py: Python<'_>, file: c_int, name: &[u8], source: bool) -> PyResult<bool> {
        crate::program::run_file(py, file, name, source)
    }

    /// Calls a function; what it has raised, which was printed, or None.
    #[pyfunction]
    #[pyo3(signature = (function, *arguments))]
    fn run_function(
        function: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<Option<Py<PyAny>>> {
        crate::program::run_function(function.py(), function, arguments)
    }

    /// Has `function` called, in another thread that `leave_out` keeps out of the profile, with the
    /// number of one of these signals when it has come, whatever the main thread does. The signals'
    /// handlers are Python's.
    #[pyfunction]
    fn watch_signals(
        py: Python<'_>,
        signals: Vec<c_int>,
        function: Py<PyAny>,
        leave_out: Py<PyAny>,
    ) -> PyResult<()> {
        crate::signals::watch(py, &signals, function, leave_out)
    }

    /// Ends what `watch_signals()` has started.
    #[pyfunction]
    fn unwatch_signals(py: Python<'_>) {
        crate::signals::stop(py);
    }

    /// In the child of a fork: signals are not watched there.
    #[pyfunction]
    fn signals_after_fork() {
        crate::signals::after_fork();
    }

    /// Ends the process by a signal, as though it had no handler.
    #[pyfunction]
    fn end_by_signal(signal: c_int) -> PyResult<()> {
        crate::signals::end_by(signal)
    }

    /// Calls a function until no exception leaves it, at most ten times.
    #[pyfunction]
    fn to_the_end(function: &Bound<'_, PyAny>) -> PyResult<()> {
        crate::signals::to_the_end(function)
    }

    /// The version of frame hooks that this interpreter has; 0: none.
    #[pyfunction]
    fn version() -> u32 {
        framehook::version()
    }

    /// Whether `sys.monitoring` can report calls where there are no frame hooks.
    #[pyfunction]
    fn can_monitor() -> bool {
        monitoring::is_possible()
    }
}
