use dflash_engine::proposer::{Oracle, Truth};
use dflash_engine::{Proposer, StepCosts};

use crate::costs;
use crate::env::Environment;
use crate::progress::Progress;
use crate::report::{Failure, Outcome};
use crate::request::ComparisonRequest;
use crate::runtime::Loaded;
use crate::suite::Prompt;

/// A pair that is ready to be measured.
pub struct Bench {
    /// Target and proposers, which know their costs.
    pub pair: Loaded,
    /// What cycles cost here.
    pub costs: StepCosts,
    /// What the oracle is told, where one drafts.
    pub truth: Option<Truth>,
}

/// A prompt as the model sees it.
pub struct Question {
    /// Its name, its text and the right answer.
    pub prompt: Prompt,
    /// Its ids, the same for every leg.
    pub ids: Vec<u32>,
}

impl Bench {
    /// Finds, fetches and loads the pair, learns what its steps cost, and puts the oracle into the draft's place where
    /// one is asked for.
    pub fn open(request: &ComparisonRequest, env: &Environment, progress: Progress) -> Outcome<Self> {
        let mut pair = Loaded::open(&request.pair, &request.options, env, progress)?;
        let mut costs = costs::known_or_measured(&pair.decoder, &pair.info, &request.options, 1, progress)?;
        let truth = request.oracle.map(|_| Truth::default());
        if let (Some(rate), Some(truth)) = (request.oracle, &truth) {
            // The draft model's, which stands last.
            costs.propose = vec![costs.propose.pop().flatten()];
            let (block, vocab) = (pair.decoder.options().block, pair.info.target.vocab as u32);
            pair.decoder = pair.decoder.with_proposers(|proposers| {
                let draft = proposers.into_iter().find(|proposer| proposer.costly());
                vec![Box::new(Oracle::new(rate, block, vocab, truth.clone(), draft)) as Box<dyn Proposer>]
            });
        }
        pair.decoder.set_costs(costs.clone());
        Ok(Self { pair, costs, truth })
    }

    /// Ids of the prompts, all of which the model can go on with.
    pub fn read(&self, prompts: Vec<Prompt>, request: &ComparisonRequest) -> Outcome<Vec<Question>> {
        prompts.into_iter().map(|prompt| self.question(prompt, request)).collect()
    }

    fn question(&self, prompt: Prompt, request: &ComparisonRequest) -> Outcome<Question> {
        let ids = prompt.ids(&self.pair.text, request.chat_template)?;
        let context = self.pair.info.target.context;
        if ids.is_empty() || ids.len() >= context {
            let count = ids.len();
            return Err(Failure::new(format!("the prompt {} has {count} tokens", prompt.id))
                .cause(format!("the model takes from 1 to {}, with room for an answer", context - 1))
                .hint(
                    "choose shorter prompts (of longctx with --ctx-tokens), or a model with a longer context",
                ));
        }
        Ok(Question { prompt, ids })
    }
}
