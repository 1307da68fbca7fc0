use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::ApiError;
use crate::body::Fields;
use crate::options::{ToolChoice, Tools, check_name};

/// `tools` and `tool_choice`.
///
/// # Errors
/// Tools that a server of Anthropic's would run, a name twice, a choice that does not fit.
pub fn tools(body: &Fields<'_>) -> Result<Tools, ApiError> {
    let mut names = HashSet::new();
    let tools = body.objects("tools")?.unwrap_or_default();
    let list = tools.iter().map(|tool| function(tool, &mut names)).collect::<Result<_, _>>()?;
    let choice = body.object("tool_choice")?;
    let one_call = match &choice {
        Some(choice) => choice.boolean("disable_parallel_tool_use")?.unwrap_or(false),
        None => false,
    };
    let choice = choice.as_ref().map(read_choice).transpose()?.unwrap_or_default();
    Tools { list, choice, one_call }.checked()
}

/// As the OpenAI API writes a tool.
fn function<'a>(tool: &Fields<'a>, names: &mut HashSet<&'a str>) -> Result<Value, ApiError> {
    if let Some(kind) = tool.string("type")?.filter(|kind| *kind != "custom") {
        let why = format!("nothing runs {kind} here; send tools with an input_schema");
        return Err(tool.refused("type", why));
    }
    check_name(tool, names)?;
    let missing = || tool.missing("input_schema", "a JSON schema");
    let schema = tool.object("input_schema")?.ok_or_else(missing)?;
    let mut function = Map::new();
    function.insert("name".to_owned(), tool.required_string("name")?.into());
    if let Some(description) = tool.string("description")? {
        function.insert("description".to_owned(), description.into());
    }
    function.insert("parameters".to_owned(), schema.object_itself().clone().into());
    if let Some(strict) = tool.boolean("strict")? {
        function.insert("strict".to_owned(), strict.into());
    }
    Ok(json!({"type": "function", "function": function}))
}

fn read_choice(choice: &Fields<'_>) -> Result<ToolChoice, ApiError> {
    match choice.word("type", &["auto", "any", "tool", "none"])? {
        Some("auto") => Ok(ToolChoice::Auto),
        Some("any") => Ok(ToolChoice::Required),
        Some("none") => Ok(ToolChoice::None),
        Some(_) => Ok(ToolChoice::Named(choice.required_string("name")?.to_owned())),
        None => Err(choice.missing("type", "one of auto, any, tool, none")),
    }
}
