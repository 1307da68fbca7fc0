use dflash_engine::{Sampling, SamplingParams};
use dflash_grammar::{Constraint, ToolChoice as Demand};
use dflash_text::{ChatPrompt, ChatRequest, ToolFormat};
use serde_json::{Map, Value};

use super::{Extension, OutputFormat, Thinking, ToolChoice, Tools};
use crate::generation::{AnswerFormat, Generation};
use crate::{ApiError, App};

/// A conversation to be continued, in the terms that all families share. What a family has no field for stays as
/// [`ChatOptions::new`] sets it: as the server is told.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// Messages as the OpenAI API writes them.
    pub messages: Vec<Value>,
    /// Tools.
    pub tools: Tools,
    /// What the answer's text must be.
    pub output: OutputFormat,
    /// How much the model thinks.
    pub thinking: Thinking,
    /// Variables of the chat template; they win over everything else that sets them.
    pub template_kwargs: Map<String, Value>,
    /// Ids per answer at most.
    pub max_tokens: usize,
    /// How ids are chosen.
    pub sampling: Sampling,
    /// The answer is cut before any of them.
    pub stop: Vec<String>,
    /// Answers to this one prompt.
    pub answers: u32,
    /// Tells log-probabilities, with so many alternatives to every id.
    pub logprobs: Option<usize>,
    /// Our own field.
    pub extension: Extension,
}

impl ChatOptions {
    /// A conversation without any wish.
    pub fn new(app: &App, messages: Vec<Value>) -> Self {
        Self {
            messages,
            tools: Tools::default(),
            output: OutputFormat::default(),
            thinking: Thinking::default(),
            template_kwargs: Map::new(),
            max_tokens: app.settings.max_tokens,
            sampling: app.settings.sampling.clone(),
            stop: Vec::new(),
            answers: 1,
            logprobs: None,
            extension: Extension::default(),
        }
    }

    /// The ids that the model continues.
    ///
    /// # Errors
    /// Messages or tools that the model's chat template does not take, no template at all.
    pub fn prompt(&self, app: &App) -> Result<ChatPrompt, ApiError> {
        let request = ChatRequest {
            messages: self.messages.clone(),
            tools: self.tools.list.clone(),
            tools_wanted: self.tools.choice != ToolChoice::None,
            template_kwargs: self.variables(app),
            instruction: None,
        };
        Ok(app.model.format.prompt(&request)?)
    }

    /// The whole request in neutral terms. Rendering, tokenising and compiling take a while: not for a thread that
    /// serves connections.
    ///
    /// # Errors
    /// As [`ChatOptions::prompt`]; wishes that contradict each other or that the model does not take.
    pub fn generation(self, app: &App) -> Result<Generation, ApiError> {
        self.check_output(app)?;
        let prompt = self.prompt(app)?;
        check_prompt(app, &prompt.ids, "messages")?;
        Ok(Generation {
            max_tokens: self.max_tokens,
            answers: self.answers,
            logprobs: self.logprobs,
            decoding: self.extension.decoding(app, prompt.ids.len(), self.max_tokens),
            format: self.format(app, &prompt),
            constraint: self.constraint(app),
            thinking_budget: self.thinking.budget,
            sampling: sampling_params(app, self.sampling)?,
            prompt: prompt.ids,
            boundaries: prompt.boundaries,
            shares: self.extension.prefix_cache,
        })
    }

    /// What decoding has to keep to. Calls that the model may make are its own affair, unless a tool is strict or what is
    /// no call has a form.
    fn constraint(&self, app: &App) -> Option<Constraint> {
        let calls = |choice| Constraint::ToolCalls {
            format: app.model.format.tools(),
            tools: self.tools.list.clone(),
            choice,
            parallel: !self.tools.one_call,
        };
        let text = self.output.constraint();
        match &self.tools.choice {
            ToolChoice::Required => Some(calls(Demand::Required)),
            ToolChoice::Named(name) => Some(calls(Demand::Named(name.clone()))),
            ToolChoice::Auto if !self.tools.list.is_empty() && text.is_some() => {
                text.map(|text| Constraint::AnyOf(vec![calls(Demand::Required), text]))
            }
            ToolChoice::Auto if self.tools.any_is_strict() => Some(calls(Demand::Auto)),
            ToolChoice::Auto | ToolChoice::None => text,
        }
    }

    /// How the answer is read.
    fn format(&self, app: &App, prompt: &ChatPrompt) -> AnswerFormat {
        let model = &app.model.format;
        let shown = self.tools.shown();
        AnswerFormat {
            reasoning: model.reasoning().cloned(),
            in_reasoning: prompt.reasoning_open,
            tools: (!shown.is_empty()).then(|| (model.tools(), shown.to_vec())),
            stop: self.stop.clone(),
            parallel: !self.tools.one_call,
        }
    }

    /// Calls without a marker before them cannot be told from text of a format while they are written.
    fn check_output(&self, app: &App) -> Result<(), ApiError> {
        let may_call = !self.tools.list.is_empty() && self.tools.choice == ToolChoice::Auto;
        let bare = matches!(app.model.format.tools(), ToolFormat::Llama | ToolFormat::Json);
        match may_call && bare && self.output.constraint().is_some() {
            true => Err(ApiError::invalid(
                "response_format",
                "response_format and tools are both there, and this model writes calls as bare JSON: set tool_choice to \
                 \"none\" for text of that format, or to \"required\" for a call",
            )),
            false => Ok(()),
        }
    }

    /// Those of the server, then what thinking says, then those of the request.
    fn variables(&self, app: &App) -> Map<String, Value> {
        let mut variables = app.settings.template_kwargs.clone();
        self.thinking.tell(&mut variables);
        variables.extend(self.template_kwargs.clone());
        variables
    }
}

/// Checks the biases against the model's vocabulary.
///
/// # Errors
/// An id that the model has not.
pub fn sampling_params(app: &App, sampling: Sampling) -> Result<SamplingParams, ApiError> {
    let biased =
        |error: dflash_engine::sampling::SamplingError| ApiError::invalid("logit_bias", error.to_string());
    let params = SamplingParams::new(sampling).map_err(biased)?;
    params.fits(app.model.facts.vocab).map_err(biased)?;
    Ok(params)
}

/// Checks that a prompt can be continued, before anything is streamed.
///
/// # Errors
/// Empty, too long, an id that the model has not; all of them name `param`.
pub fn check_prompt(app: &App, prompt: &[u32], param: &str) -> Result<(), ApiError> {
    let (context, vocab) = (app.model.facts.context, app.model.facts.vocab);
    if prompt.is_empty() {
        return Err(ApiError::invalid(param, format!("{param} gives an empty prompt: write something")));
    }
    if prompt.len() >= context {
        // Clients know these words by heart: Claude Code shortens the conversation by itself when it reads them.
        let message = format!(
            "prompt is too long: {} tokens > {} that the model's context of {context} has room for; shorten {param}",
            prompt.len(),
            context - 1
        );
        return Err(ApiError::invalid(param, message).code("context_length_exceeded"));
    }
    match prompt.iter().find(|&&id| id as usize >= vocab) {
        Some(id) => {
            let message = format!("{param} has the token {id}: the vocabulary has {vocab}");
            Err(ApiError::invalid(param, message))
        }
        None => Ok(()),
    }
}
