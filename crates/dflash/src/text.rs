//! The text side of a loaded model: prompt to ids, ids to text.

use std::io::ErrorKind;

use dflash_models::{GgufVocabulary, TextAssets};
use dflash_text::{
    ChatTemplate, Detokenizer, GgufVocab, Message, RenderRequest, StopStrings, TextError, TextGuard,
    Tokenizer, TokenizerConfig,
};

use crate::report::{Failure, Outcome};

/// Tokenizer and chat template of a model.
pub struct TextPipeline {
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    /// Of conversations with tools, where the model has one of its own for them.
    tool_use: Option<ChatTemplate>,
}

/// What a [`TextPipeline`] is made of.
pub struct TextParts {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Of conversations.
    pub template: Option<ChatTemplate>,
    /// Of conversations with tools.
    pub tool_use: Option<ChatTemplate>,
}

impl TextPipeline {
    /// Builds both from what the model's files carry.
    pub fn open(assets: &TextAssets) -> Outcome<Self> {
        let (tokenizer, [source, tool_use]) = match assets {
            TextAssets::Hf { dir } => {
                let config = TokenizerConfig::from_folder(dir).map_err(unusable)?;
                let sources = [false, true].map(|tools| config.chat_template(tools).map(str::to_owned));
                (Tokenizer::from_folder(dir).map_err(unusable)?, sources)
            }
            TextAssets::Gguf(vocabulary) => {
                let tokenizer = Tokenizer::from_gguf(gguf_vocab(vocabulary)).map_err(unusable)?;
                (tokenizer, [false, true].map(|tools| vocabulary.template_for(tools).map(str::to_owned)))
            }
        };
        let tool_use = tool_use.filter(|own| source.as_ref() != Some(own));
        let template = |source: Option<String>| {
            let template = source.map(|source| ChatTemplate::new(&source, tokenizer.special_tokens()));
            template.transpose().map_err(|error| {
                Failure::from_error(&error).hint("pass --no-chat-template to give the prompt as it is")
            })
        };
        let (template, tool_use) = (template(source)?, template(tool_use)?);
        Ok(Self { tokenizer, template, tool_use })
    }

    /// All of it, for one who keeps it.
    pub fn into_parts(self) -> TextParts {
        let Self { tokenizer, template, tool_use } = self;
        TextParts { tokenizer, template, tool_use }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The chat template, if the model has one.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// Ids of a conversation that the assistant is to continue.
    pub fn encode_chat(&self, system: Option<&str>, prompt: &str) -> Outcome<Vec<u32>> {
        let Some(template) = &self.template else {
            return Err(Failure::new("the model has no chat template")
                .hint("pass --no-chat-template to give the prompt as it is"));
        };
        let system = system.map(|text| Message::new("system", text));
        let messages = system.into_iter().chain([Message::new("user", prompt)]).collect();
        let rendered = template.render(&RenderRequest::new(messages)).map_err(fails)?;
        self.tokenizer.encode_rendered(&rendered).map_err(fails)
    }

    /// Ids of a text as it is; the model's own control tokens may be written in it.
    pub fn encode_raw(&self, prompt: &str) -> Outcome<Vec<u32>> {
        self.tokenizer.encode_prompt(prompt, true).map_err(fails)
    }

    /// Turns committed ids into text and cuts it before a stop string.
    pub fn stream(&self, stop: &[String]) -> Outcome<TextGuard> {
        let stops = StopStrings::new(stop.iter().map(String::as_str)).map_err(fails)?;
        Ok(TextGuard::new(Detokenizer::new(&self.tokenizer), stops))
    }
}

fn unusable(error: TextError) -> Failure {
    let missing = matches!(&error, TextError::Io { source, .. } if source.kind() == ErrorKind::NotFound);
    let failure = Failure::new("the model's tokenizer cannot be used").cause(error);
    match missing {
        true => failure
            .hint("a model directory needs tokenizer.json beside its config.json; fetch the whole model"),
        false => failure,
    }
}

fn fails(error: TextError) -> Failure {
    Failure::from_error(&error)
}

fn gguf_vocab(vocabulary: &GgufVocabulary) -> GgufVocab {
    GgufVocab {
        model: vocabulary.model.clone(),
        pre: vocabulary.pre.clone().unwrap_or_default(),
        tokens: vocabulary.tokens.clone(),
        // Kinds beyond those of the format are kept out of the way as "normal".
        token_types: vocabulary.token_types.iter().map(|&kind| i32::try_from(kind).unwrap_or(1)).collect(),
        scores: vocabulary.scores.clone(),
        merges: vocabulary.merges.clone(),
        bos: vocabulary.bos_id,
        eos: vocabulary.eos_id,
        eot: vocabulary.eot_id,
        eom: vocabulary.eom_id,
        unk: vocabulary.unk_id,
        pad: vocabulary.pad_id,
        add_bos: vocabulary.add_bos,
        add_space_prefix: vocabulary.add_space_prefix,
    }
}
