//! The hook: what is done with a frame that begins.

use crate::around::{self, Around};
use crate::cache::Found;
use crate::callback::{self, Callback};
use crate::code_state::CodeState;
use crate::compile::{backend, compile};
use crate::settings::{count_frame, GUARD_COMPLETE, NESTED_IS_ERROR, SKIP_UNSAFE};
use crate::strategy::Action;
use crate::{cache, extra, offered, switch};
use framehook::{Also, Answer, Event, EventKind, Frame, FrameHook};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use std::sync::{Mutex, PoisonError};

/// The hook. All that it knows is in thread-local variables and with code objects.
pub struct Dynamo;

/// What is put back when a frame ends.
pub enum Word {
    /// The callback that was there before it, if the frame has another one; and what is left.
    Frame { before: Option<Callback>, around: Around },
    /// The callback that was there when a generator went on; while it runs, what `below` says.
    Generator { below: Action, before: Mutex<Option<Callback>> },
}

/// A frame that the hook is asked about, by a thread that has a callback.
struct Asked<'a, 'py> {
    frame: &'a Frame<'py>,
    code: Bound<'py, PyCode>,
    /// The thread's, before it was asked.
    callback: Callback,
    region: i64,
}

impl FrameHook for Dynamo {
    type Word = Word;

    #[inline]
    fn ask<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, Word>> {
        let py = frame.py();
        if callback::is_off() {
            switch::in_vain(py)?;
            return Ok(Answer::pass());
        }
        let callback = callback::current(py);
        let asked = Asked { frame, code: frame.code()?, callback, region: callback::region() };
        asked.answer()
    }

    fn tell(&self, event: &Event<'_, '_, Word>) -> PyResult<()> {
        let py = event.py();
        match event.word() {
            Word::Frame { before, around } => {
                if let Some(before) = before {
                    drop(callback::replace(py, before.clone_ref(py))?);
                }
                around.leave(py)?;
            }
            Word::Generator { below, before } => {
                let now = callback::current(py);
                let goes_on = matches!(event.kind(), EventKind::Resumed);
                let saved = if goes_on && !now.is_off() { Some(now.clone_ref(py)) } else { None };
                let saved = {
                    let mut place = before.lock().unwrap_or_else(PoisonError::into_inner);
                    std::mem::replace(&mut *place, saved)
                };
                if goes_on {
                    if !now.is_off() {
                        drop(callback::replace(py, below.below(&now, py))?);
                    }
                } else if let Some(saved) = saved {
                    drop(callback::replace(py, saved)?);
                }
            }
        }
        Ok(())
    }
}

impl<'py> Asked<'_, 'py> {
    fn py(&self) -> Python<'py> {
        self.frame.py()
    }

    fn state(&self) -> PyResult<Option<Bound<'py, CodeState>>> {
        let found = extra::get(&self.code);
        if found.is_some() || matches!(self.callback, Callback::RunOnly) {
            return Ok(found);
        }
        let state = CodeState::new(&self.code, offered::names(self.frame)?)?;
        let state = state.into_pyobject(self.py())?;
        extra::set(&self.code, Some(state.clone()))?;
        Ok(Some(state))
    }

    fn answer(self) -> PyResult<Answer<'py, Word>> {
        let Some(state) = self.state()? else { return Ok(Answer::pass()) };
        let strategy = state.get().strategy(self.region);
        if strategy.current == Action::Skip {
            if state.get().settle() {
                return Ok(Answer::settled());
            }
            return self.runs(Answer::pass(), strategy.below);
        }
        let run_only =
            strategy.current == Action::RunOnly || matches!(self.callback, Callback::RunOnly);
        let locals = offered::locals(self.frame, state.get())?;
        // Guards and the compiler run without a callback. Where they raise, it stays so: who has
        // set the callback puts it back.
        drop(callback::replace(self.py(), Callback::Off)?);
        let mut found = around::noted_as_lookup(self.py(), || self.look_up(&state, &locals))?;
        if let Some(hook) = GUARD_COMPLETE.get(self.py()) {
            if state.get().entry_count() > 0 && !hook.call1((found.is_some(),))?.is_truthy()? {
                found = None;
            }
        }
        if let Some(found) = found {
            return self.compiled(found, strategy.below);
        }
        if SKIP_UNSAFE.is_on() {
            return Err(PyRuntimeError::new_err(
                "Recompilation triggered with skip_guard_eval_unsafe stance. There is no compiled \
                 code for these arguments: call the function with arguments of each kind before",
            ));
        }
        let callable = match &self.callback {
            Callback::On(callable) if !run_only => callable.bind(self.py()).clone(),
            _ => return self.runs(Answer::pass(), strategy.below),
        };
        let made = compile(self.frame, &state, &locals, &callable, self.region)?;
        let below =
            if strategy.below == Action::Default { made.strategy.below } else { strategy.below };
        match made.found {
            Some(found) => self.compiled(found, below),
            None => self.runs(Answer::pass(), below),
        }
    }

    fn look_up(
        &self,
        state: &Bound<'py, CodeState>,
        locals: &Bound<'py, pyo3::types::PyDict>,
    ) -> PyResult<Option<Found<'py>>> {
        let backend = match &self.callback {
            Callback::On(callable) => Some(backend(callable.bind(self.py()))?),
            _ => None,
        };
        cache::look_up(state, locals, backend.as_ref(), self.region)
    }

    /// The answer where compiled code runs.
    fn compiled(self, found: Found<'py>, below: Action) -> PyResult<Answer<'py, Word>> {
        let callback = self.below_compiled(below)?;
        let around = around::enter(&found.code, || Ok(found.annotation()))?;
        self.with(Answer::replace(found.code), callback, around)
    }

    /// The callback below compiled code.
    fn below_compiled(&self, below: Action) -> PyResult<Callback> {
        let py = self.py();
        let full_graph = count_frame();
        let callback = below.below(&self.callback, py);
        match &callback {
            Callback::On(callable) if full_graph => {
                // The compiled code of a full graph calls nothing that is to be compiled.
                if !NESTED_IS_ERROR.is_on() {
                    return Ok(Callback::Off);
                }
                let convert = py.import("torch._dynamo.convert_frame")?;
                let fails = convert.call_method1("get_fail_callback", (callable,))?;
                Ok(Callback::On(fails.unbind()))
            }
            _ => Ok(callback),
        }
    }

    /// The answer where the frame runs as it is.
    fn runs(self, answer: Answer<'py, Word>, below: Action) -> PyResult<Answer<'py, Word>> {
        let callback = below.below(&self.callback, self.py());
        if !callback.is(&self.callback) && self.makes_generator()? {
            // It runs piece by piece, and none of it now.
            drop(callback::replace(self.py(), self.callback)?);
            let word = Word::Generator { below, before: Mutex::new(None) };
            return Ok(answer.watch_also(Also::YIELDS | Also::RESUMES, word));
        }
        self.with(answer, callback, Around::default())
    }

    fn makes_generator(&self) -> PyResult<bool> {
        const KINDS: u32 = 0x20 | 0x80 | 0x200;
        Ok(self.code.getattr("co_flags")?.extract::<u32>()? & KINDS != 0)
    }

    /// The frame runs with `callback`; what was there comes back when it ends.
    fn with(
        self,
        answer: Answer<'py, Word>,
        callback: Callback,
        around: Around,
    ) -> PyResult<Answer<'py, Word>> {
        let same = callback.is(&self.callback);
        drop(callback::replace(self.py(), callback)?);
        if same && around.is_empty() {
            return Ok(answer);
        }
        let before = (!same).then_some(self.callback);
        Ok(answer.watch(Word::Frame { before, around }))
    }
}
