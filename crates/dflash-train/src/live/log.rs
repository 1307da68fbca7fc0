use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::curve::curve;
use super::{EvaluationLog, StepLog};
use crate::TrainError;

const CSV: &str = "log.csv";
const JSONL: &str = "log.jsonl";
const CURVE: &str = "curve.svg";

/// Columns of `log.csv` before those of the slots.
const COLUMNS: &str = "step,steps,epoch,tokens,loss,grad_norm,lr,steps_per_s,seconds";

/// A line of `log.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Step(StepLog),
    Evaluation(EvaluationLog),
}

impl Line {
    fn step(&self) -> u64 {
        match self {
            Self::Step(step) => step.step,
            Self::Evaluation(evaluation) => evaluation.step,
        }
    }
}

/// The log of a training: `log.jsonl` with all steps and evaluations, `log.csv` with the steps, and `curve.svg`, which
/// is drawn at every evaluation.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    csv: File,
    jsonl: File,
    slots: usize,
    steps: Vec<StepLog>,
    evaluations: Vec<EvaluationLog>,
}

impl Log {
    /// Opens the log in `folder`, which is made if need be, of a draft with so many `slots` behind the anchor. What
    /// stands there of steps after `resumed` is cut off: all of it for 0.
    ///
    /// # Errors
    /// The system's.
    pub fn open(folder: &Path, slots: usize, resumed: u64) -> Result<Self, TrainError> {
        fs::create_dir_all(folder).map_err(TrainError::io(folder))?;
        let lines = if resumed == 0 { Vec::new() } else { read(&folder.join(JSONL), resumed)? };
        let (mut csv, mut jsonl) = (header(slots), String::new());
        let (mut steps, mut evaluations) = (Vec::new(), Vec::new());
        for line in lines {
            jsonl += &json(&line);
            match line {
                Line::Step(step) => {
                    csv += &row(&step, slots);
                    steps.push(step);
                }
                Line::Evaluation(evaluation) => evaluations.push(evaluation),
            }
        }
        let [csv, jsonl] =
            [(CSV, csv), (JSONL, jsonl)].map(|(name, text)| replaced(&folder.join(name), &text));
        Ok(Self { folder: folder.to_owned(), csv: csv?, jsonl: jsonl?, slots, steps, evaluations })
    }

    /// Appends a step.
    ///
    /// # Errors
    /// The system's.
    pub fn step(&mut self, step: StepLog) -> Result<(), TrainError> {
        append(&mut self.csv, &self.folder.join(CSV), &row(&step, self.slots))?;
        let line = Line::Step(step);
        append(&mut self.jsonl, &self.folder.join(JSONL), &json(&line))?;
        let Line::Step(step) = line else { return Ok(()) };
        self.steps.push(step);
        Ok(())
    }

    /// Appends an evaluation and draws the curve anew.
    ///
    /// # Errors
    /// The system's.
    pub fn evaluation(&mut self, evaluation: EvaluationLog) -> Result<(), TrainError> {
        let path = self.folder.join(JSONL);
        append(&mut self.jsonl, &path, &json(&Line::Evaluation(evaluation.clone())))?;
        self.evaluations.push(evaluation);
        replaced(&self.folder.join(CURVE), &curve(&self.steps, &self.evaluations)).map(drop)
    }

    /// The evaluations so far.
    pub fn evaluations(&self) -> &[EvaluationLog] {
        &self.evaluations
    }
}

/// The lines up to a step. One that was not written to its end is left out.
fn read(path: &Path, resumed: u64) -> Result<Vec<Line>, TrainError> {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(TrainError::io(path)(error)),
    };
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    Ok(lines.filter(|line| line.step() <= resumed).collect())
}

fn json(line: &Line) -> String {
    // Numbers and strings alone are always written.
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

fn header(slots: usize) -> String {
    let slots = (1..=slots).map(|slot| format!(",accuracy_{slot}"));
    format!("{COLUMNS}{}\n", slots.collect::<String>())
}

fn row(log: &StepLog, slots: usize) -> String {
    let StepLog { step, steps, epoch, tokens, loss, grad_norm, lr, steps_per_s, seconds, accuracy } = log;
    let mut row = format!("{step},{steps},{epoch},{tokens},{loss},{grad_norm},{lr},{steps_per_s},{seconds}");
    for slot in 0..slots {
        row.push(',');
        accuracy.get(slot).into_iter().for_each(|part| _ = write!(row, "{part}"));
    }
    row.push('\n');
    row
}

/// A file with this text, whole or as it was, ready for more.
fn replaced(path: &Path, text: &str) -> Result<File, TrainError> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text).map_err(TrainError::io(&partial))?;
    fs::rename(&partial, path).map_err(TrainError::io(path))?;
    OpenOptions::new().append(true).open(path).map_err(TrainError::io(path))
}

fn append(file: &mut File, path: &Path, line: &str) -> Result<(), TrainError> {
    file.write_all(line.as_bytes()).map_err(TrainError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::step::Held;

    fn step(step: u64) -> StepLog {
        let accuracy = vec![0.5, 0.25];
        StepLog {
            step,
            steps: 9,
            tokens: 100 * step,
            loss: 4.0 / step as f64,
            accuracy,
            ..StepLog::default()
        }
    }

    fn evaluation(step: u64) -> EvaluationLog {
        let all = Held { prompts: 1, tokens_per_cycle: 1.5, acceptance: vec![0.5] };
        EvaluationLog { step, tokens: 100 * step, width: 3, all, ..EvaluationLog::default() }
    }

    fn texts(folder: &Path) -> [String; 2] {
        [CSV, JSONL].map(|name| fs::read_to_string(folder.join(name)).unwrap())
    }

    #[test]
    fn a_resumed_log_is_that_of_a_training_in_one_go() {
        let dir = tempfile::tempdir().unwrap();
        let (whole, resumed) = (dir.path().join("a"), dir.path().join("b"));
        let run = |folder: &Path, from: u64, to: u64| {
            let mut log = Log::open(folder, 2, from).unwrap();
            for at in from + 1..=to {
                log.step(step(at)).unwrap();
                (at % 2 == 0).then(|| log.evaluation(evaluation(at)).unwrap());
            }
            log.evaluations().len()
        };
        assert_eq!(run(&whole, 0, 6), 3);
        run(&resumed, 0, 5);
        let mut cut = OpenOptions::new().append(true).open(resumed.join(JSONL)).unwrap();
        cut.write_all(b"{\"kind\":\"step\",\"st").unwrap();
        assert_eq!(run(&resumed, 3, 6), 3);
        assert_eq!(texts(&resumed), texts(&whole));
        let curves = [&whole, &resumed].map(|folder| fs::read_to_string(folder.join(CURVE)).unwrap());
        assert_eq!(curves[0], curves[1]);
        let [csv, jsonl] = texts(&whole);
        assert_eq!(csv.lines().next(), Some(&*format!("{COLUMNS},accuracy_1,accuracy_2")));
        assert_eq!(csv.lines().nth(2), Some("2,9,0,200,2,0,0,0,0,0.5,0.25"));
        assert_eq!((csv.lines().count(), jsonl.lines().count()), (7, 9));
        run(&whole, 0, 1);
        assert_eq!(texts(&whole).map(|text| text.lines().count()), [2, 1], "a new training begins a new log");
        run(&dir.path().join("nothing"), 2, 3);
        assert_eq!(texts(&dir.path().join("nothing"))[0].lines().count(), 2);
    }
}
