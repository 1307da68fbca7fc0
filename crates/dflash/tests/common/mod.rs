//! The real binary in an environment of its own: no home, no PATH, no network program.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A place for one test.
pub struct Sandbox {
    /// Its folder.
    pub dir: TempDir,
    vars: Vec<(String, String)>,
}

/// What the binary did.
pub struct Ran {
    /// Exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Sandbox {
    /// An empty place.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().display().to_string();
        let vars = [
            ("HOME", home.clone()),
            ("USERPROFILE", home.clone()),
            ("DFLASH_CACHE", format!("{home}/cache")),
        ];
        Self { vars: vars.map(|(name, value)| (name.to_owned(), value)).into(), dir }
    }

    /// With one more environment variable.
    pub fn var(mut self, name: &str, value: impl Into<String>) -> Self {
        self.vars.push((name.to_owned(), value.into()));
        self
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs `dflash` with nothing piped in.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with_input(args, b"")
    }

    /// Runs `dflash` with `input` piped in.
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dflash"));
        command.args(args).env_clear().envs(self.vars.iter().cloned()).current_dir(self.path());
        // Windows programs do not start without it.
        command.envs(std::env::var_os("SystemRoot").map(|root| ("SystemRoot", root)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads no input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code(),
            stdout: self.portable(&output.stdout),
            stderr: self.portable(&output.stderr),
        }
    }

    fn portable(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.replace(&self.path().display().to_string(), "[DIR]").replace('\\', "/").replace(".exe", "")
    }
}

impl Ran {
    /// Exit code and both streams, for snapshots.
    pub fn transcript(&self) -> String {
        format!("exit: {:?}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}
