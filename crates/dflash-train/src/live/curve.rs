//! The curve of a training as one SVG: loss above, held-out tokens per cycle below, by training tokens.

use std::fmt::Write as _;

use super::{EvaluationLog, StepLog};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 460.0;
/// Where the plotted area begins and ends.
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 104.0;
/// Upper and lower edge of the loss and of the tokens per cycle.
const LOSS: [f64; 2] = [30.0, 200.0];
const HELD: [f64; 2] = [250.0, 420.0];
/// Points of a line at most; several steps make one.
const POINTS: usize = 300;
/// Between two labels at least.
const LABEL: f64 = 12.0;
/// By day and by night.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1d2227}.soft{fill:#5b646d}.grid{stroke:#d9dde1}
polyline{fill:none;stroke-width:2}.all{stroke:#1d2227;stroke-width:3}
.c0{stroke:#1664c0}.c1{stroke:#b8690b}.c2{stroke:#14713a}.c3{stroke:#7a4fc0}.c4{stroke:#a08a00}.c5{stroke:#007d8a}
@media(prefers-color-scheme:dark){text{fill:#e6e8ea}.soft{fill:#a0a9b1}.grid{stroke:#363c42}.all{stroke:#e6e8ea}}";
/// Colours of categories.
const COLOURS: usize = 6;

/// A range of round numbers.
struct Scale {
    low: f64,
    step: f64,
    steps: usize,
}

impl Scale {
    /// From `low` to at least `high` in at most five equal steps.
    fn new(low: f64, high: f64) -> Self {
        let least = ((high - low) / 5.0).max(1e-9);
        let power = 10_f64.powi(least.log10().floor() as i32);
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= least);
        let step = step.unwrap_or(10.0 * power);
        Self { low, step, steps: ((high - low) / step - 1e-9).ceil().max(1.0) as usize }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        (0..=self.steps).map(|index| self.low + index as f64 * self.step)
    }

    /// Where a value is between two places.
    fn place(&self, value: f64, [begin, end]: [f64; 2]) -> f64 {
        let part = (value - self.low) / (self.step * self.steps as f64);
        begin + (end - begin) * part.clamp(0.0, 1.0)
    }

    fn digits(&self) -> usize {
        (-(self.step * 1.000_001).log10().floor()).max(0.0) as usize
    }
}

/// A line: its class, its name, its points by tokens.
struct Line<'a> {
    class: String,
    name: &'a str,
    points: Vec<(f64, f64)>,
}

/// The drawing.
pub(super) fn curve(steps: &[StepLog], evaluations: &[EvaluationLog]) -> String {
    let tokens = steps.iter().map(|step| step.tokens).chain(evaluations.iter().map(|at| at.tokens));
    let tokens = Scale::new(0.0, tokens.max().unwrap_or(1).max(1) as f64);
    let loss = Line { class: "all".into(), name: "loss", points: means(steps) };
    let held = held(evaluations);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Loss and \
         held-out tokens per cycle by training tokens\">\n<style>{STYLE}</style>\n"
    );
    panel(&mut svg, "loss", &tokens, 0.0, LOSS, &[loss]);
    panel(&mut svg, "held-out tokens per cycle", &tokens, 1.0, HELD, &held);
    let (unit, name) = if tokens.step >= 1e6 { (1e6, "million ") } else { (1e3, "thousand ") };
    for value in tokens.values() {
        let x = tokens.place(value, [LEFT, RIGHT]);
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HELD[1] + 17.0,
            (value / unit * 100.0).round() / 100.0
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"soft\" x=\"{LEFT}\" y=\"{:.1}\">{name}training tokens</text>\n</svg>",
        HELD[1] + 34.0
    );
    svg
}

/// The loss, several steps as one point.
fn means(steps: &[StepLog]) -> Vec<(f64, f64)> {
    let mean = |steps: &[StepLog]| {
        let sum = |of: fn(&StepLog) -> f64| steps.iter().map(of).sum::<f64>() / steps.len() as f64;
        (sum(|step| step.tokens as f64), sum(|step| step.loss))
    };
    let points = steps.chunks(steps.len().div_ceil(POINTS).max(1)).map(mean);
    points.filter(|point| point.1.is_finite()).collect()
}

/// Tokens per cycle: all prompts, and every category where there are several.
fn held(evaluations: &[EvaluationLog]) -> Vec<Line<'_>> {
    let all = evaluations.iter().map(|at| (at.tokens as f64, at.all.tokens_per_cycle)).collect();
    let all = Line { class: "all".into(), name: "all", points: all };
    let names = evaluations.last().map(|last| last.categories.keys()).into_iter().flatten();
    let mut lines = Vec::new();
    for (index, name) in names.enumerate() {
        let point = |at: &EvaluationLog| Some((at.tokens as f64, at.categories.get(name)?.tokens_per_cycle));
        let points = evaluations.iter().filter_map(point).collect();
        lines.push(Line { class: format!("c{}", index % COLOURS), name, points });
    }
    if lines.len() < 2 {
        lines.clear();
    }
    lines.push(all);
    lines
}

fn panel(
    svg: &mut String,
    title: &str,
    tokens: &Scale,
    low: f64,
    [top, bottom]: [f64; 2],
    lines: &[Line<'_>],
) {
    let values = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let scale = Scale::new(low, values.fold(low + 1e-3, f64::max));
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">{title}</text>", top - 10.0);
    for value in scale.values() {
        let y = scale.place(value, [bottom, top]);
        let digits = scale.digits();
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"soft\" \
             x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.digits$}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    let mut labels: Vec<(f64, f64, &str)> = Vec::new();
    for Line { class, name, points } in lines {
        let place = |&(x, y): &(f64, f64)| (tokens.place(x, [LEFT, RIGHT]), scale.place(y, [bottom, top]));
        let points: Vec<(f64, f64)> = points.iter().map(place).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", path.join(" "));
        labels.extend(points.last().map(|&(x, y)| (x, y, *name)));
    }
    // In the order of their lines, none over another.
    labels.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut least = top;
    for (x, y, name) in labels {
        let y = y.max(least);
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 6.0, y + 4.0, escaped(name));
        least = y + LABEL;
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::step::Held;

    #[test]
    fn scales_are_round_and_reach_the_values() {
        for (low, high, step, steps) in [
            (0.0, 6.9, 2.0, 4),
            (1.0, 1.356, 0.1, 4),
            (0.0, 2_100_000.0, 500_000.0, 5),
            (1.0, 1.001, 0.0002, 5),
        ] {
            let scale = Scale::new(low, high);
            assert!((scale.step / step - 1.0).abs() < 1e-6, "{high}: {}", scale.step);
            assert_eq!(scale.steps, steps, "{high}");
            assert_eq!(scale.place(low, [100.0, 0.0]), 100.0);
        }
        assert_eq!(
            [2.0, 0.1, 0.05, 500.0].map(|step| Scale { low: 0.0, step, steps: 1 }.digits()),
            [0, 1, 2, 0]
        );
    }

    #[test]
    fn lines_go_through_what_was_measured() {
        let step =
            |step: u64| StepLog { step, tokens: 1000 * step, loss: 5.0 - step as f64, ..StepLog::default() };
        let held = |tokens_per_cycle| Held { prompts: 1, tokens_per_cycle, acceptance: Vec::new() };
        let at = |tokens, code, chat| EvaluationLog {
            tokens,
            all: held((code + chat) / 2.0),
            categories: [("a<b".to_owned(), held(code)), ("chat".to_owned(), held(chat))].into(),
            ..EvaluationLog::default()
        };
        let svg = curve(&[step(0), step(2), step(4)], &[at(0, 1.0, 1.0), at(4000, 2.0, 1.5)]);
        assert!(
            svg.contains(&format!("points=\"{LEFT:.1},30.0 {:.1},98.0 {:.1},166.0\"", 336.0, RIGHT)),
            "{svg}"
        );
        assert!(svg.contains(&format!("class=\"c0\" points=\"{LEFT:.1},420.0 {RIGHT:.1},250.0\"")), "{svg}");
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert_eq!(svg.matches("<polyline").count(), 4);
        let near = curve(&[], &[at(4000, 2.0, 1.99)]);
        let places = ["a&lt;b", "all", "chat"].map(|name| near.find(&format!(">{name}</text>")).unwrap());
        assert!(places.is_sorted(), "labels stand in the order of their lines: {near}");
        let many: Vec<StepLog> = (0..7000).map(step).collect();
        assert!(means(&many).len() <= POINTS);
        assert!(curve(&[], &[]).ends_with("</svg>\n"));
    }
}
