//! What a profile has found, as Python objects.

use crate::codes::Identity;
use crate::count::Counts;
use crate::graph::{add, Graph};
use crate::tasks::NONE;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// The functions: `(file, line, name, qualified name, kind)` each.
pub fn functions<'py>(py: Python<'py>, known: &[Identity]) -> PyResult<Bound<'py, PyList>> {
    let rows = known.iter().map(|identity| {
        let Identity { file, line, name, qualified, kind } = identity;
        (file, line, name, qualified, kind).into_pyobject(py)
    });
    list(py, rows)
}

/// The number of a node that stands for what is missing below its parent.
const CUT: i64 = -2;

fn place(number: Option<u32>) -> i64 {
    number.map_or(-1, i64::from)
}

/// A thread's graph, all of whose calls have ended. Times are in nanoseconds.
///
/// `functions`: (number, calls, runs, recursive runs, raised, own, total, awaited, own CPU time);
/// `edges`: (caller or -1, callee, then the same until `total`); `nodes`: (parent or -1, number or -1,
/// calls, runs, own, runs and own of those that it has called itself, own CPU time), where the number of
/// a cut is -2; `lines`: (number, line, how often it has begun, own).
pub fn thread<'py>(
    py: Python<'py>,
    graph: &Graph,
    nanoseconds_per_tick: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let nanoseconds = |ticks: u64| (ticks as f64 * nanoseconds_per_tick) as u64;
    let mut functions = vec![[0u64; 5]; graph.funcs.len()];
    let mut edges = graph.dropped.clone();
    let mut nodes = vec![[0u64; 5]; graph.nodes.len()];
    let mut again = vec![[0u64; 2]; graph.nodes.len()];
    // The first link is none of a call.
    for link in graph.links.iter().skip(1) {
        let counted = link.counted();
        add(&mut nodes[link.node as usize], &counted);
        if link.from == link.node {
            let [runs, own] = &mut again[link.node as usize];
            *runs += link.runs;
            *own += link.own;
        }
        if let Some(edge) = graph.edge_of_link(link) {
            add(&mut edges[edge], &counted);
        }
    }
    for (edge, counted) in graph.edges.iter().zip(&edges) {
        add(&mut functions[graph.callee(edge)], counted);
    }
    let result = PyDict::new(py);
    let rows = graph.funcs.iter().zip(&functions).map(|(func, counted)| {
        let [calls, runs, raised, own, cpu] = *counted;
        let (own, total) = (nanoseconds(own), nanoseconds(func.total));
        let awaited = nanoseconds(func.awaited);
        (func.code, calls, runs, func.recursive, raised, own, total, awaited, cpu).into_pyobject(py)
    });
    result.set_item("functions", list(py, rows)?)?;
    let rows = graph.edges.iter().zip(&edges).map(|(edge, counted)| {
        let [calls, runs, raised, own, _] = *counted;
        let (caller, callee) = graph.ends(edge);
        let (own, total) = (nanoseconds(own), nanoseconds(edge.total));
        (place(caller), place(callee), calls, runs, edge.recursive, raised, own, total)
            .into_pyobject(py)
    });
    result.set_item("edges", list(py, rows)?)?;
    let rows = graph.nodes.iter().zip(&nodes).enumerate().map(|(index, (node, counted))| {
        let [calls, runs, _, own, cpu] = *counted;
        let parent = if index == 0 { -1 } else { i64::from(node.parent) };
        let is_cut = graph.is_cut(index as u32);
        let number = if is_cut { CUT } else { place(graph.code_of_node(index as u32)) };
        let [again, again_own] = again[index];
        let (own, again_own) = (nanoseconds(own), nanoseconds(again_own));
        (parent, number, calls, runs, own, again, again_own, cpu).into_pyobject(py)
    });
    result.set_item("nodes", list(py, rows)?)?;
    let rows = graph.lines().into_iter().map(|(number, line, [begun, own])| {
        (number, line, begun, nanoseconds(own)).into_pyobject(py)
    });
    result.set_item("lines", list(py, rows)?)?;
    let rows = graph.tasks.rows.iter().map(|task| {
        let coroutine = place((task.coroutine != NONE).then_some(task.coroutine));
        let (time, awaited) = (nanoseconds(task.time), nanoseconds(task.awaited));
        (&task.name, coroutine, task.tasks, task.runs, time, awaited).into_pyobject(py)
    });
    result.set_item("tasks", list(py, rows)?)?;
    Ok(result)
}

/// What has happened last in a thread: (nanoseconds since the beginning, number or -1 for an end,
/// name of the task or None, arguments or None).
pub fn events<'py>(
    py: Python<'py>,
    graph: &Graph,
    began: u64,
    nanoseconds_per_tick: f64,
) -> PyResult<Bound<'py, PyList>> {
    let rows = graph.ring.events().map(|(event, arguments)| {
        let time = event.time.saturating_sub(began) as f64 * nanoseconds_per_tick;
        let number = graph.funcs.get(event.what as usize).map(|func| func.code);
        let task = graph.tasks.rows.get(event.task as usize).map(|task| &task.name);
        (time as u64, place(number), task, arguments).into_pyobject(py)
    });
    list(py, rows)
}

/// A thread's counts, in the same form: no edges, no times, and paths of one function each.
pub fn counts<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let rows = counts
        .counts
        .iter()
        .map(|(number, calls)| (*number, *calls, *calls, 0, 0, 0, 0, 0, 0).into_pyobject(py));
    let functions = list(py, rows)?;
    let root = (-1, -1, 0, 0, 0, 0, 0, 0).into_pyobject(py);
    let rows = counts
        .counts
        .iter()
        .map(|(number, calls)| (0, *number, *calls, *calls, 0, 0, 0, 0).into_pyobject(py));
    let nodes = list(py, std::iter::once(root).chain(rows))?;
    let result = PyDict::new(py);
    result.set_item("functions", functions)?;
    result.set_item("edges", PyList::empty(py))?;
    result.set_item("lines", PyList::empty(py))?;
    result.set_item("nodes", nodes)?;
    result.set_item("tasks", PyList::empty(py))?;
    Ok(result)
}

fn list<'py>(
    py: Python<'py>,
    rows: impl Iterator<Item = PyResult<Bound<'py, PyTuple>>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
}
