//! The geometry of the report's plots, in the units of their view boxes; what is drawn stands in `report.html`.

use serde::Serialize;
use serde_json::Value;

/// Width of every plot.
const WIDTH: f64 = 720.0;
/// Where the plotted area begins and ends.
const LEFT: f64 = 96.0;
const RIGHT: f64 = WIDTH - 104.0;

/// A mark of an axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tick {
    /// Where it is on the axis.
    pub at: f64,
    /// What stands beside it.
    pub label: String,
}

/// An axis from 0 to a round number.
struct Axis {
    /// What lies at its end; above 0.
    most: f64,
    /// Between two marks.
    step: f64,
}

impl Axis {
    /// An axis that reaches `most`, with four to ten marks.
    fn reaching(most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let power = 10_f64.powf((most / 4.0).log10().floor());
        let step = power * [5.0, 2.0, 1.0].into_iter().find(|step| step * power * 4.0 <= most).unwrap_or(1.0);
        Self { most: (most / step).ceil() * step, step }
    }

    /// Where `value` is between `begin` and `end`.
    fn place(&self, value: f64, begin: f64, end: f64) -> f64 {
        begin + (end - begin) * (value / self.most).clamp(0.0, 1.0)
    }

    fn ticks(&self, begin: f64, end: f64) -> Vec<Tick> {
        let digits = (-self.step.log10().floor()).max(0.0) as usize;
        let marks = (self.most / self.step).round() as usize;
        let tick = |mark| {
            let value = mark as f64 * self.step;
            Tick { at: self.place(value, begin, end), label: format!("{value:.digits$}") }
        };
        (0..=marks).map(tick).collect()
    }
}

/// Horizontal bars in groups: the speeds of a category.
#[derive(Debug, Serialize)]
pub struct Speeds {
    /// Height of the view box.
    pub height: f64,
    /// Where the axis is drawn.
    pub axis: f64,
    /// Marks of the axis, tokens per second.
    pub ticks: Vec<Tick>,
    /// One of every category.
    pub groups: Vec<Group>,
}

/// The bars of one category.
#[derive(Debug, Serialize)]
pub struct Group {
    /// The category.
    pub name: String,
    /// The middle of its bars.
    pub middle: f64,
    /// One of every way of decoding that was measured.
    pub bars: Vec<Bar>,
    /// The best that a fixed width could give.
    pub ceiling: Option<Ceiling>,
}

/// One bar.
#[derive(Debug, Serialize)]
pub struct Bar {
    /// The way of decoding.
    pub leg: &'static str,
    /// Upper edge.
    pub top: f64,
    /// Length.
    pub length: f64,
    /// Where its number stands: behind the bar, and behind the mark of the ceiling where that is near.
    pub label_at: f64,
    /// Tokens per second.
    pub value: f64,
}

/// A mark across the bar of the draft.
#[derive(Debug, Serialize)]
pub struct Ceiling {
    /// Where it is on the axis.
    pub at: f64,
    /// Upper edge of the bar.
    pub top: f64,
    /// Tokens per second.
    pub value: f64,
    /// Over plain decoding.
    pub ratio: f64,
}

/// Ways of decoding, with the keys of their speeds.
const LEGS: [(&str, &str); 3] =
    [("plain", "plain_tok_s"), ("dflash", "dflash_tok_s"), ("ngram", "ngram_tok_s")];
const BAR: f64 = 16.0;
const GAP: f64 = 14.0;
/// Room that the number of a bar needs.
const NUMBER: f64 = 88.0;

/// The speeds of `categories`; `None` where none was measured.
pub fn speeds(categories: &[(String, &Value)]) -> Option<Speeds> {
    let of = |category: &Value, key: &str| number(&category[key]);
    let ceiling = |category: &Value| Some((of(category, "ceiling")?, of(category, "plain_tok_s")?));
    let all = categories.iter().flat_map(|(_, category)| {
        let speeds = LEGS.iter().filter_map(|(_, key)| of(category, key));
        speeds.chain(ceiling(category).map(|(ratio, plain)| ratio * plain))
    });
    let axis = Axis::reaching(all.reduce(f64::max)?);
    let (mut y, mut groups) = (8.0, Vec::new());
    for (name, category) in categories {
        let top = y;
        let mut bars = Vec::new();
        for (leg, key) in LEGS {
            if let Some(value) = of(category, key) {
                let end = axis.place(value, LEFT, RIGHT);
                let mark = ceiling(category).filter(|_| leg == "dflash");
                let mark = mark.map(|(ratio, plain)| axis.place(ratio * plain, LEFT, RIGHT));
                let near = mark.filter(|mark| (0.0..NUMBER).contains(&(mark - end)));
                let label_at = near.unwrap_or(end) + 6.0;
                bars.push(Bar { leg, top: y, length: end - LEFT, label_at, value });
                y += BAR;
            }
        }
        if bars.is_empty() {
            continue;
        }
        let drafted = bars.iter().find(|bar| bar.leg == "dflash").map(|bar| bar.top);
        let ceiling = ceiling(category).zip(drafted).map(|((ratio, plain), top)| {
            let value = ratio * plain;
            Ceiling { at: axis.place(value, LEFT, RIGHT), top, value, ratio }
        });
        groups.push(Group { name: name.clone(), middle: (top + y) / 2.0, bars, ceiling });
        y += GAP;
    }
    let ticks = axis.ticks(LEFT, RIGHT);
    (!groups.is_empty()).then_some(Speeds { height: y + 36.0, axis: y, ticks, groups })
}

/// Upright bars: how often the token at a position of the block was accepted.
#[derive(Debug, Serialize)]
pub struct Acceptance {
    /// By ascending position.
    pub columns: Vec<Column>,
    /// Marks of the axis, percent.
    pub ticks: Vec<Tick>,
}

/// One position.
#[derive(Debug, Serialize)]
pub struct Column {
    /// From 1.
    pub position: u64,
    /// Share of the verified ones, 0 to 1.
    pub rate: f64,
    /// How often there was a token to verify.
    pub verified: Option<u64>,
    /// How many of them were accepted.
    pub accepted: Option<u64>,
    /// Left edge.
    pub left: f64,
    /// Width.
    pub width: f64,
    /// Upper edge.
    pub top: f64,
    /// Whether there is room for its number.
    pub labelled: bool,
}

/// Where the plotted area of upright plots begins and ends; their view boxes are 260 high.
const TOP: f64 = 24.0;
const BOTTOM: f64 = 212.0;
/// Room that a number needs.
const LABEL: f64 = 26.0;

/// Acceptance by position; `None` where nothing was verified.
pub fn acceptance(positions: &Value) -> Option<Acceptance> {
    let positions: Vec<_> = items(positions)
        .filter_map(|at| Some((at["position"].as_u64()?, number(&at["rate"])?.min(1.0), at)))
        .collect();
    let slot = (WIDTH - 16.0 - LEFT) / positions.len() as f64;
    // A single position need not fill the plot.
    let slot = slot.min(72.0);
    let percent = Axis { most: 100.0, step: 25.0 };
    let column = |(index, (position, rate, at)): (usize, (u64, f64, &Value))| Column {
        position,
        rate,
        verified: at["verified"].as_u64(),
        accepted: at["accepted"].as_u64(),
        left: LEFT + (index as f64 + 0.15) * slot,
        width: 0.7 * slot,
        top: percent.place(100.0 * rate, BOTTOM, TOP),
        labelled: slot >= LABEL || index % 2 == 0,
    };
    let columns: Vec<_> = positions.into_iter().enumerate().map(column).collect();
    (!columns.is_empty()).then(|| Acceptance { columns, ticks: percent.ticks(BOTTOM, TOP) })
}

/// Lines: what a pass costs by its rows.
#[derive(Debug, Serialize)]
pub struct Costs {
    /// Marks of the axis of rows.
    pub rows: Vec<Tick>,
    /// Marks of the axis of milliseconds.
    pub ticks: Vec<Tick>,
    /// The pass of the target and that of the draft.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Whose pass it is.
    pub name: &'static str,
    /// `x,y x,y …`
    pub path: String,
    /// By ascending rows.
    pub points: Vec<Point>,
}

/// One measured pass.
#[derive(Debug, Serialize)]
pub struct Point {
    /// Place.
    pub x: f64,
    /// Place.
    pub y: f64,
    /// Rows of the pass.
    pub rows: u64,
    /// Milliseconds.
    pub ms: f64,
}

/// The cost curve; `None` where there is none.
pub fn costs(costs: &Value) -> Option<Costs> {
    let read = |key: &str| -> Vec<(u64, f64)> {
        items(costs).filter_map(|point| Some((point["rows"].as_u64()?, number(&point[key])?))).collect()
    };
    let measured = [("verify", read("verify_ms")), ("draft", read("draft_ms"))];
    let all = || measured.iter().flat_map(|(_, points)| points);
    let most_rows = all().map(|point| point.0).max()?;
    let axis = Axis::reaching(all().map(|point| point.1).fold(0.0, f64::max));
    let x = |rows: u64| LEFT + (RIGHT - LEFT) * rows as f64 / most_rows.max(1) as f64;
    let place = |&(rows, ms): &(u64, f64)| Point { x: x(rows), y: axis.place(ms, BOTTOM, TOP), rows, ms };
    let line = |(name, points): &(&'static str, Vec<(u64, f64)>)| {
        let points: Vec<Point> = points.iter().map(place).collect();
        let path: Vec<String> = points.iter().map(|point| format!("{:.1},{:.1}", point.x, point.y)).collect();
        Line { name, path: path.join(" "), points }
    };
    let mut rows: Vec<u64> = all().map(|point| point.0).collect();
    rows.sort_unstable();
    rows.dedup();
    Some(Costs {
        rows: apart(rows.into_iter().map(|rows| Tick { at: x(rows), label: rows.to_string() })),
        ticks: axis.ticks(BOTTOM, TOP),
        lines: measured.iter().map(line).filter(|line| !line.points.is_empty()).collect(),
    })
}

/// Those of `ticks` that have room.
fn apart(ticks: impl Iterator<Item = Tick>) -> Vec<Tick> {
    let mut kept: Vec<Tick> = Vec::new();
    for tick in ticks {
        if kept.last().is_none_or(|last| tick.at - last.at >= LABEL) {
            kept.push(tick);
        }
    }
    kept
}

/// A part of the time.
#[derive(Debug, Serialize)]
pub struct Part {
    /// What it was spent on.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// Of all, 0 to 1.
    pub share: f64,
    /// Left edge on a bar that is 720 long.
    pub left: f64,
    /// Length.
    pub length: f64,
}

/// Where the time went; empty where nobody knows.
pub fn parts(seconds: &Value) -> Vec<Part> {
    let times: Vec<_> = ["draft", "verify", "rollback", "other"]
        .into_iter()
        .filter_map(|name| Some((name, number(&seconds[name])?)))
        .collect();
    let whole: f64 = times.iter().map(|(_, time)| time).sum();
    if whole <= 0.0 {
        return Vec::new();
    }
    let mut left = 0.0;
    let part = |(name, seconds): (&str, f64)| {
        let share = seconds / whole;
        let part = Part { name: name.to_owned(), seconds, share, left, length: share * WIDTH };
        left += part.length;
        part
    };
    times.into_iter().map(part).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A number that can be drawn.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn axes_end_on_a_round_number() {
        for (most, end, last) in [
            (470.2, 500.0, "500"),
            (1.0, 1.0, "1.0"),
            (0.83, 1.0, "1.0"),
            (9.7, 10.0, "10"),
            (0.0, 1.0, "1.0"),
        ] {
            let axis = Axis::reaching(most);
            let ticks = axis.ticks(0.0, 100.0);
            assert!((axis.most - end).abs() < 1e-9, "{most}");
            assert_eq!((ticks[0].label.parse(), ticks[0].at), (Ok(0.0), 0.0), "{most}");
            assert_eq!((ticks.last().unwrap().label.as_str(), ticks.last().unwrap().at), (last, 100.0));
            assert!((4..=11).contains(&ticks.len()), "{most}: {ticks:?}");
        }
    }

    #[test]
    fn bars_are_as_long_as_their_speeds_and_the_ceiling_stands_on_the_same_axis() {
        let category = json!({"plain_tok_s": 200.0, "dflash_tok_s": 300.0, "ceiling": 2.0});
        let chart = speeds(&[("code".to_owned(), &category), ("none".to_owned(), &Value::Null)]).unwrap();
        let [group] = &chart.groups[..] else { panic!() };
        let lengths: Vec<_> = group.bars.iter().map(|bar| (bar.leg, bar.length / (RIGHT - LEFT))).collect();
        assert_eq!(lengths, [("plain", 0.5), ("dflash", 0.75)]);
        let ceiling = group.ceiling.as_ref().unwrap();
        assert_eq!((ceiling.at, ceiling.top, ceiling.value), (RIGHT, group.bars[1].top, 400.0));
        assert_eq!(group.bars[1].label_at, LEFT + group.bars[1].length + 6.0);
        let near = json!({"plain_tok_s": 200.0, "dflash_tok_s": 390.0, "ceiling": 2.0});
        let chart = speeds(&[("code".to_owned(), &near)]).unwrap();
        assert_eq!(chart.groups[0].bars[1].label_at, RIGHT + 6.0);
        assert!(speeds(&[("none".to_owned(), &Value::Null)]).is_none());
    }

    #[test]
    fn columns_rise_with_their_rates() {
        let chart = acceptance(&json!([
            {"position": 1, "verified": 4, "accepted": 4, "rate": 1.0},
            {"position": 2, "rate": 0.5},
            {"position": 3},
        ]));
        let columns = chart.unwrap().columns;
        let tops: Vec<_> = columns.iter().map(|column| (column.position, column.top)).collect();
        assert_eq!(tops, [(1, TOP), (2, (TOP + BOTTOM) / 2.0)]);
        assert!(columns[0].left + columns[0].width < columns[1].left);
        assert!(acceptance(&json!([])).is_none() && acceptance(&Value::Null).is_none());
    }

    #[test]
    fn a_line_has_the_points_that_were_measured() {
        let chart = costs(&json!([
            {"rows": 1, "verify_ms": 2.0, "draft_ms": null},
            {"rows": 2, "verify_ms": 2.5, "draft_ms": 0.5},
            {"rows": 16, "verify_ms": 10.0},
        ]));
        let chart = chart.unwrap();
        let points: Vec<_> = chart.lines.iter().map(|line| (line.name, line.points.len())).collect();
        assert_eq!(points, [("verify", 3), ("draft", 1)]);
        let last = chart.lines[0].points.last().unwrap();
        assert_eq!((last.x, last.y), (RIGHT, TOP));
        assert_eq!(chart.rows.iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>(), ["1", "2", "16"]);
        assert!(costs(&json!([{"rows": 1}])).is_none());
    }

    #[test]
    fn parts_fill_the_bar() {
        let parts = parts(&json!({"draft": 1.0, "verify": 3.0, "other": null}));
        let lengths: Vec<_> = parts.iter().map(|part| (part.name.as_str(), part.left, part.length)).collect();
        assert_eq!(lengths, [("draft", 0.0, 180.0), ("verify", 180.0, 540.0)]);
        assert!(super::parts(&json!({"draft": 0.0})).is_empty());
    }
}
