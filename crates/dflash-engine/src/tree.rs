use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A node of a drafted tree: an id at a position of the block, after those of its parents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// Node before it; `None` follows the staged token.
    pub parent: Option<usize>,
    /// Position in the block, the first drafted one being 0.
    pub position: usize,
    /// Among the ids of its position, the most probable being 0.
    pub rank: usize,
    /// Probability that the target goes this way.
    pub reach: f64,
}

impl Node {
    /// Nodes one after the other, each as probable as `reach`.
    pub fn chain(nodes: usize, reach: f64) -> impl Iterator<Item = Self> {
        (0..nodes).map(move |position| Self { parent: position.checked_sub(1), position, rank: 0, reach })
    }
}

/// The most probable nodes of all paths through a block whose positions are independent of each other, the most
/// probable first: its first `n` are the best tree of `n` nodes, so that cumulative probability decides between
/// depth and breadth (DDTree, arXiv 2604.12989).
///
/// `probability(position, rank)` falls with the rank. Nodes of equal probability: the earlier parent, then the
/// lower rank first. Probabilities of zero give no node.
pub fn best_first(
    positions: usize,
    ranks: usize,
    nodes: usize,
    probability: impl Fn(usize, usize) -> f64,
) -> Vec<Node> {
    let mut tree: Vec<Node> = Vec::with_capacity(nodes);
    let mut open = BinaryHeap::new();
    let offer = |open: &mut BinaryHeap<Open>, parent: Option<usize>, before: f64, position, rank| {
        if position < positions && rank < ranks {
            let reach = before * probability(position, rank);
            open.push(Open(Node { parent, position, rank, reach }));
        }
    };
    offer(&mut open, None, 1.0, 0, 0);
    while tree.len() < nodes
        && let Some(Open(node)) = open.pop()
        && node.reach > 0.0
    {
        let before = node.parent.map_or(1.0, |parent| tree[parent].reach);
        offer(&mut open, node.parent, before, node.position, node.rank + 1);
        offer(&mut open, Some(tree.len()), node.reach, node.position + 1, 0);
        tree.push(node);
    }
    tree
}

/// A node that may be the next one.
struct Open(Node);

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.0, &other.0);
        // The heap gives the greatest first.
        a.reach.total_cmp(&b.reach).then_with(|| (b.parent, b.rank).cmp(&(a.parent, a.rank)))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Open {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every path of a block with its probability.
    fn all(table: &[Vec<f64>]) -> Vec<f64> {
        let mut reaches: Vec<f64> = Vec::new();
        let mut level: Vec<f64> = vec![1.0];
        for ranks in table {
            level = level.iter().flat_map(|before| ranks.iter().map(move |p| before * p)).collect();
            reaches.extend(&level);
        }
        reaches.sort_by(|a, b| b.total_cmp(a));
        reaches
    }

    #[test]
    fn it_is_the_best_tree_of_every_size() {
        let table = [vec![0.6, 0.3, 0.05], vec![0.5, 0.4, 0.01], vec![0.9, 0.05, 0.01]];
        let best = all(&table);
        for nodes in 1..=best.len() {
            let tree = best_first(3, 3, nodes, |position, rank| table[position][rank]);
            let reaches: Vec<f64> = tree.iter().map(|node| node.reach).collect();
            assert_eq!(tree.len(), nodes);
            for (got, wanted) in reaches.iter().zip(&best) {
                assert!((got - wanted).abs() < 1e-12, "{reaches:?} for {best:?}");
            }
            for (index, node) in tree.iter().enumerate() {
                assert!(node.parent.is_none_or(|parent| parent < index), "a parent comes first");
                let before = node.parent.map_or(0, |parent| tree[parent].position + 1);
                assert_eq!(node.position, before);
            }
        }
        assert_eq!(best_first(3, 3, 99, |position, rank| table[position][rank]).len(), best.len());
    }

    #[test]
    fn a_sure_draft_gives_a_chain_and_an_unsure_one_breadth() {
        let shape = |table: [f64; 2]| -> Vec<_> {
            let tree = best_first(3, 2, 3, |_, rank| table[rank]);
            tree.iter().map(|node| (node.parent, node.rank)).collect()
        };
        assert_eq!(shape([0.9, 0.05]), [(None, 0), (Some(0), 0), (Some(1), 0)]);
        assert_eq!(shape([0.4, 0.35]), [(None, 0), (None, 1), (Some(0), 0)]);
    }

    #[test]
    fn ties_go_to_the_earlier_parent_and_nothing_impossible_is_a_node() {
        let tree = best_first(2, 2, 9, |_, rank| [0.5, 0.5][rank]);
        let order: Vec<_> = tree.iter().map(|node| (node.parent, node.rank)).collect();
        assert_eq!(order, [(None, 0), (None, 1), (Some(0), 0), (Some(0), 1), (Some(1), 0), (Some(1), 1)]);
        assert_eq!(best_first(2, 2, 9, |_, rank| [1.0, 0.0][rank]).len(), 2);
        assert!(best_first(0, 2, 9, |_, _| 1.0).is_empty());
    }
}
