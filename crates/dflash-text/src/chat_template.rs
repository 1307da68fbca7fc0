use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::Serde;
use minijinja::{Environment, Error, Value as JinjaValue};
use serde_json::{Value, json};

use crate::control::find_longest;
use crate::generation_tags::without_generation_tags;
use crate::harmless::harmless_requests;
use crate::isolation::on_large_stack;
use crate::jinja::{NOW, Raised, environment};
use crate::marked_source::MarkedSource;
use crate::{
    RenderRequest, Rendered, Segment, SpecialTokens, TextError, jinja_lint, namespaces, template_size,
};

const PLAIN: &str = "chat template";
const MARKED: &str = "chat template with marks";
/// Names that the renderer gives; the special tokens are among them because what a request gives is never trusted.
const RESERVED: [&str; 6] = ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", NOW];

/// How the control tokens in a template's output are told from the same characters in a message.
#[derive(Debug)]
enum Trust {
    /// By marks that stand for them while rendering.
    Marks(MarkedSource),
    /// Not at all: the template puts them together from pieces (`'<|' ~ role ~ '|>'`). Every one in the output
    /// counts, and a request that contains one is refused.
    Output,
}

/// A model's chat template.
///
/// It renders what Hugging Face's `apply_chat_template` renders, byte for byte, and additionally knows which
/// control tokens in the result are its own: see [`Rendered`].
#[derive(Debug)]
pub struct ChatTemplate {
    source: String,
    special: SpecialTokens,
    env: Environment<'static>,
    trust: Trust,
}

impl ChatTemplate {
    /// Compiles a template; what it uses and this crate lacks is an error here and not while serving.
    pub fn new(source: &str, special: SpecialTokens) -> Result<Self, TextError> {
        template_size::check(source)?;
        isolated(|| Self::compile(without_generation_tags(source), special))
    }

    fn compile(source: String, special: SpecialTokens) -> Result<Self, TextError> {
        let mut env = environment();
        add_template(&mut env, PLAIN, &source)?;
        let undeclared = env.get_template(PLAIN).map_err(syntax_error)?.undeclared_variables(false);
        jinja_lint::check(&env, &source, &undeclared)?;
        let mut template = Self { source, special, env, trust: Trust::Output };
        template.trust = template.find_trust()?;
        Ok(template)
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation.
    pub fn render(&self, request: &RenderRequest) -> Result<Rendered, TextError> {
        if let Some(name) = RESERVED.iter().find(|name| request.extra.contains_key(**name)) {
            return Err(TextError::ReservedKeyword { name: (*name).to_owned() });
        }
        isolated(|| self.render_here(request))
    }

    fn render_here(&self, request: &RenderRequest) -> Result<Rendered, TextError> {
        let now = request.now.unwrap_or_else(unix_now);
        let plain = run(&self.env, PLAIN, self.context(request, now, None))?;
        let marked = match &self.trust {
            Trust::Marks(marks) => self.render_marked(marks, request, now, &plain)?,
            Trust::Output => None,
        };
        match marked.filter(|marked| marked.to_string() == plain) {
            Some(marked) => Ok(marked),
            None => self.trust_output(&plain, &request.typed_text()),
        }
    }

    /// Renders with marks for control tokens; `None` when that fails where the plain rendering did not.
    fn render_marked(
        &self,
        marks: &MarkedSource,
        request: &RenderRequest,
        now: i64,
        plain: &str,
    ) -> Result<Option<Rendered>, TextError> {
        // What the request spells in escapes shows only in the output, so both are looked through.
        let taken = request.typed_text() + plain;
        if !marks.clashes_with(&taken) {
            return Ok(self.run_marked(&self.env, marks, request, now));
        }
        // The request uses the very characters that serve as marks: take others, for this request.
        let Some(marks) = MarkedSource::new(&self.source, &self.special, &taken)? else { return Ok(None) };
        let mut env = self.env.clone();
        add_template(&mut env, MARKED, &marks.source)?;
        Ok(self.run_marked(&env, &marks, request, now))
    }

    fn run_marked(
        &self,
        env: &Environment<'_>,
        marks: &MarkedSource,
        request: &RenderRequest,
        now: i64,
    ) -> Option<Rendered> {
        let output = run(env, MARKED, self.context(request, now, Some(marks))).ok()?;
        Some(marks.unmark(&output))
    }

    fn context(&self, request: &RenderRequest, now: i64, marks: Option<&MarkedSource>) -> JinjaValue {
        let mut all = request.extra.clone();
        let messages = request.messages.iter().map(|message| Value::Object(message.fields().clone()));
        let tools = Some(&request.tools).filter(|tools| !tools.is_empty());
        all.insert("messages".into(), messages.collect());
        all.insert("tools".into(), json!(tools));
        all.entry("documents").or_insert(Value::Null);
        all.insert("add_generation_prompt".into(), request.add_generation_prompt.into());
        all.insert(NOW.into(), now.into());
        for (name, token) in [("bos_token", &self.special.bos), ("eos_token", &self.special.eos)] {
            let Some(token) = token else { continue };
            let mark = marks.and_then(|marks| marks.mark_of(token));
            all.insert(name.into(), mark.unwrap_or_else(|| token.clone()).into());
        }
        JinjaValue::from(Serde(all))
    }

    /// Marks serve if they change nothing in a harmless conversation and leave no control token unmarked.
    fn find_trust(&mut self) -> Result<Trust, TextError> {
        let Some(marks) = MarkedSource::new(&self.source, &self.special, "")? else {
            return Ok(Trust::Output);
        };
        let added = add_template(&mut self.env, MARKED, &marks.source);
        if added.is_err() || !self.marks_serve(&marks)? {
            return Ok(Trust::Output);
        }
        Ok(Trust::Marks(marks))
    }

    fn marks_serve(&self, marks: &MarkedSource) -> Result<bool, TextError> {
        for request in harmless_requests() {
            let Ok(plain) = run(&self.env, PLAIN, self.context(&request, 0, None)) else { continue };
            let marked = self.run_marked(&self.env, marks, &request, 0);
            let Some(marked) = marked.filter(|marked| marked.to_string() == plain) else { return Ok(false) };
            if marked != self.split_everywhere(&plain)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn trust_output(&self, plain: &str, typed: &str) -> Result<Rendered, TextError> {
        match self.split_everywhere(typed)?.segments().iter().find(|s| matches!(s, Segment::Control(_))) {
            Some(control) => Err(TextError::ControlTokenInRequest { token: control.as_str().to_owned() }),
            None => self.split_everywhere(plain),
        }
    }

    /// Takes every control token in `text` for one.
    fn split_everywhere(&self, text: &str) -> Result<Rendered, TextError> {
        let variables = [&self.special.bos, &self.special.eos].into_iter().flatten();
        let control = self.special.control.iter().chain(variables).map(String::as_str);
        let control: Vec<&str> = control.filter(|token| !token.is_empty()).collect();
        let finder = find_longest(control.into_iter());
        let finder = finder.map_err(|e| TextError::TemplateSyntax { line: 0, reason: e.to_string() })?;
        let Some(finder) = finder else { return Ok([Segment::Text(text.to_owned())].into_iter().collect()) };
        let mut segments = Vec::new();
        let mut done = 0;
        for found in finder.find_iter(text) {
            segments.push(Segment::Text(text[done..found.start()].to_owned()));
            segments.push(Segment::Control(text[found.range()].to_owned()));
            done = found.end();
        }
        segments.push(Segment::Text(text[done..].to_owned()));
        Ok(segments.into_iter().collect())
    }
}

/// Templates come with models from anywhere, and none may take the process down.
fn isolated<T: Send>(work: impl FnOnce() -> Result<T, TextError> + Send) -> Result<T, TextError> {
    let broken = || TextError::TemplateRender { line: 0, reason: "the template engine broke down".into() };
    on_large_stack(work).unwrap_or_else(|| Err(broken()))
}

fn add_template(env: &mut Environment<'static>, name: &'static str, source: &str) -> Result<(), TextError> {
    env.add_template_owned(name, namespaces::guarded(source)?).map_err(syntax_error)
}

fn run(env: &Environment<'_>, name: &str, context: JinjaValue) -> Result<String, TextError> {
    env.get_template(name).and_then(|template| template.render(context)).map_err(render_error)
}

fn unix_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs() as i64)
}

fn syntax_error(error: Error) -> TextError {
    TextError::TemplateSyntax { line: error.line().unwrap_or(0), reason: reason(&error) }
}

fn render_error(error: Error) -> TextError {
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref() {
            return TextError::TemplateRaised { message: message.clone() };
        }
        cause = current.source();
    }
    TextError::TemplateRender { line: error.line().unwrap_or(0), reason: reason(&error) }
}

fn reason(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests;
