use dflash_tensor::{SeqCache, Shape};

use crate::block::{Block, Part};
use crate::choices::{choose, prepare};
use crate::draft::draft;
use crate::faults::guarded;
use crate::laps::Lap;
use crate::scratch::Scratch;
use crate::sequence::Sequence;
use crate::width::Shown;
use crate::{Company, Cycle, Decoder, EngineError, Event, FinishReason, Outcome, Phases};

/// Prompt rows of a step at most: four times as many are hardly faster, and their activations take memory.
pub(crate) const MOST_ROWS: usize = 512;

/// Takes the events of the sequence at an index; false when nobody listens any more.
pub(crate) type Tell<'a> = dyn FnMut(usize, Event) -> bool + 'a;

/// One step: a pass of the target over what every sequence needs next, a part of its prompt or its staged token with
/// what was drafted, and all that follows from it. While anything decodes, it holds `prompt_rows` rows of prompts at
/// most, of those that came first.
///
/// What goes wrong is noted in the sequences that it touches: in one alone where it is that one's own part, such as its
/// guard, and in all of the step where it is the pass.
pub(crate) fn step(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seqs: &mut [Sequence],
    prompt_rows: usize,
    tell: &mut Tell<'_>,
) {
    lay_out(decoder, seqs, prompt_rows);
    let done = guarded(|| run(decoder, scratch, seqs, tell));
    if done.is_err() {
        // What a panic left half-written is thrown away with it.
        *scratch = Scratch::new(decoder);
    }
    if let Err(error) = done.unwrap_or_else(Err) {
        let touched = seqs.iter_mut().filter(|seq| seq.part != Part::Idle && !seq.is_over());
        touched.for_each(|seq| seq.failed = Some(error.clone()));
    }
}

/// Says which rows every sequence has.
fn lay_out(decoder: &Decoder, seqs: &mut [Sequence], prompt_rows: usize) {
    let decoding = seqs.iter().any(|seq| !seq.is_prompt());
    let mut left = if decoding { prompt_rows.min(MOST_ROWS) } else { MOST_ROWS };
    let chunk = decoder.options().prefill_chunk.max(1);
    for seq in seqs {
        seq.block.clear();
        seq.part = match seq.is_prompt() {
            false => Part::Block,
            true => {
                let rows = seq.next_rows(chunk.min(left));
                left -= rows;
                if rows == 0 { Part::Idle } else { Part::Prompt(rows) }
            }
        };
    }
}

/// The step proper.
fn run(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seqs: &mut [Sequence],
    tell: &mut Tell<'_>,
) -> Result<(), EngineError> {
    let company = company(scratch, seqs);
    meet(seqs, company);
    draft(decoder, scratch, seqs)?;
    allot(scratch, seqs, company);
    let mut lap = Lap::start();
    pack(scratch, seqs);
    forward(decoder, scratch, seqs);
    prepare(decoder, scratch, seqs)?;
    let shared_s = lap.end();
    for (index, seq) in seqs.iter_mut().enumerate().filter(|(_, seq)| seq.part != Part::Idle) {
        seq.own(|seq| settle(decoder, scratch, seq, &mut |event| tell(index, event)));
    }
    record(scratch, seqs, shared_s);
    Ok(())
}

/// What everyone shares the step with.
fn company(scratch: &Scratch, seqs: &[Sequence]) -> Company {
    let prompts =
        seqs.iter().map(|seq| if let Part::Prompt(rows) = seq.part { rows } else { 0 }).sum::<usize>();
    let sequences = seqs.iter().filter(|seq| seq.decodes()).count();
    let drafting = scratch.allotment.as_ref().map_or(1, |allotment| allotment.drafting(sequences));
    Company { sequences, rows: sequences + prompts, drafting }
}

/// Tells every policy in whose company it is. One whose prompt is read will decode beside all others.
fn meet(seqs: &mut [Sequence], company: Company) {
    let all = seqs.iter().filter(|seq| !seq.is_over()).count();
    let to_come = Company { sequences: all, rows: all, drafting: all };
    for seq in seqs.iter_mut().filter(|seq| seq.part != Part::Idle) {
        let company = if seq.decodes() { company } else { to_come };
        seq.policy.meet(company);
    }
}

/// Shares the rows of the step among the drafted blocks.
fn allot(scratch: &mut Scratch, seqs: &mut [Sequence], company: Company) {
    let Some(allotment) = scratch.allotment.as_mut().filter(|_| company.sequences > 0) else { return };
    allotment.meet(company);
    let decoding = |(_, seq): &(usize, &mut Sequence)| seq.decodes();
    for (index, seq) in seqs.iter_mut().enumerate().filter(decoding) {
        allotment.offer(index, &seq.block.nodes);
    }
    allotment.allot();
    for (index, seq) in seqs.iter_mut().enumerate().filter(decoding) {
        seq.block.cut(allotment.kept(index));
    }
}

/// Puts the rows of all sequences into the batch and begins the pass on their caches.
fn pack(scratch: &mut Scratch, seqs: &mut [Sequence]) {
    let Scratch { batch, ids, .. } = scratch;
    batch.clear();
    for seq in seqs.iter_mut().filter(|seq| seq.rows() > 0) {
        seq.block.first_row = batch.rows();
        seq.block.chosen = seq.chosen();
        let start = seq.cache.len();
        match seq.part {
            Part::Prompt(rows) => {
                batch.push(&seq.ids[start..start + rows], start, Shape::Chain);
                seq.cache.begin_prefill(rows);
            }
            _ => {
                ids.clear();
                ids.push(seq.staged());
                ids.extend_from_slice(&seq.block.drafted);
                let parents = &seq.block.parents;
                let shape = if parents.is_empty() { Shape::Chain } else { Shape::Tree(parents.clone()) };
                batch.push(ids, start, shape);
                seq.cache.begin_verify(ids.len());
            }
        }
    }
}

/// The pass, with taps where a proposer looks at the target's layers.
fn forward(decoder: &Decoder, scratch: &mut Scratch, seqs: &mut [Sequence]) {
    let Scratch { workspace, taps, batch, .. } = scratch;
    let in_it = |seq: &&mut Sequence| seq.rows() > 0;
    let tapped = seqs.iter_mut().filter(in_it).any(|seq| seq.tapped);
    let taps = taps.as_mut().filter(|_| tapped);
    let target = decoder.target();
    let mut in_it = seqs.iter_mut().filter(in_it);
    match (batch.spans().len(), in_it.next()) {
        (_, None) => {}
        // A single one, as the decoding of one request has it, takes no list.
        (1, Some(seq)) => target.forward(workspace, batch, &mut [&mut seq.cache], taps),
        (_, Some(first)) => {
            let mut caches: Vec<&mut SeqCache> = vec![&mut first.cache];
            caches.extend(in_it.map(|seq| &mut seq.cache));
            target.forward(workspace, batch, &mut caches, taps);
        }
    }
}

/// What follows from the pass for one sequence.
fn settle(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    emit: &mut dyn FnMut(Event) -> bool,
) -> Result<(), EngineError> {
    match seq.part {
        Part::Idle => Ok(()),
        Part::Prompt(rows) => settle_prompt(decoder, scratch, seq, rows, emit),
        Part::Block => settle_block(decoder, scratch, seq, emit),
    }
}

fn settle_prompt(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    rows: usize,
    emit: &mut dyn FnMut(Event) -> bool,
) -> Result<(), EngineError> {
    seq.cache.accept_chain(rows);
    observe(decoder, scratch, seq, rows);
    let (done, total) = (seq.cache.len(), seq.prompt);
    seq.gone = !emit(Event::PrefillProgress { done, total });
    if done < total || seq.gone {
        return Ok(());
    }
    match seq.budget {
        0 => seq.finish = Some(FinishReason::Length),
        // The choice after the prompt is the first staged token.
        _ => choose(decoder, scratch, seq)?,
    }
    seq.stats.prefill_s = seq.lap.end();
    deliver(seq, emit);
    Ok(())
}

fn settle_block(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    emit: &mut dyn FnMut(Event) -> bool,
) -> Result<(), EngineError> {
    let mut lap = Lap::start();
    if let Err(error) = choose(decoder, scratch, seq) {
        // What came before is the answer's, as it is where every id has a step of its own.
        deliver(seq, emit);
        return Err(error);
    }
    seq.block.laps.choose_s = lap.end();
    accept(seq);
    seq.block.laps.rollback_s = lap.end();
    let Block { plan, path, accepted, delivered, drafted, .. } = &seq.block;
    let proposer = plan.proposer.filter(|_| !drafted.is_empty());
    let (rows, cycle) = (
        accepted.len(),
        Cycle {
            proposer: proposer.map(|index| decoder.proposers()[index].name()),
            width: drafted.len() + 1,
            depth: seq.block.depth(),
            accepted: (path.len() - 1).min(*delivered),
            committed: *delivered,
        },
    );
    seq.stats.count(&cycle);
    deliver(seq, emit);
    seq.gone = seq.gone || !emit(Event::Cycle(cycle));
    lap.end();
    if !seq.is_over() || seq.kept {
        observe(decoder, scratch, seq, rows);
    }
    seq.block.laps.observe_s = lap.end();
    Ok(())
}

/// The cache keeps the rows of the accepted path that were committed, and drops all others.
fn accept(seq: &mut Sequence) {
    let Sequence { cache, block, ids, .. } = seq;
    let rows = block.accepted.len();
    match block.parents.is_empty() {
        true => cache.accept_chain(rows),
        false => cache.accept_path(&block.parents, &block.path[..rows]),
    }
    debug_assert_eq!(cache.len() + 1, ids.len(), "the staged token alone is not in the cache");
}

/// Tells the committed ids.
fn deliver(seq: &mut Sequence, emit: &mut dyn FnMut(Event) -> bool) {
    let block = &mut seq.block;
    if block.delivered == 0 {
        return;
    }
    block.logprobs.truncate(block.delivered);
    let told = block.logprobs.is_empty() || emit(Event::Logprobs(std::mem::take(&mut block.logprobs)));
    seq.gone = !(told && emit(Event::Tokens(block.accepted[..block.delivered].to_vec())));
}

/// Shows the `rows` rows that were committed to every proposer.
fn observe(decoder: &Decoder, scratch: &mut Scratch, seq: &mut Sequence, rows: usize) {
    let upcoming = seq.upcoming();
    let (taps, first) = match seq.tapped {
        true => scratch.tapped(decoder, &seq.block, rows),
        false => (None, 0),
    };
    let mut tapped = false;
    for (index, (proposer, state)) in decoder.proposers().iter().zip(&mut seq.proposers).enumerate() {
        seq.asleep[index] |= !seq.policy.watches(index);
        if !seq.asleep[index] {
            proposer.observe(state, taps, first..first + rows, upcoming);
            tapped |= !proposer.taps().is_empty();
        }
    }
    seq.tapped = tapped;
}

/// Divides the time of the step among those who decoded, and tells their policies what it showed.
fn record(scratch: &mut Scratch, seqs: &mut [Sequence], shared_s: f64) {
    let decoded = |seq: &&mut Sequence| seq.part == Part::Block && seq.failed.is_none();
    let rows = scratch.batch.rows();
    let own = |seq: &mut Sequence| {
        let laps = &seq.block.laps;
        laps.choose_s + laps.rollback_s + laps.observe_s
    };
    let step_s = shared_s + seqs.iter_mut().filter(decoded).map(own).sum::<f64>();
    for seq in seqs.iter_mut().filter(decoded) {
        let Sequence { block, stats, policy, .. } = seq;
        let (laps, verified) = (block.laps, block.rows());
        let share_s = shared_s * verified as f64 / rows as f64;
        stats.phases.add(Phases {
            draft_s: laps.draft_s,
            verify_s: share_s + laps.choose_s,
            rollback_s: laps.rollback_s,
            observe_s: laps.observe_s,
        });
        // In the policy's numbers of the nodes.
        let origin = &block.origin;
        block.path.iter_mut().skip(1).for_each(|row| *row = origin[*row - 1] + 1);
        policy.record(&Outcome {
            proposer: block.plan.proposer,
            class: block.class,
            planned: block.plan.width,
            verified,
            judged: block.judged,
            accepted: &block.path[1..],
            ended: seq.finish.is_some(),
            committed: block.delivered,
            draft_s: laps.draft_s,
            mates: block.mates.max(1),
            step_s,
            rows,
        });
    }
    let decoded = || seqs.iter().filter(|seq| seq.part == Part::Block && seq.failed.is_none());
    if let Some(allotment) = scratch.allotment.as_mut().filter(|_| decoded().next().is_some()) {
        let ids = decoded().map(|seq| seq.block.delivered).sum();
        let drafted = decoded().map(|seq| seq.block.mates).max().unwrap_or(0);
        allotment.record(&Shown { rows, seconds: step_s, ids, drafted });
    }
}
