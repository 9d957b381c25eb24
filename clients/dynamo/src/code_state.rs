//! What is known of a code object.

use crate::callback::DEFAULT_REGION;
use crate::entry::{CacheEntry, PrecompileEntry};
use crate::settings::LRU;
use crate::strategy::Strategy;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The entries of a region. A reader has a list that does not change.
type Entries = Arc<Vec<Py<CacheEntry>>>;

struct Region {
    id: i64,
    entries: Entries,
    /// `None`: it has the strategy of all.
    strategy: Option<Strategy>,
}

#[derive(Default)]
struct Inner {
    strategy: Strategy,
    /// The strategy that torch's Python has set, and that no callback has.
    mark: Option<Strategy>,
    /// Few: all but the first one are made by `isolate_recompiles`.
    regions: Vec<Region>,
    /// `None`: there are none.
    precompiled: Option<Arc<Vec<Py<PrecompileEntry>>>>,
}

impl Inner {
    fn region(&self, id: i64) -> Option<&Region> {
        self.regions.iter().find(|region| region.id == id)
    }

    fn region_mut(&mut self, id: i64) -> &mut Region {
        let at = self.regions.iter().position(|region| region.id == id).unwrap_or_else(|| {
            self.regions.push(Region { id, entries: Arc::default(), strategy: None });
            self.regions.len() - 1
        });
        &mut self.regions[at]
    }
}

/// What is known of a code object: torch's `ExtraState`.
///
/// The lock is held for moments in which no Python code runs. What is taken out under it is dropped
/// afterwards.
#[pyclass(frozen, module = "torch._C._dynamo.eval_frame", name = "_ExtraState")]
pub struct CodeState {
    inner: Mutex<Inner>,
    /// What torch remembers from one compilation to the next.
    pub frame_state: Py<PyDict>,
    /// The names of the parameters, in the order of a frame's arguments.
    pub names: Vec<Py<PyString>>,
    /// Whether a frame has free variables that its locals show.
    pub has_free_variables: bool,
    /// Whether the hook is disabled for the code.
    disabled: AtomicBool,
}

/// The code of a function or of a generator, and not of a module or a class.
const OPTIMIZED: u32 = 0x1;

impl CodeState {
    pub fn new(code: &Bound<'_, PyCode>, names: Vec<Py<PyString>>) -> PyResult<Self> {
        let flags: u32 = code.getattr("co_flags")?.extract()?;
        let free = code.getattr("co_freevars")?.len()?;
        Ok(Self {
            inner: Mutex::default(),
            frame_state: PyDict::new(code.py()).unbind(),
            names,
            has_free_variables: free > 0 && flags & OPTIMIZED != 0,
            disabled: AtomicBool::new(false),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do with frames of a region.
    pub fn strategy(&self, region: i64) -> Strategy {
        let inner = self.inner();
        if region == DEFAULT_REGION {
            return inner.strategy;
        }
        let own = inner.region(region).and_then(|region| region.strategy);
        own.unwrap_or_else(|| inner.strategy.inherited())
    }

    pub fn set_strategy(&self, region: i64, strategy: Strategy) {
        let mut inner = self.inner();
        if region == DEFAULT_REGION {
            inner.strategy = strategy;
        } else {
            inner.region_mut(region).strategy = Some(strategy);
        }
    }

    /// Records that a strategy was set by torch's Python.
    pub fn set_mark(&self, strategy: Strategy) {
        self.inner().mark = Some(strategy);
    }

    /// The strategy that was set so.
    pub fn mark(&self) -> Option<Strategy> {
        self.inner().mark
    }

    /// Whether frames are left alone by any caller, until the strategy is changed. If so,
    /// the hook can be disabled, and this is recorded.
    pub fn note_disabled(&self) -> bool {
        let inner = self.inner();
        let disabled = inner.strategy == Strategy::skipped()
            && inner.regions.iter().all(|region| region.strategy.is_none());
        if disabled {
            self.disabled.store(true, Ordering::Relaxed);
        }
        disabled
    }

    /// Clears that record, and returns whether there was one.
    pub fn take_disabled(&self) -> bool {
        self.disabled.swap(false, Ordering::Relaxed)
    }

    /// The entries of a region.
    pub fn entries(&self, region: i64) -> Option<Entries> {
        self.inner().region(region).map(|region| region.entries.clone())
    }

    /// The entries of all regions, those of the default one first.
    pub fn all_entries(&self) -> Vec<Entries> {
        let inner = self.inner();
        let mut regions: Vec<&Region> = inner.regions.iter().collect();
        regions.sort_by_key(|region| region.id);
        regions.iter().map(|region| region.entries.clone()).collect()
    }

    /// How many entries there are.
    pub fn entry_count(&self) -> usize {
        self.inner().regions.iter().map(|region| region.entries.len()).sum()
    }

    pub fn precompiled(&self) -> Option<Arc<Vec<Py<PrecompileEntry>>>> {
        self.inner().precompiled.clone()
    }

    pub fn add_precompiled(&self, py: Python<'_>, entry: Py<PrecompileEntry>) {
        let list = self.precompiled().unwrap_or_default();
        let mut entries: Vec<_> = list.iter().map(|entry| entry.clone_ref(py)).collect();
        entries.push(entry);
        self.set_precompiled(entries);
    }

    pub fn set_precompiled(&self, entries: Vec<Py<PrecompileEntry>>) {
        let entries = (!entries.is_empty()).then(|| Arc::new(entries));
        let before = std::mem::replace(&mut self.inner().precompiled, entries);
        drop(before);
    }

    /// Puts a region's entries into another order, or others in their place.
    fn edit(&self, py: Python<'_>, region: i64, edit: impl FnOnce(&mut Vec<Py<CacheEntry>>)) {
        let list = self.entries(region).unwrap_or_default();
        let mut entries = list.iter().map(|entry| entry.clone_ref(py)).collect();
        edit(&mut entries);
        let before =
            std::mem::replace(&mut self.inner().region_mut(region).entries, Arc::new(entries));
        drop(before);
    }

    pub fn add(&self, py: Python<'_>, entry: Py<CacheEntry>) {
        self.edit(py, entry.get().region(), |entries| {
            let at = if LRU.is_on() { 0 } else { entries.len() };
            entries.insert(at, entry);
        });
    }

    /// The entry at `index` was found: it comes first the next time.
    pub fn move_to_front(&self, py: Python<'_>, entry: &Py<CacheEntry>) {
        self.move_to(py, entry, |_| 0);
    }

    fn move_to(&self, py: Python<'_>, entry: &Py<CacheEntry>, place: impl FnOnce(usize) -> usize) {
        self.edit(py, entry.get().region(), |entries| {
            if let Some(at) = entries.iter().position(|it| it.is(entry)) {
                let entry = entries.remove(at);
                entries.insert(place(entries.len()), entry);
            }
        });
    }

    /// Whether an entry is still there.
    pub fn has(&self, entry: &Py<CacheEntry>) -> bool {
        let entries = self.entries(entry.get().region());
        entries.is_some_and(|entries| entries.iter().any(|it| it.is(entry)))
    }

    /// Gives all entries up.
    pub fn clear(&self, py: Python<'_>) {
        let before = std::mem::take(&mut *self.inner());
        for entry in before.regions.iter().flat_map(|region| region.entries.iter()) {
            if let Err(error) = entry.get().forget(py) {
                error.write_unraisable(py, None);
            }
        }
    }
}

#[pymethods]
impl CodeState {
    /// An entry does not hold any more, as something has died that its guards are about.
    #[pyo3(signature = (cache_entry, deleted_guard_manager, _live_guard_manager=None))]
    fn invalidate(
        &self,
        py: Python<'_>,
        cache_entry: Py<CacheEntry>,
        deleted_guard_manager: Py<PyAny>,
        _live_guard_manager: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        if !self.has(&cache_entry) {
            return Ok(());
        }
        cache_entry.get().invalidate(py, deleted_guard_manager)?;
        self.move_to(py, &cache_entry, |last| last);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Action;

    fn state(py: Python<'_>, source: &std::ffi::CStr) -> CodeState {
        let code = py.eval(source, None, None).unwrap().cast_into().unwrap();
        CodeState::new(&code, Vec::new()).unwrap()
    }

    fn with_state(test: impl FnOnce(Python<'_>, CodeState)) {
        Python::initialize();
        Python::attach(|py| test(py, state(py, c"(lambda x: x).__code__")));
    }

    const RUN_ONLY: Strategy = Strategy { current: Action::RunOnly, below: Action::RunOnly };

    #[test]
    fn free_variables_are_locals_of_functions_alone() {
        with_state(|py, without| {
            assert!(!without.has_free_variables);
            assert!(state(py, c"(lambda n: lambda: n)(1).__code__").has_free_variables);
            assert!(!state(py, c"compile('n', '', 'eval')").has_free_variables);
        });
    }

    #[test]
    fn a_region_has_its_own_strategy_or_inherits() {
        with_state(|_, state| {
            state.set_strategy(DEFAULT_REGION, Strategy::skipped());
            assert_eq!(state.strategy(7), Strategy::skipped());
            state.set_strategy(7, RUN_ONLY);
            assert_eq!(state.strategy(7), RUN_ONLY);
            state.set_strategy(DEFAULT_REGION, RUN_ONLY);
            assert_eq!(state.strategy(8), Strategy::default(), "a limit is not inherited");
        });
    }

    #[test]
    fn the_hook_is_disabled_if_no_region_looks_at_the_code() {
        with_state(|_, state| {
            assert!(!state.note_disabled());
            state.set_strategy(
                DEFAULT_REGION,
                Strategy { current: Action::Skip, below: Action::Skip },
            );
            assert!(!state.note_disabled(), "frames below get another callback");
            state.set_strategy(DEFAULT_REGION, Strategy::skipped());
            assert!(state.note_disabled());
            assert!(state.take_disabled());
            assert!(!state.take_disabled(), "it is taken once");
            state.set_strategy(7, Strategy::default());
            assert!(!state.note_disabled(), "a region has frames compiled");
        });
    }

    #[test]
    fn a_mark_is_no_strategy_of_a_callback() {
        with_state(|py, state| {
            state.set_strategy(DEFAULT_REGION, RUN_ONLY);
            assert_eq!(state.mark(), None);
            state.set_mark(Strategy::skipped());
            state.set_strategy(DEFAULT_REGION, RUN_ONLY);
            assert_eq!(state.mark(), Some(Strategy::skipped()));
            state.clear(py);
            assert_eq!((state.mark(), state.entry_count()), (None, 0));
        });
    }
}
