use std::path::Path;

use crate::registry::Registry;

/// What requests may call the served model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedNames {
    /// Stands in answers.
    pub id: String,
    /// Others that somebody chose for it.
    pub aliases: Vec<String>,
    /// Others that mean it anyway: what was typed, its file, its repository.
    pub others: Vec<String>,
}

impl ServedNames {
    /// From the names that were chosen, what was typed as `--model`, and what the model is called where it was found.
    pub fn of(chosen: &[String], typed: &str, found: &[String]) -> Self {
        let entry = found.iter().find_map(|name| Registry::built_in().find(name));
        let own = entry.map(|entry| entry.name.clone());
        let last = Path::new(typed).file_name().map(|name| name.to_string_lossy().into_owned());
        let label = entry.map(|entry| entry.target.label().to_owned());
        let known = [own.clone(), last, Some(typed.to_owned()), label].into_iter().flatten();
        let mut names: Vec<String> = Vec::new();
        for name in chosen.iter().cloned().chain(known).chain(found.iter().cloned()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let chosen: Vec<_> = names.iter().filter(|name| chosen.contains(name)).cloned().collect();
        let id = names[0].clone();
        let others = names.into_iter().filter(|name| *name != id && !chosen.contains(name)).collect();
        Self { aliases: chosen.into_iter().filter(|name| *name != id).collect(), id, others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(chosen: &[&str], typed: &str, found: &[&str]) -> (String, Vec<String>, Vec<String>) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let ServedNames { id, aliases, others } = ServedNames::of(&owned(chosen), typed, &owned(found));
        (id, aliases, others)
    }

    #[test]
    fn the_registrys_name_then_the_last_part() {
        let (id, aliases, others) = of(&[], "mlx-community/Qwen3-4B-4bit", &["mlx-community/Qwen3-4B-4bit"]);
        assert_eq!((id.as_str(), aliases.len()), ("Qwen3-4B", 0));
        assert!(others.contains(&"mlx-community/Qwen3-4B-4bit".to_owned()));
        assert!(others.contains(&"Qwen3-4B-4bit".to_owned()));
        let (id, _, others) = of(&[], "/models/mine.gguf", &["mine.gguf"]);
        assert_eq!((id.as_str(), others), ("mine.gguf", vec!["/models/mine.gguf".to_owned()]));
    }

    #[test]
    fn chosen_names_come_first_and_the_own_ones_still_work() {
        let (id, aliases, others) = of(&["gpt", "claude", "gpt"], "smollm2-135m", &["smollm2-135m"]);
        assert_eq!((id.as_str(), aliases), ("gpt", vec!["claude".to_owned()]));
        assert!(others.contains(&"smollm2-135m".to_owned()));
    }
}
