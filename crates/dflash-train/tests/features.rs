//! Features are the target's, whether they come from a pass, from a file, or from a file that is damaged.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{sequence, target};
use dflash_models::{Taps, Target};
use dflash_tensor::{Batch, Shape};
use dflash_testkit::TinyLlama;
use dflash_train::{FeatureCache, Features, Sequence, TrainError};
use half::f16;

const TAPS: [usize; 2] = [1, 0];

fn sequences() -> Vec<Sequence> {
    [5, 1, 300, 2, 90, 700, 64].into_iter().zip(1..).map(|(ids, seed)| sequence(seed, ids, 97)).collect()
}

/// One id after the other, as plain decoding would see them.
fn one_by_one(target: &dyn Target, ids: &[u32]) -> Vec<f32> {
    let mut taps = Taps::new(target.backend().clone(), &TAPS, target.spec().hidden);
    let (mut workspace, mut cache, mut batch) = (target.workspace(), target.new_cache(), Batch::new());
    let mut rows = Vec::new();
    for (position, id) in ids.iter().enumerate() {
        batch.clear();
        batch.push(&[*id], position, Shape::Chain);
        cache.begin_prefill(1);
        target.forward(&mut workspace, &batch, &mut [&mut cache], Some(&mut taps));
        cache.accept_chain(1);
        rows.extend(target.backend().read(taps.rows(), 0).into_iter().map(|x| f16::from_f32(x).to_f32()));
    }
    rows
}

fn all(features: &Features<'_>, sequences: &[Sequence]) -> Vec<Vec<f32>> {
    let rows = |index| {
        let mut rows = vec![7.0];
        features.rows(index, &mut rows);
        rows
    };
    (0..sequences.len()).map(rows).collect()
}

fn open<'a>(
    cache: Option<&FeatureCache>,
    target: &'a dyn Target,
    sequences: &'a [Sequence],
) -> (Features<'a>, usize) {
    let mut computed = 0;
    let features = Features::open(cache, target, &TAPS, sequences, &mut |progress| {
        assert!(progress.done <= progress.total && progress.left().is_some());
        computed = progress.done;
        true
    });
    (features.unwrap(), computed)
}

#[test]
fn what_is_computed_before_the_end_is_wished_for_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (path, cache) =
        (dir.path().join("target"), FeatureCache::new(&dir.path().join("cache"), None).unwrap());
    TinyLlama::default().write(&path);
    let (target, sequences) = (target(&path), [sequence(1, 40, 97)]);
    let ended = Features::open(Some(&cache), target.as_ref(), &TAPS, &sequences, &mut |_| false);
    assert!(matches!(ended.err(), Some(TrainError::Ended)));
    assert_eq!(open(Some(&cache), target.as_ref(), &sequences).1, 0, "nothing is left to compute");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn tiny(dir: &Path, seed: u64) -> Box<dyn Target> {
    target(&TinyLlama { seed, ..TinyLlama::default() }.write(&dir.join(format!("target-{seed}"))))
}

#[test]
fn rows_are_those_of_the_target_however_they_are_packed_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (target, sequences) = (tiny(dir.path(), 1), sequences());
    let cache = FeatureCache::new(&dir.path().join("cache"), None).unwrap();
    let wanted: Vec<Vec<f32>> =
        sequences.iter().map(|seq| one_by_one(target.as_ref(), &seq.ids[..seq.ids.len() - 1])).collect();
    let (features, computed) = open(None, target.as_ref(), &sequences);
    assert_eq!((features.width(), computed), (64, 0));
    assert_eq!(all(&features, &sequences), wanted);
    let ids = sequences.iter().map(|seq| seq.ids.len() - 1).sum::<usize>();
    for expected in [ids, 0] {
        let (features, computed) = open(Some(&cache), target.as_ref(), &sequences);
        assert_eq!(computed, expected, "what is there is not computed again");
        assert_eq!(all(&features, &sequences), wanted);
    }
}

#[test]
fn other_weights_taps_and_ids_have_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, mut sequences) = (tiny(dir.path(), 1), tiny(dir.path(), 2), sequences());
    let cache = FeatureCache::new(&dir.path().join("cache"), None).unwrap();
    let mut before = 0;
    let mut grows = || {
        let count = files(cache.folder()).len();
        let grown = count > before;
        before = count;
        grown
    };
    open(Some(&cache), a.as_ref(), &sequences);
    assert!(grows());
    open(Some(&cache), b.as_ref(), &sequences);
    assert!(grows());
    Features::open(Some(&cache), a.as_ref(), &[0, 1], &sequences, &mut |_| true).unwrap();
    assert!(grows());
    sequences[4].ids[3] ^= 1;
    open(Some(&cache), a.as_ref(), &sequences);
    assert!(grows());
    let last = sequences[4].ids.len() - 1;
    sequences[4].ids[last] ^= 1;
    assert_eq!(
        open(Some(&cache), a.as_ref(), &sequences).1,
        0,
        "nobody looks at the features of the last id"
    );
}

#[test]
fn sequences_that_come_or_go_leave_most_of_the_others_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let target = tiny(dir.path(), 1);
    let cache = FeatureCache::new(&dir.path().join("cache"), None).unwrap();
    let mut sequences: Vec<Sequence> = (0..150).map(|seed| sequence(seed, 10, 97)).collect();
    let all = open(Some(&cache), target.as_ref(), &sequences).1;
    sequences.remove(0);
    let less = open(Some(&cache), target.as_ref(), &sequences).1;
    sequences.extend((200..230).map(|seed| sequence(seed, 10, 97)));
    let more = open(Some(&cache), target.as_ref(), &sequences).1;
    assert!(less < all / 2 && more < all / 2, "{less} and {more} of {all}");
}

#[test]
fn what_vanishes_or_is_damaged_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (target, sequences) = (tiny(dir.path(), 1), sequences());
    let cache = FeatureCache::new(&dir.path().join("cache"), None).unwrap();
    let (features, whole) = open(Some(&cache), target.as_ref(), &sequences);
    let wanted = all(&features, &sequences);
    let file = files(cache.folder()).pop().unwrap();
    let sound = fs::read(&file).unwrap();
    let len = sound.len();
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 4;
        bytes
    };
    let damages =
        [Vec::new(), sound[..len - 1].to_vec(), flipped(3), flipped(20), flipped(60), flipped(len - 1)];
    for damage in damages {
        fs::write(&file, &damage).unwrap();
        assert_eq!(all(&features, &sequences), wanted, "while it is in use");
        fs::write(&file, &damage).unwrap();
        let (again, _) = open(Some(&cache), target.as_ref(), &sequences);
        assert_eq!(all(&again, &sequences), wanted, "when it is opened");
        let (again, _) = open(Some(&cache), target.as_ref(), &sequences);
        assert_eq!(all(&again, &sequences), wanted);
        assert_eq!(fs::read(&file).unwrap(), sound, "healed");
    }
    fs::remove_dir_all(cache.folder()).unwrap();
    assert_eq!(all(&features, &sequences), wanted, "without its folder");
    let cache = FeatureCache::new(cache.folder(), None).unwrap();
    assert_eq!(open(Some(&cache), target.as_ref(), &sequences).1, whole);
}

#[test]
fn a_budget_is_kept_and_the_oldest_files_give_way() {
    let dir = tempfile::tempdir().unwrap();
    let (target, sequences) = (tiny(dir.path(), 1), sequences());
    let folder = dir.path().join("cache");
    let cache = FeatureCache::new(&folder, None).unwrap();
    let (some, others) = sequences.split_at(5);
    open(Some(&cache), target.as_ref(), some);
    let old = files(&folder);
    fs::write(folder.join("notes.txt"), "not ours").unwrap();
    let budget = 763 * 64 * 2 + 400;
    let small = FeatureCache::new(&folder, Some(budget)).unwrap();
    open(Some(&small), target.as_ref(), others);
    let left = files(&folder);
    assert!(!left.contains(&old[0]) && left.contains(&folder.join("notes.txt")) && left.len() == 2);
    let error =
        Features::open(Some(&small), target.as_ref(), &TAPS, &sequences, &mut |_| true).err().unwrap();
    let said = error.to_string();
    assert!(matches!(error, TrainError::Bad { .. }), "{said}");
    assert!(said.contains("the features take 0.1 MB, and the cache may hold 0.1 MB"), "{said}");
}

#[test]
fn what_the_target_does_not_have_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let target = target(&TinyLlama { context: 8, ..TinyLlama::default() }.write(dir.path()));
    let refused = |taps: &[usize], sequence: Sequence| {
        Features::open(None, target.as_ref(), taps, &[sequence], &mut |_| true).err().unwrap().to_string()
    };
    assert!(refused(&[], sequence(1, 4, 97)).contains("no layer"));
    assert!(refused(&[0, 2], sequence(1, 4, 97)).contains("no layer 2 to tap: its layers are 0 to 1"));
    assert!(refused(&[0], sequence(1, 9, 97)).contains("9 ids, more than the 8 positions"));
    let mut foreign = sequence(1, 4, 97);
    foreign.ids[2] = 97;
    assert!(refused(&[0], foreign).contains("sequence 0 has the id 97"));
}
