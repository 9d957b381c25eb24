//! Keeps the tree of paths within its bound.

use super::{add, Graph, Link, MOST_NODES, MOST_STEPS, NONE, ROOT, TOP};

impl Graph {
    /// Drops the three quarters of the nodes that have taken least, but none on the path of a call
    /// under way.
    #[cold]
    pub(super) fn prune(&mut self) {
        let kept = self.worth_keeping();
        let nodes = std::mem::replace(&mut self.nodes, vec![TOP]);
        let first = self.links[0].clone();
        let links = std::mem::replace(&mut self.links, vec![first]);
        let was_cut = |node: u32| node != ROOT && nodes[node as usize].func == NONE;
        self.child_of.clear();
        self.link_at.clear();
        self.line_at.clear();
        self.steps = 0;
        // Where each node, and each link, is afterwards.
        let mut moved = vec![ROOT; nodes.len()];
        for (index, node) in nodes.iter().enumerate().skip(1) {
            let parent = moved[node.parent as usize];
            moved[index] = if self.is_cut(parent) && !kept[index] {
                parent
            } else if kept[index] && node.func != NONE {
                self.child(parent, node.func)
            } else {
                self.cut_of(parent)
            };
        }
        let mut moved_links = vec![0; links.len()];
        for (index, link) in links.iter().enumerate().skip(1) {
            let node = moved[link.node as usize];
            if kept[link.node as usize] && !was_cut(link.node) {
                let from = moved[link.from as usize];
                moved_links[index] = self.keep_link(Link { from, node, ..link.clone() });
                continue;
            }
            self.keep_line(link.func, link);
            let cut = self.nodes[node as usize].link as usize;
            self.links[cut].add(&link.counted());
            if let Some(sums) = self.dropped.get_mut(link.edge as usize) {
                add(sums, &link.counted());
            }
        }
        for entry in self.under_way() {
            entry.node = moved[entry.node as usize];
            entry.link = moved_links[entry.link as usize];
        }
        // What is under way may be all that there is.
        self.room = (MOST_NODES.max(2 * self.nodes.len()), MOST_STEPS.max(2 * self.steps));
    }

    /// For each node, whether pruning keeps it. Where a node is kept, its parent and its cut are; and
    /// the members of a cut are kept together, since they call each other.
    fn worth_keeping(&mut self) -> Vec<bool> {
        let count = self.nodes.len();
        let mut kept = vec![false; count];
        kept[ROOT as usize] = true;
        let live: Vec<_> = self.under_way().map(|entry| (entry.node, entry.link)).collect();
        for (node, link) in live {
            for mut node in [node, self.links[link as usize].from] {
                while !std::mem::replace(&mut kept[node as usize], true) {
                    node = self.nodes[node as usize].parent;
                }
            }
        }
        let mut took = vec![0; count];
        for link in &self.links {
            took[link.node as usize] += link.own;
        }
        for index in (1..count).rev() {
            took[self.nodes[index].parent as usize] += took[index];
        }
        for index in 1..count {
            let parent = self.nodes[index].parent;
            if self.is_cut(parent) {
                took[index] = took[parent as usize];
                kept[index] = kept[parent as usize];
            }
        }
        let mut others: Vec<_> =
            took.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(took, _)| *took).collect();
        let place = others.len() / 4 * 3;
        let least = if others.is_empty() { 0 } else { *others.select_nth_unstable(place).1 };
        for index in 1..count {
            kept[index] |= took[index] > least;
            if self.is_cut(index as u32) {
                kept[index] = kept[self.nodes[index].parent as usize];
            }
        }
        kept
    }
}
