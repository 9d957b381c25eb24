//! What one thread has called: paths of calls, functions, and edges from a caller to a callee.
//!
//! Everything is added up at once, so the size depends on the code that runs and not on how long it
//! runs. Paths make a tree with a node for each path; only a function that calls itself directly
//! stays at its node. The tree is bounded, and a node below which something is missing has a child
//! that is a *cut*:
//!
//! - A path has at most [`MOST_DEPTH`] nodes. The functions that are called deeper are children of a
//!   cut, one node each, whatever has called them.
//! - When the tree is full, the nodes that have taken least are dropped, and what they have counted
//!   is added to the cut of their parent.
//!
//! Functions and edges stay exact.

mod labels;
mod moving;
mod prune;

use crate::codes::Kind;
use crate::cpu::time_of;
use crate::ring::{Ring, END};
use crate::tasks::{Tasks, NONE, PROVISIONAL};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The nodes of a thread's tree at which it is pruned.
const MOST_NODES: usize = 100_000;
/// The sum of its nodes' depths at which it is pruned: files have each path in full.
const MOST_STEPS: usize = 5_000_000;
/// The most nodes of a path above a cut. Programs that leave the limit of recursion alone have less.
const MOST_DEPTH: u32 = 1000;
/// What a link of a line counts for among the steps: there may be many of a node.
const STEPS_OF_LINE: usize = 10;
const ROOT: u32 = 0;

/// A way from a node to another: the call of some code at the end of some path.
#[derive(Clone, Default)]
pub struct Link {
    /// Where it begins.
    pub from: u32,
    key: usize,
    /// Where it leads: the callee's node.
    pub node: u32,
    func: u32,
    edge: u32,
    /// The line that runs, in functions whose lines have times: each is a link of its own then. 0: none
    /// has begun.
    line: u32,
    kind: Kind,
    /// How many frames were made; of a line, how often it has begun.
    calls: u64,
    /// How often one began or was resumed.
    pub runs: u64,
    /// How many runs an exception has ended.
    pub raised: u64,
    /// Ticks in the function itself.
    pub own: u64,
    /// CPU time of the function itself in nanoseconds, if it is measured.
    cpu: u64,
}

impl Link {
    pub fn counted(&self) -> Counted {
        let calls = if self.line == 0 { self.calls } else { 0 };
        [calls, self.runs, self.raised, self.own, self.cpu]
    }

    fn add(&mut self, counted: &Counted) {
        let [calls, runs, raised, own, cpu] = counted;
        self.calls += calls;
        self.runs += runs;
        self.raised += raised;
        self.own += own;
        self.cpu += cpu;
    }
}

/// Adds counts to others.
pub fn add(sums: &mut Counted, counted: &Counted) {
    for (sum, count) in sums.iter_mut().zip(counted) {
        *sum += count;
    }
}

/// The end of a path.
#[derive(Clone)]
pub struct Node {
    /// The link that was used last from here, and its key.
    key: usize,
    link: u32,
    /// `NONE`: it is the root or a cut. A cut's link has what dropped nodes have counted.
    func: u32,
    /// The node before it.
    pub parent: u32,
    depth: u32,
    /// The cut below it; `NONE`: nothing is missing there.
    cut: u32,
}

/// What an edge or a cut has counted: calls, runs, runs that raised, own ticks, own CPU time in nanoseconds.
pub type Counted = [u64; 5];

/// A function.
#[derive(Clone)]
pub struct Func {
    /// Its number in the profile.
    pub code: u32,
    /// How many of its calls are under way.
    level: u32,
    /// Ticks of its calls, those below included. A call within another one counts once.
    pub total: u64,
    /// How many of its runs were within another one.
    pub recursive: u64,
    /// Ticks in which its calls were suspended, if they await.
    pub awaited: u64,
}

/// A pair of a caller and a callee.
#[derive(Clone)]
pub struct Edge {
    caller: u32,
    callee: u32,
    level: u32,
    /// As with [`Func`], of these calls alone.
    pub total: u64,
    /// As with [`Func`], of these calls alone.
    pub recursive: u64,
}

/// A call under way.
#[derive(Clone, Copy)]
struct Entry {
    id: u64,
    start: u64,
    link: u32,
    node: u32,
    func: u32,
    edge: u32,
    /// Its row among the tasks, where it is a task's coroutine.
    task: u32,
}

/// The root of each tree.
const TOP: Node = Node { key: 0, link: 0, func: NONE, parent: ROOT, depth: 0, cut: NONE };

/// At the bottom of each stack.
const BOTTOM: Entry =
    Entry { id: 0, start: 0, link: 0, node: ROOT, func: NONE, edge: NONE, task: NONE };

/// What a frame that begins is.
pub enum Begun {
    /// It runs. The number is the call's.
    Running(u64),
    /// It was made, and will be resumed under this number.
    Made(u64),
}

/// Set in the number of an entry that is no frame's and no call's: addresses of frames have no low bits.
const OF_LABEL: u64 = 1 << 63 | 1;
/// Set too for the function that runs on below the label with this number.
const CONTINUES: u64 = 2;
/// So many bits of a call's number are below those of the thread in which it was made.
const NUMBERS: u32 = 40;
/// What is left of a number, which no other call of the thread has.
const OF_THREAD: u64 = (1 << NUMBERS) - 1;

fn is_label(id: u64) -> bool {
    id & (OF_LABEL | CONTINUES) == OF_LABEL
}

fn continues(id: u64) -> bool {
    id & (OF_LABEL | CONTINUES) == OF_LABEL | CONTINUES
}

/// An entry that is off the stack, to be put at the place where it then belongs.
#[derive(Clone, Copy)]
struct Moved {
    id: u64,
    key: usize,
    code: u32,
    line: u32,
    kind: Kind,
    task: u32,
}

/// What is known of a generator or coroutine that has not ended.
#[derive(Clone, Default)]
struct Resumable {
    arguments: Option<Arc<str>>,
    /// The line that has begun last, if lines are reported.
    line: u32,
    /// Whether no line was reported since it was resumed. The one that it is resumed on is.
    resumed: bool,
    /// The labels that it has entered and not left, while it is suspended.
    labels: Vec<Moved>,
    /// Its function and since when it has awaited, while it does.
    awaits: Option<(u32, u64)>,
    /// Whether it was made in another thread.
    foreign: bool,
}

/// How often a line has begun, and the ticks in it.
pub type Line = [u64; 2];

/// The calls of a thread.
#[derive(Clone)]
pub struct Graph {
    /// When time was counted last.
    last: u64,
    /// Whether functions have CPU time too.
    with_cpu: bool,
    /// What that was at first, and when it was counted last.
    first_cpu: u64,
    last_cpu: u64,
    /// The calls under way. The first entry is no call: it is the thread's.
    stack: Vec<Entry>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub funcs: Vec<Func>,
    pub edges: Vec<Edge>,
    /// What links of each edge had counted that are no longer there.
    pub dropped: Vec<Counted>,
    link_at: FxHashMap<(u32, usize), u32>,
    /// The links of lines.
    line_at: FxHashMap<(u32, usize, u32), u32>,
    /// What links of lines had counted that are no longer there, by function and line.
    dropped_lines: FxHashMap<(u32, u32), Line>,
    child_of: FxHashMap<(u32, u32), u32>,
    /// The sum of the nodes' depths.
    steps: usize,
    /// How many nodes and steps the tree may have before it is pruned.
    room: (usize, usize),
    func_of: FxHashMap<u32, u32>,
    edge_of: FxHashMap<(u32, u32), u32>,
    /// Calls that were left without an end, as when a greenlet switches to another.
    strays: FxHashMap<u64, Entry>,
    /// The calls of greenlets that do not run, by whose they are.
    parked: FxHashMap<usize, Vec<Entry>>,
    /// Generators and coroutines of which more is known than that they run.
    resumables: FxHashMap<u64, Resumable>,
    /// Those that were made here and that another thread has run last.
    lent: FxHashSet<u64>,
    /// The thread's number.
    serial: u64,
    next_id: u64,
    pub ring: Ring,
    pub tasks: Tasks,
}

impl Graph {
    /// For the thread with this number.
    pub fn new(serial: u64) -> Self {
        Self {
            last: 0,
            with_cpu: false,
            first_cpu: 0,
            last_cpu: 0,
            stack: vec![BOTTOM],
            nodes: vec![TOP],
            // The first link is where the time goes in which no call is under way.
            links: vec![Link { func: NONE, edge: NONE, ..Link::default() }],
            funcs: Vec::new(),
            edges: Vec::new(),
            dropped: Vec::new(),
            link_at: FxHashMap::default(),
            line_at: FxHashMap::default(),
            dropped_lines: FxHashMap::default(),
            child_of: FxHashMap::default(),
            steps: 0,
            room: (MOST_NODES, MOST_STEPS),
            func_of: FxHashMap::default(),
            edge_of: FxHashMap::default(),
            strays: FxHashMap::default(),
            parked: FxHashMap::default(),
            resumables: FxHashMap::default(),
            lent: FxHashSet::default(),
            serial,
            next_id: (serial << NUMBERS).max(1),
            ring: Ring::default(),
            tasks: Tasks::default(),
        }
    }

    #[inline(always)]
    fn top(&self) -> Entry {
        self.stack.last().copied().unwrap_or(BOTTOM)
    }

    /// The link for code with this key, called from where the thread is; `None` the first time.
    #[inline(always)]
    pub fn find(&mut self, key: usize) -> Option<u32> {
        let at = self.top().node;
        let node = &self.nodes[at as usize];
        if node.key == key {
            return Some(node.link);
        }
        let link = *self.link_at.get(&(at, key))?;
        self.remember(at, key, link);
        Some(link)
    }

    fn remember(&mut self, at: u32, key: usize, link: u32) {
        let node = &mut self.nodes[at as usize];
        (node.key, node.link) = (key, link);
    }

    /// The link for code with this key and this number in the profile. It is made if need be.
    pub fn link(&mut self, key: usize, code: u32, kind: Kind) -> u32 {
        if self.nodes.len() >= self.room.0 || self.steps >= self.room.1 {
            self.prune();
        }
        let at = self.top().node;
        let link = self.link_from(at, key, code, kind);
        self.remember(at, key, link);
        link
    }

    fn link_from(&mut self, at: u32, key: usize, code: u32, kind: Kind) -> u32 {
        if let Some(link) = self.link_at.get(&(at, key)) {
            return *link;
        }
        let func = self.func(code);
        let node = self.callee_at(at, func);
        self.add_link(at, node, key, kind)
    }

    fn add_link(&mut self, from: u32, node: u32, key: usize, kind: Kind) -> u32 {
        let func = self.nodes[node as usize].func;
        let edge = self.edge(self.nodes[from as usize].func, func);
        self.keep_link(Link { from, key, node, func, edge, kind, ..Link::default() })
    }

    /// Keeps a link, and where it is.
    fn keep_link(&mut self, link: Link) -> u32 {
        let place = self.links.len() as u32;
        if link.line == 0 {
            self.link_at.insert((link.from, link.key), place);
        } else {
            self.line_at.insert((link.from, link.key, link.line), place);
            self.steps += STEPS_OF_LINE;
        }
        self.links.push(link);
        place
    }

    /// The link of a line of the function to which a link leads.
    #[inline(always)]
    fn link_of_line(&mut self, link: u32, line: u32) -> u32 {
        let Link { from, key, node, func, edge, kind, .. } = self.links[link as usize];
        if let Some(known) = self.line_at.get(&(from, key, line)) {
            return *known;
        }
        self.keep_link(Link { from, key, node, func, edge, line, kind, ..Link::default() })
    }

    /// A line of the code with this key begins.
    #[inline(always)]
    pub fn begin_line(&mut self, key: usize, line: u32, now: u64) {
        let top = self.top();
        let Link { key: running, kind, .. } = self.links[top.link as usize];
        if running != key || line == 0 {
            return; // its frame began before the profile, or has no lines
        }
        self.count_time(now);
        let mut begins = true;
        if kind != Kind::Whole {
            let id = if continues(top.id) { self.call_on_top() } else { top.id };
            let known = self.resumables.entry(id).or_default();
            begins = !(std::mem::take(&mut known.resumed) && known.line == line);
            known.line = line;
        }
        let link = self.link_of_line(top.link, line);
        self.links[link as usize].calls += u64::from(begins);
        self.run_line(link);
    }

    /// What runs is at the line of this link.
    #[inline(always)]
    fn run_line(&mut self, link: u32) {
        if let Some(top) = self.stack.last_mut() {
            top.link = link;
        }
    }

    /// Keeps what a link of a line of `func` has counted that goes.
    fn keep_line(&mut self, func: u32, link: &Link) {
        if link.line != 0 {
            let [begun, own] = self.dropped_lines.entry((func, link.line)).or_default();
            *begun += link.calls;
            *own += link.own;
        }
    }

    /// What the lines have counted, by their functions' numbers in the profile.
    pub fn lines(&self) -> Vec<(u32, u32, Line)> {
        let mut found = self.dropped_lines.clone();
        for link in self.links.iter().filter(|link| link.line != 0) {
            let [begun, own] = found.entry((link.func, link.line)).or_default();
            *begun += link.calls;
            *own += link.own;
        }
        let numbered = found
            .into_iter()
            .filter_map(|((func, line), counted)| Some((self.code_of(func)?, line, counted)));
        numbered.collect()
    }

    /// Where a call of `func` leads from a node.
    fn callee_at(&mut self, at: u32, func: u32) -> u32 {
        let Node { func: caller, parent, depth, .. } = self.nodes[at as usize];
        if caller == func {
            at
        } else if self.is_cut(parent) {
            self.child(parent, func)
        } else if depth >= MOST_DEPTH {
            let cut = self.cut_of(at);
            self.child(cut, func)
        } else {
            self.child(at, func)
        }
    }

    /// Whether a node stands for what is missing below its parent.
    pub fn is_cut(&self, node: u32) -> bool {
        node != ROOT && self.nodes[node as usize].func == NONE
    }

    /// The child of a node that stands for what is missing.
    fn cut_of(&mut self, parent: u32) -> u32 {
        let known = self.nodes[parent as usize].cut;
        if known != NONE {
            return known;
        }
        let cut = self.add_node(NONE, parent);
        let link = self.links.len() as u32;
        let (func, edge) = (NONE, NONE);
        self.links.push(Link { from: parent, node: cut, func, edge, ..Link::default() });
        self.nodes[cut as usize].link = link;
        self.nodes[parent as usize].cut = cut;
        cut
    }

    fn child(&mut self, parent: u32, func: u32) -> u32 {
        if let Some(node) = self.child_of.get(&(parent, func)) {
            return *node;
        }
        let node = self.add_node(func, parent);
        self.child_of.insert((parent, func), node);
        node
    }

    /// Parents come before their children.
    fn add_node(&mut self, func: u32, parent: u32) -> u32 {
        let depth = self.nodes[parent as usize].depth + 1;
        self.steps += depth as usize;
        self.nodes.push(Node { func, parent, depth, ..TOP });
        (self.nodes.len() - 1) as u32
    }

    /// All calls under way, those of this stack and others.
    fn under_way(&mut self) -> impl Iterator<Item = &mut Entry> {
        let elsewhere = self.parked.values_mut().flatten();
        self.stack.iter_mut().chain(self.strays.values_mut()).chain(elsewhere)
    }

    fn func(&mut self, code: u32) -> u32 {
        let next = self.funcs.len() as u32;
        let func = *self.func_of.entry(code).or_insert(next);
        if func == next {
            self.funcs.push(Func { code, level: 0, total: 0, recursive: 0, awaited: 0 });
        }
        func
    }

    fn edge(&mut self, caller: u32, callee: u32) -> u32 {
        let next = self.edges.len() as u32;
        let edge = *self.edge_of.entry((caller, callee)).or_insert(next);
        if edge == next {
            self.edges.push(Edge { caller, callee, level: 0, total: 0, recursive: 0 });
            self.dropped.push(Counted::default());
        }
        edge
    }

    /// A number that no call has had.
    pub fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A frame has been made.
    #[inline(always)]
    pub fn begin(&mut self, link: u32, now: u64) -> Begun {
        let id = self.new_id();
        self.begin_as(link, id, now)
    }

    /// A frame has been made, whose call has this number. No other call under way has it.
    #[inline(always)]
    pub fn begin_as(&mut self, link: u32, id: u64, now: u64) -> Begun {
        let known = &mut self.links[link as usize];
        known.calls += 1;
        if known.kind != Kind::Whole {
            return Begun::Made(id);
        }
        self.enter(link, id, now);
        Begun::Running(id)
    }

    /// Whether a link's frames run piece by piece.
    #[inline(always)]
    pub fn is_resumable(&self, link: u32) -> bool {
        self.links[link as usize].kind != Kind::Whole
    }

    /// The number of the call that runs; 0: none.
    #[inline(always)]
    pub fn running(&self) -> u64 {
        self.top().id
    }

    /// A frame runs from now on.
    #[inline(always)]
    pub fn enter(&mut self, link: u32, id: u64, now: u64) {
        self.count_time(now);
        let known = &mut self.links[link as usize];
        known.runs += 1;
        let Link { node, func, edge, .. } = *known;
        self.open(Entry { id, start: now, link, node, func, edge, task: NONE });
    }

    #[inline(always)]
    fn open(&mut self, entry: Entry) {
        self.funcs[entry.func as usize].level += 1;
        self.edges[entry.edge as usize].level += 1;
        self.ring.note(entry.start, entry.func);
        self.stack.push(entry);
    }

    /// A coroutine runs from now on. `true`: it may be a task's, which is not known yet.
    pub fn resume(&mut self, link: u32, id: u64, now: u64) -> bool {
        let root = !self.is_resumable(self.top().link);
        self.enter(link, id, now);
        let known = self.resumables.get_mut(&id).map(|known| {
            known.resumed = true;
            if let Some(text) = &known.arguments {
                self.ring.with_arguments(text.clone());
            }
            (known.line, std::mem::take(&mut known.labels), known.awaits.take())
        });
        let (line, labels, awaits) = known.unwrap_or_default();
        if line != 0 {
            let link = self.link_of_line(link, line);
            self.run_line(link);
        }
        let known = root.then(|| self.tasks.named(id)).flatten();
        if let Some(named) = known {
            self.run_task(id, named.row());
        }
        if let Some(awaits) = awaits {
            self.has_awaited(id, awaits, now);
        }
        self.put_labels(labels, now);
        root && !known.is_some_and(|named| named.name_is_final)
    }

    /// What runs is the coroutine of a task, in the call of this number.
    fn run_task(&mut self, id: u64, row: u32) {
        let Some(call) = self.stack.iter_mut().rev().find(|entry| entry.id == id) else { return };
        call.task = row;
        self.ring.of_task(if row == NONE { NONE } else { row & !PROVISIONAL });
    }

    /// What runs is the coroutine of a task of this name, or of none. `own`: its own coroutine is of that
    /// function, and awaits the one that runs.
    pub fn name_task(&mut self, id: u64, name: Option<String>, own: Option<u32>) {
        let coroutine = own.or_else(|| self.code_of(self.top().func)).unwrap_or(NONE);
        let row = self.tasks.name(id, name, coroutine, own.is_none());
        self.run_task(id, row);
    }

    /// A call that has just begun has these arguments.
    pub fn with_arguments(&mut self, begun: &Begun, text: Arc<str>) {
        match begun {
            Begun::Running(_) => self.ring.with_arguments(text),
            // They are shown at each resumption.
            Begun::Made(id) => self.resumables.entry(*id).or_default().arguments = Some(text),
        }
    }

    /// A generator or coroutine has ended, or some other call. `true`: it was made in another thread.
    #[inline(always)]
    pub fn forget(&mut self, id: u64) -> bool {
        self.tasks.forget(id);
        !self.resumables.is_empty() && self.forget_resumable(id)
    }

    #[inline(never)]
    fn forget_resumable(&mut self, id: u64) -> bool {
        self.resumables.remove(&id).is_some_and(|known| known.foreign)
    }

    /// A C function runs from now on.
    pub fn enter_builtin(&mut self, link: u32, now: u64) {
        let id = self.new_id();
        self.links[link as usize].calls += 1;
        self.enter(link, id, now);
    }

    /// A C function has ended, if the profile has seen it begin.
    pub fn leave_builtin(&mut self, code: u32, now: u64, raised: bool) {
        let top = self.top();
        if self.code_of(top.func) == Some(code) {
            self.leave(top.id, now, raised);
        }
    }

    /// Gives the time since it was counted last to the call that runs.
    #[inline(always)]
    fn count_time(&mut self, now: u64) {
        let link = self.top().link;
        self.links[link as usize].own += now.saturating_sub(self.last);
        self.last = now;
        if self.with_cpu {
            self.count_cpu(link);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_cpu(&mut self, link: u32) {
        let now = time_of(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(self.last_cpu);
        self.links[link as usize].cpu += now.saturating_sub(self.last_cpu);
        self.last_cpu = now;
    }

    /// Functions have this thread's CPU time from now on.
    pub fn begin_cpu(&mut self) {
        self.with_cpu = true;
        self.last_cpu = time_of(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
        self.first_cpu = self.last_cpu;
    }

    /// A frame runs no longer: it has ended or is suspended.
    #[inline(always)]
    pub fn leave(&mut self, id: u64, now: u64, raised: bool) {
        let top = self.top();
        if top.id == id {
            self.count_time(now);
            self.links[top.link as usize].raised += u64::from(raised);
            self.close(now, true);
        } else {
            self.leave_out_of_order(id, now, raised);
        }
    }

    /// A generator or coroutine is suspended.
    #[inline(always)]
    pub fn suspend(&mut self, id: u64, now: u64) {
        let top = self.top();
        let entry = if top.id == id { Some(top) } else { self.call_of(id) };
        self.leave(id, now, false);
        if let Some(entry) = entry {
            if self.links[entry.link as usize].kind == Kind::Awaiting {
                self.resumables.entry(id).or_default().awaits = Some((entry.func, now));
            }
        }
    }

    #[cold]
    fn call_of(&self, id: u64) -> Option<Entry> {
        self.stack.iter().rev().find(|entry| entry.id == id).copied()
    }

    /// A call of a function has awaited since then.
    fn has_awaited(&mut self, id: u64, (func, since): (u32, u64), now: u64) {
        let took = now.saturating_sub(since);
        self.funcs[func as usize].awaited += took;
        self.tasks.awaited(id, took);
    }

    /// Takes the top entry, and adds its time to its function and its edge.
    #[inline(always)]
    fn close(&mut self, now: u64, ended: bool) -> Option<Entry> {
        if self.stack.len() < 2 {
            return None;
        }
        let entry = self.stack.pop()?;
        let took = now.saturating_sub(entry.start);
        self.ring.note(now, END);
        if entry.task != NONE {
            self.tasks.ran(entry.id, entry.task, took);
        }
        let func = &mut self.funcs[entry.func as usize];
        func.level -= 1;
        if func.level == 0 {
            func.total += took;
        } else {
            func.recursive += u64::from(ended);
        }
        let edge = &mut self.edges[entry.edge as usize];
        edge.level -= 1;
        if edge.level == 0 {
            edge.total += took;
        } else {
            edge.recursive += u64::from(ended);
        }
        Some(entry)
    }

    /// Code has switched to another stack: calls above this one are not its own.
    #[cold]
    #[inline(never)]
    fn leave_out_of_order(&mut self, id: u64, now: u64, raised: bool) {
        if let Some(stray) = self.strays.remove(&id) {
            self.links[stray.link as usize].raised += u64::from(raised);
            return;
        }
        if !self.stack.iter().any(|entry| entry.id == id) {
            return; // it began before the profile, or somewhere else
        }
        self.count_time(now);
        let labels = self.take_above(id, now);
        let resumable = self.is_resumable(self.top().link);
        self.leave(id, now, raised);
        if !resumable {
            self.put_labels(labels, now);
        } else if !labels.is_empty() {
            self.resumables.entry(id).or_default().labels = labels;
        }
    }

    /// One greenlet of the thread is suspended and another one is resumed.
    pub fn switch(&mut self, from: usize, to: usize, now: u64) {
        self.count_time(now);
        let mut left = Vec::new();
        while let Some(entry) = self.close(now, false) {
            left.push(entry);
        }
        if !left.is_empty() {
            self.parked.insert(from, left);
        }
        for mut entry in self.parked.remove(&to).unwrap_or_default().into_iter().rev() {
            entry.start = now;
            self.open(entry);
        }
    }

    /// As it would be if everything under way ended now, at `cpu` nanoseconds of the thread's CPU time.
    pub fn ended(&self, now: u64, cpu: u64) -> Self {
        let mut ended = self.returned(now, cpu);
        for (id, known) in &self.resumables {
            if let Some(awaits) = known.awaits {
                ended.has_awaited(*id, awaits, now.max(self.last));
            }
        }
        ended
    }

    /// As it would be if everything that runs ended now. What is suspended remains so.
    pub fn returned(&self, now: u64, cpu: u64) -> Self {
        let mut ended = self.clone();
        // A thread may have got an event while the end was being decided.
        let now = now.max(self.last);
        // Another thread may look at this one.
        let with_cpu = std::mem::take(&mut ended.with_cpu);
        if ended.stack.len() > 1 {
            ended.count_time(now);
            if with_cpu {
                let left = (self.first_cpu + cpu).saturating_sub(self.last_cpu);
                let link = ended.top().link;
                ended.links[link as usize].cpu += left;
            }
        }
        while ended.stack.len() > 1 {
            ended.close(now, !continues(ended.top().id));
        }
        ended
    }

    /// Forgets what was counted, but not what is under way: for the child of a fork.
    pub fn restart(&mut self, now: u64) {
        self.last = now;
        if self.with_cpu {
            self.begin_cpu();
        }
        for link in &mut self.links {
            (link.calls, link.runs, link.raised) = (0, 0, 0);
            (link.own, link.cpu) = (0, 0);
        }
        self.dropped.fill(Counted::default());
        self.dropped_lines.clear();
        for func in &mut self.funcs {
            (func.total, func.recursive, func.awaited) = (0, 0, 0);
        }
        for awaits in self.resumables.values_mut().filter_map(|known| known.awaits.as_mut()) {
            awaits.1 = now;
        }
        for edge in &mut self.edges {
            (edge.total, edge.recursive) = (0, 0);
        }
        for entry in &mut self.stack {
            entry.start = now;
        }
        self.tasks.restart();
        self.ring.clear();
        for entry in self.stack.iter().skip(1) {
            self.ring.note(now, entry.func);
        }
    }

    /// Adds what another thread has counted, of which nothing runs, and takes over what is suspended there.
    pub fn absorb(&mut self, other: &Self) {
        self.tasks.absorb(&other.tasks);
        if self.nodes.len() + other.nodes.len() > self.room.0 {
            self.prune();
        }
        let mut nodes = vec![ROOT; other.nodes.len()];
        for (index, theirs) in other.nodes.iter().enumerate().skip(1) {
            let parent = nodes[theirs.parent as usize];
            nodes[index] = match other.code_of(theirs.func) {
                Some(code) => {
                    let func = self.func(code);
                    self.child(parent, func)
                }
                None => self.cut_of(parent),
            };
        }
        for link in other.links.iter().skip(1) {
            let (from, node) = (nodes[link.from as usize], nodes[link.node as usize]);
            let mut mine = if self.is_cut(node) {
                self.nodes[node as usize].link
            } else if let Some(mine) = self.link_at.get(&(from, link.key)) {
                *mine
            } else {
                self.add_link(from, node, link.key, link.kind)
            };
            if link.line != 0 && !self.is_cut(node) {
                mine = self.link_of_line(mine, link.line);
                self.links[mine as usize].calls += link.calls;
            } else if let Some(code) = other.code_of(link.func) {
                let func = self.func(code);
                self.keep_line(func, link);
            }
            self.links[mine as usize].add(&link.counted());
        }
        for ((func, line), counted) in &other.dropped_lines {
            if let Some(code) = other.code_of(*func) {
                let key = (self.func(code), *line);
                let [begun, own] = self.dropped_lines.entry(key).or_default();
                *begun += counted[0];
                *own += counted[1];
            }
        }
        for theirs in &other.funcs {
            let func = self.func(theirs.code) as usize;
            self.funcs[func].total += theirs.total;
            self.funcs[func].recursive += theirs.recursive;
            self.funcs[func].awaited += theirs.awaited;
        }
        for (theirs, dropped) in other.edges.iter().zip(&other.dropped) {
            let caller = other.funcs.get(theirs.caller as usize).map(|func| func.code);
            let caller = caller.map_or(NONE, |code| self.func(code));
            let callee = self.func(other.funcs[theirs.callee as usize].code);
            let edge = self.edge(caller, callee) as usize;
            self.edges[edge].total += theirs.total;
            self.edges[edge].recursive += theirs.recursive;
            add(&mut self.dropped[edge], dropped);
        }
        for id in other.resumables.keys().copied().chain(other.tasks.ids()) {
            self.take_over(id, other.describe(id), false);
        }
    }

    /// The number in the profile of a node's function.
    pub fn code_of_node(&self, node: u32) -> Option<u32> {
        self.code_of(self.nodes.get(node as usize)?.func)
    }

    fn code_of(&self, func: u32) -> Option<u32> {
        self.funcs.get(func as usize).map(|func| func.code)
    }

    /// The caller and the callee of an edge, by their numbers in the profile.
    pub fn ends(&self, edge: &Edge) -> (Option<u32>, Option<u32>) {
        (self.code_of(edge.caller), self.code_of(edge.callee))
    }

    /// The index of an edge's callee.
    pub fn callee(&self, edge: &Edge) -> usize {
        edge.callee as usize
    }

    /// The edge of a link, but for the one of the thread itself.
    pub fn edge_of_link(&self, link: &Link) -> Option<usize> {
        (link.edge != NONE).then_some(link.edge as usize)
    }
}
