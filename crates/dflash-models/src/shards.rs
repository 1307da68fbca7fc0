use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::ModelError;
use crate::json::Document;
use crate::map::{Map, regular};
use crate::safetensors::Header;

const INDEX: &str = "model.safetensors.index.json";

/// The safetensors files of a checkpoint directory.
pub(crate) struct Shards {
    /// Every file with its header.
    pub(crate) files: Vec<(Map, Header)>,
    /// What a user may want to know, such as files that are not read.
    pub(crate) notes: Vec<String>,
}

impl Shards {
    /// Maps the files that the index names, or all of them, and reads their headers.
    ///
    /// # Errors
    /// [`ModelError::Incomplete`] with every missing and every short file, or what is wrong with a file.
    pub(crate) fn open(dir: &Path) -> Result<Self, ModelError> {
        match index(dir)? {
            None => Ok(Self { files: open_all(dir, complete(dir, named(dir)?)?)?, notes: Vec::new() }),
            Some(index) => {
                let names = index.values().cloned().collect::<BTreeSet<_>>();
                let files = open_all(dir, names.clone())?;
                check_index(dir, &index, &files)?;
                Ok(Self { files, notes: beside_index(dir, &index, &names)? })
            }
        }
    }
}

fn open_all(dir: &Path, files: BTreeSet<String>) -> Result<Vec<(Map, Header)>, ModelError> {
    let (opened, short) = open_present(dir, &files)?;
    let missing = files.into_iter().filter(|name| !dir.join(name).exists()).collect::<Vec<_>>();
    if !missing.is_empty() || !short.is_empty() {
        return Err(ModelError::Incomplete { dir: dir.to_owned(), missing, short });
    }
    Ok(opened)
}

type Opened = (Vec<(Map, Header)>, Vec<String>);

fn open_present(dir: &Path, files: &BTreeSet<String>) -> Result<Opened, ModelError> {
    let (mut opened, mut short) = (Vec::new(), Vec::new());
    for name in files.iter().filter(|name| dir.join(name).exists()) {
        let path = dir.join(name);
        if regular(&path)?.len() == 0 {
            short.push(name.clone());
            continue;
        }
        let map = Map::open(&path)?;
        let header = Header::read(&map)?;
        if header.short {
            short.push(name.clone());
        }
        opened.push((map, header));
    }
    Ok((opened, short))
}

/// Tensor name to file name, when the directory has an index.
fn index(dir: &Path) -> Result<Option<BTreeMap<String, String>>, ModelError> {
    let Some(document) = Document::open_optional(&dir.join(INDEX))? else { return Ok(None) };
    let keys = document.keys()?;
    let weights = keys.object("weight_map")?.ok_or_else(|| keys.missing("weight_map"))?;
    let mut index = BTreeMap::new();
    for (tensor, _) in weights.entries() {
        let file = weights.text(tensor)?.ok_or_else(|| weights.missing(tensor))?;
        // A file name only: an index must not lead out of its directory.
        if Path::new(file).file_name() != Some(file.as_ref()) {
            return Err(weights.bad(tensor, "the name of a file in the same directory"));
        }
        index.insert(tensor.clone(), file.to_owned());
    }
    Ok(Some(index))
}

/// Every `model*.safetensors`.
fn named(dir: &Path) -> Result<BTreeSet<String>, ModelError> {
    let io = |source| ModelError::Io { path: dir.to_owned(), source };
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
        if name.starts_with("model") && name.ends_with(".safetensors") {
            files.insert(name);
        }
    }
    Ok(files)
}

/// At least one file; adds the siblings that names such as `model-00001-of-00003.safetensors` promise.
fn complete(dir: &Path, mut files: BTreeSet<String>) -> Result<BTreeSet<String>, ModelError> {
    if files.is_empty() {
        let why = "it holds no model*.safetensors file; an unfinished download is the usual cause".into();
        return Err(ModelError::NotACheckpoint { path: dir.to_owned(), why });
    }
    let promised = files.iter().filter_map(|name| siblings(name)).flatten().collect::<Vec<_>>();
    if promised.len() > 1 << 16 {
        let what = "its file names promise too many shards".into();
        return Err(ModelError::Damaged { path: PathBuf::from(dir), what });
    }
    files.extend(promised);
    Ok(files)
}

fn siblings(name: &str) -> Option<impl Iterator<Item = String> + use<>> {
    let (head, count) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (stem, number) = head.rsplit_once('-')?;
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(number) || !digits(count) {
        return None;
    }
    let (stem, count) = (stem.to_owned(), count.parse::<usize>().ok().filter(|&count| count <= 4096)?);
    Some((1..=count).map(move |n| format!("{stem}-{n:05}-of-{count:05}.safetensors")))
}

/// Every tensor of the index stands in the file that the index names.
fn check_index(
    dir: &Path,
    index: &BTreeMap<String, String>,
    files: &[(Map, Header)],
) -> Result<(), ModelError> {
    let mut held = BTreeMap::new();
    for (map, header) in files {
        let file = map.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for tensor in &header.tensors {
            held.entry(tensor.name.as_str()).or_insert_with(BTreeSet::new).insert(file.clone());
        }
    }
    let place = |tensor: &str| held.get(tensor).and_then(|files| files.first());
    let holds = |tensor: &str, file: &str| held.get(tensor).is_some_and(|files| files.contains(file));
    match index.iter().find(|(tensor, file)| !holds(tensor, file)) {
        None => Ok(()),
        Some((tensor, file)) => {
            let found = match place(tensor) {
                Some(other) => format!("{other} does"),
                None => "no file does".into(),
            };
            let what = format!(
                "the index puts tensor {tensor} there, but the file does not hold it ({found}): \
                 {INDEX} is of another version"
            );
            Err(ModelError::Damaged { path: dir.join(file), what })
        }
    }
}

/// Notes on files that the index does not name: they are not read, and must not hold what it names.
fn beside_index(
    dir: &Path,
    index: &BTreeMap<String, String>,
    names: &BTreeSet<String>,
) -> Result<Vec<String>, ModelError> {
    let extra = named(dir)?.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>();
    for name in &extra {
        if let Some((tensor, file)) = repeated(&dir.join(name), index) {
            let what =
                format!("it holds tensor {tensor}, which the index puts into {file}: remove the wrong file");
            return Err(ModelError::Damaged { path: dir.join(name), what });
        }
    }
    Ok(match extra.is_empty() {
        true => Vec::new(),
        false => vec![format!("files that {INDEX} does not name are not read: {}", extra.join(", "))],
    })
}

/// A tensor of the index that a file holds. One that cannot be read holds none: it is not asked for.
fn repeated<'a>(path: &Path, index: &'a BTreeMap<String, String>) -> Option<(&'a String, &'a String)> {
    regular(path).ok()?;
    let header = Header::read(&Map::open(path).ok()?).ok()?;
    header.tensors.iter().find_map(|tensor| index.get_key_value(&tensor.name))
}
