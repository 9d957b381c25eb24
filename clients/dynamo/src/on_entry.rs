//! The hook: what is done with a frame that begins.

use crate::around::{self, Around};
use crate::cache::Found;
use crate::call::call;
use crate::callback::{self, Callback, Taken};
use crate::code_state::CodeState;
use crate::compile::{backend, compile};
use crate::settings::{count_frame, nested_is_error, GUARD_COMPLETE, SKIP_UNSAFE};
use crate::strategy::{Action, Strategy};
use crate::{cache, extra, frame_view, switch};
use framehook::{Also, Answer, Event, EventKind, Frame, FrameHook};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCode, PyDict};
use std::sync::{Mutex, PoisonError};

/// The hook. All that it knows is in thread-local variables and with code objects.
pub struct Dynamo;

/// What is put back when a frame ends.
pub enum Word {
    /// The callback that was there before it, if the frame has another one; and what is left.
    Frame { before: Option<Callback>, around: Around },
    /// The callback that was there when a generator was resumed; while it runs, what `below` says.
    Generator { below: Action, before: Mutex<Option<Callback>> },
}

/// A frame that the hook is called for, in a thread that has a callback.
struct Entry<'a, 'py> {
    frame: &'a Frame<'py>,
    code: Bound<'py, PyCode>,
    /// The thread's, before the hook was called.
    taken: Taken,
    region: i64,
}

impl FrameHook for Dynamo {
    type Data = Word;

    /// Whether this thread has a callback, or the hook is to be disabled in it.
    #[inline]
    fn listens(&self) -> bool {
        !callback::is_off() || switch::is_idle()
    }

    #[inline]
    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, Word>> {
        // Guards and the compiler run without a callback. Where they raise, it stays so: who has
        // set the callback puts it back.
        let Some(taken) = callback::take() else {
            switch::rest(frame.py());
            return Ok(Answer::pass());
        };
        let entry = Entry { frame, code: frame.code()?, taken, region: callback::region() };
        entry.answer()
    }

    fn on_event(&self, event: &Event<'_, '_, Word>) -> PyResult<()> {
        let py = event.py();
        match event.data() {
            Word::Frame { before, around } => {
                if let Some(before) = before {
                    callback::replace(py, before.clone_ref(py)).forget(py);
                }
                around.leave(py)?;
            }
            Word::Generator { below, before } => {
                let now = callback::current(py);
                let resumed = matches!(event.kind(), EventKind::Resumed);
                let saved = if resumed && !now.is_off() { Some(now.clone_ref(py)) } else { None };
                let saved = {
                    let mut place = before.lock().unwrap_or_else(PoisonError::into_inner);
                    std::mem::replace(&mut *place, saved)
                };
                if resumed {
                    if !now.is_off() {
                        callback::replace(py, below.below(&now, py)).forget(py);
                    }
                } else if let Some(saved) = saved {
                    callback::replace(py, saved).forget(py);
                }
            }
        }
        Ok(())
    }
}

impl<'py> Entry<'_, 'py> {
    fn py(&self) -> Python<'py> {
        self.frame.py()
    }

    fn callback(&self) -> &Callback {
        self.taken.callback()
    }

    fn state(&self) -> PyResult<Option<Bound<'py, CodeState>>> {
        if matches!(self.callback(), Callback::RunOnly) {
            return Ok(extra::get(&self.code));
        }
        extra::get_or_new(&self.code, || frame_view::names(self.frame)).map(Some)
    }

    /// The thread keeps its callback.
    fn unchanged(self, answer: Answer<'py, Word>) -> PyResult<Answer<'py, Word>> {
        self.taken.put_back(self.frame.py());
        Ok(answer)
    }

    fn answer(self) -> PyResult<Answer<'py, Word>> {
        let Some(state) = self.state()? else { return self.unchanged(Answer::pass()) };
        let strategy = state.get().strategy(self.region);
        if strategy.current == Action::Skip {
            if state.get().note_disabled() {
                return self.unchanged(Answer::disable());
            }
            return self.runs(strategy.below);
        }
        let locals = frame_view::locals(self.frame, state.get())?;
        let mut found = around::noted_as_lookup(self.py(), || self.look_up(&state, &locals))?;
        if let Some(hook) = GUARD_COMPLETE.get(self.py()) {
            if state.get().entry_count() > 0
                && !call(&hook, [&*PyBool::new(self.py(), found.is_some())])?.is_truthy()?
            {
                found = None;
            }
        }
        match found {
            Some(found) => self.compiled(found, strategy.below),
            None => self.not_found(&state, strategy),
        }
    }

    /// The answer where there is no compiled code for these arguments.
    #[cold]
    fn not_found(
        self,
        state: &Bound<'py, CodeState>,
        strategy: Strategy,
    ) -> PyResult<Answer<'py, Word>> {
        if SKIP_UNSAFE.is_on() {
            // What torch says: programs may look for it.
            return Err(PyRuntimeError::new_err(
                "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means \
                 that you have not warmed up your model with enough inputs such that you can \
                 guarantee no more recompilations.",
            ));
        }
        let callable = match self.callback() {
            Callback::On(callable) if strategy.current == Action::Default => {
                callable.bind(self.py()).clone()
            }
            _ => return self.runs(strategy.below),
        };
        let made = compile(self.frame, state, &callable, self.region)?;
        let below =
            if strategy.below == Action::Default { made.strategy.below } else { strategy.below };
        match made.found {
            Some(found) => self.compiled(found, below),
            None => self.runs(below),
        }
    }

    fn look_up(
        &self,
        state: &Bound<'py, CodeState>,
        locals: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Found<'py>>> {
        let backend = match self.callback() {
            Callback::On(callable) => Some(backend(callable.bind(self.py()))?),
            _ => None,
        };
        cache::look_up(state, locals, backend.as_ref(), self.region)
    }

    /// The answer where compiled code runs.
    fn compiled(self, found: Found<'py>, below: Action) -> PyResult<Answer<'py, Word>> {
        let callback = self.below_compiled(below.where_found())?;
        let around = around::enter(&found.code, || Ok(found.annotation()))?;
        self.with(Answer::replace(found.into_code()), callback, around)
    }

    /// The callback below compiled code. `None`: the one of the frame.
    fn below_compiled(&self, below: Action) -> PyResult<Option<Callback>> {
        let full_graph = count_frame();
        let callback = below.instead_of(self.callback());
        let callable = match callback.as_ref().unwrap_or(self.callback()) {
            Callback::On(callable) if full_graph => callable,
            _ => return Ok(callback),
        };
        // The compiled code of a full graph calls nothing that is to be compiled.
        if !nested_is_error() {
            return Ok(Some(Callback::Off));
        }
        let convert = self.py().import("torch._dynamo.convert_frame")?;
        let fails = convert.call_method1("get_fail_callback", (callable,))?;
        Ok(Some(Callback::On(fails.unbind())))
    }

    /// The answer where the frame runs as it is.
    fn runs(self, below: Action) -> PyResult<Answer<'py, Word>> {
        let callback = below.instead_of(self.callback());
        if callback.is_some() && self.makes_generator()? {
            // It runs piece by piece, and none of it now.
            let word = Word::Generator { below, before: Mutex::new(None) };
            return self.unchanged(Answer::pass().watch_also(Also::YIELDS | Also::RESUMES, word));
        }
        self.with(Answer::pass(), callback, Around::default())
    }

    fn makes_generator(&self) -> PyResult<bool> {
        const KINDS: u32 = 0x20 | 0x80 | 0x200;
        Ok(self.code.getattr("co_flags")?.extract::<u32>()? & KINDS != 0)
    }

    /// The frame runs with another callback, if there is one; what was there comes back when it
    /// ends.
    #[inline]
    fn with(
        self,
        answer: Answer<'py, Word>,
        callback: Option<Callback>,
        around: Around,
    ) -> PyResult<Answer<'py, Word>> {
        let py = self.frame.py();
        let before = match callback {
            Some(callback) => Some(self.taken.put(py, callback)),
            None => {
                self.taken.put_back(py);
                None
            }
        };
        if before.is_none() && around.is_empty() {
            return Ok(answer);
        }
        Ok(answer.watch(Word::Frame { before, around }))
    }
}
