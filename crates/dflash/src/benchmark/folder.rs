use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::html;
use super::summary::Summary;
use super::trial::Trial;
use crate::report::{Failure, Outcome};
use crate::run::to_json;

/// Where benchmarks are kept unless the user says otherwise, below the working directory.
const PLACE: &str = ".artifacts/dflash/benchmarks";
/// The file that a benchmark always has.
const TRIALS: &str = "runs.jsonl";

/// The files of one benchmark.
pub struct Folder {
    path: PathBuf,
    trials: File,
}

impl Folder {
    /// Says before the models are loaded that there will be no place for the files.
    pub fn check(out: Option<&Path>) -> Outcome<()> {
        let place = out.unwrap_or(Path::new(PLACE));
        fs::create_dir_all(place).map_err(|error| unwritable(place, error))?;
        match out.is_some() && place.join(TRIALS).exists() {
            true => Err(taken(place)),
            false => Ok(()),
        }
    }

    /// Makes the folder: `out`, or one of the name `name` that is not there yet.
    pub fn create(out: Option<&Path>, name: &str) -> Outcome<Self> {
        let path = match out {
            Some(out) => out.to_owned(),
            None => {
                new_folder(Path::new(PLACE), name).map_err(|error| unwritable(Path::new(PLACE), error))?
            }
        };
        let trials = match File::create_new(path.join(TRIALS)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(taken(&path)),
            Err(error) => return Err(unwritable(&path, error)),
        };
        Ok(Self { path, trials })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an answer down at once: what an interruption leaves is whole.
    pub fn add(&mut self, trial: &Trial) -> Outcome<()> {
        let line = serde_json::to_string(trial).map_err(|error| Failure::from_error(&error))? + "\n";
        self.trials.write_all(line.as_bytes()).map_err(|error| unwritable(&self.path, error))
    }

    /// Writes the summary in all its forms.
    pub fn finish(&self, summary: &Summary) -> Outcome<()> {
        self.json("results.json", summary)?;
        self.json("summary.json", summary)?;
        self.file("summary.md", &summary.markdown())?;
        let value = serde_json::to_value(summary).map_err(|error| Failure::from_error(&error))?;
        self.file("report.html", &html::page(&value)?)
    }

    /// Writes a file of JSON.
    pub fn json(&self, name: &str, value: &impl Serialize) -> Outcome<()> {
        self.file(name, &to_json(value)?)
    }

    /// Written beside and renamed, so that nobody sees half of it.
    fn file(&self, name: &str, text: &str) -> Outcome<()> {
        let part = self.path.join(format!(".{name}.part"));
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, self.path.join(name)));
        written.map_err(|error| unwritable(&self.path, error))
    }
}

/// A folder of this name, or with a number behind it.
fn new_folder(place: &Path, name: &str) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let path = place.join(if number == 1 { name.to_owned() } else { format!("{name}-{number}") });
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            done => return done.map(|()| path),
        }
    }
}

fn unwritable(path: &Path, error: io::Error) -> Failure {
    Failure::new(format!("cannot write the benchmark's files to {}", path.display()))
        .cause(error)
        .hint("pass --out DIR with a directory that can be written")
}

fn taken(path: &Path) -> Failure {
    Failure::usage(format!("{} holds a benchmark already", path.display()))
        .hint("pass --out with another directory, or leave it out for a new one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_one_name_are_numbered() {
        let place = tempfile::tempdir().unwrap();
        let names = (0..3).map(|_| new_folder(place.path(), "a").unwrap());
        let expected = ["a", "a-2", "a-3"].map(|name| place.path().join(name));
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_folder_with_a_benchmark_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("deep/out");
        Folder::check(Some(&out)).unwrap();
        Folder::create(Some(&out), "a").unwrap();
        for failure in [Folder::check(Some(&out)).err(), Folder::create(Some(&out), "a").err()] {
            let failure = failure.unwrap();
            assert!(failure.message().ends_with("holds a benchmark already"), "{failure}");
            assert_eq!(failure.exit_code(), 2);
        }
    }

    #[test]
    fn a_file_in_the_way_is_told() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("file");
        fs::write(&out, "x").unwrap();
        let failure = Folder::check(Some(&out)).unwrap_err();
        assert!(failure.message().starts_with("cannot write the benchmark's files to "), "{failure}");
        assert!(failure.hints()[0].contains("--out"));
    }
}
