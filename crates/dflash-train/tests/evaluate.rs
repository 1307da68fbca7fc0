//! Tokens per cycle are those of real decoding, one answer at a time or side by side.

mod common;

use std::path::{Path, PathBuf};

use common::{sequence, target};
use dflash_testkit::{TinyDraft, TinyLlama};
use dflash_train::Sequence;
use dflash_train::evaluate::{EvaluateOptions, evaluate, step_costs};

/// Of so few ids that a random draft is right now and then.
fn pair(dir: &Path) -> (PathBuf, PathBuf) {
    let model = TinyLlama { vocab: 11, ..TinyLlama::default() };
    let draft = TinyDraft::default().write(&dir.join("draft"), &model);
    (model.write(&dir.join("target")), draft)
}

fn prompts() -> Vec<Sequence> {
    let prompt = |index: usize| Sequence {
        category: ["code", "chat"][index % 2].into(),
        ..sequence(index as u64 + 1, 6 + 3 * index, 11)
    };
    (0..7).map(prompt).collect()
}

#[test]
fn cycles_side_by_side_are_those_of_every_answer_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, draft) = pair(dir.path());
    let run = |sequences: &[Sequence], side_by_side| {
        let options = EvaluateOptions { block: 5, max_tokens: 40, side_by_side, against_plain: true };
        let mut told = Vec::new();
        let evaluation = evaluate(target(&path), &draft, sequences, &[], &options, &mut |done| {
            told.push(done);
            true
        })
        .unwrap();
        assert_eq!(told, (1..=sequences.len()).collect::<Vec<_>>());
        evaluation
    };
    let (prompts, together) = (prompts(), run(&prompts(), 4));
    assert_eq!((together.all.prompts, together.all.tokens), (7, 7 * 39));
    assert_eq!(together, run(&prompts, 1));
    let alone: Vec<_> = prompts.iter().map(|prompt| run(std::slice::from_ref(prompt), 1)).collect();
    assert_eq!(together.all.cycles, alone.iter().map(|one| one.all.cycles).sum::<usize>());
    let (code, chat) = (&together.categories["code"], &together.categories["chat"]);
    assert_eq!((code.prompts, chat.prompts, code.cycles + chat.cycles), (4, 3, together.all.cycles));
    assert_eq!(together.all.positions.len(), 4, "blocks of five rows");
    let accepted: usize = together.all.positions.iter().map(|count| count.accepted).sum();
    assert!(accepted > 0, "a draft of eleven ids is right now and then");
    assert_eq!(
        together.all.tokens,
        together.all.cycles + accepted,
        "a cycle commits one more than it accepts"
    );
}

#[test]
fn stop_ids_end_answers_and_a_draft_of_another_target_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, draft) = pair(dir.path());
    let every: Vec<u32> = (0..11).collect();
    let options = EvaluateOptions::default();
    let run = |draft: &Path, stop_ids: &[u32]| {
        evaluate(target(&path), draft, &prompts(), stop_ids, &options, &mut |_| true)
    };
    let score = run(&draft, &every).unwrap().all;
    assert_eq!((score.prompts, score.tokens, score.cycles), (7, 0, 0));
    let other = TinyLlama { hidden: 64, ..TinyLlama::default() };
    let foreign = TinyDraft::default().write(&dir.path().join("foreign"), &other);
    assert!(run(&foreign, &[]).is_err());
    assert!(run(&dir.path().join("nowhere"), &[]).unwrap_err().to_string().contains("nowhere"));
}

#[test]
fn costs_are_measured_for_the_widths_of_the_block() {
    let dir = tempfile::tempdir().unwrap();
    let (path, draft) = pair(dir.path());
    let costs = step_costs(target(&path), &draft, 4).unwrap();
    let rows = |points: &[(usize, f64)]| points.iter().map(|point| point.0).collect::<Vec<_>>();
    assert_eq!(rows(costs.verify.points()), [1, 2, 4]);
    assert_eq!(rows(costs.propose[0].as_ref().unwrap().points()), [2, 4]);
}
