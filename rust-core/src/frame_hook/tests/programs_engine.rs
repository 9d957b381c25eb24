//! Programs on the engine, as the eval loop runs them.

use super::language;
use super::language::{
    comparable, Action, Answer, Body, Ending, Log, Place, Program, Verdict, FUEL, KINDS,
    MOST_HOOKS, VARIANTS,
};
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyObject};
use crate::fake_cpython::code::{instruction, times_despecialized, Function};
use crate::fake_cpython::objects::{decref, incref, name_of as text_of};
use crate::fake_cpython::threads::PyThreadState_Get;
use crate::fake_cpython::{exceptions, frames, generators, memory, values};
use crate::frame_hook::c_api::hooks::*;
use crate::frame_hook::c_types::*;
use crate::frame_hook::dispatch_state::NextStep;
use crate::frame_hook::eval_loop::{_PyRust_DispatchFrameHooks, _PyRust_Instrument};
use crate::frame_hook::tests::support::*;
use crate::in_cpython::Listening;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_longlong, c_uint, c_void};
use std::ptr::null_mut;

/// An exception that is on its way: a reference.
type Raised = *mut PyObject;

/// What a hook's user data leads to.
struct Hook {
    machine: *const Machine<'static>,
    number: usize,
    hook: usize,
    freed: Cell<u32>,
}

/// The user data of a watch.
struct Data {
    answer: *const Answer,
    freed: Cell<u32>,
}

/// A hook that was added.
#[derive(Clone, Copy)]
struct Installed {
    number: usize,
    id: c_longlong,
}

/// A generator, and the part that it does next; `None`: it is over.
struct Generator {
    object: *mut PyObject,
    next: Option<usize>,
}

struct Machine<'a> {
    program: &'a Program,
    log: RefCell<Log>,
    /// The codes of each function, one for each variant.
    codes: Vec<Vec<Defined>>,
    numbers: HashMap<*mut PyObject, (usize, u8)>,
    installed: RefCell<Vec<Installed>>,
    added: Cell<usize>,
    turns: RefCell<HashMap<usize, usize>>,
    kept: RefCell<Vec<Option<Generator>>>,
    #[allow(clippy::vec_box)] // the engine knows where each is
    hooks: RefCell<Vec<Box<Hook>>>,
    #[allow(clippy::vec_box)] // as above
    all_data: RefCell<Vec<Box<Data>>>,
    fuel: Cell<u32>,
    despecialized: Cell<usize>,
    steps: Cell<usize>,
}

/// The frame that a call returns to, as it is before the call.
struct Landing {
    frame: *mut _PyInterpreterFrame,
    top: c_int,
    next: *mut c::_Py_CODEUNIT,
}

/// Room for a frame on the C stack, to which a call of C's returns.
const ENTRY_WORDS: usize = size_of::<_PyInterpreterFrame>() / size_of::<usize>() + 4;

/// Instructions that say nothing.
static NOWHERE: [u64; 4] = [0; 4];

impl Landing {
    fn at(frame: *mut _PyInterpreterFrame) -> Self {
        // SAFETY: a frame that runs, and calls.
        unsafe {
            (*frame).return_offset = 1;
            Landing { frame, top: (*frame).stacktop, next: (*frame).instr_ptr }
        }
    }

    /// The value that has come.
    fn value(&self) -> *mut PyObject {
        // SAFETY: the frame, at which a value has come.
        unsafe {
            assert_eq!((*self.frame).stacktop, self.top + 1);
            (*self.frame).stacktop = self.top;
            (*self.frame).instr_ptr = self.next;
            frames::slot(self.frame, self.top as usize).read()
        }
    }
}

fn code_of(frame: *mut _PyInterpreterFrame) -> *mut PyObject {
    // SAFETY: a live frame.
    unsafe { (*frame).f_executable }
}

/// The byte that says which form of `RESUME` an instruction is.
fn form<'a>(at: *mut c::_Py_CODEUNIT) -> &'a Cell<u8> {
    // SAFETY: an instruction of live code, which this thread alone uses.
    unsafe { &*at.cast::<Cell<u8>>() }
}

fn resumes(code: *mut PyCodeObject) -> [*mut c::_Py_CODEUNIT; 2] {
    // SAFETY: live code.
    let first = unsafe { (*code)._co_firsttraceable } as usize;
    [instruction(code, first), instruction(code, first + 2)]
}

fn codes_of(function: usize, body: &Body) -> Vec<Defined> {
    let generator = if body.is_generator { c::CO_GENERATOR } else { 0 };
    let plain = Function { flags: Function::PLAIN.flags | generator, ..Function::PLAIN };
    let shapes = [
        plain,
        Function { locals: "x y z", stack: 40, ..plain },
        Function { cells: "c", stack: 2_100, ..plain },
        Function { positional: "other", ..plain },
    ];
    let define_one = |(variant, shape): (usize, &Function)| {
        let name = language::name_of(function, variant as u8);
        let defined = define(Function { name: &name, ..*shape }, "");
        for (argument, at) in resumes(defined.code).into_iter().enumerate() {
            // SAFETY: an instruction of the code made just now.
            unsafe { at.cast::<[u8; 2]>().write([c::RESUME as u8, argument as u8]) };
        }
        defined
    };
    shapes.iter().enumerate().map(define_one).collect()
}

pub fn run(program: &Program) -> Log {
    let engine = Engine::start();
    let codes: Vec<Vec<Defined>> =
        program.functions.iter().enumerate().map(|(i, body)| codes_of(i, body)).collect();
    let numbers = codes
        .iter()
        .enumerate()
        .flat_map(|(function, variants)| {
            let of =
                move |(variant, it): (usize, &Defined)| (it.code.cast(), (function, variant as u8));
            variants.iter().enumerate().map(of)
        })
        .collect();
    let machine = Machine {
        program,
        log: RefCell::default(),
        codes,
        numbers,
        installed: RefCell::default(),
        added: Cell::new(0),
        turns: RefCell::default(),
        kept: RefCell::default(),
        hooks: RefCell::default(),
        all_data: RefCell::default(),
        fuel: Cell::new(FUEL),
        despecialized: Cell::new(times_despecialized()),
        steps: Cell::new(0),
    };
    let this: *const Machine<'static> = (&raw const machine).cast();
    frames::set_call(Some(Box::new(move |callable| {
        // SAFETY: there as long as the program runs.
        unsafe { (*this).vectorcall(callable) }
    })));
    for action in &program.main {
        let done = machine.act(action, false).map_err(taken_text);
        machine.note(format!("main {done:?}"));
    }
    loop {
        // No borrow lasts while it is dropped.
        let last = machine.kept.borrow_mut().pop();
        match last {
            Some(generator) => machine.drop(generator),
            None => break,
        }
    }
    frames::set_call(None);
    memory::allow(None);
    // SAFETY: attached.
    assert_eq!(unsafe { PyUnstable_FrameHook_Clear() }, 0);
    assert!(current_frame().is_null());
    for hook in machine.hooks.borrow().iter() {
        assert_eq!(hook.freed.get(), 1, "the user data of hook {}", hook.number);
    }
    for data in machine.all_data.borrow().iter() {
        assert_eq!(data.freed.get(), 1, "data was not freed once");
    }
    let log = machine.log.take();
    drop(machine);
    drop(engine);
    log
}

/// Gives an exception up, and says what it was.
fn taken_text(raised: Raised) -> String {
    let text = comparable(&exceptions::described(raised));
    // SAFETY: a reference of ours.
    unsafe { decref(raised) };
    text
}

/// The exception that is set.
fn raised() -> Raised {
    let raised = exceptions::PyErr_GetRaisedException();
    assert!(!raised.is_null(), "an exception");
    raised
}

// --- What the engine calls. ---

/// Runs a callback: with memory, whatever the engine has.
fn with_memory<T>(work: impl FnOnce() -> T) -> T {
    let before = memory::allowed();
    memory::allow(None);
    let result = work();
    memory::allow(before);
    result
}

unsafe extern "C" fn on_entry(
    frame: *mut _PyInterpreterFrame,
    data: *mut c_void,
    given: *mut FrameHookAnswer,
) -> c_int {
    // SAFETY: a hook of the machine, which is there, and the dispatch's answer.
    let (hook, given) = unsafe { (&*data.cast::<Hook>(), &mut *given) };
    assert_eq!(hook.freed.get(), 0, "a hook is called that was freed");
    // SAFETY: the machine outlives its hooks.
    let machine = unsafe { &*hook.machine };
    with_memory(|| machine.entry(hook, frame, given))
}

unsafe extern "C" fn on_event(event: *const FrameHookEvent, data: *mut c_void) -> c_int {
    // SAFETY: a hook of the machine, which is there, and an event of a frame that the hook watches.
    let (hook, event) = unsafe { (&*data.cast::<Hook>(), &*event) };
    assert_eq!(hook.freed.get(), 0, "a hook gets an event that was freed");
    // SAFETY: the machine outlives its hooks.
    let machine = unsafe { &*hook.machine };
    with_memory(|| machine.event(hook, event))
}

unsafe extern "C" fn free_data(data: *mut c_void) {
    // SAFETY: data of the machine, which is there.
    let data = unsafe { &*data.cast::<Data>() };
    data.freed.set(data.freed.get() + 1);
}

unsafe extern "C" fn free_user_data(data: *mut c_void) {
    // SAFETY: a hook of the machine, which is there.
    let hook = unsafe { &*data.cast::<Hook>() };
    hook.freed.set(hook.freed.get() + 1);
}

impl Machine<'_> {
    fn note(&self, text: String) {
        self.log.borrow_mut().push(text);
    }

    /// Something that the engine does, for which there may not be enough memory.
    fn step<T>(&self, work: impl FnOnce() -> T) -> T {
        let short = &self.program.short;
        if !short.is_empty() {
            let step = self.steps.replace(self.steps.get() + 1);
            let limit = short[step % short.len()];
            memory::allow((limit < 128).then(|| usize::from(limit % 8)));
        }
        let result = work();
        memory::allow(None);
        result
    }

    fn callback(&self, action: &Option<Action>) {
        let Some(action) = action else { return };
        let done = self.act(action, false).map_err(taken_text);
        self.note(format!("callback {done:?}"));
    }

    fn entry(
        &self,
        hook: &Hook,
        frame: *mut _PyInterpreterFrame,
        given: &mut FrameHookAnswer,
    ) -> c_int {
        let name = EntryFrame(frame).code().expect("code");
        self.note(format!("{} entry {name}", hook.number));
        let (function, _) = self.numbers[&code_of(frame)];
        let answers = &self.program.hooks[hook.hook];
        let turn = {
            let mut turns = self.turns.borrow_mut();
            let turn = turns.entry(hook.hook).or_default();
            std::mem::replace(turn, *turn + 1)
        };
        let answer = &answers[turn % answers.len()];
        self.callback(&answer.in_entry);
        if answer.verdict == Verdict::Raise {
            exceptions::raise_value_error(&format!("entry {}", hook.number));
            return FRAMEHOOK_ERROR;
        }
        if answer.events() | answer.scope() != 0 {
            let data = Box::new(Data { answer, freed: Cell::new(0) });
            given.data = (&raw const *data).cast_mut().cast();
            self.all_data.borrow_mut().push(data);
        }
        (given.events, given.scope) = (answer.events(), answer.scope());
        match answer.verdict {
            Verdict::Pass | Verdict::Raise => FRAMEHOOK_PASS,
            Verdict::Disable => FRAMEHOOK_DISABLE,
            Verdict::Result => {
                given.object = values::text(&format!("result{}", hook.number));
                FRAMEHOOK_RESULT
            }
            Verdict::Replace(variant) => {
                let variant = usize::from(variant % (VARIANTS + 1));
                given.object = self.codes[function][variant].code.cast();
                // SAFETY: alive; the reference is given away.
                unsafe { incref(given.object) };
                FRAMEHOOK_REPLACE
            }
            Verdict::Unknown => 77,
        }
    }

    fn event(&self, hook: &Hook, event: &FrameHookEvent) -> c_int {
        // SAFETY: it is there as long as the machine.
        let data = unsafe { &*event.data.cast::<Data>() };
        assert_eq!(data.freed.get(), 0, "data is delivered that was freed");
        assert!(!exceptions::is_set(), "an event callback is called with an exception set");
        let what = match event.kind {
            FRAMEHOOK_RAISED => comparable(&exceptions::described(event.value)),
            FRAMEHOOK_RETURNED | FRAMEHOOK_YIELDED => text_of(event.value),
            _ => String::new(),
        };
        let (name, kind) = (text_of(event.code), KINDS[event.kind as usize]);
        self.note(format!("{} event {name} {kind} {what}", hook.number));
        // SAFETY: the program outlives the machine.
        let answer = unsafe { &*data.answer };
        self.callback(&answer.in_event);
        if !answer.fails(event.kind) {
            return 0;
        }
        exceptions::raise_value_error(&format!("event {}", hook.number));
        -1
    }

    // --- Calls. ---

    /// The value or exception that `landing` gets, through the shims that lie above it.
    /// `None`: another frame runs first.
    fn come(&self, landing: &Landing) -> Option<Result<*mut PyObject, Raised>> {
        while current_frame() != landing.frame {
            if !is_return_shim(current_frame()) {
                return None;
            }
            self.step(return_to_shim);
        }
        Some(if exceptions::is_set() { Err(raised()) } else { Ok(landing.value()) })
    }

    /// Executes the slow `RESUME` of the current frame, or `RETURN_GENERATOR`.
    fn dispatch(&self) -> NextStep {
        let now = times_despecialized();
        if self.despecialized.replace(now) != now {
            for defined in self.codes.iter().flatten() {
                resumes(defined.code).into_iter().for_each(|at| form(at).set(c::RESUME as u8));
            }
        }
        let frame = current_frame();
        // SAFETY: the thread's own state, and its current frame.
        let (at, listening) = unsafe { ((*frame).instr_ptr, (*thread().own()).listening) };
        let is_resume = u32::from(form(at).get()) != c::RETURN_GENERATOR;
        if u32::from(form(at).get()) == c::RESUME_CHECK {
            return NextStep::Specialize;
        }
        let next = match listening {
            Listening::Nowhere => NextStep::Specialize,
            Listening::Elsewhere => NextStep::KeepUnspecialized,
            Listening::Here => {
                // SAFETY: this thread's current frame, at its `RESUME`.
                let result =
                    self.step(|| unsafe { _PyRust_DispatchFrameHooks(PyThreadState_Get(), frame) });
                advance(result.ahead);
                result.next
            }
        };
        if next == NextStep::Specialize && is_resume {
            form(at).set(c::RESUME_CHECK as u8);
        }
        next
    }

    /// A call whose frame is the thread's current one and returns to `landing`.
    fn run_frame(&self, landing: &Landing) -> Result<*mut PyObject, Raised> {
        frames::run_prologue(current_frame());
        while self.dispatch() == NextStep::CurrentFrame {
            if let Some(came) = self.come(landing) {
                return came;
            }
            assert!(!exceptions::is_set(), "a frame starts with an exception set");
            frames::run_prologue(current_frame());
        }
        let frame = current_frame();
        let (function, variant) = self.numbers[&code_of(frame)];
        let body = &self.program.functions[function];
        if body.is_generator {
            generators::make();
            return self.come(landing).expect("a generator");
        }
        let mut actions = body.parts.iter().flatten();
        let ran = actions.try_for_each(|action| self.act(action, true));
        assert_eq!(current_frame(), frame);
        frames::end_current();
        match ran {
            Ok(()) => {
                let below = current_frame();
                let value = values::text(&language::name_of(function, variant));
                // SAFETY: the frame that has called.
                frames::put(below, value, unsafe { (*below).return_offset }.into());
            }
            Err(raised) => exceptions::PyErr_SetRaisedException(raised),
        }
        self.come(landing).expect("it returns")
    }

    /// Runs `work` above a frame of C's.
    fn below_c<T>(&self, work: impl FnOnce(&Landing) -> T) -> T {
        let mut room = [0usize; ENTRY_WORDS];
        let entry: *mut _PyInterpreterFrame = room.as_mut_ptr().cast();
        // SAFETY: room for a frame without code, which is dropped when nothing leads to it.
        unsafe {
            (*entry).owner = c::FRAME_OWNED_BY_CSTACK;
            (*entry).instr_ptr = NOWHERE.as_ptr().cast_mut().cast();
            (*entry).previous = current_frame();
            frames::link(entry);
            let result = work(&Landing::at(entry));
            assert_eq!(current_frame(), entry);
            frames::link((*entry).previous);
            result
        }
    }

    fn call(&self, function: usize, direct: bool) -> Result<*mut PyObject, Raised> {
        let run = |landing: &Landing| {
            frames::link(self.codes[function][0].push(""));
            self.run_frame(landing)
        };
        if direct {
            run(&Landing::at(current_frame()))
        } else {
            self.below_c(run)
        }
    }

    fn vectorcall(&self, callable: *mut PyObject) -> *mut PyObject {
        let is_it = |variants: &Vec<Defined>| variants[0].function.0.cast() == callable;
        let function = self.codes.iter().position(is_it).expect("a function");
        let result = with_memory(|| self.call(function, false));
        result.unwrap_or_else(|raised| {
            exceptions::PyErr_SetRaisedException(raised);
            null_mut()
        })
    }

    /// The call is over: its result is looked at, and given up.
    fn called(&self, came: Result<*mut PyObject, Raised>) -> Result<(), Raised> {
        match came {
            Ok(object) if generators::is_generator(object) => {
                self.note("generator".to_string());
                self.drop(Some(Generator { object, next: Some(0) }));
                Ok(())
            }
            came => self.came(came),
        }
    }

    fn came(&self, came: Result<*mut PyObject, Raised>) -> Result<(), Raised> {
        match came {
            Ok(value) => {
                self.note(format!("value {}", text_of(value)));
                // SAFETY: ours.
                unsafe { decref(value) };
                Ok(())
            }
            Err(raised) => {
                self.note(format!("raised {}", comparable(&exceptions::described(raised))));
                Err(raised)
            }
        }
    }

    // --- Generators. ---

    fn drop(&self, generator: Option<Generator>) {
        if let Some(generator) = generator {
            // SAFETY: ours.
            self.step(|| unsafe { decref(generator.object) });
            assert!(!exceptions::is_set(), "a drop has set an exception");
        }
    }

    fn resume(&self, generator: &mut Generator, thrown: Option<&str>) {
        let came = self.below_c(|landing| self.run_generator(landing, generator, thrown));
        if let Err(raised) = self.came(came) {
            // SAFETY: ours.
            unsafe { decref(raised) };
        }
    }

    /// Resumes the generator, until it yields or ends.
    fn run_generator(
        &self,
        landing: &Landing,
        generator: &mut Generator,
        thrown: Option<&str>,
    ) -> Result<*mut PyObject, Raised> {
        let (object, next) = (generator.object, generator.next.take().expect("suspended"));
        let begins = generators::resume(object);
        let frame = generators::frame_of(object);
        let code: *mut PyCodeObject = code_of(frame).cast();
        if let Some(text) = thrown {
            exceptions::raise_value_error(text);
            // SAFETY: this thread's current frame, with its code.
            let status = self.step(|| unsafe { _PyRust_Instrument(frame, code, interpreter()) });
            assert_eq!(status, 0);
        } else {
            // SAFETY: the generator's frame, which has room for the value that is sent.
            unsafe {
                if begins {
                    (*frame).instr_ptr = (*frame).instr_ptr.add(1);
                } else {
                    let top = (*frame).stacktop;
                    frames::slot(frame, top as usize).write(&raw mut c::_Py_NoneStruct);
                    (*frame).stacktop = top + 1;
                }
            }
            if self.dispatch() == NextStep::CurrentFrame {
                assert!(exceptions::is_set(), "a generator continues elsewhere");
            }
            // SAFETY: the generator's frame, from which the value is taken again.
            unsafe { (*frame).stacktop -= c_int::from(!begins) };
        }
        assert_eq!(current_frame(), frame);
        let ran = if exceptions::is_set() { Err(raised()) } else { self.run_part(code, next) };
        assert_eq!(current_frame(), frame);
        match ran {
            Ok(true) => {
                generators::give(values::text("yield"), resumes(code)[1]);
                if let Some(came) = self.come(landing) {
                    generator.next = came.is_ok().then_some(next + 1);
                    return came;
                }
                // A hook has failed, and its exception is thrown in.
                assert!(exceptions::is_set() && current_frame() == frame);
                generators::end(None);
            }
            Ok(false) => generators::end(Some(values::text("end"))),
            Err(raised) => {
                generators::end(None);
                exceptions::PyErr_SetRaisedException(raised);
            }
        }
        self.come(landing).expect("it returns")
    }

    /// Whether there was another part to do.
    fn run_part(&self, code: *mut PyCodeObject, next: usize) -> Result<bool, Raised> {
        let (function, _) = self.numbers[&code.cast()];
        match self.program.functions[function].parts.get(next) {
            Some(part) => part.iter().try_for_each(|it| self.act(it, true)).map(|()| true),
            None => Ok(false),
        }
    }

    fn generate(
        &self,
        function: usize,
        steps: u8,
        end: Ending,
        direct: bool,
    ) -> Result<(), Raised> {
        let mut generator = match self.call(function, direct) {
            Ok(object) if generators::is_generator(object) => Generator { object, next: Some(0) },
            came => return self.came(came),
        };
        for _ in 0..steps % 6 {
            self.resume(&mut generator, None);
            if generator.next.is_none() {
                self.drop(Some(generator));
                return Ok(());
            }
        }
        match end {
            Ending::Drop => self.drop(Some(generator)),
            Ending::Throw => {
                self.resume(&mut generator, Some("thrown"));
                self.drop(Some(generator));
            }
            Ending::Keep => self.kept.borrow_mut().push(Some(generator)),
        }
        Ok(())
    }

    // --- Actions. ---

    fn pick(&self, which: u8) -> Option<Installed> {
        let installed = self.installed.borrow();
        (!installed.is_empty()).then(|| installed[usize::from(which) % installed.len()])
    }

    /// Whether a change of hooks was made; without memory it may not be.
    fn done(&self, result: Result<(), String>) -> bool {
        assert!(result.is_ok() || !self.program.short.is_empty(), "{result:?}");
        result.is_ok()
    }

    /// `direct`: by the current frame, and not by a callback.
    fn act(&self, action: &Action, direct: bool) -> Result<(), Raised> {
        if self.fuel.get() == 0 {
            return Ok(());
        }
        self.fuel.set(self.fuel.get() - 1);
        match *action {
            Action::Call { function, catches } => {
                let came = self.called(self.call(self.program.function(function), direct));
                if catches {
                    came.unwrap_or_else(|raised| drop(taken_text(raised)));
                    return Ok(());
                }
                return came;
            }
            Action::Raise => {
                exceptions::raise_value_error("program");
                return Err(raised());
            }
            Action::Add { hook, place } => self.add(hook, place),
            Action::Remove(which) => {
                if let Some(hook) = self.pick(which) {
                    self.installed.borrow_mut().retain(|it| it.number != hook.number);
                    assert_eq!(self.step(|| remove(hook.id)), Ok(()), "removing needs no memory");
                }
            }
            Action::Clear => {
                self.installed.borrow_mut().clear();
                self.step(clear);
            }
            Action::Switch { installed, on } => {
                if let Some(hook) = self.pick(installed) {
                    self.done(self.step(|| enable(hook.id, on)));
                }
            }
            Action::SwitchForCode { installed, function, variant, on } => {
                if let Some(hook) = self.pick(installed) {
                    let variant = usize::from(variant % VARIANTS);
                    let code = self.codes[self.program.function(function)][variant].code;
                    self.done(self.step(|| enable_for_code(hook.id, code, on)));
                }
            }
            Action::Generate { function, steps, end } => {
                return self.generate(self.program.function(function), steps, end, direct);
            }
            Action::Resume(which) => {
                let (place, generator) = {
                    let mut kept = self.kept.borrow_mut();
                    if kept.is_empty() {
                        return Ok(());
                    }
                    let place = usize::from(which) % kept.len();
                    (place, kept[place].take())
                };
                let Some(mut generator) = generator else { return Ok(()) };
                if generator.next.is_some() {
                    self.resume(&mut generator, None);
                }
                self.kept.borrow_mut()[place] = Some(generator);
            }
            Action::CallUnhooked { function, below } => {
                let callable = self.callable(function);
                // SAFETY: a live function, which takes no arguments.
                let result = self.step(|| unsafe {
                    let below = c_int::from(below);
                    PyUnstable_FrameHook_CallUnhooked(callable, [].as_ptr(), 0, null_mut(), below)
                });
                return self.called_by_c(result);
            }
            Action::CallReentrant(function) => {
                let callable = self.callable(function);
                // SAFETY: a live callable, and no arguments.
                let result = self.step(|| unsafe {
                    PyUnstable_FrameHook_CallReentrant(callable, [].as_ptr(), 0, null_mut())
                });
                return self.called_by_c(result);
            }
        }
        Ok(())
    }

    fn callable(&self, function: u8) -> *mut PyObject {
        self.codes[self.program.function(function)][0].function.0.cast()
    }

    fn called_by_c(&self, result: *mut PyObject) -> Result<(), Raised> {
        self.called(if result.is_null() { Err(raised()) } else { Ok(result) })
    }

    fn add(&self, which: u8, place: Place) {
        let hooks = &self.program.hooks;
        if hooks.is_empty() || self.installed.borrow().len() >= MOST_HOOKS {
            return;
        }
        let (place, other) = match place {
            Place::Last => (0, None),
            Place::First => (1, None),
            Place::Before(which) => (2, self.pick(which)),
            Place::After(which) => (3, self.pick(which)),
        };
        // Beside none is the first.
        let place = if place > 1 && other.is_none() { 1 } else { place };
        let number = self.added.get() + 1;
        let hook = usize::from(which) % hooks.len();
        let machine: *const Machine<'_> = self;
        let data = Box::new(Hook { machine: machine.cast(), number, hook, freed: Cell::new(0) });
        const FLAGS: [c_uint; 3] = [0, FRAMEHOOK_TIMED, FRAMEHOOK_VISIBLE | FRAMEHOOK_THIS_THREAD];
        let definition = FrameHookDefinition {
            size: size_of::<FrameHookDefinition>(),
            name: c"machine".as_ptr(),
            on_entry: Some(on_entry),
            on_event: Some(on_event),
            user_data: (&raw const *data).cast_mut().cast(),
            free_user_data: Some(free_user_data),
            free_data: Some(free_data),
            flags: FLAGS[hook % 3],
            position: place,
            other: other.map_or(0, |it| it.id),
            traverse_data: None,
            on_loop: None,
        };
        // SAFETY: attached, and a definition whose functions keep to the header.
        let id = self.step(|| unsafe { PyUnstable_FrameHook_Install(&raw const definition) });
        if !self.done(outcome(if id > 0 { 0 } else { id as c_int })) {
            return;
        }
        self.added.set(number);
        self.hooks.borrow_mut().push(data);
        let mut installed = self.installed.borrow_mut();
        let neighbour = || {
            let number = other.expect("a neighbour").number;
            installed.iter().position(|it| it.number == number).expect("installed")
        };
        let position = match place {
            0 => installed.len(),
            1 => 0,
            2 => neighbour(),
            _ => neighbour() + 1,
        };
        installed.insert(position, Installed { number, id });
    }
}
