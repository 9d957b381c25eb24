//! The tasks of asyncio, by name and coroutine, with the time that they have run.

use rustc_hash::FxHashMap;

/// The index of no row: of no task, or of no function, as the caller of what has no known caller.
pub const NONE: u32 = u32::MAX;
/// So many rows there are. Tasks that would need another one share the one that is last.
const MOST_TASKS: usize = 1000;

/// Set in a row's number where the task's name may still change.
pub const PROVISIONAL: u32 = 1 << 31;

/// Tasks of one name, and of one coroutine.
#[derive(Clone)]
pub struct Task {
    /// Empty where asyncio has given each task a name.
    pub name: String,
    /// The coroutine's number in the profile, or `NONE`.
    pub coroutine: u32,
    /// How many they are.
    pub tasks: u64,
    /// How often they began or were resumed.
    pub runs: u64,
    /// Ticks while they ran.
    pub time: u64,
    /// Ticks while they were suspended.
    pub awaited: u64,
}

/// The tasks of a thread.
#[derive(Clone, Default)]
pub struct Tasks {
    pub rows: Vec<Task>,
    row_at: FxHashMap<(String, u32), u32>,
    /// Of coroutines that have not ended, by the numbers of their calls.
    known: FxHashMap<u64, Named>,
    /// Whether tasks have rows of their own where asyncio has named them: a timeline shows the names.
    pub one_by_one: bool,
}

/// What is known of a coroutine.
#[derive(Clone, Copy, Default)]
pub struct Named {
    /// Its task's row. `NONE`: it has no task.
    row: u32,
    /// Whether its task has its name. One that begins as it is made gets it only after that.
    pub name_is_final: bool,
    /// Whether it is the task's own, and no other one that this awaits.
    is_own: bool,
    /// What it has added to the row until then.
    runs: u64,
    time: u64,
    awaited: u64,
}

impl Named {
    /// The row, as a call under way has it.
    pub fn row(&self) -> u32 {
        if self.row == NONE || self.name_is_final {
            self.row
        } else {
            self.row | PROVISIONAL
        }
    }
}

/// What is known of a coroutine, for another thread: the name and the coroutine of its row.
#[derive(Clone)]
pub struct Moved {
    row: Option<(String, u32)>,
    named: Named,
}

/// Whether asyncio has made up a task's name.
fn is_made_up(name: &str) -> bool {
    let number = name.strip_prefix("Task-");
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Tasks {
    /// What is known of a coroutine; `None`: not looked up yet.
    pub fn named(&self, id: u64) -> Option<Named> {
        self.known.get(&id).copied()
    }

    /// The task of a coroutine is called so; `None`: it has no task. `coroutine` is the function of the
    /// task's own one. The row is returned.
    pub fn name(&mut self, id: u64, name: Option<String>, coroutine: u32, is_own: bool) -> u32 {
        let row = name.map_or(NONE, |name| self.row(name, coroutine));
        let known = self.known.get(&id).copied();
        let mut named = known.unwrap_or(Named { row: NONE, is_own, ..Named::default() });
        named.name_is_final = known.is_some();
        if row != NONE && row != named.row {
            if let Some(before) = self.rows.get_mut(named.row as usize) {
                before.tasks -= u64::from(named.is_own);
                before.runs -= named.runs;
                before.time -= named.time;
                before.awaited -= named.awaited;
            }
            named.row = row;
            let task = &mut self.rows[row as usize];
            task.tasks += u64::from(named.is_own);
            task.runs += named.runs;
            task.time += named.time;
            task.awaited += named.awaited;
        }
        self.known.insert(id, named);
        named.row()
    }

    fn row(&mut self, mut name: String, coroutine: u32) -> u32 {
        if !self.one_by_one && is_made_up(&name) {
            name.clear();
        }
        let mut key = (name, coroutine);
        if let Some(row) = self.row_at.get(&key) {
            return *row;
        }
        if self.rows.len() >= MOST_TASKS {
            key = ("tasks that came later".to_owned(), NONE);
        }
        let next = self.rows.len() as u32;
        let row = *self.row_at.entry(key.clone()).or_insert(next);
        if row == next {
            let (name, coroutine) = key;
            self.rows.push(Task { name, coroutine, tasks: 0, runs: 0, time: 0, awaited: 0 });
        }
        row
    }

    /// The task of a coroutine has run for so long.
    pub fn ran(&mut self, id: u64, row: u32, took: u64) {
        if row & PROVISIONAL != 0 {
            if let Some(named) = self.known.get_mut(&id) {
                named.runs += 1;
                named.time += took;
            }
        }
        if let Some(task) = self.rows.get_mut((row & !PROVISIONAL) as usize) {
            task.runs += 1;
            task.time += took;
        }
    }

    /// A coroutine was suspended for so long: its task, if it is a task's.
    pub fn awaited(&mut self, id: u64, took: u64) {
        let Some(named) = self.known.get_mut(&id) else { return };
        named.awaited += if named.is_own && !named.name_is_final { took } else { 0 };
        if let Some(task) = self.rows.get_mut(named.row as usize) {
            // Of a task that had begun before the profile, those that it awaits are known.
            task.awaited += if named.is_own || task.tasks == 0 { took } else { 0 };
        }
    }

    /// The coroutines of which something is known.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.known.keys().copied()
    }

    pub fn describe(&self, id: u64) -> Option<Moved> {
        let named = self.named(id)?;
        let row = self.rows.get(named.row as usize);
        Some(Moved { row: row.map(|row| (row.name.clone(), row.coroutine)), named })
    }

    /// Another thread runs a coroutine from now on. What it has counted under a name that may change goes with it.
    pub fn give(&mut self, id: u64) {
        let Some(named) = self.known.remove(&id) else { return };
        let task = self.rows.get_mut(named.row as usize);
        if let Some(task) = task.filter(|_| !named.name_is_final) {
            task.tasks -= u64::from(named.is_own);
            task.runs -= named.runs;
            task.time -= named.time;
            task.awaited -= named.awaited;
        }
    }

    /// Takes over what another thread has known. `counts`: with what it has [given](Self::give).
    pub fn take(&mut self, id: u64, moved: Moved, counts: bool) {
        let Moved { row, mut named } = moved;
        named.row = row.map_or(NONE, |(name, coroutine)| self.row(name, coroutine));
        let task = self.rows.get_mut(named.row as usize);
        if let Some(task) = task.filter(|_| counts && !named.name_is_final) {
            task.tasks += u64::from(named.is_own);
            task.runs += named.runs;
            task.time += named.time;
            task.awaited += named.awaited;
        }
        self.known.insert(id, named);
    }

    /// A coroutine has ended.
    #[inline(always)]
    pub fn forget(&mut self, id: u64) {
        if !self.known.is_empty() {
            self.known.remove(&id);
        }
    }

    pub fn restart(&mut self) {
        for task in &mut self.rows {
            (task.tasks, task.runs) = (0, 0);
            (task.time, task.awaited) = (0, 0);
        }
        for named in self.known.values_mut() {
            (named.runs, named.time, named.awaited) = (0, 0, 0);
            if let Some(task) = self.rows.get_mut(named.row as usize) {
                task.tasks += u64::from(named.is_own);
            }
        }
    }

    /// Takes over the rows of a thread that has ended.
    pub fn absorb(&mut self, other: &Self) {
        self.one_by_one |= other.one_by_one;
        for theirs in &other.rows {
            let row = self.row(theirs.name.clone(), theirs.coroutine);
            let mine = &mut self.rows[row as usize];
            mine.tasks += theirs.tasks;
            mine.runs += theirs.runs;
            mine.time += theirs.time;
            mine.awaited += theirs.awaited;
        }
    }
}
