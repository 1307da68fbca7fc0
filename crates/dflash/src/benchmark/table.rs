//! The report for people.

use super::curve::StepReport;

/// Characters of the longest bar.
const BAR: f64 = 30.0;

/// Tables of steps and proposals, each with a bar of its time: `#` is the floor, `-` what is above it.
pub fn text(report: &StepReport) -> String {
    let StepReport { pair, build, isa, threads, context, bandwidth_gb_s, gmac_s, rows, draft } = report;
    let rates: Vec<String> = gmac_s.iter().map(|(name, rate)| format!("{name} {rate:.0}")).collect();
    let mut text = format!(
        "target  {}\ndraft   {}\nwith    {isa} kernels, {threads} threads, dflash {build}\n\
         at best {bandwidth_gb_s:.1} GB/s; multiply-adds in 10^9/s: {}\n\n",
        pair.target,
        pair.draft,
        rates.join(", "),
    );
    text += &format!("Steps of the target after {context} positions\n");
    text += "rows   step ms  over one row   no choices ms   floor ms  floor/step\n";
    let longest = rows.iter().map(|point| point.step_ms).fold(0.0, f64::max);
    for point in rows {
        text += &format!(
            "{:>4} {:>9.2} {:>13.2} {:>15.2} {:>10.2} {:>10.0}%  {}\n",
            point.rows,
            point.step_ms,
            point.ratio,
            point.step_without_logits_ms,
            point.floor_ms,
            100.0 * point.floor_fraction,
            bar(point.step_ms, point.floor_ms, longest),
        );
    }
    if draft.is_empty() {
        return text;
    }
    text += "\nBlocks of the draft\nrows  draft ms   floor ms  floor/draft\n";
    for point in draft {
        text += &format!(
            "{:>4} {:>9.2} {:>10.2} {:>11.0}%  {}\n",
            point.rows,
            point.draft_ms,
            point.floor_ms,
            100.0 * point.floor_fraction,
            bar(point.draft_ms, point.floor_ms, longest),
        );
    }
    text
}

fn bar(time: f64, floor: f64, longest: f64) -> String {
    let length = |time: f64| (BAR * time / longest).round() as usize;
    let (time, floor) = (length(time), length(floor.min(time)));
    "#".repeat(floor) + &"-".repeat(time - floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_time() {
        assert_eq!(bar(5.0, 2.0, 10.0), "######---------");
        assert_eq!(bar(1.0, 2.0, 10.0), "###");
        assert_eq!(bar(0.0, 0.0, 10.0), "");
    }
}
