use dflash_testkit::Rng;

use crate::common::cases::Case;
use crate::common::model::{Model, Row, Truth, same_positions};

/// Ids that hang together at random, from one root or several.
struct Tree {
    ids: Vec<u32>,
    parents: Vec<Option<usize>>,
}

impl Tree {
    fn random(model: &Model, nodes: usize, rng: &mut Rng) -> Self {
        let parent = |row: usize, rng: &mut Rng| {
            (row > 0 && rng.below(8) > 0).then(|| row - 1 - rng.below(row.min(6) as u32) as usize)
        };
        let parents = (0..nodes).map(|row| parent(row, rng)).collect();
        Self { ids: model.prompt(nodes, rng.bits()), parents }
    }

    fn path(&self, row: usize) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(Some(row), |&row| self.parents[row]).collect();
        path.reverse();
        path
    }

    fn leaves(&self) -> Vec<usize> {
        (0..self.ids.len()).filter(|&row| !self.parents.contains(&Some(row))).collect()
    }
}

/// Accepts the path to every leaf; each is the chain that it spells.
fn check(model: &mut Model, truth: &Truth, prefix: usize, tree: &Tree, what: &str) {
    let mut first: Option<Vec<Row>> = None;
    for leaf in tree.leaves() {
        let path = tree.path(leaf);
        let ids: Vec<u32> = path.iter().map(|&row| tree.ids[row]).collect();
        let [mut cache, mut alone] = [0, 1].map(|_| truth.caches[prefix].snapshot());
        let rows = model.tree(&mut cache, &tree.ids, &tree.parents, &path);
        let chain = model.prefill(&mut alone, &ids);
        let on_path = path.iter().map(|&row| &rows[row]);
        assert!(on_path.eq(&chain), "{what}, the rows to leaf {leaf}");
        assert!(same_positions(&cache, &alone), "{what}, the caches after leaf {leaf}");
        let next = [1, 2, 3, 4, 5];
        assert!(
            model.chain(&mut cache, &next, 5) == model.chain(&mut alone, &next, 5),
            "{what}, after leaf {leaf}"
        );
        assert!(*first.get_or_insert_with(|| rows.clone()) == rows, "{what}, the tree once more");
    }
}

#[test]
fn tree_law_a_path_is_a_chain() {
    let mut rng = Rng::new(9);
    for case in Case::kinds() {
        let mut model = Model::load(&case);
        let ids = model.prompt(130, 7);
        let truth = model.plain(&ids);
        for prefix in (0..=130).step_by(13).chain([1, 2, 3, 8, 63, 64, 127, 128]) {
            let tree = Tree::random(&model, 14, &mut rng);
            check(&mut model, &truth, prefix, &tree, &format!("{}: prefix {prefix}", case.name));
        }
    }
}

/// The rows of a tree fill more than one block of keys.
#[test]
fn tree_law_holds_for_a_wide_tree() {
    let mut rng = Rng::new(10);
    for case in Case::all() {
        let mut model = Model::load(&case);
        let truth = model.plain(&model.prompt(61, 8));
        let tree = Tree::random(&model, 70, &mut rng);
        check(&mut model, &truth, 61, &tree, &case.name);
    }
}

/// A part of a path, down to nothing, leaves what its rows alone would have left.
#[test]
fn tree_law_any_part_of_a_path_is_accepted() {
    let mut rng = Rng::new(11);
    for case in Case::kinds() {
        let mut model = Model::load(&case);
        let truth = model.plain(&model.prompt(62, 9));
        let tree = Tree::random(&model, 16, &mut rng);
        let path = tree.path(15);
        for part in (0..=path.len()).map(|k| &path[..k]) {
            let ids: Vec<u32> = part.iter().map(|&row| tree.ids[row]).collect();
            let [mut cache, mut alone] = [0, 1].map(|_| truth.caches[62].snapshot());
            model.tree(&mut cache, &tree.ids, &tree.parents, part);
            ids.iter().for_each(|&id| drop(model.chain(&mut alone, &[id], 1)));
            let next = [6, 7, 8, 9];
            let (cache, alone) = (model.chain(&mut cache, &next, 4), model.chain(&mut alone, &next, 4));
            assert!(cache == alone, "{}: {} of a path of {}", case.name, part.len(), path.len());
        }
    }
}
