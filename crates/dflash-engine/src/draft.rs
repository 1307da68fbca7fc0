use dflash_tensor::BackendError;

use crate::block::Block;
use crate::faults::guarded;
use crate::laps::Lap;
use crate::sampling::Rule;
use crate::scratch::Scratch;
use crate::sequence::Sequence;
use crate::{Decoder, EngineError, Node, Offer, Plan, ProposeRequest, TokenGuard};

/// Asks the proposers of every decoding sequence what they have, its policy what to do with it, and drafts that.
///
/// # Errors
/// A device's.
pub(crate) fn draft(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seqs: &mut [Sequence],
) -> Result<(), EngineError> {
    for seq in seqs.iter_mut().filter(|seq| seq.decodes()) {
        let mut lap = Lap::start();
        seq.own(|seq| {
            plan(decoder, scratch, seq);
            Ok(())
        });
        seq.block.laps.draft_s += lap.end();
    }
    join(scratch, seqs);
    while let Some(first) = seqs.iter().find(|seq| seq.decodes() && seq.block.wanted) {
        propose(decoder, seqs, first.block.plan)?;
    }
    let vocab = decoder.target().spec().vocab;
    for seq in seqs.iter_mut().filter(|seq| seq.decodes() && seq.block.plan.proposer.is_some()) {
        let mut lap = Lap::start();
        seq.own(|seq| {
            grow(seq, vocab);
            Ok(())
        });
        seq.block.laps.draft_s += lap.end();
    }
    Ok(())
}

/// The policy's word on what the proposers offer.
fn plan(decoder: &Decoder, scratch: &mut Scratch, seq: &mut Sequence) {
    // A step commits up to `width` ids and feeds `width` rows, so the budget bounds both.
    let limit = seq.remaining().min(decoder.options().max_width()).max(1);
    if limit == 1 || seq.proposers.is_empty() {
        return;
    }
    if let Some(guard) = &mut seq.guard {
        let expected = guard.expected();
        let proposers = decoder.proposers().iter().zip(&mut seq.proposers);
        proposers.for_each(|(proposer, state)| proposer.expect(state, &expected));
    }
    let proposers = decoder.proposers().iter().zip(&mut seq.proposers).zip(&seq.asleep);
    scratch.offers.clear();
    scratch.offers.extend(proposers.map(|((proposer, state), asleep)| match asleep {
        true => Offer { ids: 0, class: 0 },
        false => proposer.offer(state, &seq.ids),
    }));
    let plan = seq.policy.plan(&scratch.offers, limit);
    let Some(proposer) = plan.proposer.filter(|_| plan.width > 1) else { return };
    let block = &mut seq.block;
    (block.plan, block.limit, block.wanted) = (plan, limit, true);
    block.class = scratch.offers[proposer].class;
}

/// Lets sequences share passes.
fn join(scratch: &Scratch, seqs: &mut [Sequence]) {
    let wants = |seq: &&mut Sequence| seq.decodes() && seq.block.wanted;
    let Some(allotment) = scratch.allotment.as_ref().filter(|_| seqs.iter_mut().filter(wants).count() > 1)
    else {
        return;
    };
    let mut plans: Vec<Plan> = seqs.iter_mut().filter(wants).map(|seq| seq.block.plan).collect();
    allotment.join(&mut plans);
    seqs.iter_mut().filter(wants).zip(plans).for_each(|(seq, plan)| seq.block.plan = plan);
}

/// One call of a proposer, for all that want the same of it where that costs a pass.
fn propose(decoder: &Decoder, seqs: &mut [Sequence], plan: Plan) -> Result<(), EngineError> {
    let proposer = &decoder.proposers()[plan.proposer.expect("a plan that drafts")];
    let wants = |seq: &&mut Sequence| seq.decodes() && seq.block.wanted && seq.block.plan == plan;
    let mut lap = Lap::start();
    let mates = if proposer.costly() { seqs.iter_mut().filter(wants).count() } else { 1 };
    // A single one, as the decoding of one request has it, takes no list.
    let said = guarded(|| match mates {
        1 => seqs.iter_mut().find(wants).map_or(Ok(()), |seq| proposer.propose(&mut [request(seq)])),
        _ => proposer.propose(&mut seqs.iter_mut().filter(wants).map(request).collect::<Vec<_>>()),
    });
    if matches!(said, Ok(Err(BackendError::NotANumber { .. }))) && mates > 1 {
        // Whoever it was, the others shall not lack a draft for it.
        for seq in seqs.iter_mut().filter(wants) {
            clear(&mut seq.block);
            let said = guarded(|| proposer.propose(&mut [request(seq)]));
            heard(seq, said.map(|said| said.map_err(Into::into)))?;
        }
    }
    let share = lap.end() / mates as f64;
    for seq in seqs.iter_mut().filter(wants).take(mates) {
        seq.block.laps.draft_s += share;
        seq.block.mates = if proposer.costly() { mates } else { 0 };
        heard(seq, said.clone().map(|said| said.map_err(Into::into)))?;
    }
    Ok(())
}

/// What a call said to one sequence.
fn heard(seq: &mut Sequence, said: Result<Result<(), EngineError>, EngineError>) -> Result<(), EngineError> {
    seq.block.wanted = false;
    match said {
        Err(fault) => seq.failed = Some(fault),
        // A draft that computes nonsense has drafted nothing; the text does not depend on it.
        Ok(Err(EngineError::Backend(BackendError::NotANumber { .. }))) => clear(&mut seq.block),
        Ok(done) => done?,
    }
    Ok(())
}

fn clear(block: &mut Block) {
    block.said.clear();
    block.confidence.clear();
}

fn request(seq: &mut Sequence) -> ProposeRequest<'_> {
    let Sequence { proposers, ids, sampling, choice, prompt, block, .. } = seq;
    let rule = Rule { params: sampling, choice: *choice, prompt: *prompt };
    ProposeRequest {
        state: &mut proposers[block.plan.proposer.expect("a plan that drafts")],
        ids,
        rule: rule.unless_plain(),
        width: block.plan.width,
        ranks: block.plan.ranks,
        drafted: &mut block.said,
        confidence: &mut block.confidence,
    }
}

/// Picks the ids that shall be verified out of what was said: those that the policy wants, less those that cannot be.
fn grow(seq: &mut Sequence, vocab: usize) {
    let Sequence { block, policy, guard, .. } = seq;
    let wanted = block.plan.width - 1;
    // Alternatives may be asked for in vain.
    if block.said.len() != wanted * block.plan.ranks {
        block.plan.ranks = 1;
        block.said.truncate(wanted);
    }
    match block.said.len() < wanted {
        true => {
            block.nodes.extend(Node::chain(block.said.len(), 1.0));
            block.judged = block.plan.width;
        }
        false => {
            policy.grow(&block.plan, block.class, &block.confidence, &mut block.nodes);
            block.judged = block.nodes.len() + 1;
        }
    }
    prune(block, guard, vocab);
}

/// Drops the nodes that cannot be verified, or that the guard will not let pass, with all behind them.
fn prune(block: &mut Block, guard: &mut Option<Box<dyn TokenGuard>>, vocab: usize) {
    let Block { plan, limit, nodes, said, origin, drafted, parents, way, .. } = block;
    if let (1, Some(guard)) = (plan.ranks, guard.as_mut()) {
        let known = said.iter().take_while(|&&id| (id as usize) < vocab).count();
        nodes.truncate(guard.fits(&said[..nodes.len().min(known)]));
    }
    let mut guard = guard.as_mut().filter(|_| plan.ranks > 1);
    let mut fits = |drafted: &[u32], nodes: &[Node], parent: Option<usize>, id: u32| {
        let Some(guard) = &mut guard else { return true };
        way.clear();
        way.push(id);
        way.extend(std::iter::successors(parent, |&node| nodes[node].parent).map(|node| drafted[node]));
        way.reverse();
        guard.fits(way) == way.len()
    };
    let mut kept = 0;
    for index in 0..nodes.len() {
        let node = nodes[index];
        // Those kept so far have their new places.
        let parent = node.parent.map(|parent| origin.binary_search(&parent));
        let id = said[node.position * plan.ranks + node.rank];
        let parent = match parent {
            Some(Err(_)) => continue,
            Some(Ok(parent)) => Some(parent),
            None => None,
        };
        let possible = (id as usize) < vocab && node.position + 1 < *limit;
        if possible && fits(drafted, nodes, parent, id) {
            nodes[kept] = Node { parent, ..node };
            kept += 1;
            origin.push(index);
            drafted.push(id);
        }
    }
    nodes.truncate(kept);
    if plan.ranks > 1 && !nodes.is_empty() {
        parents.push(None);
        parents.extend(nodes.iter().map(|node| Some(node.parent.map_or(0, |parent| parent + 1))));
    }
}
