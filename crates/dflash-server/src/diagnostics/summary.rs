use std::collections::VecDeque;
use std::fmt::Write;

use serde_json::Value;

/// Rows of the table at most.
const ROWS: usize = 256;

/// The last answers as a table.
#[derive(Default)]
pub struct Summary {
    rows: VecDeque<String>,
    answers: usize,
}

impl Summary {
    /// One more answer.
    pub fn push(&mut self, answer: &Value) {
        if self.rows.len() == ROWS {
            self.rows.pop_front();
        }
        self.rows.push_back(row(answer));
        self.answers += 1;
    }

    /// The page.
    pub fn text(&self, left_out: u64) -> String {
        let mut text = format!("# dflash serve\n\n{} answers", self.answers);
        if self.answers > self.rows.len() {
            let _ = write!(text, ", the last {} of them below", self.rows.len());
        }
        if left_out > 0 {
            let _ = write!(text, "; {left_out} entries could not be written and were left out");
        }
        text.push_str(".\n\n| request | api | mode | finish | prompt | tokens | first s | all s | tok/s | tokens/cycle | accepted |\n");
        text.push_str("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        self.rows.iter().for_each(|row| text.push_str(row));
        text
    }
}

fn row(answer: &Value) -> String {
    let word = |key: &str| answer[key].as_str().unwrap_or("–").replace(['|', '\n'], "\\|");
    let count = |key: &str| answer[key].as_u64().map_or("–".to_owned(), |count| count.to_string());
    let number = |key: &str, digits: usize| {
        answer[key].as_f64().map_or("–".to_owned(), |number| format!("{number:.digits$}"))
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        word("request_id"),
        word("api"),
        word("mode_used"),
        word("finish_reason"),
        count("prompt_tokens"),
        count("generated_tokens"),
        number("ttft_s", 3),
        number("wall_s", 2),
        number("decode_tok_s", 1),
        number("tokens_per_cycle", 2),
        number("acceptance_rate", 2),
    )
}
