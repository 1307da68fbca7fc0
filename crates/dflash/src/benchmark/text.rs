//! The summary for people: on the terminal, and as `summary.md`.

use serde_json::Value;

use super::category::Category;
use super::grid::{Grid, decimal};
use super::prompt_report::PromptReport;
use super::summary::Summary;
use crate::cycles;

impl Summary {
    /// A table by category with the verdict.
    pub fn text(&self) -> String {
        let mut text = self.head().join("\n") + "\n\n" + &self.categories_grid().text() + "\n";
        text += &self.verdict().join("\n");
        text + "\n" + &self.legend()
    }

    /// What a reader of the terminal cannot look up in the report beside it.
    fn legend(&self) -> String {
        let mut lines = String::new();
        if self.all.speedup.is_some() {
            lines += "\nspeedup is dflash over plain decoding, copy alone the same without the draft model,\n\
                      ceiling what the best fixed number of rows would give\n";
        }
        if self.config["repeat"] == 1 {
            lines += "every answer was timed once; --repeat 3 gives medians\n";
        }
        lines
    }

    /// The same, the settings and every prompt.
    pub fn markdown(&self) -> String {
        let list =
            |lines: Vec<String>| -> String { lines.iter().map(|line| format!("- {line}\n")).collect() };
        let config = self.config.as_object().into_iter().flatten();
        let config = config.filter(|(_, value)| !value.is_null());
        let config = config.map(|(name, value)| format!("{name}: {}", plain(value))).collect();
        format!(
            "# dflash benchmark\n\n{}\n{}\n{}\n## Settings\n\n{}\n## Prompts\n\n{}",
            list(self.head()),
            self.categories_grid().markdown(),
            list(self.verdict()),
            list(config),
            self.prompts_grid().markdown(),
        )
    }

    fn head(&self) -> Vec<String> {
        let mut lines = vec![
            format!("target  {}", self.pair.target),
            format!("draft   {}", self.pair.draft),
            format!("with    {}, dflash {}, on {}", self.backend, self.dflash_version, self.machine.cpu),
            format!("at      {}", self.timestamp),
        ];
        lines.extend(self.label.clone());
        lines.extend(self.incomplete.clone());
        lines
    }

    fn categories_grid(&self) -> Grid {
        let mut grid = Grid::new(&[
            "category",
            "prompts",
            "plain tok/s",
            "dflash tok/s",
            "speedup",
            "lowest",
            "highest",
            "gained s",
            "copy alone",
            "ids/cycle",
            "accepted",
            "ceiling",
            "identical",
        ]);
        for (name, category) in &self.categories {
            grid.row(category_cells(name, category));
        }
        if self.categories.len() > 1 {
            grid.row(category_cells("all", &self.all));
        }
        grid.without_empty_columns()
    }

    fn prompts_grid(&self) -> Grid {
        let mut grid = Grid::new(&[
            "prompt",
            "category",
            "ids in",
            "ids out",
            "plain tok/s",
            "dflash tok/s",
            "speedup",
            "plain ttft ms",
            "dflash ttft ms",
            "ids/cycle",
            "repeated",
            "identical",
            "ids sha256",
        ]);
        self.prompts.iter().for_each(|prompt| grid.row(prompt_cells(prompt)));
        grid.without_empty_columns()
    }

    fn verdict(&self) -> Vec<String> {
        let mut lines = vec![match self.all.identical {
            None => "one leg alone: there is nothing to compare its ids or its speed with".to_owned(),
            Some(true) => {
                let prompts = match self.prompts.len() {
                    1 => "the one prompt".to_owned(),
                    prompts => format!("all {prompts} prompts"),
                };
                format!("identical: every leg gave the same ids for {prompts}")
            }
            Some(false) => {
                let different = self.prompts.iter().filter(|prompt| prompt.identical == Some(false));
                let place = |prompt: &PromptReport| {
                    format!("{} from id {}", prompt.id, prompt.first_difference.unwrap_or(0))
                };
                format!("DIFFERENT: {}", different.map(place).collect::<Vec<_>>().join(", "))
            }
        }];
        if !self.all.cycles_by_proposer.is_empty() {
            let Category { cycles_by_proposer, cycles_by_width, .. } = &self.all;
            let by_proposer = cycles::by_proposer(cycles_by_proposer);
            lines.push(format!("cycles  {by_proposer}; {}", cycles::by_width(cycles_by_width)));
        }
        lines.extend(self.ids_sha256.iter().map(|(leg, hash)| format!("{:<7} sha256 {hash}", leg.name())));
        for (leg, score) in self.score.iter().flatten() {
            lines.push(format!("{:<7} {} of {} answers are right", leg.name(), score.correct, score.of));
        }
        let degenerate: Vec<&str> =
            self.prompts.iter().filter(|prompt| prompt.degenerate).map(|prompt| prompt.id.as_str()).collect();
        if !degenerate.is_empty() {
            let names = degenerate.join(", ");
            lines.push(format!("more than half of the answer is one span over and over: {names}"));
        }
        lines
    }
}

fn category_cells(name: &str, category: &Category) -> Vec<String> {
    let Category { prompts, identical, .. } = category;
    let times = |number: Option<f64>| cell(number, 2);
    // Of one prompt there is no lowest and no highest.
    let single = |number: Option<f64>| times(number.filter(|_| *prompts > 1));
    vec![
        name.to_owned(),
        prompts.to_string(),
        cell(category.plain_tok_s, 1),
        cell(category.dflash_tok_s, 1),
        times(category.speedup),
        single(category.speedup_min),
        single(category.speedup_max),
        times(category.gained_s),
        times(category.ngram_speedup),
        times(category.tokens_per_cycle),
        times(category.acceptance_ratio),
        times(category.ceiling),
        yes(*identical),
    ]
}

fn prompt_cells(prompt: &PromptReport) -> Vec<String> {
    use super::leg::Leg;
    let (plain, dflash) = (prompt.legs.get(&Leg::Plain), prompt.legs.get(&Leg::Dflash));
    let hash = prompt.legs.values().next().map(|leg| leg.ids_sha256.chars().take(12).collect());
    vec![
        prompt.id.clone(),
        prompt.category.clone(),
        prompt.prompt_tokens.to_string(),
        prompt.completion_tokens.to_string(),
        cell(plain.map(|leg| leg.decode_tok_s.median), 1),
        cell(dflash.map(|leg| leg.decode_tok_s.median), 1),
        cell(prompt.speedup, 2),
        cell(plain.map(|leg| leg.ttft_ms), 1),
        cell(dflash.map(|leg| leg.ttft_ms), 1),
        cell(dflash.map(|leg| leg.tokens_per_cycle), 2),
        prompt.repeated_span.to_string(),
        yes(prompt.identical),
        hash.unwrap_or_default(),
    ]
}

fn cell(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(String::new, |number| decimal(number, digits))
}

fn yes(identical: Option<bool>) -> String {
    identical.map_or("", |identical| if identical { "yes" } else { "NO" }).to_owned()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use dflash_engine::Curve;
    use serde_json::{Map, json};

    use super::super::answered::Answered;
    use super::super::answered::by_hand::{question, trial};
    use super::super::ceiling::Ceiling;
    use super::super::leg::Leg;
    use super::super::machine::Machine;
    use super::super::positions::Positions;
    use super::*;
    use crate::runtime::PairNames;

    /// A summary of one prompt whose answer with the draft ends in `last`.
    fn summary(last: u32) -> Summary {
        let question = question("a|b", "c");
        let trials = vec![
            trial(Leg::Plain, &[7, 7, 7, 2], 3.0, 3, 0),
            trial(Leg::Dflash, &[7, 7, 7, last], 1.5, 2, 1),
        ];
        let prompt = Answered { question: &question, trials };
        let verify = Curve::new(vec![(1, 1.0)]);
        let all = Category::of(&[&prompt], &Ceiling { verify: &verify, draft: None, width: 1 }, None);
        Summary {
            schema: 1,
            pair: PairNames { target: "t".to_owned(), draft: "d".to_owned() },
            timestamp: "2024-02-29T12:34:56Z".to_owned(),
            machine: Machine { cpu: "m".to_owned(), cores: 1, memory_gb: 1.0, os: "o".to_owned() },
            dflash_version: "0",
            backend: "b".to_owned(),
            label: None,
            incomplete: None,
            config: json!({"suite": "s", "oracle": null}),
            legs: vec![Leg::Plain, Leg::Dflash],
            categories: vec![("c".to_owned(), all.clone())],
            all,
            ids_sha256: prompt
                .trials
                .iter()
                .map(|trial| (trial.leg, trial.decoded.ids_sha256.clone()))
                .collect(),
            prompts: vec![PromptReport::of(&prompt, &[Leg::Plain, Leg::Dflash])],
            acceptance_by_position: Positions::default(),
            costs: Vec::new(),
            time_split_s: None,
            peak_memory_gb: Map::new(),
            bandwidth: Map::new(),
            score: None,
        }
    }

    #[test]
    fn equal_ids_pass_with_their_hash() {
        let summary = summary(2);
        let text = summary.text();
        assert_eq!(summary.exit_code(), 0);
        let line = "c               1          1.0           2.0     2.00      1.50       2.00      0.25     1.00        yes\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("identical: every leg gave the same ids for the one prompt\n"), "{text}");
        assert!(text.contains("cycles  1 draft, 1 plain; rows 1: 1, 2: 1\n"), "{text}");
        let hashes: Vec<&str> =
            text.lines().filter_map(|line| line.split_once("sha256 ")).map(|it| it.1).collect();
        assert!(hashes.len() == 2 && hashes[0] == hashes[1], "{text}");
        assert!(text.contains("over and over: a|b\n"), "three of four ids are one: {text}");
        assert!(text.ends_with("rows would give\n"), "nothing is said of repetitions: {text}");
        assert!(!text.contains("all  "), "one category is all of them: {text}");
        let markdown = summary.markdown();
        assert!(markdown.contains("- suite: s\n") && !markdown.contains("oracle"), "{markdown}");
        assert!(markdown.contains("| a\\|b | c | 3 | 4 |"), "{markdown}");
    }

    #[test]
    fn what_was_timed_once_is_called_so() {
        let once = Summary { config: json!({"repeat": 1}), ..summary(2) };
        assert!(once.text().ends_with("timed once; --repeat 3 gives medians\n"), "{}", once.text());
    }

    #[test]
    fn another_id_fails_and_is_found() {
        let summary = summary(3);
        let text = summary.text();
        assert_eq!(summary.exit_code(), 1);
        assert!(text.contains("DIFFERENT: a|b from id 3\n") && text.contains(" NO\n"), "{text}");
        let hashes: Vec<&str> =
            text.lines().filter_map(|line| line.split_once("sha256 ")).map(|it| it.1).collect();
        assert!(hashes.len() == 2 && hashes[0] != hashes[1], "{text}");
    }
}
