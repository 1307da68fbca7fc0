//! Which GGUF file of a repository: it often holds the same model in a dozen quantisations.

use std::collections::BTreeMap;

use super::HubError;

/// One model in GGUF, in one file or in numbered parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GgufModel {
    /// The file's path; without the part's number where there are parts.
    pub(super) name: String,
    /// Every file it consists of, the one to open first.
    pub(super) parts: Vec<String>,
}

/// Files in GGUF that are no language model: the image side of one, and what quantising it took.
const ASIDE: [&str; 2] = ["mmproj", "imatrix"];

/// The models among `files`, sorted by name.
pub(super) fn models<'a>(files: impl IntoIterator<Item = &'a str>) -> Vec<GgufModel> {
    let mut found = BTreeMap::new();
    for file in files.into_iter().filter(|file| is_model(file)) {
        let (name, parts) = whole(file);
        found.entry(name).or_insert(parts);
    }
    found.into_iter().map(|(name, parts)| GgufModel { name, parts }).collect()
}

/// The model that `choice` names, or the only one.
pub(super) fn choose(models: Vec<GgufModel>, choice: Option<&str>) -> Result<GgufModel, HubError> {
    let names = |models: &[GgufModel]| models.iter().map(|model| model.name.clone()).collect::<Vec<_>>();
    let all = names(&models);
    let mut matching: Vec<_> =
        models.into_iter().filter(|model| choice.is_none_or(|choice| model.is_called(choice))).collect();
    // A plain quantisation beside its variants (`-UD-Q4_K_M`) is the one that was named.
    if let Some(plain) = matching.iter().position(|model| model.is_plain_among(&matching, choice)) {
        matching = vec![matching.swap_remove(plain)];
    }
    match (matching.len(), choice) {
        (1, _) => Ok(matching.remove(0)),
        (0, Some(choice)) => Err(HubError::NoSuchGguf { choice: choice.to_owned(), files: all }),
        (0, None) => Err(HubError::NoWeights),
        _ => Err(HubError::SeveralGguf { files: names(&matching) }),
    }
}

impl GgufModel {
    /// A path, a file name, or the quantisation tag at the name's end.
    fn is_called(&self, choice: &str) -> bool {
        let choice = choice.to_lowercase();
        let file_names = self.parts.iter().chain([&self.name]).map(|part| part.to_lowercase());
        let is_file = |name: String| name == choice || name.rsplit('/').next() == Some(&choice);
        file_names.into_iter().any(is_file) || self.before_tag(&choice).is_some()
    }

    /// The file name before the tag `choice`, without the separator.
    fn before_tag(&self, choice: &str) -> Option<String> {
        let stem = self.name.to_lowercase();
        let stem = stem.rsplit('/').next().and_then(|name| name.strip_suffix(".gguf"))?;
        let before = stem.strip_suffix(&choice.to_lowercase())?;
        before.strip_suffix(['-', '.', '_']).or(before.is_empty().then_some("")).map(str::to_owned)
    }

    fn is_plain_among(&self, others: &[Self], choice: Option<&str>) -> bool {
        let Some(own) = choice.and_then(|choice| self.before_tag(choice)) else { return false };
        let begins = |other: &Self| {
            choice.and_then(|choice| other.before_tag(choice)).is_some_and(|before| before.starts_with(&own))
        };
        others.iter().all(begins)
    }
}

fn is_model(file: &str) -> bool {
    let lower = file.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    name.ends_with(".gguf") && !ASIDE.iter().any(|word| name.contains(word))
}

/// The name of the model that `file` belongs to, and all of its files:
/// `m-00002-of-00003.gguf` is the second of three.
fn whole(file: &str) -> (String, Vec<String>) {
    let one = || (file.to_owned(), vec![file.to_owned()]);
    let Some(stem) = file.strip_suffix(".gguf") else { return one() };
    let Some((rest, count)) = stem.rsplit_once("-of-") else { return one() };
    let Some((name, number)) = rest.rsplit_once('-') else { return one() };
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    match count.parse::<u32>() {
        Ok(total @ 1..) if is_number(count) && is_number(number) => {
            let parts = (1..=total).map(|part| format!("{name}-{part:05}-of-{count}.gguf")).collect();
            (format!("{name}.gguf"), parts)
        }
        _ => one(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 9] = [
        "README.md",
        "mmproj-F16.gguf",
        "imatrix_unsloth.gguf",
        "M-8B-Q4_K_M.gguf",
        "M-8B-UD-Q4_K_M.gguf",
        "M-8B-Q4_K_S.gguf",
        "M-8B.Q8_0.gguf",
        "BF16/M-8B-BF16-00001-of-00002.gguf",
        "BF16/M-8B-BF16-00002-of-00002.gguf",
    ];

    fn chosen(choice: &str) -> Result<GgufModel, HubError> {
        choose(models(FILES), Some(choice))
    }

    #[test]
    fn tags_and_files_choose() {
        for (choice, name) in [
            ("Q4_K_M", "M-8B-Q4_K_M.gguf"),
            ("q4_k_s", "M-8B-Q4_K_S.gguf"),
            ("UD-Q4_K_M", "M-8B-UD-Q4_K_M.gguf"),
            ("Q8_0", "M-8B.Q8_0.gguf"),
            ("m-8b.q8_0.gguf", "M-8B.Q8_0.gguf"),
        ] {
            assert_eq!(chosen(choice).unwrap().parts, [name], "{choice}");
        }
    }

    #[test]
    fn all_parts_of_a_split_file_are_taken() {
        let parts = ["BF16/M-8B-BF16-00001-of-00002.gguf", "BF16/M-8B-BF16-00002-of-00002.gguf"];
        for choice in ["BF16", "M-8B-BF16.gguf", parts[0], "M-8B-BF16-00002-of-00002.gguf"] {
            assert_eq!(chosen(choice).unwrap().parts, parts, "{choice}");
        }
    }

    #[test]
    fn what_cannot_be_chosen_lists_the_files() {
        let HubError::NoSuchGguf { files, .. } = chosen("Q5_K_M").unwrap_err() else { panic!() };
        assert_eq!(files.len(), 5);
        let HubError::SeveralGguf { files } = choose(models(FILES), None).unwrap_err() else { panic!() };
        assert_eq!(files.len(), 5);
        let two = models(["A-1B-Q4_0.gguf", "B-3B-Q4_0.gguf"]);
        assert!(matches!(choose(two, Some("Q4_0")), Err(HubError::SeveralGguf { .. })));
        assert!(matches!(choose(models(["mmproj.gguf"]), None), Err(HubError::NoWeights)));
    }

    #[test]
    fn an_only_file_needs_no_choice() {
        assert_eq!(choose(models(["m.gguf", "mmproj.gguf"]), None).unwrap().parts, ["m.gguf"]);
    }
}
