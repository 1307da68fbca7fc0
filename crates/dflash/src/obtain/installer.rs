//! The package downloaders of this machine, and how each is asked for one wheel.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::{Attempt, ObtainError, Obtainer, WheelFile};
use crate::env::Environment;
use crate::progress::Step;

/// A program that can fetch a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installer {
    /// `pip`
    Pip(PathBuf),
    /// `python3 -m pip`
    PythonPip(PathBuf),
    /// `uv`
    Uv(PathBuf),
}

/// What a downloader left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Product {
    /// A wheel.
    Wheel(PathBuf),
    /// The file itself, out of the wheel.
    Unpacked(PathBuf),
}

const POLL: Duration = Duration::from_millis(50);
const KEPT_BYTES: usize = 8 << 10;
const TAIL_LINES: usize = 6;
const TAIL_WIDTH: usize = 240;

impl Installer {
    /// The downloaders on the PATH, in the order in which they are tried.
    pub fn find_all(env: &Environment) -> Vec<Self> {
        let python = env.find_program("python3").or_else(|| env.find_program("python"));
        let found = [
            env.find_program("pip").map(Self::Pip),
            python.map(Self::PythonPip),
            env.find_program("uv").map(Self::Uv),
        ];
        found.into_iter().flatten().collect()
    }

    /// Fetches the wheel of `file` into `room`. The outer error ends everything, the inner one is a
    /// reason to try the next downloader.
    pub fn download(
        &self,
        file: &WheelFile,
        room: &Path,
        obtainer: &Obtainer<'_>,
    ) -> Result<Result<Product, Attempt>, ObtainError> {
        let rooms = Rooms::create(room)?;
        let label = format!(
            "fetching {} ({} from the package index, with {})",
            file.file_name(),
            file.requirement(),
            self.name()
        );
        let step = obtainer.progress.step(&label, file.download_size);
        let mut child = match self.command(file, &rooms, obtainer.env).spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(self.attempt(file, error.to_string()))),
        };
        let said = child.stderr.take().map(|pipe| std::thread::spawn(|| last_bytes(pipe)));
        let status = wait(child, room, &step, obtainer)?;
        if !status.success() {
            let said = said.and_then(|reader| reader.join().ok()).unwrap_or_default();
            return Ok(Err(self.attempt(file, format!("{status}\n{}", tail(&said)))));
        }
        Ok(self
            .product(file, &rooms.out)
            .ok_or_else(|| self.attempt(file, "it ended well and left no wheel".to_owned())))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pip(_) => "pip",
            Self::PythonPip(_) => "python3 -m pip",
            Self::Uv(_) => "uv",
        }
    }

    fn program(&self) -> &Path {
        match self {
            Self::Pip(path) | Self::PythonPip(path) | Self::Uv(path) => path,
        }
    }

    /// No build from source and no cache: source would run code of the package, and a cache would
    /// give a bad download again (and keep a second copy of a good one).
    fn arguments(&self) -> &'static [&'static str] {
        const PIP: &[&str] = &[
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--no-cache-dir",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
            "--dest",
        ];
        // uv has no command that downloads a wheel: an installation into a folder of its own comes
        // nearest, and leaves the file already unpacked.
        const UV: &[&str] = &[
            "pip",
            "install",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--no-cache",
            "--no-progress",
            "--target",
        ];
        match self {
            Self::Pip(_) => &PIP[2..],
            Self::PythonPip(_) => PIP,
            Self::Uv(_) => UV,
        }
    }

    fn command(&self, file: &WheelFile, rooms: &Rooms, env: &Environment) -> Command {
        let mut command = Command::new(self.program());
        command.args(self.arguments()).arg(&rooms.out).arg(file.requirement());
        command.env_clear().envs(env.iter());
        // What the downloader itself leaves behind when it is killed lies in our folder, too.
        command.envs(["TMPDIR", "TEMP", "TMP"].map(|name| (name, &rooms.temp)));
        // Python puts the folder it starts in on its module path, and uv reads settings from there:
        // neither is meant to come from where the user happens to stand.
        command.current_dir(&rooms.temp);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn product(&self, file: &WheelFile, out: &Path) -> Option<Product> {
        match self {
            Self::Uv(_) => Some(out.join(&file.member)).filter(|path| path.is_file()).map(Product::Unpacked),
            _ => {
                let paths = fs::read_dir(out).ok()?.flatten().map(|entry| entry.path());
                paths
                    .filter(|path| path.extension().is_some_and(|ext| ext == "whl"))
                    .max()
                    .map(Product::Wheel)
            }
        }
    }

    fn attempt(&self, file: &WheelFile, outcome: String) -> Attempt {
        let verb = if matches!(self, Self::Uv(_)) { "pip install" } else { "download" };
        Attempt { command: format!("{} {verb} {}", self.name(), file.requirement()), outcome }
    }
}

/// One try's folders; the temporary folder around them is removed whatever happens.
struct Rooms {
    out: PathBuf,
    temp: PathBuf,
}

impl Rooms {
    fn create(room: &Path) -> Result<Self, ObtainError> {
        let rooms = Self { out: room.join("out"), temp: room.join("temp") };
        for dir in [&rooms.out, &rooms.temp] {
            fs::create_dir_all(dir).map_err(ObtainError::io("create", dir))?;
        }
        Ok(rooms)
    }
}

fn wait(
    mut child: Child,
    room: &Path,
    step: &Step,
    obtainer: &Obtainer<'_>,
) -> Result<ExitStatus, ObtainError> {
    loop {
        if let Some(status) = child.try_wait().map_err(ObtainError::io("wait for the downloader in", room))? {
            // Ctrl-C reaches the downloader as well: its failure is then not worth a report.
            obtainer.stop_if_asked()?;
            return Ok(status);
        }
        if obtainer.interrupt.is_asked() {
            // Its folder can only be removed once it is gone.
            let _ = child.kill();
            let _ = child.wait();
            return Err(ObtainError::Interrupted);
        }
        step.set(bytes_below(room));
        std::thread::sleep(POLL);
    }
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            entry
                .metadata()
                .map_or(0, |meta| if meta.is_dir() { bytes_below(&entry.path()) } else { meta.len() })
        })
        .sum()
}

/// Reads all of it, so that the writer never waits, and keeps the end. Not through a file: the disk may be full,
/// and that is then what it says.
fn last_bytes(mut pipe: impl Read) -> Vec<u8> {
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = pipe.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..read]);
        let surplus = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..surplus);
    }
    kept
}

/// The end of what the downloader said; the reason is in its last lines.
fn tail(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(TAIL_LINES)..].iter();
    last.map(|line| line.chars().take(TAIL_WIDTH).collect::<String>()).collect::<Vec<_>>().join("\n")
}
