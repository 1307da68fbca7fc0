use std::collections::HashSet;

use serde_json::Value;

use super::ToolChoice;
use crate::ApiError;
use crate::body::Fields;

/// Tools of a request.
const MOST_TOOLS: usize = 128;
/// Characters of a tool's name.
const LONGEST_NAME: usize = 128;

/// The tools of a request and how they may be called.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tools {
    /// Each as `{"type": "function", "function": {"name", "description", "parameters"}}`, as it was sent.
    pub list: Vec<Value>,
    /// Which of them.
    pub choice: ToolChoice,
    /// Whether an answer may hold several calls.
    pub one_call: bool,
}

impl Tools {
    /// `tools`, `tool_choice` and `parallel_tool_calls` of chat completions.
    ///
    /// # Errors
    /// Whatever is no function tool, a name twice, a choice that does not fit.
    pub fn of_openai(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let items = fields.objects("tools")?.unwrap_or_default();
        let mut names = HashSet::new();
        for tool in &items {
            check_function(tool, &mut names)?;
        }
        let list = fields.list("tools")?.unwrap_or_default().to_vec();
        let choice = ToolChoice::of_openai(fields)?.unwrap_or_default();
        let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
        Self { list, choice, one_call: !parallel }.checked()
    }

    /// Checks that the choice and the number of tools fit.
    ///
    /// # Errors
    /// Too many tools, a tool demanded that is not there.
    pub fn checked(self) -> Result<Self, ApiError> {
        if self.list.len() > MOST_TOOLS {
            let message =
                format!("tools has {} entries: it takes a list of at most {MOST_TOOLS}", self.list.len());
            return Err(ApiError::invalid("tools", message));
        }
        let says = |message: String| Err(ApiError::invalid("tool_choice", message));
        match &self.choice {
            ToolChoice::Required if self.list.is_empty() => {
                says("tool_choice demands a call, and tools is empty: send the tools".to_owned())
            }
            ToolChoice::Named(name) if !self.names().any(|known| known == name) => says(format!(
                "tool_choice names the function {name:?}, which is not among tools: send it there too"
            )),
            _ => Ok(self),
        }
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter_map(|tool| tool["function"]["name"].as_str())
    }

    /// Whether a call must keep to its schema.
    pub fn any_is_strict(&self) -> bool {
        self.list.iter().any(|tool| tool["function"]["strict"] == true)
    }

    /// Those that the model is to see.
    pub fn shown(&self) -> &[Value] {
        match self.choice {
            ToolChoice::None => &[],
            _ => &self.list,
        }
    }
}

fn check_function<'a>(tool: &Fields<'a>, names: &mut HashSet<&'a str>) -> Result<(), ApiError> {
    let kind = tool.required_string("type")?;
    if kind != "function" {
        return Err(tool.refused("type", format!("there are no tools of the type {kind}; send functions")));
    }
    let function = tool.object("function")?.ok_or_else(|| tool.missing("function", "an object"))?;
    check_name(&function, names)?;
    function.string("description")?;
    function.object("parameters")?;
    function.boolean("strict")?;
    Ok(())
}

/// Checks the `name` of a tool, and that no other has it.
///
/// # Errors
/// Other characters than letters, digits, `_`, `.` and `-`, too long, taken.
pub fn check_name<'a>(tool: &Fields<'a>, names: &mut HashSet<&'a str>) -> Result<(), ApiError> {
    let name = tool.required_string("name")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) {
        let takes = format!("1 to {LONGEST_NAME} letters, digits, '_', '.' or '-'");
        return Err(tool.wrong("name", &takes));
    }
    match names.insert(name) {
        true => Ok(()),
        false => {
            let path = tool.path("name");
            let message = format!("{path} is {name:?}, which another tool has: names are unique");
            Err(ApiError::invalid(path, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Tools, ApiError> {
        Tools::of_openai(&Fields::at("", &value).unwrap())
    }

    fn tool(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
    }

    #[test]
    fn choices_in_every_spelling() {
        let named = json!({"type": "function", "function": {"name": "b"}});
        for (given, choice) in [
            (json!(null), ToolChoice::Auto),
            (json!("auto"), ToolChoice::Auto),
            (json!("none"), ToolChoice::None),
            (json!({"type": "none"}), ToolChoice::None),
            (json!("required"), ToolChoice::Required),
            (named, ToolChoice::Named("b".into())),
            (json!({"type": "function", "name": "a"}), ToolChoice::Named("a".into())),
        ] {
            let tools = read(json!({"tools": [tool("a"), tool("b")], "tool_choice": given})).unwrap();
            assert_eq!(tools.choice, choice, "{given}");
            assert_eq!(tools.shown().is_empty(), choice == ToolChoice::None);
        }
    }

    #[test]
    fn what_does_not_fit_names_the_field() {
        let param = |value: Value| read(value).unwrap_err().param.unwrap();
        let with = |tool: Value| param(json!({"tools": [tool]}));
        assert_eq!(param(json!({"tools": {}})), "tools");
        assert_eq!(param(json!({"tools": vec![tool("a"); 2]})), "tools[1].function.name");
        assert_eq!(with(json!({"function": {"name": "a"}})), "tools[0].type");
        assert_eq!(with(json!({"type": "web_search"})), "tools[0].type");
        assert_eq!(with(json!({"type": "function"})), "tools[0].function");
        assert_eq!(with(json!({"type": "function", "function": {}})), "tools[0].function.name");
        for name in ["", "a b", "é", &"x".repeat(129)] {
            assert_eq!(with(tool(name)), "tools[0].function.name");
        }
        let odd = json!({"type": "function", "function": {"name": "a", "parameters": "x"}});
        assert_eq!(with(odd), "tools[0].function.parameters");
        for choice in [json!("required"), json!("any"), json!(3), json!({"type": "allowed_tools"}), json!({})]
        {
            let param = param(json!({"tool_choice": choice}));
            assert!(param.starts_with("tool_choice"), "{choice}: {param}");
        }
        let other = json!({"type": "function", "function": {"name": "b"}});
        assert_eq!(param(json!({"tools": [tool("a")], "tool_choice": other})), "tool_choice");
        assert_eq!(param(json!({"parallel_tool_calls": "no"})), "parallel_tool_calls");
        let many: Vec<Value> = (0..129).map(|index| tool(&format!("t{index}"))).collect();
        assert_eq!(param(json!({"tools": many})), "tools");
    }
}
