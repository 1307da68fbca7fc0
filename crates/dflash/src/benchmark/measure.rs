use std::thread::sleep;
use std::time::{Duration, Instant};

use super::answered::Answered;
use super::bench::{Bench, Question};
use super::folder::Folder;
use super::leg::Leg;
use super::trial::{Task, Trial};
use crate::interrupt::Interrupt;
use crate::progress::{Progress, Step};
use crate::report::{Failure, Outcome, say};
use crate::request::ComparisonRequest;

/// Ids of a warm-up answer.
const WARM_UP: usize = 16;
/// A log hears of a long benchmark this often.
const NEWS: Duration = Duration::from_secs(30);
/// How soon a pause notices that it should end.
const GLANCE: Duration = Duration::from_millis(100);

/// What was measured.
pub struct Measured<'a> {
    /// The prompts that every leg has answered, in their order.
    pub prompts: Vec<Answered<'a>>,
    /// Why the others are missing.
    pub stopped: Option<Failure>,
}

/// Every prompt by every leg.
pub struct Course<'a> {
    /// The models.
    pub bench: &'a Bench,
    /// What was asked for.
    pub request: &'a ComparisonRequest,
    /// How to decode.
    pub legs: &'a [Leg],
    /// Set by Ctrl-C.
    pub asked: &'a Interrupt,
}

impl<'a> Course<'a> {
    /// Runs it; every answer is written down as soon as it is there.
    pub fn run(&self, questions: &'a [Question], folder: &mut Folder, progress: Progress) -> Measured<'a> {
        let total = questions.len() * self.request.repeat * self.legs.len();
        let mut news =
            News { step: progress.trial_step(total), progress, total, done: 0, said: Instant::now() };
        let (mut prompts, mut stopped) = (Vec::new(), self.warm_up(questions).err());
        for (index, question) in questions.iter().enumerate() {
            if stopped.is_some() {
                break;
            }
            let mut trials = Vec::new();
            stopped = self.ask(question, index, &mut trials, folder, &mut news).err();
            if self.legs.iter().all(|leg| trials.iter().any(|trial| trial.leg == *leg)) {
                prompts.push(Answered { question, trials });
            }
        }
        Measured { prompts, stopped }
    }

    /// The first passes of a process find cold pages and unset caches.
    fn warm_up(&self, questions: &[Question]) -> Outcome<()> {
        let Some(question) = questions.first() else { return Ok(()) };
        for &leg in self.legs {
            self.task(question, leg, self.request.max_tokens.min(WARM_UP))
                .run(&self.bench.pair, self.asked)?;
        }
        Ok(())
    }

    /// One prompt, as often as asked for. The rounds of the next one begin where these end, unless an oracle has to
    /// hear the plain answer first.
    fn ask(
        &self,
        question: &Question,
        index: usize,
        trials: &mut Vec<Trial>,
        folder: &mut Folder,
        news: &mut News,
    ) -> Outcome<()> {
        let Self { bench, request, legs, asked } = self;
        let offset = if bench.truth.is_some() { 0 } else { index * request.repeat };
        for round in 0..request.repeat {
            for leg in Leg::order(legs, offset + round) {
                news.tell(&question.prompt.id, leg);
                if news.done > 0 {
                    self.pause()?;
                }
                let decoded = self.task(question, leg, request.max_tokens).run(&bench.pair, asked)?;
                if let (Leg::Plain, Some(truth)) = (leg, &bench.truth) {
                    truth.set([&question.ids[..], &decoded.ids].concat());
                }
                let (prompt, category) = (question.prompt.id.clone(), question.prompt.category.clone());
                let trial = Trial { prompt, category, round, leg, decoded };
                folder.add(&trial)?;
                trials.push(trial);
                news.count();
            }
        }
        Ok(())
    }

    fn task<'b>(&'b self, question: &'b Question, leg: Leg, max_tokens: usize) -> Task<'b> {
        Task {
            prompt: &question.ids,
            max_tokens,
            stop_ids: if self.request.eos { &self.bench.pair.stop_ids } else { &[] },
            decoding: leg.decoding(),
            memory: self.request.memory,
        }
    }

    /// Lets the machine cool down.
    fn pause(&self) -> Outcome<()> {
        let end = Instant::now() + self.request.cooldown;
        loop {
            if self.asked.is_asked() {
                return Err(Failure::interrupted());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(GLANCE));
        }
    }
}

/// How far it is: a bar for a terminal, now and then a line for a log.
struct News {
    step: Step,
    progress: Progress,
    total: usize,
    done: usize,
    said: Instant,
}

impl News {
    fn tell(&self, prompt: &str, leg: Leg) {
        self.step.label(&format!("{prompt}, {}", leg.name()));
    }

    fn count(&mut self) {
        self.done += 1;
        self.step.set(self.done as u64);
        if self.progress == Progress::Lines && self.said.elapsed() > NEWS {
            self.said = Instant::now();
            say(format_args!("{} of {} answers", self.done, self.total));
        }
    }
}
