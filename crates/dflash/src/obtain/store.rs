//! From what a downloader left to the file in its place: streamed, verified, then renamed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::installer::Product;
use super::{ObtainError, Obtainer, WheelFile};
use crate::progress::Step;

const CHUNK: usize = 1 << 20;

/// Puts the file of `product` at `path`, if it is the expected one. Until then it lies in `work`.
pub fn keep(
    product: Product,
    work: &Path,
    path: &Path,
    file: &WheelFile,
    obtainer: &Obtainer<'_>,
) -> Result<(), ObtainError> {
    let part = work.join("part");
    let step = obtainer.progress.step(&format!("unpacking {}", file.file_name()), file.size);
    let mut out = File::create_new(&part).map_err(ObtainError::io("create", &part))?;
    with_source(product, file, |source| {
        let write = |bytes: &[u8]| out.write_all(bytes).map_err(ObtainError::io("write", &part));
        verify(source, file, &step, obtainer, write)
    })?;
    out.sync_all().map_err(ObtainError::io("flush", &part))?;
    drop(out);
    fs::rename(&part, path).map_err(ObtainError::io("move the file to", path))?;
    sync_parent(path);
    Ok(())
}

/// Looks at the bytes of the file at `path`.
pub fn check(path: &Path, file: &WheelFile, obtainer: &Obtainer<'_>) -> Result<(), ObtainError> {
    let mut source = File::open(path).map_err(ObtainError::io("open", path))?;
    let step = obtainer.progress.step(&format!("checking {}", file.file_name()), file.size);
    verify(&mut source, file, &step, obtainer, |_| Ok(()))
}

fn with_source(
    product: Product,
    file: &WheelFile,
    read: impl FnOnce(&mut dyn Read) -> Result<(), ObtainError>,
) -> Result<(), ObtainError> {
    match product {
        Product::Wheel(path) => {
            let wheel = File::open(&path).map_err(ObtainError::io("open", &path))?;
            let mut archive = zip::ZipArchive::new(io::BufReader::new(wheel)).map_err(bad_wheel)?;
            let mut member = archive.by_name(&file.member).map_err(bad_wheel)?;
            read(&mut member)
        }
        Product::Unpacked(path) => read(&mut File::open(&path).map_err(ObtainError::io("open", &path))?),
    }
}

fn bad_wheel(error: impl std::fmt::Display) -> ObtainError {
    ObtainError::BadWheel { reason: error.to_string() }
}

/// Hands every chunk of `source` to `sink` and hashes it on the way. Reads no more than one byte too
/// many: an archive member can unpack to any size.
fn verify(
    source: &mut dyn Read,
    file: &WheelFile,
    step: &Step,
    obtainer: &Obtainer<'_>,
    mut sink: impl FnMut(&[u8]) -> Result<(), ObtainError>,
) -> Result<(), ObtainError> {
    let mut source = source.take(file.size + 1);
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut size = 0;
    loop {
        obtainer.stop_if_asked()?;
        let read = source.read(&mut chunk).map_err(bad_wheel)?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        sink(&chunk[..read])?;
        size += read as u64;
        step.set(size);
    }
    compare(size, &hex(&hash.finalize()), file)
}

fn compare(size: u64, sha256: &str, file: &WheelFile) -> Result<(), ObtainError> {
    if size != file.size {
        let found =
            if size > file.size { format!("more than {} bytes", file.size) } else { format!("{size} bytes") };
        return Err(ObtainError::Mismatch { wanted: format!("{} bytes", file.size), found });
    }
    if sha256 != file.sha256 {
        let (wanted, found) = (format!("sha256 {}", file.sha256), format!("sha256 {sha256}"));
        return Err(ObtainError::Mismatch { wanted, found });
    }
    Ok(())
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The rename itself must outlive a power cut; where a directory cannot be opened it has to do without.
fn sync_parent(path: &Path) {
    if let Some(dir) = path.parent().and_then(|dir| File::open(dir).ok()) {
        let _ = dir.sync_all();
    }
}
