//! The tree of the cache, as much of it as a picture has room for.
//!
//! ```text
//!   engine: every node                    shown: the heaviest NODES of them; a node is shown only if its parent is
//!
//!   a ─┬─ b ── c                          a ─┬─ b ── c        below: tokens of a node and of all behind it
//!      ├─ d                                  └─ d             hidden: nodes behind it that are not shown
//!      └─ e (few tokens)                     (a.hidden = 1)
//! ```

use std::collections::{BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};

const NODES: usize = 500;
const NAMES: usize = 10_000;

#[derive(Debug, Serialize)]
pub struct Tree {
    pub tokens: u64,
    /// Parents first.
    pub nodes: Vec<Bar>,
}

#[derive(Debug, Serialize)]
pub struct Bar {
    pub node: u64,
    pub parent: Option<u64>,
    /// Of a node without a parent; it does not tell who the tenant is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub start: u64,
    pub tokens: u64,
    pub held: u64,
    pub uses: u64,
    pub below: u64,
    pub hidden: u64,
}

#[derive(Deserialize)]
struct Given {
    tokens: u64,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    node: u64,
    parent: i64,
    namespace: Option<String>,
    start: u64,
    tokens: u64,
    held: u64,
    uses: u64,
}

/// Numbers of tenants in the order in which they were first seen.
#[derive(Debug, Default)]
pub struct Labels(HashMap<String, usize>);

impl Labels {
    fn of(&mut self, namespace: &str) -> String {
        if namespace == "(default)" {
            return "without a key".into();
        }
        if self.0.len() == NAMES {
            self.0.clear(); // tenants come and go; the names of those that are there are given anew
        }
        let next = self.0.len() + 1;
        let number = self.0.entry(namespace.to_string()).or_insert(next);
        format!("tenant {number}")
    }
}

impl Tree {
    /// From what `prefix_cache_tree_json` writes.
    pub fn read(json: &str, labels: &mut Labels) -> Result<Tree> {
        let given: Given = serde_json::from_str(json).map_err(Failure::internal)?;
        let nodes = given.nodes;
        let places: HashMap<u64, usize> =
            nodes.iter().enumerate().map(|(i, n)| (n.node, i)).collect();
        let parent_of = |i: usize| {
            let parent = u64::try_from(nodes[i].parent).ok()?;
            places.get(&parent).copied()
        };
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        let mut order: Vec<usize> = Vec::with_capacity(nodes.len());
        for i in 0..nodes.len() {
            match parent_of(i) {
                Some(parent) => children[parent].push(i),
                None => order.push(i),
            }
        }
        let mut heap: BinaryHeap<(u64, usize)> = BinaryHeap::new();
        let roots = order.len();
        let mut at = 0;
        while at < order.len() {
            order.extend(&children[order[at]]);
            at += 1;
        }
        let mut below: Vec<(u64, u64)> = nodes.iter().map(|node| (node.tokens, 1)).collect();
        for &i in order.iter().rev() {
            if let Some(parent) = parent_of(i) {
                below[parent].0 += below[i].0;
                below[parent].1 += below[i].1;
            }
        }
        heap.extend(order[..roots].iter().map(|&i| (below[i].0, i)));
        let mut shown = Vec::new();
        while let Some((_, i)) = heap.pop() {
            if shown.len() == NODES {
                break;
            }
            shown.push(i);
            heap.extend(children[i].iter().map(|&child| (below[child].0, child)));
        }
        let mut hidden: HashMap<usize, u64> = shown.iter().map(|&i| (i, below[i].1 - 1)).collect();
        for &i in shown.iter().rev() {
            if let Some(parent) = parent_of(i) {
                *hidden.entry(parent).or_default() -= below[i].1;
            }
        }
        let bars = shown.iter().map(|&i| {
            let node = &nodes[i];
            Bar {
                node: node.node,
                parent: parent_of(i).map(|parent| nodes[parent].node),
                namespace: node.namespace.as_ref().map(|name| labels.of(name)),
                start: node.start,
                tokens: node.tokens,
                held: node.held,
                uses: node.uses,
                below: below[i].0,
                hidden: hidden.get(&i).copied().unwrap_or(0),
            }
        });
        Ok(Tree {
            tokens: given.tokens,
            nodes: bars.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn node(node: u64, parent: i64, tokens: u64) -> Value {
        let mut value = json!({"node": node, "parent": parent, "start": 0, "tokens": tokens, "held": 0, "uses": 1, "locks": 3});
        if parent < 0 {
            value["namespace"] = json!(["(default)", "secret"][usize::from(node > 0)]);
        }
        value
    }

    #[test]
    fn names_of_tenants_are_numbers_that_stay() {
        let mut labels = Labels::default();
        let json = json!({"tokens": 2, "nodes": [node(0, -1, 1), node(5, -1, 1)]}).to_string();
        for _ in 0..2 {
            let tree = Tree::read(&json, &mut labels).unwrap();
            let mut names: Vec<_> = tree
                .nodes
                .iter()
                .filter_map(|bar| bar.namespace.as_deref())
                .collect();
            names.sort_unstable();
            assert_eq!(names, ["tenant 1", "without a key"]);
        }
    }

    #[test]
    fn the_heaviest_are_shown_and_the_others_counted() {
        // A root with 600 leaves and, below the last of them, one that is heavy: its path must be shown.
        let mut nodes = vec![node(0, -1, 10)];
        nodes.extend((1..=600).map(|i| node(i, 0, 1 + i % 7)));
        nodes.push(node(601, 600, 1000));
        let json = json!({"tokens": 0, "nodes": nodes}).to_string();
        let tree = Tree::read(&json, &mut Labels::default()).unwrap();
        assert_eq!(tree.nodes.len(), NODES);
        let ids: Vec<u64> = tree.nodes.iter().map(|bar| bar.node).collect();
        assert_eq!(ids[..3], [0, 600, 601]);
        assert_eq!(tree.nodes[0].hidden, 602 - NODES as u64);
        assert_eq!(tree.nodes[1].below, 1000 + 1 + 600 % 7);
        for bar in &tree.nodes {
            assert!(bar.parent.is_none_or(|parent| ids.contains(&parent)));
        }
        assert!(Tree::read("{", &mut Labels::default()).is_err());
    }
}
