//! Which GGUF file of a repository: it often holds the same model in a dozen quantisations.

use std::collections::BTreeMap;

use super::HubError;

/// One model in GGUF, in one file or in numbered parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GgufModel {
    /// The file's path; without the part's number where there are parts.
    pub(super) name: String,
    /// The number of parts as their names have it, five digits.
    count: Option<String>,
}

/// Files in GGUF that are no language model: the image side of one, and what quantising it took.
const ASIDE: [&str; 2] = ["mmproj", "imatrix"];

/// The models among `files`, sorted by name.
pub(super) fn models<'a>(files: impl IntoIterator<Item = &'a str>) -> Vec<GgufModel> {
    let mut found = BTreeMap::new();
    for model in files.into_iter().filter(|file| is_model(file)).map(GgufModel::of_file) {
        found.entry(model.name.clone()).or_insert(model);
    }
    found.into_values().collect()
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
    /// The model that a file is, or is a part of.
    fn of_file(file: &str) -> Self {
        let split = file.strip_suffix(".gguf").and_then(split);
        match split {
            Some((name, count)) => Self { name: format!("{name}.gguf"), count: Some(count.to_owned()) },
            None => Self { name: file.to_owned(), count: None },
        }
    }

    /// Every file it consists of, the one to open first. A file name may promise many parts, so they are not
    /// listed before a model is chosen.
    pub(super) fn parts(&self) -> Vec<String> {
        let Some(count) = &self.count else { return vec![self.name.clone()] };
        let stem = self.name.strip_suffix(".gguf").unwrap_or(&self.name);
        (1..=count.parse().unwrap_or(1u32)).map(|part| format!("{stem}-{part:05}-of-{count}.gguf")).collect()
    }

    /// A path, a file name, or the quantisation tag at the name's end.
    fn is_called(&self, choice: &str) -> bool {
        let choice = choice.to_lowercase();
        let name = self.name.to_lowercase();
        let is_file = |file: &str| name == file || name.rsplit('/').next() == Some(file);
        let of_part = Self::of_file(&choice);
        let is_part = of_part.count.is_some() && of_part.count == self.count && is_file(&of_part.name);
        is_file(&choice) || is_part || self.before_tag(&choice).is_some()
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

/// Name and count of a stem that ends as that of a part does (`-00002-of-00003`).
fn split(stem: &str) -> Option<(&str, &str)> {
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (name, number) = rest.rsplit_once('-')?;
    let number_of = |text: &str| {
        let digits = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse::<u32>().ok() } else { None }
    };
    (1..=number_of(count)?).contains(&number_of(number)?).then_some((name, count))
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
            assert_eq!(chosen(choice).unwrap().parts(), [name], "{choice}");
        }
    }

    #[test]
    fn all_parts_of_a_split_file_are_taken() {
        let parts = ["BF16/M-8B-BF16-00001-of-00002.gguf", "BF16/M-8B-BF16-00002-of-00002.gguf"];
        for choice in ["BF16", "M-8B-BF16.gguf", parts[0], "M-8B-BF16-00002-of-00002.gguf"] {
            assert_eq!(chosen(choice).unwrap().parts(), parts, "{choice}");
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

    /// Spelled out, these would be a milliard names.
    #[test]
    fn names_that_promise_many_parts_are_not_spelled_out() {
        let files: Vec<String> = (0..10_000).map(|n| format!("m{n}-00001-of-99999.gguf")).collect();
        let all = || models(files.iter().map(String::as_str));
        let error = choose(all(), None).unwrap_err();
        let HubError::SeveralGguf { files } = &error else { panic!("{error}") };
        assert_eq!(files.len(), 10_000);
        let said = error.to_string();
        assert!(said.len() < 2_000 && said.ends_with("and 9936 more"), "{said}");
        assert_eq!(choose(all(), Some("m7")).unwrap().parts().len(), 99_999);
        assert_eq!(
            choose(models(["m-00003-of-00002.gguf"]), None).unwrap().parts(),
            ["m-00003-of-00002.gguf"]
        );
    }

    #[test]
    fn an_only_file_needs_no_choice() {
        assert_eq!(choose(models(["m.gguf", "mmproj.gguf"]), None).unwrap().parts(), ["m.gguf"]);
    }
}
