//! Compiles a function for arguments of given kinds.

use crate::bind::{bind, default_count, Origin};
use crate::bounds;
use crate::closure;
use crate::code;
use crate::compiled::Compiled;
use crate::context::{Entry, Table};
use crate::defaults;
use crate::depend::{is_unobserved, Dependency};
use crate::generate;
use crate::instances;
use crate::iterators;
use crate::kind::{Callable, Kind};
use crate::lists;
use crate::lower::{self, Lowered, Source, MOST_ARGUMENTS};
use crate::memory::CodeMemory;
use crate::methods;
use crate::opcode::Special;
use crate::operators;
use crate::outer::{Outer, Outside};
use crate::parts;
use crate::phis;
use crate::record::{InProgress, Record};
use crate::resolve::{self, Attribute, Callee, Literal, Meaning, Passed, Resolve, Target, Usage};
use crate::stack;
use crate::symbols;
use crate::tally;
use crate::unbox::fits;
use cranelift_codegen::ir::{Function, UserFuncName};
use cranelift_codegen::Context;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyCFunction, PyCode, PyDict, PyFunction, PyList, PyModule, PyString, PyTuple, PyType,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How deep callees are compiled for their callers.
const MOST_NESTED: usize = 5;

/// What is compiled for.
struct Resolver<'py, 'a> {
    function: &'a Bound<'py, PyFunction>,
    record: &'a Record,
    globals: Bound<'py, PyDict>,
    builtins: Bound<'py, PyDict>,
    names: Bound<'py, PyTuple>,
    /// Those of the function, while a generator expression is compiled.
    names_around: Option<Bound<'py, PyTuple>>,
    /// `None`: what is compiled is a part of the function, and calls of the function are calls of another one.
    parameters: Option<&'a [Kind]>,
    table: &'a Table,
    dependencies: Vec<Rc<Dependency>>,
    callees: Vec<Rc<Compiled>>,
    nested: usize,
    calls_back: usize,
    outer: Option<Rc<Outer>>,
    /// By slot: what cells are expected to contain.
    cells: BTreeMap<u32, Kind>,
}

/// An entry of a record's versions that are being compiled, as long as it is.
struct Progress<'a>(&'a Record);

impl<'a> Progress<'a> {
    fn begin(record: &'a Record, version: InProgress) -> Self {
        record.in_progress.borrow_mut().push(version);
        Self(record)
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.0.in_progress.borrow_mut().pop();
    }
}

/// Compiles; `Err` says why not.
pub fn compile(
    function: &Bound<'_, PyFunction>,
    record: &Record,
    parameters: &[Kind],
    nested: usize,
) -> Result<Rc<Compiled>, String> {
    let start = Start { unit: 0, locals: parameters, stack: &[], natural: &[], outer: None };
    let compiled = Rc::new(attempt(function, &start, nested)?);
    // What calls a caller back is a part of that.
    if compiled.calls_back >= nested {
        record.compiled.borrow_mut().push(Rc::clone(&compiled));
    }
    Ok(compiled)
}

/// Where compiled code starts, and with what.
pub struct Start<'a> {
    pub unit: u32,
    /// In a loop with those that are outside of the frame.
    pub locals: &'a [Kind],
    pub stack: &'a [Kind],
    /// Which of them, the locals first, are ints that are not negative, or iterators of a range that begin with one. That is compared
    /// at each entry, so no index that counts from there has to be looked at for whether it counts from the end of a list.
    pub natural: &'a [usize],
    /// Of a loop.
    pub outer: Option<&'a Rc<Outer>>,
}

/// Compiles the rest of a function from the head of a loop.
pub fn compile_loop(
    function: &Bound<'_, PyFunction>,
    start: &Start<'_>,
) -> Result<Compiled, String> {
    attempt(function, start, 0)
}

/// The IR and the machine code of what a function was compiled to, as it would be compiled now.
pub fn listing(function: &Bound<'_, PyFunction>, compiled: &Compiled) -> Result<String, String> {
    // SAFETY: attached, as the binding says.
    if stack::room(unsafe { ffi::PyThreadState_GetUnchecked() }.cast()) <= 0 {
        return Err("too little of the C stack is left".into());
    }
    let Compiled { parameters, stack, natural, start, outer, .. } = compiled;
    let (locals, outer) = (parameters, outer.as_ref());
    let start = Start { unit: *start, locals, stack, natural, outer };
    let mut listing = String::new();
    translate(function, &start, 0, &Cell::new(None), Some(&mut listing))?;
    Ok(listing)
}

/// In so many attempts attributes are split. Functions that call each other are compiled anew for each combination of types of their arguments.
const MOST_ATTEMPTS_SPLIT: u32 = 16;
/// After so many attempts a function is refused: what calls its callers back is compiled once more for each of them, level by level.
const MOST_ATTEMPTS: u32 = 128;

thread_local! {
    /// How often something was lowered for the function that is being compiled and its callees.
    static ATTEMPTS: Cell<u32> = const { Cell::new(0) };
}

fn attempt(
    function: &Bound<'_, PyFunction>,
    start: &Start<'_>,
    nested: usize,
) -> Result<Compiled, String> {
    let code = parts::code_of(function);
    let record = Record::of(&code).map_err(raised)?;
    let began = processor_time();
    let refused_at = Cell::new(None);
    let result = translate(function, start, nested, &refused_at, None);
    if result.is_err() || !record.in_part.get() {
        record.refused_at.set(refused_at.get());
    }
    let microseconds = processor_time() - began;
    record.spent.set(record.spent.get() + microseconds);
    if nested == 0 {
        tally::attempted(microseconds, result.is_err());
    }
    result
}

/// `refused_at` gets the code unit that is not compiled, `listing` the IR and the machine code.
fn translate(
    function: &Bound<'_, PyFunction>,
    start: &Start<'_>,
    nested: usize,
    refused_at: &Cell<Option<u32>>,
    mut listing: Option<&mut String>,
) -> Result<Compiled, String> {
    let began = processor_time();
    refused_at.set(None);
    if nested == 0 {
        ATTEMPTS.set(0);
    }
    let object = parts::code_of(function);
    let record = Record::of(&object).map_err(raised)?;
    let decoded = code::decode(&object).map_err(raised)?;
    let constants = code::literals(&object);
    let is_loop = start.unit != 0;
    let mut words: usize = start.locals.iter().map(Kind::count).sum();
    let mut closure = false;
    let mut locals = start.locals.to_vec();
    if !is_loop {
        let shape = code::shape(&object)?;
        closure = shape.free != 0;
        words += usize::from(closure);
        if start.locals.len() != shape.arguments || words > MOST_ARGUMENTS {
            return Err("so many arguments".into());
        }
        locals.resize(shape.locals, Kind::Unbound);
    }
    let outside = start.outer.map(|outer| outer.outside(code::slots(&object)));
    let outside = outside.unwrap_or_default();
    let inner = code::expressions(&object, &decoded).map_err(raised)?;
    let nothing = Outside::default();
    let mut table = Box::<Table>::default();
    let (mut returns, mut splits) = (None, true);
    let mut expected = BTreeMap::new();
    let (mut changes, mut cells_change) = (false, false);
    for _ in 0..8 {
        let attempts = ATTEMPTS.get() + 1;
        ATTEMPTS.set(attempts);
        if attempts > MOST_ATTEMPTS {
            return Err("so many functions that call each other".into());
        }
        let parameters = (!is_loop).then_some(start.locals);
        let _progress = parameters.map(|parameters| {
            let (globals, table) = (parts::globals_of(function), std::ptr::from_ref(&*table));
            let globals = globals.as_ptr() as usize;
            let (parameters, returns) = (parameters.to_vec(), returns.clone());
            let (stores, stores_cells) = (changes, cells_change);
            let level = nested;
            Progress::begin(
                record,
                InProgress { globals, parameters, table, returns, level, stores, stores_cells },
            )
        });
        let mut resolver = Resolver::new(function, &object, record, parameters, &table, nested)?;
        resolver.outer = start.outer.cloned();
        let source = Source {
            code: &decoded,
            start: start.unit,
            locals: &locals,
            stack: start.stack,
            natural: start.natural,
            repeats_calls: is_loop,
            constants: &constants,
            table: &table,
            returns: returns.clone(),
            splits: splits && attempts <= MOST_ATTEMPTS_SPLIT,
            expected: &expected,
            takes_over: is_loop,
            outside: &outside,
            inner: &inner,
            nothing: &nothing,
            closure,
            cells_change,
        };
        let isa = generate::isa()?;
        let signature = lower::signature(isa.default_call_conv());
        let mut context = Context::for_function(Function::with_name_signature(
            UserFuncName::default(),
            signature,
        ));
        let mut scratch = FunctionBuilderContext::new();
        let builder = FunctionBuilder::new(&mut context.func, &mut scratch);
        let lowered = lower::lower(builder, &source, &mut resolver);
        if splits && matches!(&lowered, Err((_, why)) if why == lower::TOO_MANY_VERSIONS) {
            splits = false;
            table = Box::default();
            continue;
        }
        let Lowered {
            exits,
            returns: returned,
            other,
            blocks,
            stores,
            stores_cells,
            repeats,
            learned,
            mut facts,
            has_peeled,
        } = lowered.map_err(|(unit, why)| {
            refused_at.set(Some(unit));
            why
        })?;
        if let Some(other) = other {
            // It was believed to return something else: once more.
            returns = Some(other);
            table = Box::default();
            continue;
        }
        if stores_cells && !cells_change {
            // Objects that were read from cells are released while it runs: once more without them.
            cells_change = true;
            table = Box::default();
            continue;
        }
        let repeats = repeats || resolver.callees.iter().any(|callee| callee.repeats);
        if stores && repeats && !changes {
            // A call of it that is made once more was believed to store nothing: once more without that.
            changes = true;
            table = Box::default();
            continue;
        }
        if expected.is_empty() && !learned.is_empty() {
            // Once more, so that no first turn of a loop is compiled for a list of which nothing is known.
            expected = learned;
            table = Box::default();
            continue;
        }
        let Resolver { dependencies, callees, globals, builtins, calls_back, cells, .. } = resolver;
        let callees_use = callees.iter().any(|callee| callee.uses_cells);
        if has_peeled {
            phis::remove(&mut context.func, &mut facts);
        }
        bounds::decide(&mut context.func, &facts);
        if let Some(listing) = &mut listing {
            listing.push_str(&context.func.display().to_string());
        }
        let made = generate::code(&mut context, &**isa, listing.is_some());
        let made = made.map_err(|error| format!("Cranelift: {error:?}"))?;
        if !made.buffer.relocs().is_empty() {
            return Err("it needs a function of the compiler's library".into());
        }
        if made.frame_size > stack::LARGEST_FRAME {
            return Err("too many variables".into());
        }
        if let (Some(listing), Some(code)) = (&mut listing, &made.vcode) {
            listing.push('\n');
            listing.push_str(code);
        }
        let size = made.code_buffer().len();
        let memory = CodeMemory::new(made.code_buffer())?;
        // SAFETY: the memory starts with a function of this type, which `lower` has declared.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(memory.address()) };
        table.address.set(memory.address() as usize);
        let _ = table.exits.set(exits);
        let address = memory.address() as usize;
        return Ok(Compiled {
            _symbol: symbols::add(address, size, || symbol(function, &object, start.unit)),
            _memory: memory,
            entry,
            table,
            is_entered: start.locals.iter().all(|kind| kind.widest() == *kind),
            parameters: start.locals.to_vec(),
            stack: start.stack.to_vec(),
            natural: start.natural.to_vec(),
            start: start.unit,
            outer: start.outer.cloned(),
            shares_cells: outside.shared,
            returns: returned,
            dependencies,
            globals: globals.as_ptr() as usize,
            builtins: builtins.as_ptr() as usize,
            _callees: callees,
            calls_back,
            size,
            blocks,
            stores,
            repeats: repeats && calls_back < nested,
            uses_cells: stores_cells || callees_use || !cells.is_empty(),
            stores_cells,
            cells: cells.into_iter().collect(),
            microseconds: processor_time() - began,
            entered: Cell::new(0),
            short: Cell::new(0),
        });
    }
    Err("it is not clear what it returns".into())
}

/// A name for perf and debuggers.
fn symbol(function: &Bound<'_, PyFunction>, code: &Bound<'_, PyCode>, unit: u32) -> String {
    let name = parts::name_of(function);
    let line = parts::line_of(code, unit);
    let part = if unit == 0 { String::new() } else { format!(" loop in line {line}") };
    format!("jit::{name}{part}:{}", parts::file_of(code))
}

/// What this thread has taken of a processor, in microseconds.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a struct that the function fills.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The reason for what an error of the interpreter prevents. Its text is not read: there may be no memory for it.
fn raised(_: PyErr) -> String {
    "the interpreter raised an exception while it was compiled".into()
}

impl<'py, 'a> Resolver<'py, 'a> {
    fn new(
        function: &'a Bound<'py, PyFunction>,
        code: &Bound<'py, PyCode>,
        record: &'a Record,
        parameters: Option<&'a [Kind]>,
        table: &'a Table,
        nested: usize,
    ) -> Result<Self, String> {
        let globals = parts::globals_of(function).into_any().cast_into_exact::<PyDict>();
        let builtins = parts::builtins_of(function).cast_into_exact::<PyDict>();
        let (Ok(globals), Ok(builtins)) = (globals, builtins) else {
            return Err("globals or builtins that are no dict".into());
        };
        let names = parts::names_of(code);
        let (dependencies, callees) = (Vec::new(), Vec::new());
        Ok(Self {
            function,
            record,
            globals,
            builtins,
            names,
            names_around: None,
            parameters,
            table,
            dependencies,
            callees,
            nested,
            calls_back: usize::MAX,
            outer: None,
            cells: BTreeMap::new(),
        })
    }

    fn name(&self, index: u32) -> Result<Bound<'py, PyString>, String> {
        let name = self.names.get_item(index as usize).map_err(raised)?;
        name.cast_into_exact().map_err(|_| "a name that is no str".into())
    }

    /// Remembers that a name has this value, or none.
    fn depend(
        &mut self,
        dict: &Bound<'py, PyDict>,
        name: &Bound<'py, PyString>,
        value: Option<&Bound<'py, PyAny>>,
    ) -> Result<(), String> {
        let stored = self.outer.as_ref().is_some_and(|outer| outer.stores_global(name));
        if stored && dict.is(&self.globals) {
            return Err(format!(
                "{} is read as an attribute, and assigned",
                name.to_string_lossy()
            ));
        }
        // Those of callees are theirs too.
        if self.dependencies.iter().any(|d| Rc::strong_count(d) == 1 && d.is_about(dict, name)) {
            return Ok(());
        }
        let made = Dependency::new(dict, name, value).map_err(raised)?;
        self.dependencies.push(Rc::new(made));
        Ok(())
    }

    /// A class whose instances were seen, and its version then.
    fn class(&self, address: usize) -> Result<(Bound<'py, PyType>, u32), String> {
        let found = instances::class(self.function.py(), address);
        found.ok_or_else(|| {
            "a class that is gone, or whose attributes are not compiled any more".into()
        })
    }

    /// Remembers that a class is as it was, and has this function, or the class itself.
    fn depend_on_class(
        &mut self,
        class: &Bound<'py, PyType>,
        version: u32,
        value: &Bound<'py, PyAny>,
    ) -> Result<(), String> {
        let is_known = |d: &Rc<Dependency>| Rc::strong_count(d) == 1 && d.is_of_class(class, value);
        if !self.dependencies.iter().any(is_known) {
            let made = Dependency::of_class(class, version, value).map_err(raised)?;
            self.dependencies.push(Rc::new(made));
        }
        Ok(())
    }

    /// Looks at the class of an operator's other operand, whose method is called before or after that of the first one. Whether it is
    /// another one with any of these methods: then it takes part in the operator.
    fn other_operand(
        &mut self,
        class: &Bound<'py, PyType>,
        other: usize,
        methods: [&str; 2],
    ) -> Result<bool, String> {
        let (other, version) = self.class(other)?;
        // SAFETY: two types.
        let is_below =
            unsafe { ffi::PyType_IsSubtype(other.as_type_ptr(), class.as_type_ptr()) } != 0;
        if is_below && !other.is(class) {
            return Err("an operator of an instance and one of a subclass".into());
        }
        let mut has_any = false;
        for method in methods {
            let method = operators::name(other.py(), method).map_err(raised)?;
            has_any |= instances::in_class(&other, &method)?.is_some();
        }
        self.depend_on_class(&other, version, other.as_any())?;
        Ok(has_any && !other.is(class))
    }

    /// An object whose address was resolved before, and which a dependency keeps in its place.
    fn object(&self, address: usize) -> Bound<'py, PyAny> {
        let pointer = address as *mut pyo3::ffi::PyObject;
        // SAFETY: lowering has the address from `global`, `attribute` or the constants: the code, or the dict in which the object
        // was found, has a reference. Compiling runs no code of the program that could take it away.
        unsafe { Bound::from_borrowed_ptr(self.function.py(), pointer) }
    }

    /// The function that is called, or one like it.
    fn target(&self, target: Target) -> Result<Bound<'py, PyFunction>, String> {
        match target {
            Target::Known(address) => {
                self.object(address).cast_into_exact().map_err(|_| "no function".into())
            }
            Target::Any(callable) => {
                let (globals, builtins) = (self.globals.as_ptr(), self.builtins.as_ptr());
                if callable.globals != globals as usize || callable.builtins != builtins as usize {
                    return Err("a function of another module in a variable".into());
                }
                let found = closure::function_of(self.function.py(), callable);
                found.ok_or_else(|| "a function that is gone".into())
            }
        }
    }

    /// Remembers that a function is called, or any with this code.
    fn depend_on_code(&mut self, target: Target, code: &Bound<'py, PyCode>) -> Result<(), String> {
        match target {
            Target::Known(address) => self.found(address)?.with_code(code).map_err(raised),
            Target::Any(_) => self.depend_on_any(code),
        }
    }

    /// The same of any function with this code.
    fn depend_on_any(&mut self, code: &Bound<'py, PyCode>) -> Result<(), String> {
        let about = code.as_ptr() as usize;
        if self.dependencies.iter().any(|d| d.callee() == Some((about, None))) {
            return Ok(());
        }
        let mut made = Dependency::alive(code).map_err(raised)?;
        made.with_code(code).map_err(raised)?;
        self.dependencies.push(Rc::new(made));
        Ok(())
    }

    /// Reads or writes what the version that is being compiled is believed to return.
    fn believe(&self, change: impl FnOnce(&mut Option<Kind>)) {
        let mut versions = self.record.in_progress.borrow_mut();
        if let (Some(own), Some(_)) = (versions.last_mut(), self.parameters) {
            change(&mut own.returns);
        }
    }

    /// The dependency that has a function which is called.
    fn found(&mut self, address: usize) -> Result<&mut Dependency, String> {
        let mut own = self.dependencies.iter_mut().filter_map(Rc::get_mut);
        let found = own.find(|found| found.address() == address);
        found.ok_or_else(|| "a function that was found elsewhere".into())
    }

    /// A value that may be used as it is.
    fn usable(value: &Bound<'py, PyAny>, name: &str) -> Result<Literal, String> {
        if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            if !defaults::is_plain(tuple, 2) {
                return Err(format!("the global {name} is a tuple of other objects than numbers"));
            }
            return Ok(Literal::object(code::kind_of(value), value.as_ptr() as usize));
        }
        let literal = code::literal(value);
        let plain = !matches!(literal.kind, Kind::Constant(_));
        let known = value.cast::<PyFunction>().is_ok()
            || value.cast::<PyModule>().is_ok()
            || value.cast::<PyCFunction>().is_ok()
            || value.cast::<PyType>().is_ok()
            || value.is(value.py().NotImplemented());
        if plain || known {
            return Ok(literal);
        }
        Err(format!("the global {name} is neither a number nor a function"))
    }
}

/// The version of a function for these arguments that is being compiled, if there is one, and its level.
fn called_back(
    record: &Record,
    globals: usize,
    arguments: &[Kind],
    closure: bool,
) -> Option<(Callee, usize)> {
    let mut versions = record.in_progress.borrow_mut();
    let found = versions.iter_mut().rfind(|v| v.globals == globals && v.parameters == arguments)?;
    // As for a call of itself: compared when it is known.
    let returns = found.returns.get_or_insert(crate::kind::INT).clone();
    let callee = Callee::in_progress(found.table, &found.parameters, closure);
    let InProgress { stores, stores_cells, level, .. } = *found;
    Some((Callee { returns: Some(returns), stores, stores_cells, ..callee }, level))
}

impl Resolve for Resolver<'_, '_> {
    fn global(&mut self, index: u32) -> Result<Literal, String> {
        let name = self.name(index)?;
        let (globals, builtins) = (self.globals.clone(), self.builtins.clone());
        if let Some(value) = globals.get_item(&name).map_err(raised)? {
            // What is not used is not kept alive either.
            let literal = Self::usable(&value, &name.to_string_lossy())?;
            self.depend(&globals, &name, Some(&value))?;
            return Ok(literal);
        }
        let Some(value) = builtins.get_item(&name).map_err(raised)? else {
            return Err(format!("there is no global {}", name.to_string_lossy()));
        };
        let literal = Self::usable(&value, &name.to_string_lossy())?;
        self.depend(&globals, &name, None)?;
        self.depend(&builtins, &name, Some(&value))?;
        Ok(literal)
    }

    fn attribute(&mut self, module: usize, index: u32) -> Result<Literal, String> {
        let name = self.name(index)?;
        let object = self.object(module);
        let Ok(module) = object.cast_exact::<PyModule>() else {
            return Err(format!("the attribute {} of what is no module", name.to_string_lossy()));
        };
        let dict = module.dict();
        let value = dict.get_item(&name).map_err(raised)?;
        let value = value.ok_or("a module without that attribute")?;
        let literal = Self::usable(&value, &name.to_string_lossy())?;
        self.depend(&dict, &name, Some(&value))?;
        Ok(literal)
    }

    fn instance_attribute(
        &mut self,
        class: usize,
        index: u32,
        usage: Usage,
    ) -> Result<Attribute, String> {
        let name = self.name(index)?;
        let (class, version) = self.class(class)?;
        let found = instances::attribute(&class, &name, usage == Usage::Store)?;
        let (value, inline, hidden_by) = match found {
            instances::Attribute::Value { offset, inline, seen } => {
                self.depend_on_class(&class, version, class.as_any())?;
                return Ok(Attribute::Value { offset, inline, seen });
            }
            instances::Attribute::OfClass { value, inline, hidden_by } => {
                (value, inline, hidden_by)
            }
        };
        let literal = code::literal(&value);
        let is_method = value.cast_exact::<PyFunction>().is_ok();
        let is_value = !matches!(literal.kind, Kind::Constant(_));
        let is_called = usage == Usage::Call;
        if !(is_method && is_called || is_value && !is_called) {
            return Err(format!("the attribute {} of a class", name.to_string_lossy()));
        }
        self.depend_on_class(&class, version, if is_method { &value } else { class.as_any() })?;
        Ok(Attribute::OfClass { literal, inline, hidden_by })
    }

    fn init(&mut self, address: usize) -> Result<usize, String> {
        let class = self.object(address).cast_into_exact::<PyType>();
        let class = class.map_err(|_| "a class of another metaclass")?;
        let version =
            instances::made_by_init(&class).ok_or("a class whose instances are made by C")?;
        let name = parts::names(class.py()).init.bind(class.py());
        let found = instances::in_class(&class, name)?;
        let found = found.filter(|found| found.cast_exact::<PyFunction>().is_ok());
        let found = found.ok_or("a call of a class without __init__")?;
        self.depend_on_class(&class, version, &found)?;
        Ok(found.as_ptr() as usize)
    }

    fn special(
        &mut self,
        class: usize,
        special: Special,
        other: Option<&Kind>,
    ) -> Result<(usize, bool), String> {
        let (class, version) = self.class(class)?;
        let py = class.py();
        let (own, of_other) = operators::methods(special).ok_or("internal: no such operator")?;
        if let Special::Binary { in_place: true, .. } = special {
            let own = own.replacen("__", "__i", 1);
            if instances::in_class(&class, &operators::name(py, &own).map_err(raised)?)?.is_some() {
                return Err(format!("{own} of an instance"));
            }
        }
        let found = instances::in_class(&class, &operators::name(py, own).map_err(raised)?)?;
        let found = found.filter(|found| found.cast_exact::<PyFunction>().is_ok());
        let found = found.ok_or_else(|| format!("an instance without {own}"))?;
        self.depend_on_class(&class, version, &found)?;
        let mut takes_part = false;
        if let (Some(of_other), Some(Kind::Instance(other))) = (of_other, other) {
            takes_part = self.other_operand(&class, *other, [own, of_other])?;
        }
        Ok((found.as_ptr() as usize, takes_part))
    }

    fn is_true(&mut self, class: usize) -> Result<(), String> {
        let (class, version) = self.class(class)?;
        let names = parts::names(class.py());
        for name in [&names.bool, &names.len] {
            if instances::in_class(&class, name.bind(class.py()))?.is_some() {
                return Err("the truth of an instance whose class has a method for it".into());
            }
        }
        self.depend_on_class(&class, version, class.as_any())
    }

    fn is_instance(&mut self, kind: &Kind, class: usize) -> Result<bool, String> {
        let py = self.function.py();
        let object = self.object(class);
        let class = object.cast_exact::<PyType>().map_err(|_| "isinstance of no plain class")?;
        let own = match kind {
            Kind::Int { .. } => py.get_type::<pyo3::types::PyInt>(),
            Kind::Float { .. } => py.get_type::<pyo3::types::PyFloat>(),
            Kind::Bool => py.get_type::<pyo3::types::PyBool>(),
            Kind::Tuple(_) | Kind::TupleObject(_) => py.get_type::<PyTuple>(),
            Kind::List(_) => py.get_type::<PyList>(),
            Kind::Instance(own) => {
                let (own, version) = self.class(*own)?;
                self.depend_on_class(&own, version, own.as_any())?;
                if !instances::has_own_class(&own)? {
                    return Err("isinstance of an object with another __class__".into());
                }
                own
            }
            _ => return Err(format!("isinstance of {}", kind.describe())),
        };
        // SAFETY: two types.
        Ok(unsafe { ffi::PyType_IsSubtype(own.as_type_ptr(), class.as_type_ptr()) } != 0)
    }

    fn callable(&self, address: usize) -> Option<Callable> {
        match closure::kind_of(&self.object(address)) {
            Some(Kind::Function(callable)) => Some(callable),
            _ => None,
        }
    }

    fn cell(&mut self, slot: u32) -> Result<Kind, String> {
        if let Some(known) = self.cells.get(&slot) {
            return Ok(known.clone());
        }
        let kind = match closure::in_cell(self.function, slot) {
            None => Kind::Unbound,
            Some(content) => match code::kind_of(&content) {
                Kind::Buffer { .. } => {
                    return Err("a variable of an enclosing function that is an array".into())
                }
                Kind::Object if Self::usable(&content, "").is_ok() => {
                    self.dependencies.push(Rc::new(Dependency::alive(&content).map_err(raised)?));
                    Kind::Constant(content.as_ptr() as usize)
                }
                kind => kind,
            },
        };
        self.cells.insert(slot, kind.clone());
        Ok(kind)
    }

    fn is_observed(&self, code: usize) -> bool {
        !is_unobserved(self.object(code).as_ptr())
    }

    fn enter(&mut self, code: usize) -> Result<(), String> {
        let code = self.object(code).cast_into_exact::<PyCode>().map_err(|_| "no code")?;
        self.depend_on_any(&code)?;
        let names = parts::names_of(&code);
        self.names_around = Some(std::mem::replace(&mut self.names, names));
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(names) = self.names_around.take() {
            self.names = names;
        }
    }

    fn list_method(&self, index: u32) -> Result<Option<(usize, usize)>, String> {
        let name = self.name(index)?;
        let Some(definition) = methods::definition_of(&name.to_string_lossy()) else {
            return Ok(None);
        };
        let method = name.py().get_type::<PyList>().getattr(name).map_err(raised)?;
        Ok(Some((method.as_ptr() as usize, definition)))
    }

    fn meaning(&self, address: usize) -> Meaning {
        let object = self.object(address);
        if object.cast_exact::<PyFunction>().is_ok() {
            return Meaning::Function;
        }
        let py = object.py();
        let names = parts::names(py);
        let text =
            |name: &Py<PyString>| object.getattr(name).and_then(|text| text.extract::<String>());
        if object.get_type_ptr() == std::ptr::addr_of_mut!(pyo3::ffi::PyMethodDescr_Type) {
            let name = text(&names.name).unwrap_or_default();
            let known = resolve::LIST_METHODS.iter().find(|known| **known == name);
            let own = py.get_type::<PyList>().getattr(name.as_str());
            let is_lists = own.is_ok_and(|own| own.is(&object));
            return match known.filter(|_| is_lists) {
                Some(known) => Meaning::ListMethod(known),
                None => Meaning::Other,
            };
        }
        if object.cast::<PyType>().is_ok() {
            let is = |ty: Bound<'_, PyType>| object.is(&ty);
            return match () {
                () if is(py.get_type::<pyo3::types::PyRange>()) => Meaning::Range,
                () if is(py.get_type::<pyo3::types::PyInt>()) => Meaning::Int,
                () if is(py.get_type::<pyo3::types::PyFloat>()) => Meaning::Float,
                () if is(py.get_type::<pyo3::types::PyBool>()) => Meaning::Bool,
                () => iterators::name_of_type(address)
                    .map(Meaning::Iterator)
                    .or_else(|| lists::name_of_type(address).map(Meaning::Container))
                    .unwrap_or(Meaning::Class),
            };
        }
        if object.cast_exact::<PyCFunction>().is_err() {
            return Meaning::Other;
        }
        // Of other objects code of the program may say what these are.
        let (Ok(module), Ok(name)) = (text(&names.module), text(&names.name)) else {
            return Meaning::Other;
        };
        match (&*module, &*name) {
            ("builtins", "abs") => Meaning::Abs,
            ("builtins", "len") => Meaning::Len,
            ("builtins", "isinstance") => Meaning::IsInstance,
            ("builtins", "min") => Meaning::Min,
            ("builtins", "max") => Meaning::Max,
            ("builtins", name) => {
                let known = resolve::BUILTINS.iter().find(|known| **known == name);
                known.map_or(Meaning::Other, |known| Meaning::Builtin(known))
            }
            ("math", name) => {
                let known = resolve::MATH.iter().find(|known| **known == name);
                known.map_or(Meaning::Other, |known| Meaning::Math(known))
            }
            _ => Meaning::Other,
        }
    }

    fn bind(
        &mut self,
        target: Target,
        positional: usize,
        names: &[usize],
    ) -> Result<Vec<Passed>, String> {
        let object = self.target(target)?;
        let code = parts::code_of(&object);
        code::shape(&code)?;
        let names: Vec<_> = names.iter().map(|name| *name as *mut pyo3::ffi::PyObject).collect();
        // SAFETY: attached, the code and the function are alive, and the names are constants of the code that is compiled.
        let origins =
            unsafe { bind(code.as_ptr(), positional, &names, default_count(object.as_ptr())) };
        let object = object.into_any();
        let passed = |origin| {
            if let Origin::Argument(index) = origin {
                return Ok(Passed::Argument(index));
            }
            let Target::Known(address) = target else {
                return Err("a call that leaves out arguments of a function in a variable".into());
            };
            let found = self.found(address)?;
            // SAFETY: the origin was found with the function's count of defaults, which no code has changed since.
            let value = unsafe { found.with_default(&object, origin) };
            let value = value.ok_or("a default that is no number, str, bytes or None")?;
            Ok(Passed::Default(code::literal(value.bind(object.py()))))
        };
        let origins = origins.ok_or("a call with other arguments than the function takes")?;
        origins.into_iter().map(passed).collect()
    }

    fn callee(
        &mut self,
        target: Target,
        arguments: &[Kind],
        returns: &mut Option<Kind>,
    ) -> Result<Callee, String> {
        let function = &self.target(target)?;
        let code = parts::code_of(function);
        let globals = parts::globals_of(function);
        let itself = code.is(parts::code_of(self.function)) && globals.is(&self.globals);
        // SAFETY: a code object.
        let closure = unsafe { closure::free_variables(code.as_ptr()) }.0 != 0;
        let record = Record::of(&code).map_err(raised)?;
        record.forget_old();
        let globals = globals.as_ptr() as usize;
        // Without the objects of numbers that have none, unless that were too many versions.
        let widest: Vec<Kind> = arguments.iter().map(Kind::widest).collect();
        let mut known = None;
        let mut parameters = arguments;
        for kinds in [arguments, &widest] {
            parameters = kinds;
            if itself && self.parameters == Some(kinds) {
                self.depend_on_code(target, &code)?;
                let versions = self.record.in_progress.borrow();
                let own = versions.last().ok_or("internal: not in progress")?;
                let callee = Callee::in_progress(self.table, kinds, closure);
                let InProgress { stores, stores_cells, .. } = *own;
                return Ok(Callee { stores, stores_cells, ..callee });
            }
            if let Some((callee, level)) = called_back(record, globals, kinds, closure) {
                self.depend_on_code(target, &code)?;
                self.calls_back = self.calls_back.min(level);
                return Ok(callee);
            }
            let fits = |compiled: &&Rc<Compiled>| {
                compiled.parameters == kinds
                    && compiled.globals == globals
                    // SAFETY: attached, and a function with this code.
                    && unsafe { fits(function.as_ptr(), &compiled.cells) }
            };
            known = record.compiled.borrow().iter().find(fits).cloned();
            if known.is_some() || self.nested == 0 {
                break;
            }
        }
        if known.is_none() && code::refusal(&code, &code::decode(&code).map_err(raised)?).is_some()
        {
            return Err(format!("{} is called, which is not compiled", parts::name_of(function)));
        }
        if self.nested >= MOST_NESTED {
            return Err("calls of calls of calls".into());
        }
        let compiled = match known {
            // SAFETY: attached; the function is alive, so its dicts are.
            Some(known) if unsafe { known.is_valid() } => known,
            _ => {
                self.believe(|known| known.clone_from(returns));
                let compiled = compile(function, record, parameters, self.nested + 1)
                    .map_err(|why| format!("{} is called: {why}", parts::name_of(function)))?;
                self.believe(|known| returns.clone_from(known));
                self.calls_back = self.calls_back.min(compiled.calls_back);
                compiled
            }
        };
        if let Some(outer) = &self.outer {
            let stored = |d: &Rc<Dependency>| {
                d.is_in(&self.globals) && outer.stores_global(&d.name(function.py()))
            };
            if compiled.uses_cells && outer.keeps_cells(compiled.stores_cells) {
                outer.share_cells();
                return Err("a function is called that may use a variable which is assigned".into());
            }
            if compiled.dependencies.iter().any(stored) {
                let name = parts::name_of(function);
                return Err(format!("{name} is called, which uses a global that is assigned"));
            }
        }
        let returns = Some(compiled.returns.clone().ok_or("a function that never returns")?);
        self.depend_on_code(target, &code)?;
        self.dependencies.extend(compiled.dependencies.iter().cloned());
        let table = std::ptr::from_ref::<Table>(&compiled.table);
        let Compiled { stores, uses_cells, stores_cells, calls_back, .. } = *compiled;
        let may_store = stores || calls_back != usize::MAX;
        self.callees.push(compiled);
        let own = Callee::in_progress(table, parameters, closure);
        let (recurs, calls_back) = (false, calls_back != usize::MAX);
        let cells = Callee { uses_cells, stores_cells, ..own };
        Ok(Callee { returns, stores, may_store, recurs, calls_back, ..cells })
    }
}
