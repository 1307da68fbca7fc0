use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::TextError;
use crate::regular_file::read_if_there;

/// What this crate needs from a `tokenizer_config.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenizerConfig {
    /// `bos_token`.
    pub bos: Option<String>,
    /// `eos_token`.
    pub eos: Option<String>,
    /// `add_bos_token`: whether a raw prompt begins with `bos`; absent means what `tokenizer.json` says.
    pub add_bos: Option<bool>,
    /// `chat_template` by name. A single template is called `default`.
    pub chat_templates: BTreeMap<String, String>,
}

impl TokenizerConfig {
    /// Reads the file's content.
    pub fn from_json(bytes: &[u8]) -> Result<Self, TextError> {
        let root: Value = serde_json::from_slice(bytes).map_err(|e| wrong(e.to_string()))?;
        if !root.is_object() {
            return Err(wrong("it is not an object".into()));
        }
        Ok(Self {
            bos: token(&root, "bos_token")?,
            eos: token(&root, "eos_token")?,
            add_bos: root["add_bos_token"].as_bool(),
            chat_templates: templates(&root["chat_template"])?,
        })
    }

    /// Reads `tokenizer_config.json` in `folder` (absent: an empty one) and the templates that stand beside it.
    ///
    /// `chat_template.jinja` and `additional_chat_templates/tool_use.jinja` win over those in the configuration;
    /// `chat_template.json`, which older processors wrote, counts where neither has one.
    pub fn from_folder(folder: &Path) -> Result<Self, TextError> {
        let mut config = match read_if_there(&folder.join("tokenizer_config.json"))? {
            Some(bytes) => Self::from_json(&bytes)?,
            None => Self::default(),
        };
        let files =
            [("default", "chat_template.jinja"), ("tool_use", "additional_chat_templates/tool_use.jinja")];
        for (name, file) in files {
            if let Some(bytes) = read_if_there(&folder.join(file))? {
                let template = String::from_utf8(bytes).map_err(|_| wrong(format!("{file} is not UTF-8")))?;
                config.chat_templates.insert(name.into(), template);
            }
        }
        for (name, template) in processor_templates(folder)? {
            config.chat_templates.entry(name).or_insert(template);
        }
        Ok(config)
    }

    /// The template for a conversation: `tool_use` when there are tools and it exists, else `default`.
    pub fn chat_template(&self, with_tools: bool) -> Option<&str> {
        let tool_use = with_tools.then(|| self.chat_templates.get("tool_use")).flatten();
        tool_use.or_else(|| self.chat_templates.get("default")).map(String::as_str)
    }
}

/// A token is written as a string or as an object with `content`.
fn token(root: &Value, key: &str) -> Result<Option<String>, TextError> {
    match &root[key] {
        Value::Null => Ok(None),
        Value::String(token) => Ok(Some(token.clone())),
        Value::Object(token) => match token.get("content").and_then(Value::as_str) {
            Some(content) => Ok(Some(content.to_owned())),
            None => Err(wrong(format!("{key} has no content"))),
        },
        _ => Err(wrong(format!("{key} is neither a string nor an object"))),
    }
}

fn templates(value: &Value) -> Result<BTreeMap<String, String>, TextError> {
    match value {
        Value::Null => Ok(BTreeMap::new()),
        Value::String(template) => Ok(BTreeMap::from([("default".into(), template.clone())])),
        Value::Array(list) => list.iter().map(named_template).collect(),
        _ => Err(wrong("chat_template is neither a string nor a list".into())),
    }
}

fn processor_templates(folder: &Path) -> Result<BTreeMap<String, String>, TextError> {
    let Some(bytes) = read_if_there(&folder.join("chat_template.json"))? else { return Ok(BTreeMap::new()) };
    let root: Value =
        serde_json::from_slice(&bytes).map_err(|e| wrong(format!("chat_template.json: {e}")))?;
    templates(&root["chat_template"])
}

fn named_template(entry: &Value) -> Result<(String, String), TextError> {
    match (entry["name"].as_str(), entry["template"].as_str()) {
        (Some(name), Some(template)) => Ok((name.to_owned(), template.to_owned())),
        _ => Err(wrong("an entry of chat_template lacks name or template".into())),
    }
}

fn wrong(reason: String) -> TextError {
    TextError::TokenizerConfig { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_tokens_and_templates() {
        let json = r#"{"bos_token": null, "eos_token": {"content": "</s>", "lstrip": false}, "add_bos_token": true,
            "chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]}"#;
        let config = TokenizerConfig::from_json(json.as_bytes()).unwrap();
        assert_eq!((config.bos.as_deref(), config.eos.as_deref()), (None, Some("</s>")));
        assert_eq!(config.add_bos, Some(true));
        assert_eq!((config.chat_template(false), config.chat_template(true)), (Some("d"), Some("t")));
        let config = TokenizerConfig::from_json(br#"{"bos_token": "<s>", "chat_template": "x"}"#).unwrap();
        assert_eq!((config.bos.as_deref(), config.chat_template(true)), (Some("<s>"), Some("x")));
    }

    #[test]
    fn wrong_forms_are_named() {
        for (json, said) in [
            ("[]", "not an object"),
            ("{", "EOF"),
            (r#"{"eos_token": 3}"#, "eos_token"),
            (r#"{"eos_token": {}}"#, "eos_token has no content"),
            (r#"{"chat_template": 1}"#, "chat_template"),
            (r#"{"chat_template": [{"name": "x"}]}"#, "lacks"),
        ] {
            let error = TokenizerConfig::from_json(json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(said), "{json}: {error}");
        }
    }

    #[test]
    fn the_template_file_wins() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(TokenizerConfig::from_folder(folder.path()).unwrap(), TokenizerConfig::default());
        std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"chat_template": "old"}"#).unwrap();
        std::fs::write(folder.path().join("chat_template.jinja"), "new").unwrap();
        assert_eq!(TokenizerConfig::from_folder(folder.path()).unwrap().chat_template(false), Some("new"));
    }

    #[test]
    fn every_place_for_a_template_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let chosen = || {
            let config = TokenizerConfig::from_folder(folder.path()).unwrap();
            [false, true].map(|tools| config.chat_template(tools).map(str::to_owned).unwrap())
        };
        write("chat_template.json", r#"{"chat_template": "processor"}"#);
        assert_eq!(chosen(), ["processor", "processor"]);
        write("tokenizer_config.json", r#"{"chat_template": [{"name": "default", "template": "listed"}]}"#);
        assert_eq!(chosen(), ["listed", "listed"]);
        std::fs::create_dir(folder.path().join("additional_chat_templates")).unwrap();
        write("additional_chat_templates/tool_use.jinja", "tools");
        assert_eq!(chosen(), ["listed", "tools"]);
        write("chat_template.jinja", "file");
        assert_eq!(chosen(), ["file", "tools"]);
        write("chat_template.json", "{");
        let error = TokenizerConfig::from_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("chat_template.json"), "{error}");
    }
}
