//! An interpreter with hooks that are closures.

use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyFunctionObject, PyObject};
use crate::frame_hook::registry::{self, Callee, Description};
use crate::frame_hook::{Answer, Thread};
use crate::stand_in::objects::{decref, incref};
use crate::stand_in::{frames, memory, World};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_longlong, c_void, CString};
use std::ptr::null_mut;
use std::rc::Rc;

/// What a hook answers: a verdict of the header, and a code object that it gives away, or NULL.
pub type Reply = (c_int, *mut PyCodeObject);

pub const PASS: Reply = (0, null_mut());
pub const SETTLED: Reply = (2, null_mut());

/// A hook that answers as `ask` does.
type Ask = Rc<RefCell<dyn FnMut(*mut _PyInterpreterFrame) -> Reply>>;

/// What is behind a hook's user data.
struct Asked {
    ask: Ask,
    /// Counts how often the user data was freed.
    freed: Rc<Cell<usize>>,
}

unsafe extern "C" fn ask(
    frame: *mut _PyInterpreterFrame,
    data: *mut c_void,
    replacement: *mut *mut PyCodeObject,
) -> c_int {
    // SAFETY: the data of a hook that is installed, or was when the round began.
    let ask = unsafe { (*data.cast::<Asked>()).ask.clone() };
    let (verdict, code) = (*ask).borrow_mut()(frame);
    if !code.is_null() {
        // SAFETY: the round's place for it.
        unsafe { replacement.write(code) };
    }
    verdict
}

unsafe extern "C" fn free(data: *mut c_void) {
    // SAFETY: the data of a hook that nobody asks any more.
    let asked = unsafe { Box::from_raw(data.cast::<Asked>()) };
    asked.freed.set(asked.freed.get() + 1);
}

/// A world with an engine, which ends with it.
pub struct Hooks {
    pub world: World,
}

impl Hooks {
    pub fn new() -> Self {
        Hooks { world: World::new() }
    }

    pub fn thread(&self) -> Thread {
        // SAFETY: the world's own thread state, attached to this thread.
        unsafe { Thread::new(self.world.tstate()) }
    }

    /// Adds a hook; its handle, and what counts how often its data was freed. `None` with an exception set on failure.
    pub fn try_add(
        &self,
        name: &str,
        ask_frame: impl FnMut(*mut _PyInterpreterFrame) -> Reply + 'static,
    ) -> (Option<c_longlong>, Rc<Cell<usize>>) {
        let freed = Rc::new(Cell::new(0));
        let asked = Asked { ask: Rc::new(RefCell::new(ask_frame)), freed: freed.clone() };
        let data: *mut c_void = Box::into_raw(Box::new(asked)).cast();
        let name = CString::new(name).expect("a name");
        let description = Description {
            callee: Callee::Extended(ask),
            user_data: data,
            free_user_data: Some(free),
            name: &name,
            timed: false,
            owner: null_mut(),
        };
        let id = registry::add(self.thread(), &description).ok();
        if id.is_none() {
            assert_eq!(freed.get(), 0, "data is freed that the caller keeps");
            // SAFETY: still ours.
            drop(unsafe { Box::from_raw(data.cast::<Asked>()) });
        }
        (id, freed)
    }

    pub fn add(&self, ask: impl FnMut(*mut _PyInterpreterFrame) -> Reply + 'static) -> c_longlong {
        self.try_add("test", ask).0.expect("a hook")
    }

    /// Offers the thread's current frame, as `RESUME` does.
    pub fn offer(&self) -> Answer {
        // SAFETY: the thread's own state, and its current frame.
        unsafe {
            let tstate = self.world.tstate();
            crate::frame_hook::dispatch::_PyRust_OfferFrame(tstate, (*tstate).current_frame)
        }
    }

    /// The frame of a call that has come to its `RESUME`.
    pub fn call(
        &self,
        function: *mut PyFunctionObject,
        arguments: &[*mut PyObject],
    ) -> *mut _PyInterpreterFrame {
        // SAFETY: alive.
        unsafe { incref(function.cast()) };
        let frame = frames::push(function, arguments);
        frames::link(frame);
        frames::run_prologue(frame);
        frame
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let thread = self.thread();
        memory::allow(None);
        registry::close(thread);
        super::super::switch::forget(thread);
        // SAFETY: a field of the state, which nobody else uses.
        let class = unsafe { std::mem::replace(&mut (*thread.state()).incompatible, null_mut()) };
        if !class.is_null() {
            // SAFETY: the state's own reference.
            unsafe { decref(class) };
        }
    }
}
