//! Functions in groups: a tool `{"type": "namespace", "name", "description", "tools": […]}`. The model sees them as
//! `GROUP.NAME`; calls go out and come back with `namespace` and `name` apart.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::request::function;
use crate::ApiError;
use crate::body::Fields;
use crate::options::check_name;

/// The functions of a group, under their full names and with what is said of the group.
///
/// # Errors
/// As for functions alone; a group without any `tools`.
pub fn functions<'a>(group: &Fields<'a>, groups: &mut HashSet<&'a str>) -> Result<Vec<Value>, ApiError> {
    check_name(group, groups)?;
    let namespace = group.required_string("name")?;
    let about = group.string("description")?;
    let tools = group.objects("tools")?.ok_or_else(|| group.missing("tools", "a list of functions"))?;
    let mut names = HashSet::new();
    let mut functions = Vec::with_capacity(tools.len());
    for tool in &tools {
        let mut tool = function(tool, &mut names)?;
        let function = &mut tool["function"];
        function["name"] = full_name(Some(namespace), function["name"].as_str().unwrap_or_default()).into();
        if let Some(about) = about {
            function["description"] = match function["description"].as_str() {
                Some(own) => format!("{about}\n\n{own}").into(),
                None => about.into(),
            };
        }
        functions.push(tool);
    }
    Ok(functions)
}

/// What the model calls a function.
pub fn full_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}.{name}"),
        None => name.to_owned(),
    }
}

/// Group and name of every function in a group, by what the model calls it; `request` has `tools`.
pub fn by_full_name(request: &Map<String, Value>) -> HashMap<String, (String, String)> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut parts = HashMap::new();
    for group in list(request.get("tools")) {
        let Some(namespace) = group["name"].as_str().filter(|_| group["type"] == "namespace") else {
            continue;
        };
        for tool in list(group.get("tools")) {
            let name = tool["name"].as_str().unwrap_or_default();
            parts.insert(full_name(Some(namespace), name), (namespace.to_owned(), name.to_owned()));
        }
    }
    parts
}
