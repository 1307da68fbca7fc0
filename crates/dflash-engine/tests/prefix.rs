//! The restore law for whole requests: what a request goes on from changes neither its ids nor its logits, on every
//! family, and nothing is prefilled twice.

mod common;

use common::cases::Case;
use common::hashed::Hashed;
use common::truth::draft_for;
use common::*;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{
    Decoder, Decoding, EngineHandle, EngineOptions, Event, PrefixOptions, Proposer, Request, Stats,
    TokenLogprobs, VerifyMode,
};
use dflash_models::DraftOptions;
use dflash_testkit::{Rng, TinyDraft};

const ALL: PrefixOptions = PrefixOptions { entries: 1000, bytes: 1 << 30, longest: usize::MAX, stride: 4096 };

/// What a request delivered, bit for bit.
#[derive(Debug, PartialEq)]
struct Told {
    ids: Vec<u32>,
    logprobs: Vec<TokenLogprobs>,
}

fn request(prompt: &[u32], tokens: usize, boundaries: &[usize]) -> Request {
    Request { logprobs: Some(3), boundaries: boundaries.to_vec(), ..Request::new(prompt.to_vec(), tokens) }
}

fn told(events: impl Iterator<Item = Event>) -> (Told, Stats) {
    let mut told = Told { ids: Vec::new(), logprobs: Vec::new() };
    for event in events {
        match event {
            Event::Tokens(ids) => told.ids.extend(ids),
            Event::Logprobs(logprobs) => told.logprobs.extend(logprobs),
            Event::Finished { stats, .. } => return (told, stats),
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
    panic!("no end");
}

/// A target whose ids show every bit of its logits, with copies and a draft of narrow windows.
fn drafting(case: &Case, widths: u64) -> Decoder {
    let target = target(&case.path);
    let tiny = TinyDraft { taps: vec![0, target.spec().layers - 1], ..TinyDraft::default() };
    let draft = draft_for(target.as_ref(), &tiny, DraftOptions { sink: 4, window: Some(24), quant: None });
    let proposers: Vec<Box<dyn Proposer>> =
        vec![Box::new(ContextCopy::new(BLOCK)), Box::new(BlockDiffusion::new(draft))];
    let mut options = options(VerifyMode::Fixed);
    options.prefill_chunk = 40;
    Decoder::new(Box::new(Hashed(target)), proposers, options).with_policy(random_widths(widths))
}

fn engine(decoder: Decoder, max_batch: usize, prefix: Option<PrefixOptions>) -> EngineHandle {
    EngineHandle::start(decoder, EngineOptions { max_batch, waiting: 64, step_rows: Some(16), prefix })
}

fn cold(decoder: &Decoder, prompt: &[u32], tokens: usize) -> Told {
    let mut events = Vec::new();
    let request = Request { decoding: Decoding::Plain, ..request(prompt, tokens, &[]) };
    decoder
        .decode(request, &mut |event| {
            events.push(event);
            true
        })
        .expect("a prompt that can be decoded");
    told(events.into_iter()).0
}

/// Asks one after the other; each answer is that of a cold run. Ids that were not prefilled, by request.
fn ask_all(case: &Case, asks: &[(Vec<u32>, Vec<usize>)]) -> Vec<usize> {
    let plain = drafting(case, 0);
    let warm = engine(drafting(case, 7), 1, Some(ALL));
    let ask = |(index, (prompt, boundaries)): (usize, &(Vec<u32>, Vec<usize>))| {
        let submission = warm.submit(request(prompt, 12, boundaries)).expect("room in the queue");
        let (told, stats) = told(submission);
        assert_eq!(told, cold(&plain, prompt, 12), "{}: request {index}", case.name);
        assert_eq!(stats.prefix.unwrap().found.is_hit(), stats.cached_tokens > 0);
        stats.cached_tokens
    };
    let cached = asks.iter().enumerate().map(ask).collect::<Vec<_>>();
    let stats = warm.prefix_stats();
    assert_eq!(stats.tokens_saved, cached.iter().sum::<usize>() as u64);
    assert_eq!(stats.lookups.hits(), cached.iter().filter(|&&cached| cached > 0).count() as u64);
    assert_eq!(stats.lookups.hits() + stats.lookups.misses(), asks.len() as u64);
    cached
}

#[test]
fn restore_law_repeated_interleaved_and_growing_prompts() {
    for case in Case::kinds() {
        let vocab = target(&case.path).spec().vocab;
        let shared = prompt(70, vocab, 1);
        let with = |seed| [&shared[..], &prompt(30, vocab, seed)].concat();
        let (a, b) = (with(2), with(3));
        let boundaries = [20, 70, 97];
        // What a client makes of the first answer: the whole of it, and without its first ids.
        let answer = cold(&drafting(&case, 0), &a, 12).ids;
        let grown = [&a[..], &answer, &prompt(20, vocab, 4)].concat();
        let stripped = [&a[..], &answer[5..], &prompt(20, vocab, 4)].concat();
        let asks = [&a, &a, &b, &a, &grown, &stripped, &a[..71].to_vec(), &a[..20].to_vec()].map(|prompt| {
            (prompt.clone(), boundaries.iter().copied().filter(|&at| at < prompt.len()).collect())
        });
        let cached = ask_all(&case, &asks);
        assert_eq!(cached[0], 0, "{}", case.name);
        assert!(cached[1] >= 97 && cached[3] >= 97, "{}: the same again: {cached:?}", case.name);
        assert!(cached[2] >= 70, "{}: the same beginning: {cached:?}", case.name);
        assert_eq!(cached[4], a.len() + answer.len() - 1, "{}: the whole answer: {cached:?}", case.name);
        assert!(cached[5] >= 97, "{}: an answer that was cut: {cached:?}", case.name);
        assert!(cached[6] >= 70 && cached[7] < 20, "{}: less: {cached:?}", case.name);
    }
}

#[test]
fn restore_law_divergence_at_every_position() {
    for name in ["llama/tied", "qwen3_5/wrapper-r2", "gemma4/moe", "lfm2/plain"] {
        let case = Case::data(name);
        let vocab = target(&case.path).spec().vocab as u32;
        let first = prompt(64, vocab as usize, 1);
        let other = |at: usize| {
            let mut other = first.clone();
            other[at] = (other[at] + 1) % vocab;
            (other, vec![16, 48])
        };
        let asks: Vec<_> = std::iter::once((first.clone(), vec![16, 48])).chain((0..64).map(other)).collect();
        let cached = ask_all(&case, &asks);
        for (at, &cached) in cached[1..].iter().enumerate() {
            let least = if name.starts_with("llama") {
                at.min(63)
            } else {
                [0, 16, 48][usize::from(at >= 16) + usize::from(at >= 48)]
            };
            assert!((least..=at).contains(&cached), "{name}: {cached} of the {at} ids before the other one");
        }
    }
}

#[test]
fn what_many_ask_at_once_is_prefilled_once() {
    for case in Case::kinds() {
        let vocab = target(&case.path).spec().vocab;
        let shared = prompt(120, vocab, 1);
        let prompts: Vec<_> =
            (0..8).map(|seed| [&shared[..], &prompt(9, vocab, 50 + seed)].concat()).collect();
        let plain = drafting(&case, 0);
        let warm = engine(drafting(&case, 3), 8, Some(ALL));
        let submissions: Vec<_> =
            prompts.iter().map(|prompt| warm.submit(request(prompt, 20, &[])).expect("room")).collect();
        let mut read = 0;
        for (prompt, submission) in prompts.iter().zip(submissions) {
            let (told, stats) = told(submission);
            assert_eq!(told, cold(&plain, prompt, 20), "{}", case.name);
            read += stats.prompt_tokens - stats.cached_tokens;
        }
        assert!(read <= 120 + 8 * 10, "{}: {read} ids were prefilled", case.name);
    }
}

#[test]
fn requests_that_come_and_go_leave_whole_states() {
    for name in ["llama/tied", "qwen3_5/wrapper-r2", "gemma4/ple"] {
        let case = Case::data(name);
        let (vocab, mut rng) = (target(&case.path).spec().vocab, Rng::new(9));
        let prompts: Vec<_> = (0..4)
            .map(|seed| prompt(90, vocab, seed % 2))
            .enumerate()
            .map(|(index, mut ids)| {
                ids.truncate(60 + 10 * index);
                ids
            })
            .collect();
        let plain = drafting(&case, 0);
        let truths: Vec<Told> = prompts.iter().map(|prompt| cold(&plain, prompt, 30)).collect();
        let warm = engine(
            drafting(&case, 4),
            3,
            Some(PrefixOptions { entries: 3, bytes: 1 << 20, longest: usize::MAX, stride: 4096 }),
        );
        for _ in 0..60 {
            let chosen: Vec<usize> = (0..3).map(|_| rng.below(4) as usize).collect();
            let submissions: Vec<_> = chosen
                .iter()
                .map(|&index| warm.submit(request(&prompts[index], 30, &[30])).expect("room"))
                .collect();
            for (&index, submission) in chosen.iter().zip(submissions) {
                if rng.below(3) == 0 {
                    // It leaves somewhere in between.
                    submission.iter().take(rng.below(12) as usize).for_each(drop);
                } else {
                    assert_eq!(told(submission).0, truths[index], "{name}: prompt {index}");
                }
            }
        }
        let stats = warm.prefix_stats();
        assert!(stats.lookups.hits() > 20 && stats.entries <= 3 && stats.bytes <= 1 << 20, "{stats:?}");
    }
}

#[test]
fn limits_hold_and_what_saves_most_stays() {
    let case = Case::tiny_llama();
    let vocab = target(&case.path).spec().vocab;
    let held = |prefix: PrefixOptions, prompts: usize| {
        let warm = engine(drafting(&case, 1), 1, Some(prefix));
        for seed in 0..prompts as u64 {
            told(warm.submit(request(&prompt(100, vocab, seed), 4, &[])).expect("room"));
        }
        warm.prefix_stats()
    };
    let one = held(ALL, 1);
    assert!(one.entries == 1 && one.bytes > 0 && one.evicted == 0, "{one:?}");
    let few = held(PrefixOptions { entries: 5, bytes: 1 << 30, longest: usize::MAX, stride: 4096 }, 20);
    assert!(few.entries == 5 && few.evicted == 15, "{few:?}");
    let small = held(PrefixOptions { entries: 100, bytes: 3 * one.bytes + 100, ..ALL }, 20);
    assert!(small.entries == 3 && small.bytes <= 3 * one.bytes + 100, "{small:?}");
    let none = held(PrefixOptions { entries: 100, bytes: one.bytes / 2, ..ALL }, 3);
    assert!((none.entries, none.bytes) == (0, 0) && none.too_large > 0, "{none:?}");
}

#[test]
fn long_prompts_are_kept_on_the_way() {
    for name in ["llama/tied", "qwen3_5/wrapper-r2", "gemma4/moe", "lfm2/plain"] {
        let case = Case::data(name);
        let vocab = target(&case.path).spec().vocab;
        let shared = prompt(300, vocab, 1);
        let [one, other] = [2, 3].map(|seed| [&shared[..], &prompt(40, vocab, seed)].concat());
        let warm = engine(drafting(&case, 5), 1, Some(PrefixOptions { stride: 64, ..ALL }));
        told(warm.submit(request(&one, 4, &[])).expect("room"));
        let (found, stats) = told(warm.submit(request(&other, 4, &[])).expect("room"));
        assert_eq!(found, cold(&drafting(&case, 0), &other, 4), "{name}");
        // All that is shared where a state can be cut so far, else what was kept before it.
        let cut = if name.starts_with("llama") { 300 } else { 256 };
        assert!((cut..=300).contains(&stats.cached_tokens), "{name}: {stats:?}");
    }
}

#[test]
fn a_draft_is_worth_reading_a_short_prompt_again() {
    let case = Case::tiny_llama();
    let vocab = target(&case.path).spec().vocab;
    for (len, again) in [(100, true), (300, false)] {
        let warm = engine(drafting(&case, 5), 1, Some(ALL));
        let ids = prompt(len, vocab, 1);
        let ask = |request: Request| told(warm.submit(request).expect("room")).1;
        ask(Request { decoding: Decoding::Plain, ..request(&ids, 4, &[]) });
        let plain = ask(Request { decoding: Decoding::Plain, ..request(&ids, 4, &[]) });
        assert_eq!(plain.cached_tokens, len - 1);
        let drafted = ask(request(&ids, 4, &[]));
        assert_eq!(drafted.cached_tokens, if again { 0 } else { len - 1 });
        assert_eq!(drafted.cycles_by_proposer.contains_key("draft"), again, "{drafted:?}");
    }
}

#[test]
fn who_shares_nothing_finds_and_leaves_nothing() {
    let case = Case::tiny_llama();
    let vocab = target(&case.path).spec().vocab;
    let warm = engine(drafting(&case, 5), 4, Some(ALL));
    let alone = || Request { shares: false, ..request(&prompt(100, vocab, 1), 4, &[]) };
    let submissions = [(); 3].map(|()| warm.submit(alone()).expect("room"));
    for submission in submissions {
        let (_, stats) = told(submission);
        assert_eq!((stats.cached_tokens, stats.prefix), (0, None));
    }
    assert_eq!(warm.prefix_stats(), dflash_engine::PrefixStats::default());
}

/// The first is decoded plainly, so that what it leaves is of no worth to those who waited for it.
#[test]
fn those_who_wait_in_vain_do_not_wait_for_each_other() {
    let case = Case::tiny_llama();
    let vocab = target(&case.path).spec().vocab;
    let warm = engine(drafting(&case, 5), 8, Some(ALL));
    let mut joined = 0;
    for seed in 0..20 {
        let ids = prompt(250, vocab, seed);
        let plain = Request { decoding: Decoding::Plain, ..request(&ids, 4, &[]) };
        let alike = (0..4).map(|_| request(&ids, 4, &[]));
        let all: Vec<_> =
            std::iter::once(plain).chain(alike).map(|request| warm.submit(request).expect("room")).collect();
        let told: Vec<_> = all.into_iter().map(|submission| told(submission).0).collect();
        assert!(told.iter().all(|one| *one == told[0]), "round {seed}");
        joined = warm.prefix_stats().joined;
    }
    assert!(joined > 0, "nobody waited");
}

/// States on disk outlive the build that wrote them. Where one of these changes, a kernel sums in another order or a state
/// lies otherwise in memory: raise `NUMERICS` in `dflash-cpu/src/backend.rs`, and write the new ones here.
#[test]
fn the_bits_are_those_of_these_numerics() {
    let bits = |name: &str| {
        let case = Case::data(name);
        let ids = prompt(100, target(&case.path).spec().vocab, 1);
        let told = format!("{:?}", cold(&drafting(&case, 0), &ids, 12));
        told.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let pinned = [
        ("llama/tied", 0x6cd9_1c5f_f4b1_f461),
        ("qwen3_5/wrapper-r2", 0xbcb6_da28_685d_cfa0),
        ("gemma4/moe", 0x7720_5da6_8cb5_7dcd),
        ("lfm2/plain", 0x77a4_d752_4f2d_eab3),
    ];
    assert_eq!(target(&Case::data("llama/tied").path).backend().numerics(), "cpu 1");
    for (name, pinned) in pinned {
        assert_eq!(bits(name), pinned, "{name}: {:#x}", bits(name));
    }
}
