/// The name of a tensor of the text model, whatever it is wrapped in: models with more than text put it
/// below `model.language_model` or `language_model`. The canonical form is that of a text model alone
/// (`model.layers...`, `lm_head`).
pub(crate) fn text_name(name: &str) -> String {
    match name.strip_prefix("model.language_model.") {
        Some(rest) => format!("model.{rest}"),
        None => name.strip_prefix("language_model.").unwrap_or(name).to_owned(),
    }
}

/// The name that a file would give a tensor it lacks, told from one that it holds: `like` is a pair of
/// canonical name and name in the file. Works where both differ from the wanted one only in their numbers,
/// such as the layer.
pub(crate) fn by_analogy(wanted: &str, like: (&str, &str)) -> Option<String> {
    let (canonical, in_file) = like;
    if numbers(canonical).ne(numbers(in_file)) || !same_words(wanted, canonical) {
        return None;
    }
    let mut numbers = numbers(wanted);
    let replaced = in_file.split('.').map(|word| if is_number(word) { numbers.next() } else { Some(word) });
    replaced.collect::<Option<Vec<_>>>().map(|words| words.join("."))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn numbers(name: &str) -> impl Iterator<Item = &str> {
    name.split('.').filter(|word| is_number(word))
}

fn same_words(a: &str, b: &str) -> bool {
    let (a, b) = (a.split('.').collect::<Vec<_>>(), b.split('.').collect::<Vec<_>>());
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a == b || is_number(a) && is_number(b))
}

#[cfg(test)]
mod tests {
    use super::{by_analogy, text_name};

    #[test]
    fn the_text_model_is_found_in_its_wrapping() {
        for (name, canonical) in [
            ("model.language_model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
            ("language_model.model.layers.0.mlp.up_proj.scales", "model.layers.0.mlp.up_proj.scales"),
            ("language_model.lm_head.weight", "lm_head.weight"),
            ("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
            ("lm_head.weight", "lm_head.weight"),
            ("vision_tower.blocks.0.norm.weight", "vision_tower.blocks.0.norm.weight"),
        ] {
            assert_eq!(text_name(name), canonical);
        }
    }

    #[test]
    fn the_layer_is_carried_over() {
        let like = ("model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight");
        assert_eq!(
            by_analogy("model.layers.12.mlp.up_proj.weight", like).as_deref(),
            Some("blk.12.ffn_up.weight")
        );
        assert_eq!(by_analogy("model.layers.12.mlp.down_proj.weight", like), None);
        assert_eq!(by_analogy("model.norm.weight", like), None);
        let like = ("layers.0.experts.3.up.weight", "model.layers.0.experts.3.up.weight");
        assert_eq!(
            by_analogy("layers.2.experts.7.up.weight", like).as_deref(),
            Some("model.layers.2.experts.7.up.weight")
        );
        assert_eq!(by_analogy("layers.2.x", ("layers.3.x", "blk.4.x")), None, "another numbering");
    }
}
