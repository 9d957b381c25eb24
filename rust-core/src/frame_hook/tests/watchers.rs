//! Hooks that watch frames, and calls that return through shims as in the eval loop.

use super::support::Became::{Answered, Failed, Replaced, StaysEnabled};
use super::support::*;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::fake_cpython::code::Function;
use crate::fake_cpython::objects::{incref, name_of};
use crate::fake_cpython::{exceptions, frames, memory, values};
use crate::frame_hook::c_types::*;
use crate::frame_hook::description::Description;
use crate::frame_hook::registry;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_longlong, c_uint, c_void};
use std::ptr::null_mut;

// --- Hooks that watch. ---

/// What a hook answers about frames of one name; it passes on all others.
#[derive(Clone, Copy)]
pub struct Wish {
    pub of: &'static str,
    pub verdict: c_int,
    pub object: *mut PyObject,
    pub events: c_uint,
    pub scope: c_uint,
    /// The event at which it fails.
    pub fails: Option<c_int>,
}

pub const PASSES: Wish = Wish {
    of: "function",
    verdict: FRAMEHOOK_PASS,
    object: null_mut(),
    events: 0,
    scope: 0,
    fails: None,
};
pub const WATCHES: Wish = Wish { events: FRAMEHOOK_ON_EXIT, ..PASSES };

/// The data of one watch.
pub struct FrameData {
    ends: Cell<u32>,
    pub freed: Cell<u32>,
}

/// A hook. It stays where it is until its test is over, whatever the engine frees.
pub struct Watcher {
    name: &'static str,
    wish: Wish,
    pub log: Log,
    #[allow(clippy::vec_box)] // the engine knows where each is
    all_data: RefCell<Vec<Box<FrameData>>>,
    pub freed: Cell<u32>,
}

unsafe extern "C" fn on_entry(
    frame: *mut _PyInterpreterFrame,
    data: *mut c_void,
    answer: *mut FrameHookAnswer,
) -> c_int {
    // SAFETY: the data of a hook of this test, and the dispatch's answer.
    let (watcher, answer) = unsafe { (&*data.cast::<Watcher>(), &mut *answer) };
    let name = EntryFrame(frame).code().expect("code");
    watcher.log.note(&format!("{}?{name}", watcher.name));
    let wish = watcher.wish;
    if name != wish.of {
        return FRAMEHOOK_PASS;
    }
    if wish.events | wish.scope != 0 {
        let data = Box::new(FrameData { ends: Cell::new(0), freed: Cell::new(0) });
        answer.data = (&raw const *data).cast_mut().cast();
        watcher.all_data.borrow_mut().push(data);
    }
    (answer.events, answer.scope, answer.object) = (wish.events, wish.scope, wish.object);
    if !wish.object.is_null() {
        // SAFETY: alive; the reference is given away.
        unsafe { incref(wish.object) };
    }
    if wish.verdict == FRAMEHOOK_ERROR {
        exceptions::raise_value_error("called");
    }
    wish.verdict
}

unsafe extern "C" fn on_event(event: *const FrameHookEvent, data: *mut c_void) -> c_int {
    // SAFETY: as above; an event of a frame that the hook watches.
    let (watcher, event) = unsafe { (&*data.cast::<Watcher>(), &*event) };
    // SAFETY: it is freed with the watcher.
    let data = unsafe { &*event.data.cast::<FrameData>() };
    assert_eq!(data.freed.get(), 0, "data is delivered that was freed");
    assert!(!exceptions::is_set(), "an event callback is called with an exception set");
    let kind = match event.kind {
        FRAMEHOOK_RETURNED => format!("returned({})", name_of(event.value)),
        FRAMEHOOK_RAISED => format!("raised({})", exceptions::described(event.value)),
        FRAMEHOOK_DROPPED => "dropped".to_string(),
        other => panic!("no hook has requested the event {other}"),
    };
    data.ends.set(data.ends.get() + 1);
    watcher.log.note(&format!("{}:{}:{kind}", watcher.name, name_of(event.code)));
    if watcher.wish.fails == Some(event.kind) {
        exceptions::raise_value_error(watcher.name);
        return -1;
    }
    0
}

unsafe extern "C" fn free_data(data: *mut c_void) {
    if !data.is_null() {
        // SAFETY: of a watcher, which is there.
        let data = unsafe { &*data.cast::<FrameData>() };
        data.freed.set(data.freed.get() + 1);
    }
}

unsafe extern "C" fn free_user_data(data: *mut c_void) {
    // SAFETY: a watcher, whose memory goes with its test.
    let watcher = unsafe { &*data.cast::<Watcher>() };
    watcher.freed.set(watcher.freed.get() + 1);
}

/// An engine with hooks that watch. No data may be left when it goes.
pub struct Watchers {
    pub log: Log,
    #[allow(clippy::vec_box)] // as above
    pub watchers: Vec<Box<Watcher>>,
    engine: Option<Engine>,
}

impl Watchers {
    pub fn start() -> Self {
        Watchers { log: Log::default(), watchers: Vec::new(), engine: Some(Engine::start()) }
    }

    fn try_add(&mut self, name: &'static str, wish: Wish) -> Result<c_longlong, String> {
        let watcher = Box::new(Watcher {
            name,
            wish,
            log: self.log.clone(),
            all_data: RefCell::default(),
            freed: Cell::new(0),
        });
        let data = (&raw const *watcher).cast_mut().cast();
        let description = Description {
            free_user_data: Some(free_user_data),
            on_event: Some(on_event),
            free_data: Some(free_data),
            ..Description::new(on_entry, data, c"watcher")
        };
        match registry::add(thread(), &description) {
            Ok(id) => {
                self.watchers.push(watcher);
                Ok(id)
            }
            Err(_) => Err(exceptions::taken().expect("an exception")),
        }
    }

    pub fn add(&mut self, name: &'static str, wish: Wish) -> c_longlong {
        self.try_add(name, wish).expect("a hook")
    }

    /// How often the end of each frame was delivered, and that each was freed once.
    pub fn ends(&self) -> Vec<u32> {
        let ends_of = |watcher: &Watcher| {
            let mut ends = Vec::new();
            for data in watcher.all_data.borrow().iter() {
                assert_eq!(data.freed.get(), 1, "data was not freed once");
                ends.push(data.ends.get());
            }
            ends
        };
        self.watchers.iter().flat_map(|watcher| ends_of(watcher)).collect()
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.engine.take());
            return;
        }
        memory::allow(None);
        clear();
        self.ends();
        for watcher in &self.watchers {
            assert_eq!(watcher.freed.get(), 1, "{}", watcher.name);
        }
        drop(self.engine.take());
    }
}

// --- Calls that return. ---

/// How many shims lie between a frame and its caller.
pub fn shims_below(frame: *mut _PyInterpreterFrame) -> usize {
    // SAFETY: frames and shims of this thread.
    let mut at = unsafe { (*frame).previous };
    let mut count = 0;
    while is_return_shim(at) {
        count += 1;
        // SAFETY: a live shim of this thread.
        at = unsafe { (*at).previous };
    }
    count
}

/// What has called: a frame with room for the value of a call.
pub struct Caller<'a> {
    function: &'a Defined,
    pub frame: *mut _PyInterpreterFrame,
    slots: i32,
}

impl<'a> Caller<'a> {
    pub fn begin(function: &'a Defined) -> Self {
        let frame = function.start("");
        // SAFETY: the frame's own fields. It is at a call.
        let slots = unsafe {
            (*frame).return_offset = 1;
            (*frame).stacktop
        };
        Caller { function, frame, slots }
    }

    /// A call of that function: what it comes to, and what became of its frame.
    pub fn call(&self, callee: &Defined, arguments: &str) -> (Result<String, String>, Vec<Became>) {
        callee.start(arguments);
        let mut answers = vec![dispatch()];
        while answers.last() == Some(&Replaced) {
            frames::run_prologue(current_frame());
            answers.push(dispatch());
        }
        let came = match answers.last() {
            Some(Failed) => self.unwind(),
            Some(Answered) => self.value_at_shim_or_here(),
            _ => self.end(),
        };
        (came, answers)
    }

    /// The current frame returns its name.
    pub fn end(&self) -> Result<String, String> {
        // SAFETY: the current frame has code.
        let value = values::text(&name_of(unsafe { (*current_frame()).f_executable }));
        frames::end_current();
        self.returns(value)
    }

    /// The current frame ends with an exception.
    pub fn fail(&self) -> Result<String, String> {
        frames::end_current();
        exceptions::raise_value_error("raised");
        self.unwind()
    }

    /// The value of a call comes to what is the current frame now.
    fn returns(&self, value: *mut PyObject) -> Result<String, String> {
        let frame = current_frame();
        // SAFETY: what the eval loop does where a frame returns: its caller continues after the call.
        unsafe {
            let top = if is_return_shim(frame) { 0 } else { (*frame).stacktop };
            frames::slot(frame, top as usize).write(value);
            (*frame).stacktop = top + 1;
            (*frame).instr_ptr = (*frame).instr_ptr.add(usize::from((*frame).return_offset));
        }
        self.value_at_shim_or_here()
    }

    fn value_at_shim_or_here(&self) -> Result<String, String> {
        while is_return_shim(current_frame()) {
            return_to_shim();
            if exceptions::is_set() {
                return self.unwind();
            }
        }
        assert_eq!(current_frame(), self.frame);
        // SAFETY: the value is the last of the frame's slots, and is taken out.
        unsafe {
            assert_eq!((*self.frame).stacktop, self.slots + 1);
            (*self.frame).stacktop = self.slots;
            let place = frames::slot(self.frame, self.slots as usize);
            Ok(name_of(Own(place.read()).0))
        }
    }

    pub fn unwind(&self) -> Result<String, String> {
        while is_return_shim(current_frame()) {
            return_to_shim();
            assert!(exceptions::is_set());
        }
        assert_eq!(current_frame(), self.frame);
        Err(exceptions::taken().expect("an exception"))
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(current_frame(), self.frame, "{}", name_of(self.function.code.cast()));
            frames::end_current();
        }
    }
}

pub fn named(name: &str) -> Defined {
    define(Function { name, ..Function::PLAIN }, "")
}

pub fn value(name: &str) -> (Result<String, String>, Vec<Became>) {
    (Ok(name.to_string()), vec![StaysEnabled])
}
