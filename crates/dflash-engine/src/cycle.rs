use std::ops::Range;
use std::time::Instant;

use dflash_tensor::{BackendError, Shape};

use crate::choices::{choose, deliver};
use crate::decoder::{Decoder, Scratch};
use crate::sampling::Rule;
use crate::sequence::Sequence;
use crate::{Cycle, EngineError, Event, Outcome, Phases, Plan, ProposeRequest};

/// Takes an event; false when nobody listens any more.
pub(crate) type Emit<'a> = dyn FnMut(Event) -> bool + 'a;

/// One cycle: propose, verify, commit. Returns false when nobody listens any more.
pub(crate) fn cycle(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    emit: &mut Emit<'_>,
) -> Result<bool, EngineError> {
    let mut laps = Laps::start();
    let (plan, class) = plan(decoder, scratch, seq);
    let judged = propose(decoder, scratch, seq, &plan, class)?;
    let draft_s = laps.lap();
    let width = scratch.drafted.len() + 1;
    verify(decoder, scratch, seq);
    let committed = choose(decoder, scratch, seq, 0)?;
    let verify_s = laps.lap();
    let accepted = scratch.path.len() - 1;
    accept(scratch, seq, committed.ids);
    let rollback_s = laps.lap();

    let proposer = plan.proposer.filter(|_| width > 1);
    let cycle = Cycle {
        proposer: proposer.map(|index| decoder.proposers()[index].name()),
        width,
        depth: scratch.depth(),
        accepted: accepted.min(committed.delivered),
        committed: committed.delivered,
    };
    seq.stats.count(&cycle);
    if !deliver(scratch, committed.delivered, emit) || !emit(Event::Cycle(cycle)) {
        return Ok(false);
    }
    laps.lap();
    if seq.finish.is_none() {
        scratch.gather_path(decoder.target().backend().as_ref(), committed.ids);
        observe(decoder, scratch, seq, 0..committed.ids, 0);
    }
    let observe_s = laps.lap();
    seq.stats.phases.add(Phases { draft_s, verify_s, rollback_s, observe_s });
    seq.policy.record(&Outcome {
        proposer: plan.proposer,
        class,
        planned: plan.width,
        verified: width,
        judged,
        accepted: &scratch.path[1..],
        committed: committed.delivered,
        draft_s,
        step_s: verify_s + rollback_s + observe_s,
    });
    Ok(true)
}

/// Times what happens between two calls.
struct Laps(Instant);

impl Laps {
    fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the last lap.
    fn lap(&mut self) -> f64 {
        let now = Instant::now();
        (now - std::mem::replace(&mut self.0, now)).as_secs_f64()
    }
}

/// Asks every proposer what it has, and the policy what to do with it.
fn plan(decoder: &Decoder, scratch: &mut Scratch, seq: &mut Sequence) -> (Plan, usize) {
    // A cycle commits up to `width` ids and feeds `width` rows, so the budget bounds both.
    let limit = seq.remaining().min(decoder.options().max_width()).max(1);
    if limit == 1 || seq.proposers.is_empty() {
        return (Plan::PLAIN, 0);
    }
    if let Some(guard) = &mut seq.guard {
        let expected = guard.expected();
        let proposers = decoder.proposers().iter().zip(&mut seq.proposers);
        proposers.for_each(|(proposer, state)| proposer.expect(state, &expected));
    }
    let proposers = decoder.proposers().iter().zip(&mut seq.proposers);
    scratch.offers.clear();
    scratch.offers.extend(proposers.map(|(proposer, state)| proposer.offer(state, &seq.ids)));
    let plan = seq.policy.plan(&scratch.offers, limit);
    let class = plan.proposer.map_or(0, |index| scratch.offers[index].class);
    (plan, class)
}

/// Fills `scratch.drafted` with the ids that the target is to verify. Returns the rows by which the proposer is
/// judged: more than are verified, where it was asked for ids and gave none that can be.
fn propose(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    plan: &Plan,
    class: usize,
) -> Result<usize, EngineError> {
    scratch.drafted.clear();
    scratch.confidence.clear();
    scratch.parents.clear();
    let Some(index) = plan.proposer.filter(|_| plan.width > 1) else { return Ok(1) };
    let rule = Rule { params: &seq.sampling, choice: seq.choice, prompt: seq.prompt };
    let request = ProposeRequest {
        state: &mut seq.proposers[index],
        ids: &seq.ids,
        rule: rule.unless_plain(),
        width: plan.width,
        ranks: plan.ranks,
        drafted: &mut scratch.drafted,
        confidence: &mut scratch.confidence,
    };
    match decoder.proposers()[index].propose(&mut [request]) {
        // A draft that computes nonsense has drafted nothing; the text does not depend on it.
        Err(BackendError::NotANumber { .. }) => scratch.drafted.clear(),
        done => done?,
    }
    let vocab = decoder.target().spec().vocab;
    let wanted = plan.width - 1;
    if plan.ranks > 1 && scratch.drafted.len() == wanted * plan.ranks {
        return Ok(grow(scratch, seq, plan, class, vocab));
    }
    let mut valid = scratch.drafted.iter().take_while(|&&id| (id as usize) < vocab).count();
    if let Some(guard) = &mut seq.guard {
        valid = guard.fits(&scratch.drafted[..valid]);
    }
    scratch.drafted.truncate(valid.min(wanted));
    if scratch.drafted.len() < wanted {
        return Ok(plan.width);
    }
    let width = seq.policy.cut(plan, class, &scratch.confidence).clamp(1, plan.width);
    scratch.drafted.truncate(width - 1);
    Ok(width)
}

/// Replaces the drafted alternatives by the tree of them that the policy picks. Returns its rows, the staged one
/// included.
fn grow(scratch: &mut Scratch, seq: &mut Sequence, plan: &Plan, class: usize, vocab: usize) -> usize {
    let Scratch { drafted, confidence, parents, rows, .. } = scratch;
    let nodes = seq.policy.grow(plan, class, confidence);
    rows.clear();
    rows.extend(nodes.iter().map(|node| drafted[node.position * plan.ranks + node.rank]));
    // A tree with an id that cannot be verified is none.
    if rows.iter().any(|&id| id as usize >= vocab) {
        drafted.clear();
        return plan.width;
    }
    drafted.clear();
    drafted.append(rows);
    parents.push(None);
    parents.extend(nodes.iter().map(|node| Some(node.parent.map_or(0, |parent| parent + 1))));
    drafted.len() + 1
}

/// One pass of the target over the staged token and the drafted ids.
fn verify(decoder: &Decoder, scratch: &mut Scratch, seq: &mut Sequence) {
    scratch.rows.clear();
    scratch.rows.push(seq.staged());
    scratch.rows.extend_from_slice(&scratch.drafted);
    scratch.batch.clear();
    let shape = if scratch.parents.is_empty() { Shape::Chain } else { Shape::Tree(scratch.parents.clone()) };
    scratch.batch.push(&scratch.rows, seq.cache.len(), shape);
    seq.cache.begin_verify(scratch.rows.len());
    decoder.forward(scratch, &mut seq.cache, seq.tapped);
}

/// The caches keep the first `rows` rows of the accepted path, and drop all others.
fn accept(scratch: &Scratch, seq: &mut Sequence, rows: usize) {
    match scratch.parents.is_empty() {
        true => seq.cache.accept_chain(rows),
        false => seq.cache.accept_path(&scratch.parents, &scratch.path[..rows]),
    }
    debug_assert_eq!(seq.cache.len() + 1, seq.ids.len(), "the staged token alone is not in the cache");
}

/// Shows the committed rows of the last pass to every proposer.
pub(crate) fn observe(
    decoder: &Decoder,
    scratch: &Scratch,
    seq: &mut Sequence,
    rows: Range<usize>,
    upcoming: usize,
) {
    for (proposer, state) in decoder.proposers().iter().zip(&mut seq.proposers) {
        proposer.observe(state, scratch.tapped(), rows.clone(), upcoming);
    }
}
