//! The report as one page: everything in one file, readable without scripts, by day, by night and on paper.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value as Shown};
use serde::Serialize;
use serde_json::{Value, from_value};

use super::chart;
use super::grid::decimal;
use crate::cycles;
use crate::report::{Failure, Outcome};

/// Its name decides that everything is escaped.
const TEMPLATE: &str = "report.html";

/// What the template shows.
#[derive(Serialize)]
struct Page<'a> {
    summary: &'a Value,
    rows: Vec<Row<'a>>,
    cycles: Option<String>,
    verdict: Verdict,
    speeds: Option<chart::Speeds>,
    acceptance: Option<chart::Acceptance>,
    costs: Option<chart::Costs>,
    parts: Vec<chart::Part>,
}

/// A row of the table of categories.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    figures: &'a Value,
}

/// The page of a summary of schema 1. What the summary lacks, the page leaves out.
pub fn page(summary: &Value) -> Outcome<String> {
    let mut rows = categories(summary);
    // One category is all of them.
    if rows.len() != 1 {
        rows.extend(summary.get("all").map(|all| ("all".to_owned(), all)));
    }
    let page = Page {
        summary,
        rows: rows.iter().map(|(name, figures)| Row { name, figures }).collect(),
        cycles: told(&summary["all"]),
        verdict: Verdict::of(summary),
        speeds: chart::speeds(&rows),
        acceptance: chart::acceptance(&summary["acceptance_by_position"]),
        costs: chart::costs(&summary["costs"]),
        parts: chart::parts(&summary["time_split_s"]),
    };
    rendered(&page)
        .map_err(|error| Failure::new("cannot write the report as a page").cause(format!("{error:#}")))
}

fn rendered(page: &Page<'_>) -> Result<String, minijinja::Error> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Chainable);
    env.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    env.add_filter("number", number);
    env.add_filter("percent", |value: Shown| {
        fixed(&value, 100.0, 0).map_or(ABSENT.into(), |text| text + " %")
    });
    env.add_filter("times", |value: Shown| fixed(&value, 1.0, 2).map_or(ABSENT.into(), |text| text + " ×"));
    env.add_filter("speed", |value: Shown| fixed(&value, 1.0, digits(&value)).unwrap_or(ABSENT.into()));
    env.add_filter("gain", |value: Shown| f64::try_from(value).map_or(ABSENT.into(), cycles::gain));
    env.add_filter("short", |text: String| text.chars().take(10).collect::<String>());
    env.add_filter("shown", shown);
    env.add_template(TEMPLATE, include_str!("report.html"))?;
    env.get_template(TEMPLATE)?.render(Serde(page))
}

/// The categories in the order of their prompts, which is that of the suite; then any other.
fn categories(summary: &Value) -> Vec<(String, &Value)> {
    let Some(all) = summary["categories"].as_object() else { return Vec::new() };
    let prompts = summary["prompts"].as_array().into_iter().flatten();
    let named = prompts.filter_map(|prompt| prompt["category"].as_str());
    let mut ordered: Vec<(String, &Value)> = Vec::new();
    for name in named.chain(all.keys().map(String::as_str)) {
        if let Some(figures) = all.get(name).filter(|_| ordered.iter().all(|(known, _)| known != name)) {
            ordered.push((name.to_owned(), figures));
        }
    }
    ordered
}

/// Cycles by proposer and by rows.
fn told(all: &Value) -> Option<String> {
    let by_proposer: BTreeMap<String, usize> = from_value(all["cycles_by_proposer"].clone()).ok()?;
    let by_width = from_value(all["cycles_by_width"].clone()).ok()?;
    Some(format!("{}; {}", cycles::by_proposer(&by_proposer), cycles::by_width(&by_width)))
}

/// Whether the texts are those of plain decoding.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Verdict {
    /// All of them.
    Identical { prompts: usize },
    /// Not these.
    Different { ids: Vec<String>, prompts: usize },
    /// Nobody compared them.
    Unknown,
}

impl Verdict {
    /// By every prompt, and where there are none by the sum.
    fn of(summary: &Value) -> Self {
        let prompts = summary["prompts"].as_array().map_or(&[][..], Vec::as_slice);
        let compared: Vec<_> =
            prompts.iter().filter_map(|prompt| Some((prompt, prompt["identical"].as_bool()?))).collect();
        let different = compared.iter().filter(|(_, identical)| !identical);
        let ids: Vec<_> = different
            .map(|(prompt, _)| prompt["id"].as_str().unwrap_or("without an id").to_owned())
            .collect();
        match (compared.len(), summary["all"]["identical"].as_bool()) {
            (prompts, Some(false)) => Self::Different { ids, prompts },
            (prompts, _) if !ids.is_empty() => Self::Different { ids, prompts },
            (0, None) => Self::Unknown,
            (prompts, _) => Self::Identical { prompts },
        }
    }
}

/// What stands where a number is missing.
const ABSENT: &str = "–";

fn number(value: Shown, digits: Option<usize>) -> String {
    fixed(&value, 1.0, digits.unwrap_or(0)).unwrap_or(ABSENT.into())
}

fn fixed(value: &Shown, factor: f64, digits: usize) -> Option<String> {
    let number = f64::try_from(value.clone()).ok()?;
    Some(decimal(number * factor, digits))
}

/// Three digits say what a speed is.
fn digits(value: &Shown) -> usize {
    match f64::try_from(value.clone()) {
        Ok(speed) if speed < 10.0 => 2,
        Ok(speed) if speed < 100.0 => 1,
        _ => 0,
    }
}

/// A setting: a text as it is, anything else as JSON.
fn shown(value: Shown) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_none() || value.is_undefined() => ABSENT.into(),
        None => serde_json::to_string(&value).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn category(speedup: f64) -> Value {
        json!({"prompts": 2, "plain_tok_s": 340.1, "dflash_tok_s": 340.1 * speedup, "ngram_tok_s": 350.0,
            "speedup": speedup, "speedup_min": 1.1, "speedup_max": 1.7, "gained_s": 0.5, "ngram_speedup": 1.03,
            "cycles_by_proposer": {"copy": 9, "none": 40}, "cycles_by_width": {"1": 40, "2": 3, "16": 6},
            "tokens_per_cycle": 2.1, "acceptance_ratio": 0.5, "ceiling": 1.52, "identical": true})
    }

    fn prompt(id: &str, category: &str) -> Value {
        let leg = json!({"ids_sha256": "0123456789abcdef", "ttft_ms": 10.1, "prefill_tok_s": 1800.0,
            "decode_tok_s": {"median": 340.0, "min": 330.1, "max": 351.0}, "tokens_per_cycle": 2.1,
            "acceptance_ratio": 0.5, "cycles": 120});
        json!({"id": id, "category": category, "prompt_tokens": 40, "completion_tokens": 256, "identical": true,
            "repeated_span": 12, "degenerate": id == "maths-1", "speedup": 1.3,
            "legs": {"plain": leg, "dflash": leg, "ngram": leg}})
    }

    fn summary() -> Value {
        json!({
            "schema": 1,
            "pair": {"target": "smollm2-135m-instruct.Q4_1.gguf", "draft": "smollm2-135m-dflash"},
            "timestamp": "2024-02-29T12:34:56Z",
            "machine": {"cpu": "AMD EPYC", "cores": 2, "memory_gb": 24.0, "os": "Linux"},
            "dflash_version": "0.1.0", "backend": "cpu (avx512, 2 threads)", "label": null,
            "config": {"suite": "builtin", "max_tokens": 256, "repeat": 3, "stop": ["</s>"], "seed": null},
            "legs": ["plain", "dflash", "ngram"],
            "categories": {"copy": category(1.9), "code": category(1.4), "maths": category(1.2)},
            "all": category(1.38),
            "prompts": [prompt("code-1", "code"), prompt("maths-1", "maths"), prompt("copy-1", "copy")],
            "acceptance_by_position": [
                {"position": 1, "verified": 100, "accepted": 61, "rate": 0.61},
                {"position": 2, "verified": 61, "accepted": 22, "rate": 0.36}],
            "costs": [{"rows": 1, "verify_ms": 2.8, "draft_ms": null}, {"rows": 8, "verify_ms": 5.1, "draft_ms": 0.9}],
            "time_split_s": {"draft": 1.2, "verify": 5.3, "rollback": 0.1, "other": 0.2},
            "peak_memory_gb": {"plain": 0.3, "dflash": 0.4},
            "bandwidth": {"ceiling_gb_s": 45.0, "plain_fraction": 0.72, "dflash_fraction": 0.55},
            "score": {"plain": {"correct": 3, "of": 30}}
        })
    }

    /// The names of all tags, after checking that each is closed where it was opened.
    fn tags(page: &str) -> Vec<&str> {
        let (mut open, mut names) = (Vec::new(), Vec::new());
        for part in page.split('<').skip(1) {
            let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("<{part} does not end"));
            assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
            let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
            match (tag.starts_with('/'), tag.ends_with('/') || name == "!DOCTYPE") {
                (true, _) => assert_eq!(open.pop(), Some(name), "</{name}>"),
                (false, false) => open.push(name),
                (false, true) => {}
            }
            names.push(name);
        }
        assert!(open.is_empty(), "{open:?}");
        names
    }

    fn count(page: &str, name: &str) -> usize {
        tags(page).into_iter().filter(|tag| *tag == name).count() / 2
    }

    #[test]
    fn everything_is_there_and_the_tags_are_balanced() {
        let page = page(&summary()).unwrap();
        for text in [
            "code-1",
            "maths-1",
            "copy-1",
            "smollm2-135m-instruct.Q4_1.gguf",
            "smollm2-135m-dflash",
            "AMD EPYC",
            "24.0 GB",
            "2024-02-29T12:34:56Z",
            "cpu (avx512, 2 threads)",
            "✓ Identical",
            "1.38 ×",
            "in 3 of 3 prompts",
            "0.50 s gained",
            "9 copy, 40 plain; rows 1: 40, 2: 3, 16: 6",
            "0123456789<",
            "title=\"0123456789abcdef\"",
            "61 of 100",
            "⚠ 12",
            "plain 3 of 30",
            "builtin",
            "45.0 GB/s",
            "verify, 8 rows: 5.10 ms",
            "verify 5.30 s, 78 %",
            "[&quot;&lt;",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert_eq!((count(&page, "svg"), count(&page, "table"), count(&page, "script")), (4, 2, 0));
        for outside in ["http:", "https:", "url(", "@import", "src="] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn categories_come_in_the_order_of_their_prompts() {
        let summary = summary();
        let names: Vec<_> = categories(&summary).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["code", "maths", "copy"]);
    }

    #[test]
    fn the_verdict_follows_the_prompts() {
        let mut summary = summary();
        summary["prompts"][1]["identical"] = json!(false);
        let page_of = |summary: &Value| page(summary).unwrap();
        assert!(page_of(&summary).contains("1 of 3 prompts differs from plain decoding: maths-1."));
        summary["prompts"][0]["identical"] = json!(false);
        let page = page_of(&summary);
        assert!(page.contains("✗ Not identical") && page.contains("2 of 3 prompts differ from"));
        assert!(!page.contains("✓ Identical"));
        summary["prompts"] = json!([]);
        summary["all"]["identical"] = json!(false);
        assert!(page_of(&summary).contains("✗ Not identical"));
        summary["all"] = Value::Null;
        assert!(page_of(&summary).contains("? Not compared"));
    }

    #[test]
    fn a_scripted_draft_is_labelled() {
        let mut summary = summary();
        summary["label"] = json!("ORACLE 0.8: a scripted draft, not a model");
        assert!(page(&summary).unwrap().contains("ORACLE 0.8: a scripted draft, not a model"));
        assert!(!page(&super::tests::summary()).unwrap().contains("class=\"label\""));
    }

    #[test]
    fn names_cannot_become_markup() {
        let hostile = "\"'><script>alert(1)</script><svg onload=x>{{ 7*7 }}&";
        let mut summary = summary();
        summary["pair"]["target"] = json!(hostile);
        summary["prompts"][0]["id"] = json!(hostile);
        summary["prompts"][0]["category"] = json!(hostile);
        summary["prompts"][0]["legs"]["dflash"]["ids_sha256"] = json!(hostile);
        summary["categories"][hostile] = category(1.0);
        summary["config"][hostile] = json!({hostile: hostile});
        summary["label"] = json!(hostile);
        let before =
            tags(&page(&super::tests::summary()).unwrap()).into_iter().filter(|tag| *tag == "svg").count();
        let page = page(&summary).unwrap();
        assert_eq!(count(&page, "script"), 0);
        assert_eq!(count(&page, "svg"), before / 2);
        assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("{{ 7*7 }}"));
    }

    #[test]
    fn what_is_absent_is_left_out() {
        let whole = summary();
        for key in whole.as_object().unwrap().keys() {
            for gone in [None, Some(Value::Null)] {
                let mut summary = whole.clone();
                match gone {
                    None => drop(summary.as_object_mut().unwrap().remove(key)),
                    Some(null) => summary[key] = null,
                }
                tags(&page(&summary).unwrap_or_else(|failure| panic!("{key}: {failure}")));
            }
        }
        let bare = page(&json!({"schema": 1, "categories": {"code": {}}, "prompts": [{"id": "a"}]})).unwrap();
        assert_eq!((count(&bare, "svg"), count(&bare, "table")), (0, 2));
        tags(&page(&json!({})).unwrap());
    }
}
