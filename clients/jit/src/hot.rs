//! Entering compiled code at the head of a hot loop, in a frame of the interpreter.
//!
//! The frame's slots are read into machine words, and written when the code is left. If what is compiled changes nothing outside of
//! its frame, whatever cannot be written is as if it had not been computed.

use crate::code::{self, kind_of, literal};
use crate::compile::{compile_loop, Start};
use crate::compiled::Compiled;
use crate::context::{Context, LEFT};
use crate::depend::is_unobserved;
use crate::entry::{self, box_result, judge, MOST_CHANGES};
use crate::exit;
use crate::iterators;
use crate::kind::Kind;
use crate::outer::Outer;
use crate::parts;
use crate::python::{int_value, ThreadState};
use crate::record::{count, Record};
use crate::slot::{Cause, Exit};
use crate::stack;
use crate::unbox::unbox_one;
use framehook::raw::Loop;
use framehook::{HotLoop, LoopAnswer};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction};
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

/// After so many turns a loop is hot.
pub static TURNS: AtomicU16 = AtomicU16::new(1000);
/// After so many turns a loop is entered again that took many when it was.
const TURNS_AGAIN: u16 = 32;
/// So many turns are worth an entry.
const MANY: i64 = 512;
/// After so many ends in succession that came soon a loop is not entered any more.
const MOST_SHORT: u32 = 64;
/// How many combinations of types are compiled for one loop.
const MOST_LOOPS: usize = 3;

/// A loop callback. `record` is that of the code.
pub fn enter<'py>(hot: &mut HotLoop<'_, 'py>, record: &Record) -> PyResult<LoopAnswer<'py>> {
    // SAFETY: attached, as the loop proves.
    let thread = unsafe { ffi::PyThreadState_GetUnchecked() }.cast::<ThreadState>();
    let depth = stack::room(thread);
    if depth <= 0 {
        hot.set_turns(TURNS.load(Ordering::Relaxed)); // another thread, or caller, may have room
        return Ok(LoopAnswer::Continue);
    }
    let function = hot.function().cast_into::<PyFunction>();
    let Ok(function) = function else { return never(hot) };
    if !parts::code_of(&function).is(hot.code()) {
        return never(hot); // a hook has given the frame other code
    }
    if record.rests.get() && is_unobserved(hot.code().as_ptr()) {
        entry::wake(&hot.code(), record); // its observers have gone
        entry::take(&function, record);
    }
    let globals = parts::globals_of(&function).into_any().cast_into_exact::<PyDict>();
    let Ok(globals) = globals else { return never(hot) };
    let outer = outer_of(&function, &globals, record, hot.head() as u32)?;
    let Some(outer) = outer else { return never(hot) };
    let Some(outside) = outer.read(hot, &globals)? else { return never(hot) };
    let Some(state) = read(hot, &outside)? else { return never(hot) };
    let (locals, stack) = (&state.locals, &state.stack);
    if stack.contains(&Kind::Cell) {
        // Of a variable around a comprehension that has one of the same name: its slot gets this cell back.
        outer.share_cells();
    }
    let natural = &state.natural;
    let start = Start { unit: hot.head() as u32, locals, stack, natural, outer: Some(&outer) };
    let Some(compiled) = find(&function, record, &start) else { return never(hot) };
    let Some(words) = all_words(hot, &outside, &compiled, &state.words)? else {
        return never(hot);
    };
    // SAFETY: attached; the frame keeps the function, whose globals and builtins it was compiled for.
    if !unsafe { compiled.is_valid() && compiled.is_unobserved(thread) } {
        return Ok(LoopAnswer::Continue);
    }
    if !record.rests.get() {
        entry::take(&function, record); // each function that is made with this code
    }
    count(&record.entered);
    let mut context = Context::new(thread);
    take_over(hot, &state);
    for value in outside.iter().flatten().filter(|value| kind_of(value).holds_objects()) {
        std::mem::forget(value.clone()); // a reference of compiled code's own
    }
    // SAFETY: attached; these are the words for this code, which is valid.
    let outcome = unsafe { compiled.run(&mut context, depth, &words) };
    if outcome.object != LEFT {
        // SAFETY: attached; objects that were passed in are in the frame's slots.
        let result = unsafe { box_result(&compiled, outcome) };
        return answer(hot, &compiled, result);
    }
    let cause = judge(record, &context);
    // The outermost one is the frame; those that it calls are called again.
    // SAFETY: the code that has left is kept.
    let left = context.log.last().and_then(|left| Some((left, unsafe { exit::exit_of(left) }?)));
    let Some((left, exit)) = left else { return never(hot) };
    let words = left.words.clone();
    let mut objects = Vec::new();
    // SAFETY: attached; objects among the words are in the frame's slots, or constants, or references in the log and of the context.
    if !unsafe { exit::fill(exit, &words, &mut objects) } {
        let answer = failed(hot, &compiled);
        release(&objects);
        // SAFETY: attached, and the code that has left is kept.
        unsafe { context.release() };
        return answer;
    }
    if let Some(place) = exit.resumes {
        let inner = context.log.len() - 1;
        // SAFETY: attached; the code that has left is kept, and the objects among its words are alive.
        let continuation = unsafe { exit::resume(left, exit, &context.log[..inner]) };
        if continuation.is_null() {
            let answer = failed(hot, &compiled);
            release(&objects);
            // SAFETY: attached, and the code that has left is kept.
            unsafe { context.release() };
            return answer;
        }
        let slot = exit.locals.len() + place;
        release(&[exit::replace(&mut objects, slot, continuation)]);
    }
    if exit.cause == Cause::Return {
        // SAFETY: as above. The frame is over, and the result has a reference of its own.
        unsafe { context.release() };
        return answer(hot, &compiled, objects.pop().unwrap_or(std::ptr::null_mut()));
    }
    let slots = local_count(hot);
    let outside: Vec<_> = objects.drain(slots..slots + outside.len()).collect();
    outer.write(hot, &globals, &outside, compiled.shares_cells);
    write(hot, exit, objects);
    // Destructors find the frame's variables, and the globals and cells, as they are now; what they change stays changed.
    // SAFETY: attached, and the code that has left is kept; the slots have references of their own.
    unsafe { context.release() };
    hot.set_turns(match cause {
        // The loop is entered again as soon as the pending work is done.
        Some(Cause::Poll) => 1,
        Some(Cause::Guard) if record.in_part.get() => turns_after_end(&compiled, false),
        Some(Cause::End) => turns_after_end(&compiled, i64::MAX - context.turns >= MANY),
        _ if record.given_back.get() => 0,
        _ => TURNS.load(Ordering::Relaxed),
    });
    Ok(LoopAnswer::Continue)
}

/// When a loop that has ended, or was left, is entered again: soon if it had many turns, never if it has few each time.
fn turns_after_end(compiled: &Compiled, had_many: bool) -> u16 {
    let turns = TURNS.load(Ordering::Relaxed);
    if had_many {
        compiled.short.set(0);
        return turns.min(TURNS_AGAIN);
    }
    compiled.short.set(compiled.short.get() + 1);
    if compiled.short.get() < MOST_SHORT {
        turns
    } else {
        0
    }
}

/// Not again for this loop.
fn never<'py>(hot: &mut HotLoop<'_, 'py>) -> PyResult<LoopAnswer<'py>> {
    hot.set_turns(0);
    Ok(LoopAnswer::Continue)
}

/// There is no memory for an object, and an exception is set. If the code changes nothing outside of its frame, and has taken over
/// nothing, the interpreter computes it again.
fn failed<'py>(hot: &HotLoop<'_, 'py>, compiled: &Compiled) -> PyResult<LoopAnswer<'py>> {
    let error = PyErr::fetch(hot.py());
    let takes = compiled.parameters.iter().chain(&compiled.stack).any(Kind::holds_objects);
    Ok(if compiled.stores || takes { LoopAnswer::Unwind(error) } else { LoopAnswer::Continue })
}

/// The function's result, if it could be made.
fn answer<'py>(
    hot: &HotLoop<'_, 'py>,
    compiled: &Compiled,
    result: *mut PyObject,
) -> PyResult<LoopAnswer<'py>> {
    if result.is_null() {
        return failed(hot, compiled);
    }
    // SAFETY: a new reference.
    Ok(LoopAnswer::Result(unsafe { Bound::from_owned_ptr(hot.py(), result) }))
}

fn release(objects: &[*mut PyObject]) {
    for object in objects {
        // SAFETY: owned references, or NULL; attached, as all of this module.
        unsafe { ffi::Py_XDECREF(*object) };
    }
}

/// What a frame holds.
#[derive(Default)]
struct State {
    locals: Vec<Kind>,
    stack: Vec<Kind>,
    /// The words of the stack.
    words: Vec<u64>,
    /// See `Start`.
    natural: Vec<usize>,
    /// The slots whose references compiled code takes over.
    taken: Vec<usize>,
    /// Those of iterators, which go away, and the containers that compiled code gets references to instead.
    iterators: Vec<usize>,
    held: Vec<usize>,
}

/// Empties the slots whose references are compiled code's from now on. It gives the frame all slots anew when it leaves.
fn take_over(hot: &mut HotLoop<'_, '_>, state: &State) {
    for index in &state.taken {
        // SAFETY: the interpreter lends the frame's slots to the callback; `read` has found this one.
        unsafe { *(*hot.raw()).slots.add(*index) = std::ptr::null_mut() };
    }
    for object in &state.held {
        // SAFETY: attached; the iterators keep the containers.
        unsafe { ffi::Py_INCREF(*object as *mut PyObject) };
    }
    for index in &state.iterators {
        // SAFETY: as above. The slot has the only reference to an iterator, whose containers are kept; nothing of the program runs.
        unsafe {
            let slot = (*hot.raw()).slots.add(*index);
            ffi::Py_DECREF(std::mem::replace(&mut *slot, std::ptr::null_mut()));
        }
    }
}

/// How many slots the frame has for variables.
fn local_count(hot: &mut HotLoop<'_, '_>) -> usize {
    // SAFETY: the interpreter lends the struct to the callback.
    unsafe { (*hot.raw()).local_count as usize }
}

/// What is known of a loop of a function.
fn outer_of(
    function: &Bound<'_, PyFunction>,
    globals: &Bound<'_, PyDict>,
    record: &Record,
    head: u32,
) -> PyResult<Option<Rc<Outer>>> {
    let known = record.outer.borrow().iter().find(|outer| outer.head == head).cloned();
    if known.is_some() || !parts::is_plain(globals) {
        return Ok(known);
    }
    let decoded = code::decode(&parts::code_of(function))?;
    let made = Outer::of(function, &decoded, head, record.in_part.get())?.map(Rc::new);
    record.outer.borrow_mut().extend(made.clone());
    Ok(made)
}

/// `None`: there is something that compiled code cannot have.
fn read(
    hot: &mut HotLoop<'_, '_>,
    outside: &[Option<Bound<'_, PyAny>>],
) -> PyResult<Option<State>> {
    let count = local_count(hot);
    let mut state = State::default();
    for index in 0..count {
        let local = hot.local(index)?;
        let kind = local.as_ref().map_or(Kind::Unbound, local_kind);
        let is_natural = |object: &Bound<'_, PyAny>| {
            // SAFETY: an exact int, which the frame's slot keeps.
            matches!(kind, Kind::Int { .. })
                && unsafe { int_value(object.as_ptr()) }.is_some_and(|value| value >= 0)
        };
        state.natural.extend(local.as_ref().is_some_and(is_natural).then_some(index));
        state.taken.extend(kind.holds_objects().then_some(index));
        state.locals.push(kind);
    }
    let kinds = outside.iter().map(|value| value.as_ref().map_or(Kind::Unbound, local_kind));
    state.locals.extend(kinds);
    for index in 0..hot.stack_depth() {
        let Some(object) = hot.stack(index) else {
            state.stack.push(Kind::Null);
            continue;
        };
        let known = state.words.len();
        if let Some(kind) = iterators::state(&object, &mut state.words)? {
            if kind.holds_objects() {
                state.iterators.push(count + index);
                let words = state.words.get(known..).unwrap_or(&[]);
                kind.find_objects(words, &mut |_, word| state.held.push(*word as usize));
            }
            let next = state.words.get(known).map_or(-1, |word| *word as i64);
            if next >= 0 && matches!(kind, Kind::Counter | Kind::RangeIterator { .. }) {
                state.natural.push(state.locals.len() + index);
            }
            state.stack.push(kind);
            continue;
        }
        state.words.truncate(known);
        let kind = kind_of(&object);
        // SAFETY: the frame's slot keeps the object.
        if !unsafe { unbox_one(&kind, object.as_ptr(), &mut |word| state.words.push(word)) } {
            return Ok(None);
        }
        state.taken.extend(kind.holds_objects().then_some(count + index));
        state.stack.push(kind);
    }
    Ok(Some(state))
}

/// The kind of a local. If the slot has the only reference to a number, its identity cannot be observed.
fn local_kind(object: &Bound<'_, PyAny>) -> Kind {
    let is_shared = object.get_refcnt() != 2; // the slot and this binding
    match kind_of(object) {
        Kind::Int { .. } => match literal(object).kind {
            Kind::Int { object } => Kind::Int { object: object && is_shared },
            kind => kind,
        },
        Kind::Float { .. } => Kind::Float { object: is_shared },
        kind => kind,
    }
}

/// The words of the locals as compiled code expects them, and those of the stack behind them.
fn all_words(
    hot: &mut HotLoop<'_, '_>,
    outside: &[Option<Bound<'_, PyAny>>],
    compiled: &Compiled,
    stack: &[u64],
) -> PyResult<Option<Vec<u64>>> {
    let mut words = Vec::new();
    let count = local_count(hot);
    for (index, kind) in compiled.parameters.iter().enumerate() {
        let object = match index.checked_sub(count) {
            Some(index) => outside.get(index).cloned().flatten(),
            None => hot.local(index)?,
        };
        let Some(object) = object else { continue };
        let first = words.len();
        // SAFETY: the frame's slot keeps the object.
        if !unsafe { unbox_one(kind, object.as_ptr(), &mut |word| words.push(word)) } {
            return Ok(None);
        }
        // A destructor may have changed the variable since the state was read.
        let is_negative = words.get(first).is_some_and(|word| (*word as i64) < 0);
        if is_negative && compiled.natural.contains(&index) {
            return Ok(None);
        }
    }
    words.extend(stack);
    Ok(Some(words))
}

/// The code for a loop in a state, compiled if need be. What fails is refused.
fn find(
    function: &Bound<'_, PyFunction>,
    record: &Record,
    start: &Start<'_>,
) -> Option<Rc<Compiled>> {
    record.forget_old();
    let globals = parts::globals_of(function).as_ptr() as usize;
    let builtins = parts::builtins_of(function).as_ptr() as usize;
    let matches = |compiled: &Compiled, test: fn(&Kind, &Kind) -> bool| {
        compiled.start == start.unit
            && compiled.stack == start.stack
            && compiled.globals == globals
            && compiled.builtins == builtins
            && compiled.parameters.iter().zip(start.locals).all(|(a, b)| test(a, b))
    };
    let find = |test| record.loops.borrow().iter().position(|c| matches(c, test));
    let index = find(Kind::covers);
    let known = index.and_then(|index| record.loops.borrow().get(index).cloned());
    let mut natural = start.natural;
    let mut is_narrow = false;
    // SAFETY: attached; the function is alive.
    let is_valid = |known: &Rc<Compiled>| unsafe { known.is_valid() };
    let (known, changed) = match known {
        Some(known) if !is_valid(&known) => (None, Some(known)),
        known => (known, None),
    };
    if let Some(changed) = changed {
        if record.changed.get() >= MOST_CHANGES {
            return None;
        }
        record.changed.set(record.changed.get() + 1);
        record.loops.borrow_mut().retain(|other| !Rc::ptr_eq(other, &changed));
    }
    let known_is_none = known.is_none();
    if let Some(known) = known {
        is_narrow = !known.natural.iter().all(|place| natural.contains(place));
        if !is_narrow {
            return Some(known);
        }
    }
    // One for the same types, but with less objects or fewer ints below 0, is replaced.
    let narrow = if is_narrow { index } else { find(Kind::is_like).filter(|_| known_is_none) };
    if narrow.is_some() {
        natural = &[];
    }
    let known = record.loops.borrow().iter().filter(|c| c.start == start.unit).count();
    if record.given_back.get() || (narrow.is_none() && known >= MOST_LOOPS) {
        return None;
    }
    let locals: Vec<Kind> = match narrow {
        None => start.locals.to_vec(),
        Some(_) => start.locals.iter().map(Kind::widest).collect(),
    };
    let shares = || start.outer.is_some_and(|outer| outer.shares_cells());
    let shared = shares();
    let start = Start { locals: &locals, natural, ..*start };
    let made = compile_loop(function, &start);
    let made = if shares() == shared { made } else { compile_loop(function, &start) };
    match made {
        Ok(compiled) => {
            let compiled = Rc::new(compiled);
            entry::take_callees(function.py(), &compiled);
            let mut loops = record.loops.borrow_mut();
            let replaced = narrow.map(|index| loops.swap_remove(index));
            loops.push(Rc::clone(&compiled));
            drop(loops);
            drop(replaced); // not while it is borrowed
            Some(compiled)
        }
        Err(why) => {
            *record.refused.borrow_mut() = Some(why);
            None
        }
    }
}

/// Gives the frame the state of an exit, whose objects these are: the locals, then the stack.
fn write(hot: &mut HotLoop<'_, '_>, exit: &Exit, objects: Vec<*mut PyObject>) {
    let raw: *mut Loop = hot.raw();
    // SAFETY: the interpreter lends the struct and the frame's slots to the callback, which alone uses them now. There is room for
    // `co_stacksize` values on the stack, and the code has at most that many at each of its instructions.
    let (slots, before, after) = unsafe {
        let before = ((*raw).local_count + (*raw).stack_depth) as usize;
        (*raw).instruction = exit.unit as i32;
        (*raw).stack_depth = exit.stack.len() as i32;
        ((*raw).slots, before, objects.len())
    };
    let mut old = Vec::with_capacity(before);
    let empty = std::iter::repeat_n(std::ptr::null_mut(), before.saturating_sub(after));
    for (index, object) in objects.into_iter().chain(empty).enumerate() {
        // SAFETY: as above; behind the old stack there is nothing that owns a reference.
        unsafe {
            let slot = slots.add(index);
            if index < before {
                old.push(*slot);
            }
            *slot = object;
        }
    }
    release(&old);
}
