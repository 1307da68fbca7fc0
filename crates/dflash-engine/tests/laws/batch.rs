use dflash_tensor::{Batch, SeqCache, Shape};

use crate::common::cases::Case;
use crate::common::model::{Model, Row};

/// Lengths of the sequences: empty, shorter than a convolution, across blocks of keys.
const LENS: [usize; 7] = [0, 1, 70, 3, 128, 17, 64];

/// Ids of a sequence after its prefix.
const MORE: usize = 24;

/// A sequence of a batch.
struct Sequence {
    ids: Vec<u32>,
    truth: Vec<Row>,
    cache: SeqCache,
}

impl Sequence {
    fn new(model: &mut Model, len: usize) -> Self {
        let ids = model.prompt(len + MORE, len as u64 + 1);
        let truth = model.plain(&ids).rows;
        Self { ids, truth, cache: model.target.new_cache() }
    }
}

/// One pass: of every sequence so many rows, of which so many are right and accepted.
fn pass(model: &mut Model, sequences: &mut [Sequence], parts: &[(usize, usize)], what: &str) {
    let mut batch = Batch::new();
    for (sequence, &(rows, right)) in sequences.iter_mut().zip(parts) {
        let at = sequence.cache.len();
        let drafted = model.drafted(&sequence.ids[at..at + rows], right, rows as u64);
        batch.push(&drafted, at, Shape::Chain);
        sequence.cache.begin_verify(rows);
    }
    let mut caches = sequences.iter_mut().map(|sequence| &mut sequence.cache).collect::<Vec<_>>();
    let rows = model.run(&batch, &mut caches);
    for ((span, sequence), &(_, right)) in batch.spans().iter().zip(sequences).zip(parts) {
        let got = &rows[span.first_row..span.first_row + right];
        assert!(
            got == &sequence.truth[span.start..span.start + right],
            "{what}: from position {}",
            span.start
        );
        sequence.cache.accept_chain(right);
    }
}

#[test]
fn batch_law_a_sequence_among_others_is_a_sequence_alone() {
    for case in Case::all() {
        let mut model = Model::load(&case);
        let mut sequences = LENS.map(|len| Sequence::new(&mut model, len));
        // The empty one begins later than the others.
        let prefixes = LENS.map(|len| (len, len));
        pass(&mut model, &mut sequences[1..], &prefixes[1..], &case.name);
        for round in 0..6 {
            let part = |index: usize| {
                let rows = 1 + (index * 5 + round * 3) % 12;
                (rows, (index + round) % 5 % (rows + 1))
            };
            let parts = [0, 1, 2, 3, 4, 5, 6].map(part);
            let room = |(sequence, (rows, right)): (&Sequence, (usize, usize))| {
                let rows = rows.min(sequence.ids.len() - sequence.cache.len()).max(1);
                (rows, right.min(rows))
            };
            let parts = sequences.iter().zip(parts).map(room).collect::<Vec<_>>();
            pass(&mut model, &mut sequences, &parts, &case.name);
        }
    }
}

/// A tree beside chains.
#[test]
fn batch_law_shapes_go_together() {
    for case in Case::kinds() {
        let mut model = Model::load(&case);
        let [mut a, mut b] = [20, 70].map(|len| Sequence::new(&mut model, len));
        model.prefill(&mut a.cache, &a.ids[..20]);
        model.prefill(&mut b.cache, &b.ids[..70]);
        let (ids, parents) = ([a.ids[20], 5, a.ids[21], 9], [None, Some(0), Some(0), Some(1)]);
        let mut batch = Batch::new();
        batch.push(&b.ids[70..73], 70, Shape::Chain);
        batch.push(&ids, 20, Shape::Tree(parents.to_vec()));
        a.cache.begin_verify(4);
        b.cache.begin_verify(3);
        let rows = model.run(&batch, &mut [&mut b.cache, &mut a.cache]);
        b.cache.accept_chain(1);
        a.cache.accept_path(&parents, &[0, 2]);
        assert!(
            rows[..3] == b.truth[70..73] && rows[3] == a.truth[20] && rows[5] == a.truth[21],
            "{}",
            case.name
        );
        for sequence in [&mut a, &mut b] {
            let at = sequence.cache.len();
            let rows = model.chain(&mut sequence.cache, &sequence.ids[at..at + 6], 6);
            assert!(rows == sequence.truth[at..at + 6], "{}: after position {at}", case.name);
        }
    }
}
